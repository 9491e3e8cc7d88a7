"""How long a message that fails is tried: by time while more may come, by number where that is said, and hardly where
the code is at fault. Rule E18."""

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from runtime_kit import Number, Pair, Poisoned, balanced, line, numbers
from timers_kit import AtEnd, Fired

from topology import Bolt, Config, DeadLetter, Reject, Task, Topology
from topology.runtime.failures import Failure, Reason
from topology.runtime.run.report import Report
from topology.runtime.tasks.retry_policy import AT_END_REPLAYS, MISTAKE_REPLAYS, GivingUp
from topology.testing import Captured, ScriptedSpout, run_topology
from topology.testing.scripted import Pause, Wait


class Hook(Bolt):
    """Posts to a server that is away from `since_s` on, for `for_s` of virtual time, and says so by `error`."""

    def __init__(self, for_s: float, error: type[BaseException], *, only: int | None = None) -> None:
        self.for_s, self.error, self.only = for_s, error, only
        self.tried: dict[int, list[float]] = {}

    def open(self, task: Task) -> None:
        self.clock = task.clock
        self.since = self.clock.monotonic()

    def process(self, number: Number) -> list[Number]:
        now = self.clock.monotonic() - self.since
        self.tried.setdefault(number.n, []).append(now)
        if now < self.for_s and self.only in (None, number.n):
            raise self.error("down")
        return [number]

    def __deepcopy__(self, memo: object) -> "Hook":
        return self


def ran(
    hook: Hook, *script: object, count: int = 13, until_s: float = 2_000.0, workers: int = 1, **config: object
) -> tuple[Report, "Captured[Number]"]:
    """A run whose source is followed: it goes on after its messages."""
    spout = ScriptedSpout([*numbers(count), *(script or [Wait()])])  # type: ignore[arg-type]
    topology, captured = line(spout, hook, config=Config(**config))  # type: ignore[arg-type]
    report = run_topology(topology, until_s=until_s if not script else None, workers=workers, limit_s=10_000)
    assert balanced(report)
    return report, captured


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("away_s", [7.0, 500.0])
def test_e18_a_web_hook_that_is_down_for_a_while_makes_no_dead_letter(away_s: float, workers: int) -> None:
    """13 messages of 13 were dead after a second."""
    report, captured = ran(Hook(away_s, RuntimeError), workers=workers)
    assert (report.snapshot.total("dead"), len(captured.records), report.exit_status) == (0, 13, 0)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_e18_it_is_tried_for_retry_for_s_with_a_back_off_of_30_s_at_most_and_then_dead(workers: int) -> None:
    hook = Hook(1e9, RuntimeError)
    report, _ = ran(hook, count=1, workers=workers)
    tried = hook.tried[0]
    waits = [later - earlier for earlier, later in pairwise(tried)]
    assert report.snapshot.total("dead") == 1
    assert 600 <= tried[-1] - tried[0] <= 631
    assert max(waits) <= 30.1
    assert 25 <= len(tried) <= 60


@pytest.mark.slow
def test_e18_a_user_who_sets_max_replays_gets_that_number() -> None:
    for most in (0, 3, 9):
        hook = Hook(1e9, RuntimeError)
        report, _ = ran(hook, count=1, max_replays=most, retry_for_s=0.001)
        assert (len(hook.tried[0]), report.snapshot.total("dead")) == (1 + most, 1)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    "error", [TypeError, AttributeError, NameError, AssertionError, NotImplementedError, msgspec.ValidationError]
)
def test_e18_a_mistake_of_the_code_is_not_tried_for_ten_minutes(error: type[BaseException], workers: int) -> None:
    hook = Hook(1e9, error)
    report, _ = ran(hook, count=1, until_s=60.0, workers=workers)
    assert (len(hook.tried[0]), report.snapshot.total("dead")) == (1 + MISTAKE_REPLAYS, 1)


@pytest.mark.parametrize("error", [ValueError, RuntimeError])
def test_e18_a_run_whose_source_has_ended_ends_soon(error: type[BaseException]) -> None:
    hook = Hook(1e9, error)
    report, _ = ran(hook, Pause(0), count=3)
    assert report.snapshot.total("dead") == 3
    assert report.snapshot.seconds < 10
    assert {len(times) for times in hook.tried.values()} == {1 + AT_END_REPLAYS}


def test_e18_what_has_waited_for_long_when_its_source_ends_is_tried_once_more_at_once() -> None:
    hook = Hook(301, RuntimeError)
    report, captured = ran(hook, Pause(302), count=1)
    assert (report.snapshot.total("dead"), len(captured.records)) == (0, 1)
    assert report.snapshot.seconds < 303


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("error", [ConnectionRefusedError, TimeoutError, OSError])
def test_e18_a_server_that_is_away_at_the_end_of_input_is_waited_for(error: type[OSError], workers: int) -> None:
    report, captured = ran(Hook(7.0, error), Pause(0), workers=workers)
    assert (report.snapshot.total("dead"), len(captured.records)) == (0, 13)
    report, _ = ran(Hook(1e9, error), Pause(0), workers=workers, drain_timeout_s=10.0)
    assert report.snapshot.total("dead") == 13
    assert report.snapshot.seconds < 20


def test_e18_a_drain_in_an_outage_leaves_its_messages_to_the_next_run() -> None:
    report, _ = ran(Hook(1e9, ConnectionRefusedError), until_s=100.0)
    assert (report.snapshot.total("dead"), report.aborted, report.exit_status) == (0, 13, 1)


def test_e18_a_drain_tries_once_more_what_waits() -> None:
    hook = Hook(99, RuntimeError)
    report, captured = ran(hook, until_s=100.0)
    assert (report.snapshot.total("dead"), len(captured.records), report.aborted) == (0, 13, 0)


def test_e18_messages_that_fail_do_not_block_the_others_for_ten_minutes() -> None:
    """Half of max_pending may wait for their replay; from there on who fails again is dead, if others get through."""

    class Odd(Hook):
        def process(self, number: Number) -> list[Number]:
            self.only = number.n if number.n % 2 else None if number.n < 0 else -1
            return super().process(number)

    report, captured = ran(Odd(1e9, RuntimeError), count=400, until_s=300.0, max_pending=20)
    assert len(captured.records) == 200
    assert report.snapshot.total("dead") > 150


def test_e18_if_nothing_gets_through_all_wait_and_none_is_dead() -> None:
    report, captured = ran(Hook(300.0, RuntimeError), count=400, max_pending=20)
    assert (report.snapshot.total("dead"), len(captured.records)) == (0, 400)


def test_e18_what_is_around_a_message_is_counted_apart() -> None:
    giving_up = GivingUp(Config())
    lost = Failure(Reason.PEER_LOST, "links")
    assert not giving_up.spent(lost, 0, 100, 0.0)
    assert giving_up.spent(lost, 0, 101, 0.0)
    assert not giving_up.spent(lost, 0, 1, 1e6, ended_s=1e6)


def test_e18_what_an_os_error_fails_after_drain_timeout_s_has_the_tries_of_every_other_error() -> None:
    """A letter whose message was tried for all of that time has its own tries all the same."""
    giving_up = GivingUp(Config(drain_timeout_s=10.0))
    away = Failure(Reason.RAISED, "hook", "down", ConnectionRefusedError("down"))
    assert not giving_up.spent(away, 100, 0, 0.0, ended_s=9.9)
    assert not giving_up.spent(away, AT_END_REPLAYS, 0, 0.0, ended_s=10.0)
    assert giving_up.spent(away, AT_END_REPLAYS + 1, 0, 0.0, ended_s=10.0)


class Away(Hook):
    """Reads dead letters, or news of timers."""

    def process(self, record: DeadLetter | Fired) -> list[Number]:  # type: ignore[override]
        return super().process(Number(1))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("for_s", "error"), [(7.0, ConnectionRefusedError), (1e9, OSError), (1e9, RuntimeError)])
def test_e18_a_reader_of_dead_letters_that_fails_keeps_no_run_from_its_end(
    tmp_path: Path, kept: bool, for_s: float, error: type[BaseException]
) -> None:
    """It was tried for retry_for_s after the end."""
    topology = Topology("paging", Config(drain_timeout_s=10.0))
    stream = topology.spout("numbers", ScriptedSpout(numbers(3)))
    topology.bolt("sink", Poisoned(1, lambda: Reject("never")), stream.shuffle())
    reader, read = Away(for_s, error), Captured[Number]()
    topology.bolt("read", read, topology.bolt("reader", reader, stream.dead.shuffle()).shuffle())
    report = run_topology(topology, state_dir=tmp_path if kept else None, limit_s=10_000)
    assert report.ended == "ended"
    assert report.snapshot.seconds < 20
    assert len(read.records) == (1 if for_s < 10 else 0)
    if error is OSError:
        assert reader.tried[1][-1] > 9, "a server that is away is waited for"


@pytest.mark.parametrize(("for_s", "error"), [(7.0, ConnectionRefusedError), (1e9, OSError), (1e9, RuntimeError)])
def test_e18_news_of_a_timer_that_fail_keep_no_run_from_its_end(for_s: float, error: type[BaseException]) -> None:
    topology = Topology("timing", Config(drain_timeout_s=10.0))
    pairs = topology.spout("pairs", ScriptedSpout([Pair(1, 1_000)], emits=(Pair,)))
    reader, read = Away(for_s, error), Captured[Number]()
    news = topology.bolt("timed", AtEnd(), pairs.fields("left"))[Fired]
    topology.bolt("read", read, topology.bolt("reader", reader, news.shuffle()).shuffle())
    report = run_topology(topology, limit_s=10_000)
    assert report.ended == "ended"
    assert report.snapshot.seconds < 20
    assert len(read.records) == (1 if for_s < 10 else 0)
    if error is OSError:
        assert reader.tried[1][-1] > 9, "a server that is away is waited for"
