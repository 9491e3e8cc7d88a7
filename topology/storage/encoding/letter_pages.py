"""Whole letters for one answer: as many as fit into a message, and a sentence for each that does not fit.

Pure. Must not know who asks, nor where the letters come from.
"""

from collections.abc import Iterable
from typing import Final

from topology.storage.encoding.packing import LETTERS_BYTES_MAX, packed_letter
from topology.storage.values import Letter

PROBLEMS_MAX: Final = 1_000  # lines of one answer's problem


class Showing:
    """A page of letters: `add` them in their order. `letters` are those that fit, and `problems` has a sentence for
    each other one."""

    def __init__(self) -> None:
        self.letters: list[bytes] = []
        self.problems: list[str] = []
        self._room = LETTERS_BYTES_MAX

    def add(self, letter: Letter) -> None:
        """Add a letter; without its record if the record alone is too long for any answer."""
        data = packed_letter(letter)
        if len(data) > LETTERS_BYTES_MAX:
            self.problems.append(f"{letter.name}: its record of {len(letter.record):,} bytes is too long to be shown")
            data = packed_letter(letter, record=False)
        if len(data) > self._room:
            self.problems.append(f"{letter.name}: there is no room for it beside those before it; ask for it alone")
            return
        self.letters.append(data)
        self._room -= len(data)


def problem_of(problems: Iterable[str]) -> str:
    """Return several sentences as one text, one per line, up to a limit."""
    texts = [problem for problem in problems if problem]
    more = len(texts) - PROBLEMS_MAX
    return "\n".join([*texts[:PROBLEMS_MAX], *([f"and {more:,} more"] if more > 0 else [])])
