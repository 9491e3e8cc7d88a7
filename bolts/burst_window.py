"""Counts the events of one key within a span of event time, event by event, and finds where the count reaches a limit.

Pure. Times are ints: microseconds since 1970. Must not know the records of users, keepers of state, clocks or timers.
"""

from bisect import bisect_left
from typing import Final, NamedTuple, TypeAlias

from topology.records import Record

Events: TypeAlias = tuple[tuple[int, int], ...]  # (time, number of events there); each time once, oldest first


class Window(Record):
    """The events of a key that still matter, up to the newest.

    These are the events within the span of the newest. While a burst is on, only the newest events that add up to the
    limit are kept: whether the burst continues depends on no other event. So there are at most `limit` entries.
    """

    events: Events
    is_on: bool  # True if the events within the span reached the limit at the newest event


class Raised(NamedTuple):
    """A burst that begins: the number of events within the span, and the oldest and newest time among them."""

    total: int
    first: int
    last: int


EMPTY: Final = Window((), False)


def counted(window: Window, at: int, count: int, limit: int, span: int) -> tuple[Window, Raised | None]:
    """Return the window after one more event, and the burst that begins with this event, or None.

    An event that is older than the newest is counted at its own time; the total is still that of the newest event's
    span. An event that is older than that whole span begins a new window: nothing in this window is near it.
    """
    events = window.events
    was_on = window.is_on
    newest = events[-1][0] if events else at
    if at > newest:  # the usual case
        events = (*events[bisect_left(events, (at - span,)) :], (at, count))
    elif at < newest - span:
        events, was_on = ((at, count),), False
    else:
        from_here = bisect_left(events, (newest - span,))
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
    """Return the newest events that add up to the limit, out of more."""
    skipped = 0
    for _, many in events:
        if total - many < limit:
            break
        total -= many
        skipped += 1
    return events[skipped:]
