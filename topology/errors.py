"""Every exception that Kedge raises on purpose, named by who is at fault and what the caller can do.

Knows the catalogue of codes, and nothing of the rest. What a user's own code raises is not wrapped: it reaches logs
with its own traceback.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from topology.codes.code import Code
from topology.codes.declarations import INVALID_TOPOLOGY
from topology.user_frames import users_frames


class KedgeError(Exception):
    """The base of all of them. Its text is one or more whole sentences about what is wrong, for who has to act.

    code   Its kind; all of ours have one. A user's own need none.
    next   What to do now, where something better can be said than by the code itself.
    trace  The user's traceback as text, of an error that came from another process.

    Code and advice are a note besides, advice without a code too: a traceback ends in them.
    """

    code: Code | None = None
    next: str = ""
    trace: str = ""

    def __init__(self, *args: object, code: Code | None = None, next: str = "") -> None:
        super().__init__(*args)
        if code is not None:
            self.code = code
            self.next = next or code.next
        else:
            self.next = next or self.next
        if self.next:
            self.add_note(advice(self.next, code))

    def users_trace(self) -> str:
        """The traceback of what user code has raised, where this was made of that; else empty."""
        if self.trace or self.__cause__ is None or self.code is None or not self.code.traced:
            return self.trace
        return users_frames(self.__cause__)


def advice(text: str, code: Code | None) -> str:
    """The line below an error: what to do next, and where there is more about it."""
    more = f"   ({code}: `kedge explain {code}`)" if code is not None else ""
    return f"  next: {text.rstrip('.')}{more}"


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """The end of a sentence: `; did you mean 'source_ip'?`, or nothing where no known word is like the wrong one."""
    words = {word.lower(): word for word in known}
    close = get_close_matches(wrong[:200].lower(), words, n=1, cutoff=0.6)
    return f"; did you mean {words[close[0]]!r}?" if close else ""


class Problem(str):
    """A sentence about a mistake of a declaration, with the code of its kind. A text, where that does not matter."""

    code: Code

    def __new__(cls, code: Code, text: str) -> "Problem":
        made = super().__new__(cls, text)
        made.code = code
        return made

    def of(self, what: str) -> "Problem":
        """The same, said of something: `'parse': …`."""
        return Problem(self.code, f"{what}: {self}")


@dataclass(frozen=True)
class Mistake:
    """One mistake of a declaration: what is wrong, the file and line of the call that declared it, and its kind."""

    text: str
    file: str = ""
    line: int = 0
    code: Code | None = None

    def __str__(self) -> str:
        kind = f" ({self.code})" if self.code is not None else ""
        return (f"{self.file}:{self.line}: {self.text}" if self.file else self.text) + kind


class DeclarationError(KedgeError):
    """The topology can't be run as it is declared. `mistakes` has all of them, in the order of the source."""

    def __init__(self, topology: str, mistakes: Sequence[Mistake]) -> None:
        self.topology = topology
        self.mistakes = tuple(mistakes)
        count = len(self.mistakes)
        lines = "\n".join(f"  {mistake}" for mistake in self.mistakes)
        super().__init__(
            f"topology {topology!r:.80} has {count} mistake{'s' * (count != 1)}:\n{lines}", code=INVALID_TOPOLOGY
        )


class ConfigurationError(KedgeError):
    """A setting, a file or an address that the user gave can't be used; raised by constructors and `open`."""


class StartError(KedgeError):
    """The run could not start for a reason outside the topology: a locked or unwritable state directory, say."""


class NotYet(StartError):
    """Raised by `open` of a spout or bolt: what it needs is not there yet, and may well come, as a server that is still
    starting. `open` is called again, on the same object, until it returns, or `start_timeout_s` have passed; the run
    then ends with exit status 3. So an `open` that raises it gives back first what it has taken. Not for a mistake, a
    wrong password say, which no wait mends: that is a ConfigurationError."""


class NotesAway(StartError):
    """A note could not be kept now: the state directory has no room, or may not be written at the moment. Nothing is
    lost by it; the same note may be set again later."""


class WorkerError(KedgeError):
    """What the workers of a run could not go on for: one that died too often, or a source in one that raised."""


class TupleStateError(KedgeError):
    """A bolt emitted on, acked or failed a tuple that is finished already (A3, A4). A mistake in that bolt."""


class EmitError(KedgeError):
    """A bolt emitted what cannot go: an undeclared class, a repeated key, a target out of range. Fails its input."""


class RecordError(KedgeError):
    """A record's value is not of its declared type, or can't be encoded. Fails the input that emitted it."""


class Reject(KedgeError):
    """Raised by a bolt: this message can never be processed. It ends dead at once, without replays."""
