"""`CountWithin` record by record: what it refuses, when it decides, what it forgets, and what it tells of late ones."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from counting_kit import EPOCH, Alert, Event, Events, Keys, told

from bolts import Burst, CountWithin
from topology import ConfigurationError, EmitError, Record, Topology, signatures
from topology.codes.settings import INVALID_COUNT_WITHIN, UNTYPED_COUNT_WITHIN
from topology.codes.tuples import UNCOUNTABLE_RECORD
from topology.testing import ScriptedSpout


def keys(limit: int = 3, within_s: float = 60, lateness_s: float = 0.0, **more: Any) -> Keys:
    return Keys(lambda: Events(limit, within_s, lateness_s, **more))


def at(*seconds: float) -> list[Event]:
    return [Event(second) for second in seconds]


@pytest.mark.parametrize(
    "values",
    [
        {"limit": 0},
        {"limit": 2.5},
        {"limit": True},
        {"limit": 100_001},
        {"within_s": -1},
        {"within_s": float("nan")},
        {"within_s": "60"},
        {"lateness_s": -0.1},
        {"lateness_s": float("inf")},
        {"lateness_s": True},
        {"most": 0},
    ],
)
def test_numbers_out_of_their_limits_are_refused_by_name(values: dict[str, Any]) -> None:
    (name,) = values
    with pytest.raises(ConfigurationError, match=f"Events: {name} is a ") as refused:
        Events(**{"limit": 3, "within_s": 60, **values})
    assert refused.value.code is INVALID_COUNT_WITHIN


def test_a_subclass_that_does_not_say_what_it_needs_can_not_be_made() -> None:
    class Unsaid(CountWithin[Event, Alert]):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Unsaid(3, 60)  # type: ignore[abstract]


class Any_(CountWithin[Record, Alert]):
    """Takes records of no class that it names."""

    def at(self, record: Record) -> datetime:
        return EPOCH

    def raised(self, record: Record, burst: Burst) -> Alert:
        return Alert("", "", burst)


def test_records_that_wait_have_to_be_of_classes_that_are_named() -> None:
    with pytest.raises(ConfigurationError, match="does not say of which class") as refused:
        Keys(lambda: Any_(3, 60, lateness_s=1))
    assert refused.value.code is UNTYPED_COUNT_WITHIN
    Keys(lambda: Any_(3, 60))  # nothing waits


class Careless(Events):
    """Says what its record's name is."""

    def at(self, event: Event) -> Any:
        return {"naive": datetime(2026, 1, 1), "none": None}.get(event.name, EPOCH)  # noqa: DTZ001 - it is the mistake

    def weight(self, event: Event) -> Any:
        return {"zero": 0, "half": 0.5, "true": True}.get(event.name, 1)


@pytest.mark.parametrize("name", ["naive", "none", "zero", "half", "true"])
def test_a_record_that_can_not_be_counted_fails_and_changes_nothing(name: str) -> None:
    counting = Keys(lambda: Careless(3, 60))
    counting.give(Event(0), Event(0))
    with pytest.raises(EmitError) as failed:
        counting.give(Event(0, name=name))
    assert failed.value.code is UNCOUNTABLE_RECORD
    assert len(counting.give(Event(0))) == 1


@pytest.mark.parametrize("lateness_s", [0.0, 5.0])
def test_a_subclass_that_raises_fails_the_record_and_changes_nothing_d9(lateness_s: float) -> None:
    class Raises(Events):
        def raised(self, event: Event, burst: Burst) -> Alert:
            raise ValueError("no alert today")

    counting = Keys(lambda: Raises(2, 60, lateness_s))
    counting.give(*at(0, 1)[: 1 if not lateness_s else 2])
    before = counting.state()
    with pytest.raises(ValueError, match="no alert today"):
        counting.give(Event(1 if not lateness_s else 100))
    assert counting.state() == before


def test_more_records_of_a_key_than_may_wait_fail_with_advice_and_other_keys_go_on() -> None:
    counting = keys(lateness_s=60, most=5)
    counting.give(*at(0, 1, 2, 3, 4))
    with pytest.raises(EmitError, match=r"more than most=5 records of one key wait") as failed:
        counting.give(Event(5))
    assert failed.value.code is UNCOUNTABLE_RECORD
    counting.give(Event(5, key="other"))
    assert told(counting.give(Event(63))) == [("", 3, 0, 2)], "what is decided by it does not wait any more"


# -- when it is decided


def test_records_in_order_are_decided_at_once_and_a_burst_is_raised_once() -> None:
    counting = keys()
    assert [len(counting.give(event)) for event in at(0, 60, 60, 61, 62)] == [0, 0, 1, 0, 0]
    assert told(counting.alerts) == [("", 3, 0, 60)]


def test_a_burst_is_raised_anew_once_there_were_fewer() -> None:
    assert told(keys().give(*at(0, 1, 2, 3, 64, 65, 66))) == [("", 3, 0, 2), ("", 3, 64, 66)]


def test_a_record_counts_for_as_many_as_its_weight_says() -> None:
    assert told(keys(limit=5).give(Event(0, 2), Event(1, 7, "last"))) == [("last", 9, 0, 1)]


def test_keys_are_counted_apart() -> None:
    assert keys().give(*(Event(0, key=key) for key in "ababcc")) == []


def test_a_record_waits_until_nothing_older_may_come() -> None:
    counting = keys(lateness_s=10)
    assert counting.give(*at(20, 21, 22, 31, 32)) == [], "22 may still have a predecessor: one of 32 - 10"
    assert told(counting.give(Event(32.5))) == [("", 3, 20, 22)]


def test_what_comes_late_joins_two_bursts_to_one() -> None:
    counting = keys(limit=2, within_s=5, lateness_s=10)
    assert counting.give(*at(0, 1, 8, 9, 4)) == []
    assert told(counting.give(Event(50))) == [("", 2, 0, 1)]


def test_what_nothing_newer_comes_for_is_decided_after_the_lateness_by_the_wall_clock() -> None:
    counting = keys(lateness_s=10)
    counting.give(*at(0, 1))
    assert counting.pass_s(9) == []
    counting.give(Event(2))
    assert counting.pass_s(9.9) == [], "counted from the last arrival"
    assert told(counting.pass_s(0.2)) == [("", 3, 0, 2)]
    assert counting.pass_s(60) == []


def test_what_is_left_is_decided_when_a_bounded_run_ends() -> None:
    counting = keys(lateness_s=10)
    counting.give(*at(0, 1, 2))
    counting.give(*(Event(second, key="other") for second in (7, 5, 6)))
    assert sorted(told(counting.end())) == [("", 3, 0, 2), ("", 3, 5, 7)]
    assert counting.end() == []


def test_a_run_that_was_down_waits_for_what_comes_now_before_it_decides() -> None:
    counting = keys(limit=2, within_s=5, lateness_s=10)
    counting.give(*at(0, 1, 8))
    counting.clock.now += timedelta(seconds=500)
    counting.begin()
    assert counting.pass_s(0) == [], "overdue, and nobody was up to be given anything"
    counting.give(Event(4))
    assert told(counting.pass_s(10)) == [("", 2, 0, 1)]
    assert counting.give(*at(9)) == [], "one burst, that goes on"


def test_what_is_overdue_when_a_run_begins_is_decided_at_its_end_at_the_latest() -> None:
    counting = keys(lateness_s=10)
    counting.give(*at(0, 1, 2))
    counting.clock.now += timedelta(seconds=500)
    counting.begin()
    assert counting.pass_s(0) == []
    assert told(counting.end()) == [("", 3, 0, 2)]


# -- what comes later than it may


def test_a_late_record_still_counts_within_the_span_of_the_newest_and_is_told() -> None:
    counting = keys()
    assert list(counting.bolt.summary()) == []
    assert told(counting.give(*at(0, 50, 10))) == [("", 3, 0, 50)]
    assert list(counting.bolt.summary()) == [
        "1 record came later than lateness_s=0 allows: bursts may be missing, or raised twice"
    ]


def test_records_before_the_span_of_the_newest_are_counted_among_themselves() -> None:
    """A clock that was set back, say: an attack then is found, and a straggler wipes out nothing."""
    counting = keys()
    counting.give(*at(7_200, 7_201))
    assert told(counting.give(*at(3_600, 3_601, 3_602, 3_603))) == [("", 3, 3_600, 3_602)]
    assert told(counting.give(Event(7_202))) == [("", 3, 7_200, 7_202)]
    assert list(counting.bolt.summary()) == [
        "4 records came later than lateness_s=0 allows; 4 of them older than within_s=60: "
        "bursts may be missing, or raised twice"
    ]


def test_late_is_what_is_older_than_the_newest_that_is_decided() -> None:
    counting = keys(lateness_s=10)
    counting.give(*at(0, 1, 30, 15))
    assert list(counting.bolt.summary()) == [], "nothing newer than 15 is decided"
    counting.give(*at(30.5, 60, 29))
    assert len(list(counting.bolt.summary())) == 1


# -- what is kept


def test_the_state_stays_small_in_a_burst_that_never_ends() -> None:
    counting = keys(limit=5)
    assert len(counting.give(*at(*(number / 7 for number in range(3_000))))) == 1
    state = counting.state()
    assert state is not None
    assert len(state.window.events) == 5
    assert len(counting.content["k"] or b"") < 100


def test_a_timer_is_not_moved_by_each_record_where_nothing_waits() -> None:
    counting = keys()
    for second in range(100):
        counting.give(Event(second))
        counting.pass_s(1)
    assert counting.moved == 1


def test_a_key_for_which_nothing_comes_is_forgotten_within_two_hours() -> None:
    counting = keys()
    counting.give(*at(0, 1))
    counting.pass_s(3_599)
    assert len(counting.give(Event(2))) == 1, "a stop of less than an hour splits no burst"
    counting.pass_s(7_200)
    assert counting.content == {"k": None}
    assert counting.timers == {"k": {}}


def test_a_key_for_which_something_comes_each_hour_is_kept() -> None:
    counting = keys(limit=100, within_s=366 * 86_400)
    counting.pass_s(0)
    for hour in range(99):
        assert counting.give(Event(3_600 * hour)) == []
        counting.pass_s(3_600)
    assert len(counting.give(Event(3_600 * 99))) == 1


def test_the_timer_for_forgetting_fires_at_the_end_of_a_bounded_run_without_harm() -> None:
    counting = keys()
    counting.give(*at(0, 1))
    counting.end()
    counting.begin()
    assert len(counting.give(Event(2))) == 1, "the next run goes on counting"


@pytest.mark.parametrize("lateness_s", [0, 5])
def test_runs_that_end_forget_nothing_before_its_time_and_then_everything(lateness_s: float) -> None:
    counting = keys(lateness_s=lateness_s)
    counting.give(*at(0, 1, 2))
    for _ in range(3):
        counting.end()
        counting.begin()
    assert counting.give(Event(3)) == [], "the burst goes on"
    counting.end()
    assert len(counting.alerts) == 1
    counting.begin()
    counting.pass_s(7_300)
    assert counting.content == {"k": None}


# -- how it is declared


def test_what_a_subclass_gives_is_known_when_it_is_declared() -> None:
    signature = signatures.of_bolt(Events(3, 60))
    assert (signature.shape, signature.takes, signature.gives) == ("state", (Event,), (Alert,))
    assert not signature.problems
    topology = Topology("counts")
    events = topology.spout("events", ScriptedSpout([Event(0)]))
    topology.bolt("alerts", Events(3, 60), events.fields("key"))
    assert topology.components[-1].streams == (Alert,)


class Other(Record):
    key: str
    second: int


class Both(CountWithin[Event | Other, Alert]):
    def at(self, record: Event | Other) -> datetime:
        return EPOCH + timedelta(seconds=record.second)

    def raised(self, record: Event | Other, burst: Burst) -> Alert:
        return Alert(type(record).__name__, record.key, burst)


def test_several_classes_of_records_count_together_and_wait_together() -> None:
    counting = Keys(lambda: Both(3, 60, lateness_s=10))
    counting.give(Other("k", 2), Event(0), Other("k", 1))
    assert told(counting.pass_s(10)) == [("Other", 3, 0, 2)]
    assert signatures.of_bolt(Both(3, 60)).takes == (Event, Other)
