"""How a run's end is told, and what a line of progress says."""

from dataclasses import replace

from topology.cli.progress import Figures, Now, Rate, counts
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


# -- several workers


def at(seconds: float, emitted: int = 0, executed: int = 0, busy_s: float = 0.0, queued: int = 0) -> Snapshot:
    counts = BoltCounts(executed=executed, busy_s=busy_s, queued=queued)
    return Snapshot("alerts", seconds, 1, {"lines": SpoutCounts(emitted=emitted)}, {"store": counts})


def shown(figures: Figures, seconds: float, workers: dict[int, Snapshot], processes: dict[int, int]) -> list[str]:
    return list(figures.lines(Now(replace(workers[0], seconds=seconds), workers, processes)))


def test_a_worker_keeps_its_rate_until_its_next_snapshot_and_has_none_once_it_is_quiet() -> None:
    figures = Figures({0: {"lines": 1, "store": 1}}, 1000.0)
    rates = []
    # Its snapshots come once a second, and are looked at more often: dated by themselves, or by whoever looks.
    for seconds, snapshot in [
        (1.0, at(1.0, emitted=100)),
        (2.0, at(2.0, emitted=300)),
        (2.25, at(2.0, emitted=300)),
        (2.5, at(2.5, emitted=300)),
        (3.0, at(3.0, emitted=500)),
        (5.25, at(5.25, emitted=500)),
    ]:
        rates.append(shown(figures, seconds, {0: snapshot}, {})[0].split("  ")[1])
    assert rates == ["100 records/s", *["200 records/s"] * 4, "0 records/s"]


def test_each_worker_has_a_line_with_its_process_and_says_when_it_has_none() -> None:
    figures = Figures({0: {"lines": 1}, 1: {"store": 1}}, 0.0)
    workers = {0: at(2.0, emitted=400), 1: at(2.0, executed=300, busy_s=1.9, queued=7)}
    assert shown(figures, 2.0, workers, {0: 11, 1: 12})[1:] == [
        "  worker 0  pid 11  200 handled/s  bolts busy 0 %  queued 0",
        "  worker 1  pid 12  150 handled/s  bolts busy 95 %  queued 7",
        "  'store' is the limit: busy 95 % of the time, its queue is 1 % full; 'lines' pauses 0 % of the time",
    ]
    assert shown(figures, 2.1, workers, {0: 11})[2].startswith("  worker 1  is being replaced  150 handled/s")


def test_what_holds_everything_up_is_told_in_place_of_the_limit() -> None:
    figures = Figures({0: {"lines": 1, "store": 1}}, 0.0)
    whole = replace(at(2.0, emitted=400), limit="source idle\x1b[2J")
    assert list(figures.lines(Now(whole, {0: whole}, {})))[1:] == ["  source idle\\x1b[2J"]


def test_the_summary_of_several_workers_says_how_often_they_were_restarted_and_who_was_the_limit() -> None:
    report = Report(replace(snapshot(), workers=2))
    for restarts, said in ((0, "none restarted"), (1, "restarted once"), (1200, "restarted 1,200 times")):
        told = list(summary(report, "again", restarts=restarts, limit="'store' is the limit"))
        assert told[4:6] == [f"  workers  2, {said}", "  limit    'store' is the limit"]
    assert not [line for line in summary(report, "again") if "workers" in line or "limit" in line]
