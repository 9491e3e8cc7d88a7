"""What the catalogue says of one kind of error. A value, and no behaviour."""

from dataclasses import dataclass


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
