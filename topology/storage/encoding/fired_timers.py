"""Progress of the timers of a bolt's task, stored as marks: the due time of the latest fired timer, and the number of
timers that were set for an earlier time by a clock that was stepped back (B15).

The progress is kept together with the state that the timer is removed from. So no later life, whatever its clock says,
gives a timer an identity that an earlier timer has had. Pure. Must not know who fires timers.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from topology.storage.values import Mark, Span

OF: Final = "\0timers "  # prefix of the bolt's name; no component can have such a name
_LATEST: Final = "latest"
_SET_BACK: Final = "set back"


class HaveFired(NamedTuple):
    """The progress; `latest` is in microseconds since 1970 (UTC)."""

    latest: int = 0
    set_back: int = 0


def marks_of(known_as: str, task: int, fired: HaveFired) -> list[Mark]:
    """Return the marks that store it: all is done up to there."""
    pairs = zip((_LATEST, _SET_BACK), fired, strict=True)
    return [Mark(OF + known_as, task, of, "", count, (Span(count, count),), count) for of, count in pairs]


def have_fired(marks: Iterable[Mark], known_as: str) -> HaveFired:
    """Return the furthest progress of all tasks of this bolt, because each key may have been in any of them."""
    counts = {_LATEST: 0, _SET_BACK: 0}
    for mark in marks:
        if mark.component == OF + known_as and mark.partition in counts and type(mark.position) is int:
            counts[mark.partition] = max(counts[mark.partition], mark.position)
    return HaveFired(counts[_LATEST], counts[_SET_BACK])
