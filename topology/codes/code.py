"""What the catalogue says of one kind of error, and the words for advice that loses data: the loss comes first.

Values, and no behaviour.
"""

from dataclasses import dataclass
from typing import Final

FRESH: Final = "give up all positions and all state and read every source from its start, by --fresh"
NEW_DIRECTORY: Final = (
    "give up its positions, its state and its dead letters and read every source from its start: move {path} away and "
    "run again"
)
LOSS: Final = (
    "give up the positions, the state and the dead letters in the file: move {path} away and run again with "
    "--accept-loss"
)


@dataclass(frozen=True)
class Code:
    """One kind of error.

    name   "K112": a group's digit and a number, for good: one that is given up is not used again.
    title  what is wrong, in a few words.
    cause  what it means: one to three sentences.
    next   what to do now: one sentence, in the imperative. Who raises it may have a better one, with names in it.
    traced whether it is told with a traceback: that of the user's code, which has raised.
    """

    name: str
    title: str
    cause: str
    next: str
    traced: bool = False

    def __str__(self) -> str:
        return self.name
