"""What the live view says of a run: rates and latencies of the last seconds, from looks at its counters."""

from dataclasses import replace

import pytest
from figures_kit import APART, SHAPE, at, looks

from topology.cli.output.numbers import clock, duration, percent, rate, short
from topology.cli.output.rates import LOOKS_MAX, SPAN_S, Now, Rates, RateWindow, busy


def test_before_anything_was_told_there_are_no_rates() -> None:
    seen = looks(at(0.0))
    assert [one.rate for one in seen.components] == [None, None]
    assert (seen.rate, seen.components[1].busy, seen.components[1].latency_s) == (0.0, None, None)


def test_a_rate_is_that_of_the_last_seconds_and_not_of_the_whole_run() -> None:
    seen = looks(at(1.0, 1000, executed=900), at(100.0, 2000, executed=1900), at(104.0, 2400, executed=2100))
    assert seen.rate == 100.0
    assert [one.rate for one in seen.components] == [100.0, 50.0]


def test_looks_that_bring_no_news_change_no_rate() -> None:
    same = at(2.0, 200, executed=200)
    assert looks(at(1.0, 100, executed=100), same, same, same).rate == 100.0


def test_a_worker_of_which_nothing_is_heard_any_more_has_no_rate() -> None:
    rates = Rates(APART, 1000.0)
    for seconds in (1.0, 2.0):
        here = {0: at(seconds, int(seconds * 100)), 1: at(seconds, executed=int(seconds * 100))}
        rates.of(Now(at(seconds), here, {0: 11, 1: 12}))
    later = Now(at(6.0), {0: at(6.0, 600), 1: at(2.0, executed=200)}, {0: 11}, frozenset({1}), {1: 1})
    seen = rates.of(later)
    assert seen.rate == 100.0
    assert [(one.number, one.pid, one.away, one.rate, one.deaths) for one in seen.workers] == [
        (0, 11, False, 100.0, 0),
        (1, None, True, None, 1),
    ]
    assert [one.away for one in seen.components] == [False, True], "who has tasks there"


def test_counters_that_have_fallen_as_a_worker_died_give_no_rate_below_nought() -> None:
    seen = looks(at(1.0, 1000, executed=900, busy_s=0.9), at(2.0, 900, executed=800, busy_s=0.5))
    assert [one.rate for one in seen.components] == [0.0, 0.0]
    assert seen.components[1].busy == 0.0


def test_the_latency_of_a_spout_is_that_of_its_last_trees() -> None:
    before, after = at(10.0, latencies=(9.0,) * 1000), at(14.0, latencies=(9.0,) * 1000 + (0.002,) * 10)
    spout = looks(before, after).components[0]
    assert spout.latency_s == pytest.approx(0.002, rel=0.02)
    assert spout.p99_s == pytest.approx(0.002, rel=0.02)
    assert looks(before, replace(before, seconds=14.0)).components[0].latency_s is None, "nothing was acked"


def test_the_latency_of_a_bolt_is_its_work_a_record_or_where_inputs_wait_their_time_in_it() -> None:
    works = looks(at(1.0), at(2.0, executed=100, busy_s=0.2)).components[1]
    assert works.latency_s == pytest.approx(0.002)
    waits = looks(at(1.0), at(2.0, executed=100, busy_s=0.2, waited=50, waited_s=10.0)).components[1]
    assert waits.latency_s == pytest.approx(0.2)


def test_a_bolt_is_as_busy_as_in_the_worker_where_it_has_most_to_do_or_as_its_places_are_taken() -> None:
    rates = Rates(APART, 1000.0)
    rates.of(Now(at(1.0), {0: at(1.0), 1: at(1.0)}))
    assert rates.of(Now(at(2.0), {0: at(2.0, busy_s=0.1), 1: at(2.0, busy_s=0.7)})).components[1].busy == 0.7
    taken = rates.of(Now(at(3.0), {0: at(3.0, busy_s=0.1, taken_s=1.9), 1: at(3.0, busy_s=0.7, taken_s=1.7)}))
    assert taken.components[1].busy == pytest.approx(0.9)
    assert busy({0: at(10.0, busy_s=1.0), 1: at(10.0, busy_s=4.0)}, APART) == {"store": 0.4}
    assert busy({0: at(0.0)}, SHAPE) == {}


def test_a_counter_that_grows_is_marked_until_it_has_been_still_for_a_while() -> None:
    grown = at(2.0, 100, failed=1, replayed=1, dead=1)
    seen = looks(at(1.0, 50), grown)
    assert seen.components[0].grown == {"replayed", "dead"}
    assert seen.components[1].grown == {"failed"}
    still = [replace(grown, seconds=2.0 + SPAN_S + one) for one in range(3)]
    assert [one.grown for one in looks(at(1.0, 50), grown, *still).components] == [frozenset(), frozenset()]


def test_looks_are_kept_for_a_few_seconds_and_are_few() -> None:
    window = RateWindow()
    for tick in range(10_000):
        window.look(at(tick / 4))
    assert window.span_s == SPAN_S
    for tick in range(10_000):
        window.look(at(2500 + tick / 1000))
    assert len(window._looks) <= LOOKS_MAX


def test_who_is_the_limit_is_judged_soon_and_then_now_and_then() -> None:
    rates = Rates(SHAPE, 4.0)
    first = rates.of(Now(at(1.0, 100), {0: at(1.0, 100)})).limit
    assert first.startswith("the source 'lines' is the limit")
    slow = at(2.0, 200, busy_s=1.0)
    assert rates.of(Now(slow, {0: slow})).limit == first
    slow = at(6.0, 600, busy_s=5.0)
    assert rates.of(Now(slow, {0: slow})).limit.startswith("'store' is the limit: busy 100 %")


def test_that_there_is_nothing_to_do_is_not_said_any_more_once_a_message_has_come() -> None:
    rates = Rates(SHAPE, 4.0)
    assert rates.of(Now(at(0.7), {0: at(0.7)})).limit == "nothing to do: no message from 'lines'"
    begun = at(1.7, 345)
    seen = rates.of(Now(begun, {0: begun}))
    assert seen.rate > 300
    assert seen.limit.startswith("the source 'lines' is the limit")


def test_a_moment_after_the_first_message_nothing_is_said_until_it_can_be_told_who_is_the_limit() -> None:
    rates = Rates(SHAPE, 4.0)
    rates.of(Now(at(0.7), {0: at(0.7)}))
    begun = at(0.8, 10)
    assert rates.of(Now(begun, {0: begun})).limit == ""


def test_what_holds_everything_up_is_told_in_place_of_the_limit() -> None:
    stalled = at(2.0, 400, limit="source idle")
    seen = looks(stalled)
    assert (seen.limit, seen.stalled) == ("source idle", True)


def test_a_run_that_drains_says_how_much_is_left_and_how_long_it_may_take() -> None:
    rates = Rates(SHAPE, 4.0)
    assert rates.of(Now(at(1.0, pending=2), {})).draining == ""
    assert rates.of(Now(at(2.0, pending=1), {}, draining=True)).draining == "draining: 1 message left, at most 25 s"
    assert rates.of(Now(at(30.0, pending=7), {}, draining=True)).draining == "draining: 7 messages left, at most 0 s"
    untracked = Now(at(30.0, queued=3, held=1), {}, draining=True)
    assert rates.of(untracked).draining == "draining: 4 inputs left, at most 0 s", "at-most-once nothing is pending"


# -- numbers


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        *((0, "0"), (9_999, "9,999"), (10_000, "10.0k"), (12_345, "12.3k"), (99_960, "100k"), (999_499, "999k")),
        *((999_600, "1.0M"), (1_234_567, "1.2M"), (4_321_000_000, "4.3G"), (2_500_000_000_000, "2T")),
    ],
)
def test_counts_take_five_characters(number: int, shown: str) -> None:
    assert short(number) == shown
    assert len(shown) <= 5


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        *((None, "–"), (0.0, "0 µs"), (0.0000042, "4.2 µs"), (0.000135, "0.14 ms"), (0.0023, "2.3 ms")),
        *((0.0996, "100 ms"), (0.9994, "999 ms"), (0.99951, "1.0 s"), (1.26, "1.3 s"), (59.0, "59 s")),
        *((1200.0, "20 m"), (90_000.0, "25 h")),
    ],
)
def test_times_have_two_digits_and_a_unit(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown
    assert len(shown) <= 7


def test_rates_shares_and_clocks_are_short() -> None:
    assert [rate(one) for one in (None, 0.0, 0.04, 0.25, 9.94, 9.96, 1204.4)] == [
        *("–", "0", "0", "0.2", "9.9", "10", "1,204")
    ]
    assert [percent(one) for one in (None, 0.0, 0.454, 1.0, -0.1)] == ["–", "0 %", "45 %", "100 %", "0 %"]
    assert [clock(one) for one in (0.96, 59.6, 3_661, 90_061)] == ["0:00:01", "0:01:00", "1:01:01", "1 d 1:01:01"]
