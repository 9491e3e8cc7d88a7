"""How a run's end is told, and what plain lines of progress say."""

from dataclasses import replace
from itertools import pairwise

import pytest
from figures_kit import APART, SHAPE, at

from topology.cli.output.progress import ProgressLines, line, whole
from topology.cli.output.rates import Now, RateShape
from topology.cli.output.summary import summary
from topology.runtime.run.report import Report
from topology.runtime.telemetry.histogram import Histogram
from topology.runtime.telemetry.metrics import RARE, BoltCounts, CheckpointFigures, Snapshot, SpoutCounts


def snapshot(**spout: int) -> Snapshot:
    latency = Histogram()
    latency.add(0.0005)
    latency.add(2.5)
    return Snapshot(
        "alerts", 12.0, 1, {"lines": SpoutCounts(**spout)}, {"store": BoltCounts(executed=3)}, {"lines": latency}
    )


def test_every_count_and_percentile_is_in_the_summary() -> None:
    told = list(summary(Report(snapshot(emitted=1234, acked=1230, failed=9, replayed=5, dead=4)), "again"))
    assert told[0] == "alerts has read everything and ended after 12.0 s"
    assert told[1:4] == [
        "            in  out  acked  failed  replays  dead  latency",
        "  lines  1,234       1,230       9        5     4  0.50 ms",
        "  store      3    0              0                    0 µs",
    ]
    assert told[4].startswith("  latency  p50 0.50")
    assert "max 2.5 s" in told[4]
    assert told[5] == "exit status 1: 4 dead, each logged above"


def test_a_bolt_is_told_with_how_busy_it_was_and_how_long_an_input_took() -> None:
    bolts = {
        "store": BoltCounts(executed=3, emitted=2, failed=1, busy_s=0.006),
        "slow": BoltCounts(3, waited=2, waited_s=3),
    }
    told = list(summary(Report(replace(snapshot(), bolts=bolts)), "again", busy={"store": 0.041, "slow": 1.0}))
    assert told[3:5] == [
        "  store   3    2              1                   4 %   2.0 ms",
        "  slow    3    0              0                 100 %    1.5 s",
    ]


def test_names_and_numbers_that_are_too_long_leave_a_table_of_80_columns() -> None:
    counts = dict.fromkeys(("emitted", "acked", "failed", "replayed", "dead", "pending"), 123_456_789_012)
    one = replace(snapshot(), spouts={"x" * 70: SpoutCounts(**counts)}, bolts={"\x1b[2J": BoltCounts()})
    told = list(summary(Report(one), "again"))
    assert max(map(len, told[1:4])) <= 80
    assert told[2].startswith("  " + "x" * 18 + "…  123G")
    assert told[3].startswith("  \\x1b[2J ")


def test_dead_letters_that_are_kept_have_a_line_though_this_run_had_none() -> None:
    told = list(summary(Report(replace(snapshot(), letters=1_200)), "again"))
    assert told[5] == "  dead     1,200 dead letters kept: kedge dead list"
    assert Report(replace(snapshot(), letters=1_200)).exit_status == 0


def test_what_happens_rarely_has_a_line_where_it_has_happened_and_none_where_it_has_not() -> None:
    rare = {**dict.fromkeys(RARE, 0), "late or unknown acks": 3, "stalls of the loop": 1}
    told = list(summary(Report(replace(snapshot(), rare=rare)), "again"))
    assert told[5] == "  rare     3 late or unknown acks, 1 stall of the loop"
    never = list(summary(Report(replace(snapshot(), rare=dict.fromkeys(RARE, 0))), "again"))
    assert never == list(summary(Report(snapshot()), "again"))


def test_the_figures_in_json_are_those_that_were_promised_and_no_others() -> None:
    figures = replace(snapshot(), rare={"stalls of the loop": 1}).as_json()
    shown = ["topology", "seconds", "workers", "spouts", "bolts", "latency_ms", "dead_letters", "checkpoint"]
    assert list(figures) == shown
    assert figures["checkpoint"] is None


def test_json_has_the_last_checkpoint_of_a_run_that_keeps_something() -> None:
    figures = replace(snapshot(), checkpoint=CheckpointFigures(57, 0.2, 1234, 0.0123456789, 40, 5678, 0.5)).as_json()
    assert figures["checkpoint"] == {
        "number": 57,
        "age_s": 0.2,
        "bytes": 1234,
        "seconds": 0.012346,
        "taken": 40,
        "bytes_max": 5678,
        "seconds_max": 0.5,
    }


def test_a_run_that_keeps_something_says_how_many_checkpoints_and_the_largest_and_slowest_one() -> None:
    last = CheckpointFigures(57, 12.34, 1234, 0.003, 1_040, 56_789, 0.0123)
    kept = replace(snapshot(), checkpoint=last)
    assert "  decided  1,040 checkpoints, of up to 56.8 kB and 12 ms" in list(summary(Report(kept), "again"))
    assert not any("checkpoint" in line for line in summary(Report(snapshot()), "again"))


def test_a_run_that_was_cut_off_says_how_old_its_last_checkpoint_is_and_what_is_remembered() -> None:
    last = CheckpointFigures(57, 12.34, 1234, 0.003, 1, 56_789, 0.0123)
    bolts = {"store": BoltCounts(executed=3, remembered=1_234_567, remembered_bytes=98_765_432)}
    kept = replace(snapshot(), checkpoint=last, bolts=bolts)
    told = list(summary(Report(kept, "aborted"), "again"))
    assert told[5:8] == [
        "  decided  1 checkpoint, of up to 56.8 kB and 12 ms",
        "           the last one was decided 12.3 s before the end",
        "           1,234,567 inputs still remembered, 98.8 MB",
    ]


def test_a_run_that_was_not_done_says_how_many_messages_were_not() -> None:
    counted = snapshot(emitted=9, acked=7, pending=2)
    told = list(summary(Report(counted, "aborted", 2), "again"))
    assert told[0] == "alerts was ended by force after 12.0 s"
    assert told[1].split() == ["in", "out", "acked", "failed", "replays", "dead", "pending", "latency"]
    assert told[2].split() == ["lines", "9", "7", "0", "0", "0", "2", *told[2].split()[-2:]]
    assert "exit status 1: 2 not done at the end" in told
    late = list(summary(Report(counted, "stopped", 2), "again"))
    assert late[0] == "alerts was stopped after 12.0 s, but did not drain within its drain_timeout_s"


def test_a_source_that_failed_is_named_with_its_error() -> None:
    told = list(summary(Report(snapshot(), "failed", 0, OSError("gone\x1b[2J")), "again"))
    assert "exit status 1: OSError: gone\\x1b[2J" in told


def test_the_summary_of_several_workers_says_how_often_they_were_restarted_and_who_was_the_limit() -> None:
    report = Report(replace(snapshot(), workers=2))
    lacks = "; the last second before {} may not be counted".format
    cases = {0: "none restarted", 1: f"restarted once{lacks('that')}", 1200: f"restarted 1,200 times{lacks('each')}"}
    for restarts, said in cases.items():
        told = list(summary(report, "again", restarts=restarts, limit="'store' is the limit"))
        assert told[5:7] == [f"  workers  2, {said}", "  limit    'store' is the limit"]
    assert not [line for line in summary(report, "again") if "workers" in line or "limit" in line]


# -- plain lines


def test_a_line_has_rate_acked_failed_pending_and_latencies_and_what_else_there_is() -> None:
    seen = whole(snapshot(emitted=1200, acked=1100, failed=3, pending=97))
    assert line(seen).startswith("0:00:12  100 records/s  acked 1,100  failed 3  pending 97  latency p50 ")
    more = whole(snapshot(replayed=2, dead=1))
    assert "pending 0  replayed 2  dead 1  latency" in line(more)


class Run:
    """Looks at a run once a second, and keeps what is said of it."""

    def __init__(self, capsys: pytest.CaptureFixture[str], shape: RateShape = SHAPE) -> None:
        self._lines = ProgressLines(shape)
        self._capsys = capsys
        self.said: list[tuple[int, str]] = []  # second, line

    def look(self, now: Now) -> list[str]:
        """What one look has brought."""
        self._lines.show(now)
        found = self._capsys.readouterr().err.splitlines()
        self.said += [(round(now.whole.seconds), one) for one in found]
        return found

    def goes_on(self, first: int, last: int, **counts: int) -> None:
        for second in range(first, last):
            one = at(second - 0.05, second * 100, executed=second * 100, **counts)
            self.look(Now(one, {0: one}))

    def times(self) -> list[int]:
        """The seconds at which figures were told."""
        return [second for second, text in self.said if "records/s" in text]


def test_lines_come_after_a_second_and_then_ever_more_rarely(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(capsys)
    run.goes_on(1, 900)
    times = run.times()
    assert times[:4] == [1, 6, 11, 16]
    assert len(times) < 12 + 18 + 6 + 4
    assert {after - before for before, after in pairwise(times)} <= {5, 30, 60}
    assert run.said[0][1].startswith("0:00:01  ")


def test_a_day_in_which_the_limit_changes_all_the_time_is_not_17_000_lines(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(capsys)
    busy_s = 0.0
    for second in range(1, 20_000):
        busy_s += second // 7 % 2
        one = at(second, second * 100, executed=second * 100, busy_s=busy_s)
        run.look(Now(one, {0: one}))
    assert len(run.said) / 20_000 * 86_400 < 8_000


def test_the_limit_is_said_when_it_changes_and_not_when_its_numbers_do(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(capsys)
    run.goes_on(1, 60)
    limits = [text for _, text in run.said if "limit" in text]
    assert limits == ["  the source 'lines' is the limit: nothing waits, it pauses 0 % of the time"]
    for second in range(60, 120):
        one = at(second, second * 100, executed=second * 100, busy_s=(second - 60) * (0.9 + second % 2 / 100))
        run.look(Now(one, {0: one}))
    limits = [text for _, text in run.said if "limit" in text]
    assert len(limits) == 2
    assert limits[1].startswith("  'store' is the limit: busy ")


def test_the_first_failure_is_told_at_once_and_the_second_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(capsys)
    run.goes_on(1, 100)
    for second, failed in ((102, 1), (103, 2), (104, 3)):
        one = replace(at(second, second * 100), spouts={"lines": SpoutCounts(second * 100, failed=failed)})
        assert len(run.look(Now(one, {0: one}))) == (failed == 1), run.said


def test_a_worker_is_told_of_with_its_process_and_when_that_is_gone_or_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Run(capsys, APART)

    def two(second: float, processes: dict[int, int], away: frozenset[int] = frozenset(), limit: str = "") -> list[str]:
        here = {
            0: at(second, int(second * 200)),
            1: at(second, executed=int(second * 150), busy_s=second * 0.95, queued=7),
        }
        return run.look(Now(replace(here[0], limit=limit), here, processes, away))

    assert two(2.0, {0: 11, 1: 12})[1:3] == [
        "  worker 0  pid 11  200 handled/s  bolts busy 0 %  queued 0",
        "  worker 1  pid 12  150 handled/s  bolts busy 95 %  queued 7",
    ]
    assert two(3.0, {0: 11, 1: 12}) == []
    gone = two(4.0, {0: 11}, frozenset({1}), "worker 1 is being replaced, for 0 s")
    assert gone[1].startswith("  worker 1  is being replaced  ")
    assert gone[2] == "  worker 1 is being replaced, for 0 s"
    assert two(5.0, {0: 11, 1: 13})[1].startswith("  worker 1  pid 13  ")


def test_a_drain_is_told_at_once_with_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(capsys)
    run.goes_on(1, 30)
    one = at(30.5, 3000, executed=3000, pending=12)
    assert run.look(Now(one, {0: one}, draining=True))[1:] == ["  draining: 12 messages left, at most 25 s"]


def test_what_holds_a_run_up_can_move_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    one = at(2.0, 400, limit="source idle\x1b[2J")
    assert Run(capsys).look(Now(one, {0: one}))[1:] == ["  source idle\\x1b[2J"], "S11"
