"""The entry of one kind of error in the catalogue, and the texts of advice that loses data: they name the loss first.

Values only, without behaviour.
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
LOG_LOSS: Final = "give up the changes since the last checkpoint: move {paths} away and run again with --accept-loss"


@dataclass(frozen=True)
class Code:
    """One kind of error.

    name   "K112": the digit of a group, and a number. Permanent: a code that is withdrawn is not used again.
    title  the name of the error, in a few words.
    cause  the meaning of the error: one to four sentences.
    next   the next step for the user, in the imperative. The place that raises the error may pass a better one, with
           names in it.
    traced True if the error is printed with a traceback: that of the user's code, which raised.
    """

    name: str
    title: str
    cause: str
    next: str
    traced: bool = False

    def __str__(self) -> str:
        return self.name
