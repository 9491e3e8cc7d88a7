"""Latencies in log-spaced counters, and what was added between two looks."""

from hypothesis import given
from hypothesis import strategies as st

from topology.runtime.telemetry.histogram import LONGEST_S, SHORTEST_S, Histogram

DURATIONS = st.lists(st.floats(SHORTEST_S, LONGEST_S), max_size=30)


def histogram(durations: list[float]) -> Histogram:
    one = Histogram()
    for duration in durations:
        one.add(duration)
    return one


@given(DURATIONS, DURATIONS)
def test_what_was_added_since_a_look_is_what_came_after_it(before: list[float], after: list[float]) -> None:
    since = histogram(before + after).since(histogram(before))
    assert since.counts == histogram(after).counts
    assert since.total == len(after)
    if after:
        assert max(after) <= since.highest <= max(after) * 1.0111


@given(DURATIONS)
def test_a_percentile_is_at_most_a_hundredth_too_high(durations: list[float]) -> None:
    one = histogram(durations)
    if not durations:
        assert one.percentile(50) is None
        return
    exact = sorted(durations)[(len(durations) - 1) // 2]
    found = one.percentile(50)
    assert found is not None
    assert exact <= found * 1.0000001
    assert found <= exact * 1.0111


def test_a_look_at_another_histogram_gives_nothing_below_nought() -> None:
    assert histogram([1.0]).since(histogram([1.0, 1.0, 2.0])).total == 0
