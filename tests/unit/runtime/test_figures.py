"""What is told of a worker's death, and what its figures become: pure values."""

from dataclasses import replace

import pytest

from spouts import Items
from topology import Bolt, Config, Record, State, Topology
from topology.plan import Plan, plan
from topology.runtime.run.report import Report
from topology.runtime.supervisor.deaths import Loss, consequences
from topology.runtime.supervisor.metrics import WorkerMetrics
from topology.runtime.telemetry.metrics import BoltCounts, Snapshot, SpoutCounts
from topology.runtime.telemetry.stall import BoltFacts, RunFacts, SpoutFacts, together


class Number(Record):
    n: int


class Totals(Bolt):
    def process(self, number: Number, state: State[int]) -> list[Number]:
        return [number]


class Sink(Bolt):
    def process(self, number: Number) -> None: ...


def planned(guarantee: str = "at-least-once") -> Plan:
    """numbers on worker 0, totals on both, store on worker 0."""
    topology = Topology("figures", Config(guarantee=guarantee))  # type: ignore[arg-type]
    numbers = topology.spout("numbers", Items([Number(1)]))
    totals = topology.bolt("totals", Totals(), numbers.fields("n"), tasks=2)
    topology.bolt("store", Sink(), totals.global_())
    topology.validate()
    return plan(topology, 2)


def snapshot(emitted: int = 0, acked: int = 0, *, executed: int = 0, queued: int = 0, limit: str = "") -> Snapshot:
    """Of one worker."""
    spout = SpoutCounts(emitted=emitted, acked=acked, pending=emitted - acked)
    bolts = {"totals": BoltCounts(executed=executed, queued=queued), "store": BoltCounts(executed=executed)}
    return Snapshot("figures", 1.0, 1, {"numbers": spout}, bolts, limit=limit)


# -- figures


def test_before_anybody_has_said_anything_there_is_no_snapshot_but_a_report_can_be_made() -> None:
    figures = WorkerMetrics(planned())
    assert figures.all() is None
    assert (figures.whole().total("emitted"), figures.whole().workers, figures.lost) == (0, 2, 0)


def test_the_figures_of_all_workers_are_added_up() -> None:
    figures = WorkerMetrics(planned())
    figures.take(0, snapshot(100, 90, executed=7), 1.0)
    figures.take(1, snapshot(executed=5), 1.0)
    figures.take(1, snapshot(executed=6), 1.0)
    whole = figures.whole()
    assert (whole.total("emitted"), whole.total("pending"), whole.bolts["totals"].executed) == (100, 10, 13)
    assert whole.workers == 2
    assert figures.by_worker()[1].bolts["totals"].executed == 6


def test_what_a_dead_worker_had_done_stays_and_what_it_had_under_way_does_not() -> None:
    figures = WorkerMetrics(planned())
    figures.take(0, snapshot(100, 90, executed=70, queued=20, limit="slow"), 1.0)
    figures.died(0)
    figures.take(0, snapshot(30, 25, executed=20, queued=1), 1.0)
    whole = figures.whole()
    assert (whole.total("emitted"), whole.total("acked"), whole.total("pending")) == (120, 115, 5)
    assert (whole.bolts["totals"].executed, whole.bolts["totals"].queued, whole.limit) == (90, 1, "")


def test_the_seconds_of_a_worker_are_those_of_the_run_when_its_snapshot_was_taken() -> None:
    figures = WorkerMetrics(planned())
    figures.take(0, replace(snapshot(10, 10), seconds=0.2), 0.5)
    figures.take(0, replace(snapshot(20, 20), seconds=1.2), 1.9)  # it was taken at 1.5, and came late
    assert figures.by_worker()[0].seconds == 1.5
    figures.died(0)
    assert figures.by_worker()[0].seconds == 1.5
    figures.take(0, replace(snapshot(5, 5), seconds=0.0), 2.5)
    assert (figures.by_worker()[0].seconds, figures.by_worker()[0].total("acked")) == (2.5, 25)


def test_the_figures_of_another_topology_are_no_figures_of_this_run() -> None:
    figures = WorkerMetrics(planned())
    figures.take(0, replace(snapshot(10, 10), bolts={"others": BoltCounts()}), 1.0)
    assert figures.all() is None


def test_a_dead_letter_whose_count_died_with_its_worker_is_known_by_the_letter() -> None:
    """Or a run in which a message ended dead could end with status 0."""
    figures = WorkerMetrics(planned())
    figures.take(0, replace(snapshot(100, 90), letters=3), 1.0)
    figures.died(0)
    figures.take(0, replace(snapshot(10, 10), letters=4), 3.0)
    whole, new = figures.whole(), figures.new_letters
    assert (whole.total("dead"), new) == (0, 1)
    assert Report(whole, new_letters=new).exit_status == 1
    assert Report(whole).exit_status == 0


def test_several_deaths_add_up() -> None:
    figures = WorkerMetrics(planned())
    for _ in range(3):
        figures.take(0, snapshot(10, 8, executed=4), 1.0)
        figures.died(0)
    assert (figures.whole().total("acked"), figures.whole().total("emitted"), figures.lost) == (24, 24, 6)


def test_keys_and_what_is_remembered_are_those_of_processes_that_live() -> None:
    figures = WorkerMetrics(planned())
    kept = BoltCounts(executed=7, keys=3, remembered=2, remembered_bytes=900)
    for _ in range(2):
        figures.take(0, replace(snapshot(10, 10), bolts=dict.fromkeys(snapshot(0, 0).bolts, kept)), 1.0)
        whole = next(iter(figures.whole().bolts.values()))
        assert (whole.keys, whole.remembered, whole.remembered_bytes) == (3, 2, 900)
        figures.died(0)
    whole = next(iter(figures.whole().bolts.values()))
    assert (whole.executed, whole.keys, whole.remembered, whole.remembered_bytes) == (14, 0, 0, 0)


def test_what_a_dead_worker_had_not_done_is_lost_until_its_replacement_reads_again() -> None:
    figures = WorkerMetrics(planned())
    figures.take(0, snapshot(100, 90), 1.0)
    figures.died(0)
    assert figures.lost == 10
    figures.resumed(0)
    assert figures.lost == 0


def test_a_worker_that_dies_as_the_run_ends_keeps_its_figures_and_what_it_had_is_lost() -> None:
    figures = WorkerMetrics(planned())
    figures.take(0, snapshot(100, 90), 1.0)
    figures.cut_off(0)
    assert (figures.whole().total("pending"), figures.lost) == (10, 10)


def test_at_most_once_what_was_emitted_stays_so_and_queued_inputs_are_lost() -> None:
    figures = WorkerMetrics(planned("at-most-once"))
    figures.take(0, snapshot(100, 100, queued=7), 1.0)
    figures.died(0)
    assert (figures.whole().total("emitted"), figures.lost) == (100, 7)


def test_where_messages_were_is_known_of_a_worker_that_does_not_answer() -> None:
    figures = WorkerMetrics(planned())
    figures.take(0, snapshot(100, 90, queued=4), 1.0)
    figures.take(1, snapshot(queued=3), 1.0)
    assert figures.facts(0).spouts == [SpoutFacts("numbers", 10)]
    assert figures.facts(0).bolts == [BoltFacts("totals", 4, 0), BoltFacts("store", 0, 0)]
    assert (figures.facts(1).spouts, figures.facts(1).bolts[0].queued) == ([], 3), "the spout is not on worker 1"


# -- what is told


def loss(told: list[str], asked: tuple[int, ...] = (7, 8), *, after: tuple[str, ...] = ()) -> Loss:
    return Loss(1, 4711, "was killed by SIGKILL", 10.0, asked, after, told.append)


def test_a_death_is_told_once_all_survivors_have_said_what_has_failed() -> None:
    told: list[str] = []
    one = loss(told, after=("counts in its memory start from zero",))
    one.failing(7, 1_800)
    assert told == []
    one.failing(8, 93)
    one.tell_death()
    assert told == [
        "worker 1 (pid 4711) was killed by SIGKILL; 1,893 messages in flight have failed and are replayed; "
        "counts in its memory start from zero (K530)"
    ]


def test_a_survivor_that_dies_or_does_not_answer_is_not_waited_for() -> None:
    told: list[str] = []
    one = loss(told)
    one.failing(7, 1)
    one.left(8)
    assert told[0].endswith("; 1 message in flight has failed and is replayed (K530)")
    silent = loss(told)
    silent.tell_death()
    assert told[1].endswith("; no other worker had messages in flight (K530)")


def test_without_survivors_nothing_is_said_of_them() -> None:
    told: list[str] = []
    loss(told, ())
    assert told == ["worker 1 (pid 4711) was killed by SIGKILL (K530)"]


def test_a_return_is_told_once_all_that_had_failed_is_done_whichever_comes_first() -> None:
    for order in ("back", "recovered"):
        told: list[str] = []
        one = loss(told)
        one.failing(7, 5)
        one.failing(8, 3)
        if order == "back":
            one.back(4712, 10.41)
        one.recovered(7, 10.047, 4)
        one.recovered(8, 10.052, 0)
        assert len(told) == 1
        one.recovered(7, 10.52, 0)
        if order == "recovered":
            assert len(told) == 1
            one.back(4712, 10.41)
        one.tell_return()
        assert told[1:] == [
            "worker 1 is back as pid 4712 after 0.41 s; the first replayed message was done 47 ms after the death, "
            "the last after 520 ms"
        ]


def test_a_return_is_told_though_some_of_what_had_failed_takes_long() -> None:
    told: list[str] = []
    one = loss(told, (7,))
    one.failing(7, 5)
    one.recovered(7, 10.047, 4)
    one.back(4712, 10.41)
    one.tell_return()
    assert told[1].endswith("the first replayed message was done 47 ms after the death, others are not done yet")


def test_a_return_without_replays_is_told_at_once_and_one_that_never_comes_is_not() -> None:
    told: list[str] = []
    one = loss(told, ())
    one.tell_return()
    assert len(told) == 1
    one.back(4712, 10.5)
    assert told[1] == "worker 1 is back as pid 4712 after 0.50 s"


def test_what_a_death_means_depends_on_what_ran_there_and_when() -> None:
    memory, source = "counts in its memory start from zero", "'numbers' is read again from the start of the run"
    assert consequences(planned(), 0, draining=False) == [memory, f"{source}, and counted again by other workers"]
    assert consequences(planned(), 1, draining=False) == [memory]
    assert consequences(planned(), 0, draining=True) == [memory, "'numbers' is not read again, as the run ends"]
    assert consequences(planned("at-most-once"), 1, draining=False) == [
        "its messages in flight are lost (at-most-once)",
        memory,
    ]


@pytest.mark.parametrize(
    ("recovery", "means"),
    [
        ("checkpoint", ["its saved state is intact"]),
        ("none", ["counts in its memory start from zero"]),
        ("replay", []),
    ],
)
def test_what_it_means_for_state_depends_on_how_that_is_recovered(
    monkeypatch: pytest.MonkeyPatch, recovery: str, means: list[str]
) -> None:
    monkeypatch.setattr(Totals, "recovery", recovery)
    assert consequences(planned(), 1, draining=False, keeps=True) == means
    kept = "'numbers' is read again from its last kept position"
    assert consequences(planned(), 0, draining=False, keeps=True) == [*means, kept], "others know what comes again"


# -- facts of several workers


def test_facts_of_several_workers_are_those_of_one() -> None:
    here = RunFacts(0.0, [SpoutFacts("numbers", 5)], [BoltFacts("totals", 1, 2)], 3.0, ["totals"])
    there = RunFacts(0.0, [], [BoltFacts("totals", 10, 0), BoltFacts("store", 1, 1)])
    one = together([here, there])
    assert [(spout.name, spout.pending) for spout in one.spouts] == [("numbers", 5)]
    assert {(bolt.name, bolt.queued, bolt.in_hand) for bolt in one.bolts} == {("totals", 11, 2), ("store", 1, 1)}
    assert (one.oldest_s, one.oldest_in) == (3.0, ["totals"])
