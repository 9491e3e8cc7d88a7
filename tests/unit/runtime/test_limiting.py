"""Who is the limit: one sentence for each way in which a run can be held up."""

from dataclasses import replace

import pytest

from topology.runtime.queue_limits import QUEUE_HIGH
from topology.runtime.telemetry.bottleneck import SHORTEST_S, Queues, limit_of
from topology.runtime.telemetry.metrics import BoltCounts, Snapshot, SpoutCounts

TASKS = {0: {"lines": 1, "parse": 1, "alerts": 2, "store": 1}}
APART = {0: {"lines": 1, "parse": 1, "alerts": 1}, 1: {"alerts": 1, "store": 1}}


def look(
    seconds: float = 10.0,
    emitted: int = 5000,
    paused_s: float = 0.0,
    **bolts: BoltCounts,
) -> Snapshot:
    """A worker whose bolts have done a little, but for those that are given."""
    idle = BoltCounts(executed=5000, busy_s=0.02 * seconds)
    counts = {name: bolts.get(name, idle) for name in ("parse", "alerts", "store")}
    return Snapshot("t", seconds, 1, {"lines": SpoutCounts(emitted=emitted, paused_s=paused_s)}, counts)


def bolt(busy_s: float = 0.2, queued: int = 0, executed: int = 5000, held: int = 0, taken_s: float = 0.0) -> BoltCounts:
    return BoltCounts(executed=executed, busy_s=busy_s, queued=queued, held=held, taken_s=taken_s)


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        pytest.param(
            look(paused_s=6.1, alerts=bolt(9.8, queued=1516)),
            "'alerts' is the limit: busy 98 % of the time, its queue is 74 % full; 'lines' pauses 61 % of the time",
            id="a busy bolt with a queue",
        ),
        pytest.param(
            look(alerts=bolt(9.0)),
            "'alerts' is the limit: busy 90 % of the time, its queue is 0 % full; 'lines' pauses 0 % of the time",
            id="a bolt that takes the loop for itself, so that its source need not pause",
        ),
        pytest.param(
            look(paused_s=9.7, store=bolt(0.1, queued=1100)),
            "'store' is the limit: busy 1 % of the time, its queue is 100 % full; 'lines' pauses 97 % of the time",
            id="a bolt that waits for something else, one input after the other",
        ),
        pytest.param(
            look(paused_s=9.9, store=bolt(0.0, queued=1024, executed=0)),
            "'store' is the limit: it has done nothing, with its queue 100 % full; 'lines' pauses 99 % of the time",
            id="a sink that is away",
        ),
        pytest.param(
            look(store=bolt(0.1, queued=300, taken_s=9.9)),
            "'store' is the limit: its places for inputs that wait are taken 99 % of the time, its queue is 29 % full; "
            "'lines' pauses 0 % of the time",
            id="a bolt that waits as much as it may, before its source pauses",
        ),
        pytest.param(
            look(alerts=bolt(0.1, taken_s=9.0)),
            "the source 'lines' is the limit: nothing waits, it pauses 0 % of the time",
            id="a bolt with two tasks that wait half of the time each",
        ),
        pytest.param(
            look(paused_s=4.0, parse=bolt(4.2), alerts=bolt(3.0), store=bolt(2.0)),
            "'parse' is the limit: busy 42 % of the time, its queue is 0 % full; 'lines' pauses 40 % of the time",
            id="the busiest of several, while the source pauses",
        ),
        pytest.param(
            look(parse=bolt(4.0), alerts=bolt(3.3), store=bolt(2.0)),
            "the event loop is the limit: its bolts are busy 93 % of the time, 'parse' with 40 % the most; "
            "'lines' pauses 0 % of the time",
            id="several bolts that fill the loop together",
        ),
        pytest.param(
            look(paused_s=8.0, store=bolt(held=1900)),
            "'store' is the limit: it waits, with 1,900 inputs in hand; 'lines' pauses 80 % of the time",
            id="a bolt that holds inputs and is not busy",
        ),
        pytest.param(
            look(paused_s=8.0),
            "acks are the limit: 'lines' pauses 80 % of the time, at max_pending, or for a worker or a disk that was "
            "away; no bolt is busy, no queue is full",
            id="messages that wait nowhere in particular",
        ),
        pytest.param(
            replace(look(paused_s=8.0), held_by={"lines": "worker-0.db can't be written: No space left on device"}),
            "'lines' pauses 80 % of the time: worker-0.db can't be written: No space left on device",
            id="a state directory on a full disk (F16)",
        ),
        pytest.param(
            replace(look(paused_s=6.1, alerts=bolt(9.8, queued=1516)), held_by={"lines": "it is ahead (max_lag)"}),
            "'alerts' is the limit: busy 98 % of the time, its queue is 74 % full; 'lines' pauses 61 % of the time",
            id="a busy bolt, and a spout that waits for something because of it",
        ),
        pytest.param(
            look(parse=bolt(5.5)),
            "the source 'lines' is the limit: nothing waits, it pauses 0 % of the time",
            id="a source that nobody holds up, though a bolt has work",
        ),
        pytest.param(
            look(parse=bolt(queued=205)),
            "the source 'lines' is the limit: no queue is more than 20 % full, it pauses 0 % of the time",
            id="a source with short queues behind it",
        ),
        pytest.param(
            look(paused_s=2.0),
            "the source 'lines' is the limit: nothing waits, it pauses 20 % of the time",
            id="a source that was held up for a moment",
        ),
        pytest.param(
            look(emitted=0, parse=bolt(0.0, executed=0), alerts=bolt(0.0, executed=0), store=bolt(0.0, executed=0)),
            "nothing to do: no message from 'lines'",
            id="a source that has nothing",
        ),
        pytest.param(look(SHORTEST_S / 2), "", id="a moment that tells nothing"),
    ],
)
def test_the_limit_of_a_whole_run_is_named(after: Snapshot, sentence: str) -> None:
    assert limit_of({}, {0: after}, TASKS) == sentence


def test_while_a_loop_is_blocked_the_source_is_not_blamed() -> None:
    before = look()
    spouts = {"lines": replace(before.spouts["lines"], pending=1)}
    assert limit_of({0: before}, {0: replace(before, seconds=12.0, spouts=spouts)}, TASKS) == (
        "nothing moves: 1 message is pending"
    )
    acked = {"lines": replace(spouts["lines"], acked=1, emitted=5002)}
    assert "the source" in limit_of({0: before}, {0: replace(before, seconds=12.0, spouts=acked)}, TASKS)


def test_only_what_has_happened_between_two_looks_counts() -> None:
    before = look(10.0, emitted=5000, paused_s=9.0, alerts=bolt(9.5))
    after = look(20.0, emitted=9000, paused_s=9.0, alerts=bolt(9.7))
    after = replace(after, bolts={**after.bolts, "parse": bolt(0.4), "store": bolt(0.4)})
    assert limit_of({0: before}, {0: after}, TASKS).startswith("the source 'lines' is the limit")


def test_a_bolt_is_as_busy_as_in_the_worker_where_it_has_most_to_do() -> None:
    after = {0: look(alerts=bolt(0.5)), 1: look(emitted=0, paused_s=0.0, alerts=bolt(9.6, queued=QUEUE_HIGH // 2))}
    assert limit_of({}, after, APART) == (
        "'alerts' is the limit: busy 96 % of the time, its queue is 50 % full; 'lines' pauses 0 % of the time"
    )


def test_a_worker_that_several_bolts_fill_is_named_where_there_are_more() -> None:
    after = {0: look(parse=bolt(4.5), alerts=bolt(4.4)), 1: look(emitted=0)}
    assert limit_of({}, after, APART).startswith(
        "worker 0 is the limit: its bolts are busy 91 % of the time, 'parse' with 45 %"
    )


def test_a_worker_that_has_said_nothing_new_is_left_out() -> None:
    busy, quiet = look(10.0, alerts=bolt(9.9)), look(10.0, emitted=0)
    later = {0: busy, 1: look(20.0, emitted=0, store=bolt(9.5))}
    assert limit_of({0: busy, 1: quiet}, later, APART).startswith("'store' is the limit: busy 93 %")
    assert limit_of(later, later, APART) == ""


def test_a_source_whose_worker_has_said_nothing_new_is_not_said_to_have_no_message() -> None:
    nothing = look(emitted=0, parse=bolt(0.0, executed=0), alerts=bolt(0.0, executed=0), store=bolt(0.0, executed=0))
    later = {0: nothing, 1: replace(nothing, seconds=20.0)}
    assert limit_of({0: nothing, 1: nothing}, later, APART) == ""


def test_a_pause_that_goes_down_and_a_worker_that_began_anew_make_no_share_beyond_its_bounds() -> None:
    before, after = look(10.0, paused_s=9.0, alerts=bolt(9.0)), look(11.0, emitted=6000, paused_s=1.0)
    assert "is the limit: nothing waits, it pauses 0 % of the time" in limit_of({0: before}, {0: after}, TASKS)


def test_several_sources_are_named_and_no_more_than_three() -> None:
    spouts = {name: SpoutCounts(emitted=100) for name in ("a", "b")}
    two = replace(look(), spouts=spouts)
    assert limit_of({}, {0: two}, {0: {"a": 1, "b": 1}}) == (
        "the sources 'a' and 'b' are the limit: nothing waits, they pause 0 % of the time"
    )
    many = replace(look(), spouts={name: SpoutCounts(emitted=100) for name in "abcde"})
    assert "the sources 'a', 'b', 'c' and 2 more are the limit" in limit_of(
        {}, {0: many}, {0: dict.fromkeys("abcde", 1)}
    )


def test_of_a_whole_run_queues_count_as_they_were_on_average_and_not_as_they_are_at_its_end() -> None:
    queues = Queues(TASKS)
    for queued, held in ((QUEUE_HIGH, 10), (QUEUE_HIGH, 20), (0, 0)):
        queues.look({0: look(store=bolt(0.1, queued=queued, held=held))})
    assert {name: (round(full, 2), held) for name, (full, held) in queues.mean().items()} == {
        "parse": (0.0, 0),
        "alerts": (0.0, 0),
        "store": (0.67, 10),
    }
    over = look(paused_s=9.0, store=bolt(0.1))
    assert limit_of({}, {0: over}, TASKS, queues.mean()).startswith("'store' is the limit: busy 1 % of the time, its")
    assert limit_of({}, {0: over}, TASKS).startswith("acks are the limit")
    assert limit_of({}, {0: over}, TASKS, Queues(TASKS).mean()).startswith("acks are the limit")
