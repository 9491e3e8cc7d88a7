"""How many events of one key fall within a span of event time, event by event, and when that comes to a limit.

Pure. Times are ints, microseconds since 1970. Must not know records of users, states' keepers, clocks or timers.
"""

from bisect import bisect_left
from typing import Final, NamedTuple, TypeAlias

from topology.records import Record

Events: TypeAlias = tuple[tuple[int, int], ...]  # (time, how many there), each time once, oldest first


class Window(Record):
    """What matters of a key's events up to the newest: those within the span of it, and of these, while a burst is on,
    only the newest that come to the limit: whether it goes on depends on no others. So there are `limit` at most."""

    events: Events
    is_on: bool  # at the newest event, those within the span came to the limit


class Raised(NamedTuple):
    """A burst as it begins: how many are within the span, the oldest time of them and the newest."""

    total: int
    first: int
    last: int


EMPTY: Final = Window((), False)


def counted(window: Window, at: int, count: int, limit: int, span: int) -> tuple[Window, Raised | None]:
    """The window after one more event, and the burst that begins with it.

    An event that is older than the newest is counted where it belongs, and the count is still that of the newest's
    span. One that is older than all of that begins a window anew: nothing in this one is near it.
    """
    events = window.events
    was_on = window.is_on
    newest = events[-1][0] if events else at
    if at < newest - span:
        events, was_on = ((at, count),), False
    else:
        oldest = max(newest, at) - span
        from_here = bisect_left(events, (oldest,))
        place = bisect_left(events, (at,), from_here)
        if place < len(events) and events[place][0] == at:
            after, count = events[place + 1 :], count + events[place][1]
        else:
            after = events[place:]
        events = (*events[from_here:place], (at, count), *after)
    total = sum([many for _, many in events])
    if total < limit:
        return Window(events, False), None
    raised = None if was_on else Raised(total, events[0][0], events[-1][0])
    return Window(_that_matter(events, total, limit), True), raised


def _that_matter(events: Events, total: int, limit: int) -> Events:
    """The newest events that come to the limit, out of more."""
    skipped = 0
    for _, many in events:
        if total - many < limit:
            break
        total -= many
        skipped += 1
    return events[skipped:]
