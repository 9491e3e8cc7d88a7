"""`CountWithin` against a plain function of the sorted times: whatever order they come in, the same bursts."""

from datetime import timedelta

from counting_kit import Event, Events, Keys, plainly, told
from hypothesis import given, settings
from hypothesis import strategies as st

LIMITS = st.integers(1, 6)
SPANS = st.sampled_from([0, 1, 5, 20])
SECONDS = st.integers(0, 120)
DOWNTIMES = st.sampled_from([timedelta(0), timedelta(seconds=20), timedelta(minutes=59)])
GAPS = st.sampled_from([0.0, 0.1, 0.4])  # seconds by the wall clock between two arrivals


@st.composite
def arrivals(draw: st.DrawFn, lateness: int, weights: int = 3) -> list[Event]:
    """Events of one key in an order in which none comes after one that is more than `lateness` newer."""
    seconds = draw(st.lists(SECONDS, max_size=40))
    events = [
        (second + draw(st.integers(0, lateness)), draw(st.integers(0, 9)), number, second)
        for number, second in enumerate(seconds)
    ]
    return [Event(second, draw(st.integers(1, weights)), str(number)) for _, _, number, second in sorted(events)]


@settings(deadline=None, max_examples=300)
@given(st.data(), LIMITS, SPANS, st.integers(1, 30))
def test_any_order_up_to_the_lateness_gives_the_bursts_of_the_sorted_times(
    data: st.DataObject, limit: int, span: int, lateness: int
) -> None:
    events = data.draw(arrivals(lateness))
    counting = Keys(lambda: Events(limit, span, lateness))
    for event in events:
        counting.give(event)
        counting.pass_s(data.draw(GAPS))
        state = counting.state()
        assert state is not None
        assert len(state.window.events) <= limit
    counting.end()
    assert told(counting.alerts) == plainly(events, limit, span)
    assert list(counting.bolt.summary()) == []


@settings(deadline=None, max_examples=200)
@given(st.data(), LIMITS, SPANS)
def test_without_lateness_records_in_order_give_the_bursts_of_their_times_at_once(
    data: st.DataObject, limit: int, span: int
) -> None:
    events = data.draw(arrivals(0, weights=1))
    counting = Keys(lambda: Events(limit, span))
    for number, event in enumerate(events, 1):
        counting.give(event)
        assert [one[1:] for one in told(counting.alerts)] == [one[1:] for one in plainly(events[:number], limit, span)]
    counting.end()
    assert len(counting.alerts) == len(plainly(events, limit, span))


@settings(deadline=None, max_examples=200)
@given(st.data(), LIMITS, SPANS, st.sampled_from([0, 3]))
def test_whatever_comes_however_late_a_burst_is_true_of_what_came(
    data: st.DataObject, limit: int, span: int, lateness: int
) -> None:
    events = data.draw(arrivals(120))
    counting = Keys(lambda: Events(limit, span, lateness))
    for event in events:
        counting.give(event)
        counting.pass_s(data.draw(st.sampled_from([0.0, 5.0])))
    counting.end()
    for name, count, first, last in told(counting.alerts):
        assert last - first <= span
        assert limit <= count <= sum(event.count for event in events if first <= event.second <= last), name
    if plainly(events, limit, span) and max((event.count for event in events), default=0) >= limit:
        assert counting.alerts, "one record that is a burst alone is never missed"


@settings(deadline=None, max_examples=100)
@given(st.data(), LIMITS, SPANS, st.integers(1, 30))
def test_a_death_between_any_two_records_changes_nothing_b10(
    data: st.DataObject, limit: int, span: int, lateness: int
) -> None:
    events = data.draw(arrivals(lateness))
    counting = Keys(lambda: Events(limit, span, lateness))
    for event in events:
        counting.give(event)
        if data.draw(st.booleans()):
            counting.clock.now += data.draw(DOWNTIMES)
            counting.begin()
        counting.pass_s(data.draw(GAPS))
    counting.end()
    assert told(counting.alerts) == plainly(events, limit, span)
