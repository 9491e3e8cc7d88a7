"""Every exception that Kedge raises on purpose, named by who is at fault and what the caller can do.

Knows nothing of the rest. What a user's own code raises is not wrapped: it reaches logs with its own traceback.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


class KedgeError(Exception):
    """The base of all of them. Its text is one or more whole sentences for the person who has to act."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """The end of a sentence: `; did you mean 'source_ip'?`, or nothing where no known word is like the wrong one."""
    words = {word.lower(): word for word in known}
    close = get_close_matches(wrong[:200].lower(), words, n=1, cutoff=0.6)
    return f"; did you mean {words[close[0]]!r}?" if close else ""


@dataclass(frozen=True)
class Mistake:
    """One mistake of a declaration: what is wrong, and the file and line of the call that declared it."""

    text: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.file else self.text


class DeclarationError(KedgeError):
    """The topology can't be run as it is declared. `mistakes` has all of them, in the order of the source."""

    def __init__(self, topology: str, mistakes: Sequence[Mistake]) -> None:
        self.topology = topology
        self.mistakes = tuple(mistakes)
        count = len(self.mistakes)
        lines = "\n".join(f"  {mistake}" for mistake in self.mistakes)
        super().__init__(f"topology {topology!r:.80} has {count} mistake{'s' * (count != 1)}:\n{lines}")


class ConfigurationError(KedgeError):
    """A setting, a file or an address that the user gave can't be used; raised by constructors and `open`."""


class StartError(KedgeError):
    """The run could not start for a reason outside the topology: a locked or unwritable state directory, say."""


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
