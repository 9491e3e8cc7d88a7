"""How far the timers of a bolt's task have come, among the marks: when the latest that has fired was due, and how many
were set for a time before that, by a clock that was stepped back (B15).

Kept in the commit that takes the timer out of the state, so no later life, whatever its clock says, gives a timer an
identity that one has had. Pure, but for `shared`. Must not know who fires timers.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Changes, Mark, Span

OF: Final = "\0timers "  # before the name of the bolt; no component can be called so
_LATEST: Final = "latest"
_SET_BACK: Final = "set back"


class HaveFired(NamedTuple):
    """`latest` in microseconds since 1970 (UTC)."""

    latest: int = 0
    set_back: int = 0


def marks_of(known_as: str, task: int, fired: HaveFired) -> list[Mark]:
    """As they are kept: all is done up to there."""
    pairs = zip((_LATEST, _SET_BACK), fired, strict=True)
    return [Mark(OF + known_as, task, of, "", count, (Span(count, count),), count) for of, count in pairs]


def have_fired(marks: Iterable[Mark], known_as: str) -> HaveFired:
    """The furthest of all tasks of this bolt: keys may have been with any of them."""
    counts = {_LATEST: 0, _SET_BACK: 0}
    for mark in marks:
        if mark.component == OF + known_as and mark.partition in counts and type(mark.position) is int:
            counts[mark.partition] = max(counts[mark.partition], mark.position)
    return HaveFired(counts[_LATEST], counts[_SET_BACK])


def shared(stores: Mapping[int, SqliteStore]) -> None:
    """Each store knows the furthest of all of them, as keys may come to any. Raises StoreFull, StoreBroken."""
    held = {number: store.reread().marks for number, store in stores.items()}
    every = [mark for marks in held.values() for mark in marks if mark.component.startswith(OF)]
    for component in {mark.component for mark in every}:
        known_as = component.removeprefix(OF)
        furthest = have_fired(every, known_as)
        for number, store in stores.items():
            if have_fired(held[number], known_as) != furthest:
                store.commit(Changes(marks=marks_of(known_as, 0, furthest)))
