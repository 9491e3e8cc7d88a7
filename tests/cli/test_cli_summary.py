"""How a run's end is told, and what a line of progress says."""

from dataclasses import replace

from topology.cli.progress import Rate, counts
from topology.cli.summary import summary
from topology.runtime.histogram import Histogram
from topology.runtime.metrics import RARE, BoltCounts, Snapshot, SpoutCounts
from topology.runtime.report import Report


def snapshot(**spout: int) -> Snapshot:
    latency = Histogram()
    latency.add(0.0005)
    latency.add(2.5)
    return Snapshot("alerts", 12.0, 1, {"lines": SpoutCounts(**spout)}, {"store": BoltCounts(executed=3)}, latency)


def test_every_count_and_percentile_is_in_the_summary() -> None:
    told = list(summary(Report(snapshot(emitted=1234, acked=1230, failed=9, replayed=5, dead=4)), "again"))
    assert told[0] == "alerts has read everything and ended after 12.0 s"
    assert told[1] == "  lines    1,234 read, 1,230 acked, 9 failed, 5 replayed, 4 dead"
    assert told[3].startswith("  latency  p50 0.50")
    assert "max 2.5 s" in told[3]
    assert told[4] == "exit status 1: 4 dead, each logged above"


def test_what_happens_rarely_has_a_line_where_it_has_happened_and_none_where_it_has_not() -> None:
    rare = {**dict.fromkeys(RARE, 0), "late or unknown acks": 3, "stalls of the loop": 1}
    told = list(summary(Report(replace(snapshot(), rare=rare)), "again"))
    assert told[4] == "  rare     3 late or unknown acks, 1 stall of the loop"
    never = list(summary(Report(replace(snapshot(), rare=dict.fromkeys(RARE, 0))), "again"))
    assert never == list(summary(Report(snapshot()), "again"))


def test_the_figures_in_json_are_those_that_were_promised_and_no_others() -> None:
    figures = replace(snapshot(), rare={"stalls of the loop": 1}).as_json()
    assert list(figures) == ["topology", "seconds", "workers", "spouts", "bolts", "latency_ms"]


def test_a_run_that_was_not_done_says_how_many_messages_were_not() -> None:
    counted = snapshot(emitted=9, acked=7, pending=2)
    told = list(summary(Report(counted, "aborted", 2), "again"))
    assert told[0] == "alerts was ended by force after 12.0 s"
    assert told[1].endswith("0 dead, 2 pending")
    assert "exit status 1: 2 not done at the end" in told
    late = list(summary(Report(counted, "stopped", 2), "again"))
    assert late[0] == "alerts was stopped after 12.0 s, and has not drained within its drain_timeout_s"


def test_a_source_that_failed_is_named_with_its_error() -> None:
    told = list(summary(Report(snapshot(), "failed", 0, OSError("gone\x1b[2J")), "again"))
    assert "exit status 1: OSError: gone\\x1b[2J" in told


def test_progress_has_rate_acked_failed_pending_and_latencies() -> None:
    line = counts(snapshot(emitted=1200, acked=1100, failed=3, pending=97), 100.0)
    assert line.startswith("0:00:12  100 records/s  acked 1,100  failed 3  pending 97  latency p50 ")


def test_a_line_that_comes_a_little_early_tells_the_second_that_it_was_due_at() -> None:
    assert counts(replace(snapshot(), seconds=0.96), 1.0).startswith("0:00:01  ")


def test_the_rate_is_that_since_the_last_look() -> None:
    rate = Rate()
    assert rate.of(snapshot(emitted=1200)) == 100.0
    assert rate.of(Snapshot("alerts", 14.0, 1, {"lines": SpoutCounts(emitted=1300)}, {})) == 50.0
