"""Which way lines go aside between two layers of boxes, when they may only run straight and turn at right angles.

Each line that goes aside does so on one track, a row of its own or shared with lines that are elsewhere. Pure: numbers
in, numbers out; knows no characters and no direction.
"""

from collections.abc import Sequence

Line = tuple[int, int]  # where it leaves the layer above, and where it arrives in the layer below


class TangledError(ValueError):
    """Two lines would have to run over one another."""


def tracks(lines: Sequence[Line]) -> list[int | None]:
    """The track of each line, from 0 on; None for one that runs straight. Few cross. No two lines may leave, or arrive,
    at one place. Raises TangledError."""
    aside = [number for number, (leaves, arrives) in enumerate(lines) if leaves != arrives]
    found: list[int | None] = [None] * len(lines)
    waiting = [*aside]
    done: list[int] = []
    while waiting:
        free = [one for one in waiting if not any(_must(lines[two], lines[one]) for two in waiting if two != one)]
        if not free:
            raise TangledError("lines that change places can't be drawn straight")
        costs = {one: sum(_saved(lines[one], lines[two]) for two in waiting if two != one) for one in free}
        first = min(free, key=lambda one: costs[one])
        waiting.remove(first)
        found[first] = (
            max((found[two] or 0) + 1 if _meet(lines[first], lines[two]) else 0 for two in done) if done else 0
        )
        done.append(first)
    return found


def _must(upper: Line, lower: Line) -> bool:
    """Whether the one has to go aside above the other: else both would run in one column."""
    return upper[0] == lower[1]


def _saved(upper: Line, lower: Line) -> int:
    """How many more crossings there are with the one above the other than the other way round."""
    if not _meet(upper, lower):
        return 0
    here = _within(lower[0], upper) + _within(upper[1], lower)
    return here - _within(upper[0], lower) - _within(lower[1], upper)


def _meet(one: Line, other: Line) -> bool:
    """Whether they can't share a track."""
    return max(min(one), min(other)) <= min(max(one), max(other)) + 1


def _within(place: int, line: Line) -> bool:
    return min(line) <= place <= max(line)
