"""Every exception that Kedge raises on purpose, named by its cause and the caller's options.

Knows the catalogue of codes, and nothing else of Kedge. Exceptions of the user's own code are not wrapped: they reach
logs with their own traceback.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from topology.codes.code import Code
from topology.codes.declarations import INVALID_TOPOLOGY
from topology.user_frames import users_frames


class KedgeError(Exception):
    """The base class of all of them. Its text is one or more whole sentences about the fault, for the person who has to
    act.

    code   Its kind; all of Kedge's errors have one. A user's own error needs none.
    next   The next step, if there is a better one than the code's own.
    trace  The user's traceback as text, for an error that came from another process.

    The code and the next step are also added as a note, with which a traceback ends. A next step is added without a
    code too.
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
        """Return the traceback of the user code that caused this error; empty if there is none."""
        if self.trace or self.__cause__ is None or self.code is None or not self.code.traced:
            return self.trace
        return users_frames(self.__cause__)


def advice(text: str, code: Code | None) -> str:
    """Return the line below an error: the next step, and the command that explains the code."""
    more = f"   ({code}: `kedge explain {code}`)" if code is not None else ""
    return f"  next: {text.rstrip('.')}{more}"


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return the end of a sentence: `; did you mean 'source_ip'?`, or nothing if no known word is like the wrong
    one."""
    words = {word.lower(): word for word in known}
    close = get_close_matches(wrong[:200].lower(), words, n=1, cutoff=0.6)
    return f"; did you mean {words[close[0]]!r}?" if close else ""


class Problem(str):
    """A sentence about a mistake of a declaration, with the code of its kind. It can be used as a plain text."""

    code: Code

    def __new__(cls, code: Code, text: str) -> "Problem":
        made = super().__new__(cls, text)
        made.code = code
        return made

    def of(self, what: str) -> "Problem":
        """Return the same problem, said of something: `'parse': …`."""
        return Problem(self.code, f"{what}: {self}")


@dataclass(frozen=True)
class Mistake:
    """One mistake of a declaration: the fault, the file and line of the call that declared it, and its kind."""

    text: str
    file: str = ""
    line: int = 0
    code: Code | None = None

    def __str__(self) -> str:
        kind = f" ({self.code})" if self.code is not None else ""
        return (f"{self.file}:{self.line}: {self.text}" if self.file else self.text) + kind


class DeclarationError(KedgeError):
    """The topology cannot be run as it is declared. `mistakes` has all mistakes, in the order of the source."""

    def __init__(self, topology: str, mistakes: Sequence[Mistake]) -> None:
        self.topology = topology
        self.mistakes = tuple(mistakes)
        count = len(self.mistakes)
        lines = "\n".join(f"  {mistake}" for mistake in self.mistakes)
        super().__init__(
            f"topology {topology!r:.80} has {count} mistake{'s' * (count != 1)}:\n{lines}", code=INVALID_TOPOLOGY
        )


class ConfigurationError(KedgeError):
    """A setting, a file or an address that the user gave is unusable. Raised by constructors and `open`."""


class StartError(KedgeError):
    """The run could not start for a reason outside the topology, for example a locked or unwritable state directory."""


class NotYet(StartError):
    """Raised by `open` of a spout or bolt if something is missing that may appear later, such as a server that is still
    starting.

    `open` is called again, on the same object, until it returns or `start_timeout_s` have passed. The run then ends
    with exit status 3. So an `open` must release what it has taken before it raises NotYet. Do not raise it for a
    mistake that waiting does not fix, such as a wrong password: raise ConfigurationError.
    """


class NotesAway(StartError):
    """A note could not be stored now: the state directory is full, or not writable at the moment. Nothing is lost; the
    same note may be set again later."""


class WorkerError(KedgeError):
    """A run could not continue because of its workers: one died too often, or a source in one raised."""


class TupleStateError(KedgeError):
    """A bolt emitted on, acked or failed a tuple that is already finished (A3, A4). A mistake in that bolt."""


class EmitError(KedgeError):
    """A bolt made an invalid emission: an undeclared class, a repeated key, a target out of range. Fails its input."""


class RecordError(KedgeError):
    """A record's value does not have its declared type, or cannot be encoded. Fails the input that emitted it."""


class Reject(KedgeError):
    """Raised by a bolt: this message can never be processed.

        raise Reject(f"not a log line: {line.text!r:.80}")

    The message ends dead at once, without replays.
    """
