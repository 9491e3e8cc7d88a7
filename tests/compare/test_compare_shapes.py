"""Topologies of other shapes: several spouts, streams that nobody reads, results of several messages, no acks."""

from pathlib import Path

import pytest
from measured_kit import COUNTING, Told, counting, job_of

from bridge.compare.measure import compare
from bridge.compare.rounds import kedge
from bridge.compare.workload.prepare import offer_of
from bridge.compare.workload.topology import replaced
from topology.loading.load import load, target_of

SEVERAL = (
    COUNTING
    + '''
from topology import Collector, Tuple


class Word(Record):
    text: str


class Pair(Record):
    sum: int


class Words(Spout):
    def __init__(self) -> None:
        self.given = 0

    async def poll(self, limit: int) -> list[Message[Word]]:
        self.given += limit
        return [Message(Word(f"w{n}"), n) for n in range(self.given - limit, self.given)]


class Pairs(Bolt):
    """Gives one record for two, anchored to both, and the last one when it is flushed."""

    def open(self, task) -> None:
        self.held = []

    def execute(self, tup: Tuple[Number | Word], out: Collector[Pair]) -> None:
        self.held.append(tup)
        if len(self.held) == 2:
            self.flush(out)

    def flush(self, out: Collector[Pair]) -> None:
        if self.held:
            out.emit(Pair(len(self.held)), anchors=self.held)
        for tup in self.held:
            out.ack(tup)
        self.held = []


class Both(Bolt):
    def process(self, one: Number | Pair) -> None:
        raise AssertionError("a sink of the user's runs")


def several() -> Topology:
    topology = Topology("several")
    numbers = topology.spout("numbers", Numbers(1_000_000, ""), tasks=2)
    words = topology.spout("words", Words())
    digits = topology.bolt("digits", Digits(False), numbers.shuffle())
    pairs = topology.bolt("pairs", Pairs(), digits.global_(), words.global_())
    topology.bolt("unread", Digits(False), numbers.shuffle())
    topology.bolt("both", Both(), pairs.all(), numbers.shuffle(), tasks=2)
    return topology
'''
)


def several(folder: Path) -> Path:
    path = folder / "several.py"
    path.write_text(SEVERAL)
    return path


def test_both_ends_are_replaced_and_what_nobody_reads_is_seen(tmp_path: Path) -> None:
    made = replaced(load(target_of(f"{several(tmp_path)}:several"), {}), "script", "run")
    made.validate()
    kinds = {one.name: type(one.prototype).__name__ for one in made.components}
    assert kinds == {
        "numbers": "Scripted",
        "words": "Scripted",
        "digits": "Digits",
        "pairs": "Pairs",
        "unread": "Digits",
        "both": "ArrivalProbe",
        "unread-0": "ArrivalProbe",
    }


@pytest.mark.slow
def test_several_spouts_and_results_of_several_messages_are_counted_alike(tmp_path: Path) -> None:
    job = job_of(Path(f"{several(tmp_path)}:several"), modes=("record", "embedded"))
    made = compare(job, Told())
    assert any("from several messages" in note for note in made.notes)
    for one in made.modes:
        assert one.problem == ""
        assert one.arrived >= 2 * 100  # both of its readers have each number
        assert one.untimed  # pairs of two messages
        assert one.missing == one.extra == 0, one


@pytest.mark.slow
def test_without_acks_a_round_ends_once_nothing_comes_any_more(tmp_path: Path) -> None:
    config = ("guarantee=at-most-once",)
    job = job_of(counting(tmp_path), modes=("embedded",), config=config, seconds=1.0)
    (one,) = compare(job, Told()).modes
    assert one.problem == ""
    assert one.guarantee == "at most once"
    assert one.arrived == 40


def test_the_guarantee_is_the_topologys_own(tmp_path: Path) -> None:
    assert offer_of(job_of(counting(tmp_path))).guarantee == "exactly once in effect"


def changed(folder: Path, body: str) -> Path:
    """The counting topology with another `Digits.process`."""
    path = counting(folder)
    path.write_text(path.read_text().replace("        yield Number(number.value % 10)\n", body))
    return path


@pytest.mark.slow
def test_dead_messages_are_noted_and_the_row_is_a_whole_one(tmp_path: Path) -> None:
    body = """
        if number.value % 10 == 3:
            from topology import Reject

            raise Reject("a three")
        yield Number(number.value % 10)
"""
    made = compare(job_of(changed(tmp_path, body), modes=("embedded",)), Told())
    (one,) = made.modes
    assert one.problem == ""
    assert one.arrived == 72  # of ten digits one is missing
    assert any("50 messages became dead letters" in note for note in made.notes), made.notes


@pytest.mark.slow
def test_a_mode_that_does_not_keep_up_says_so_beside_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kedge, "DRAIN_S", 1.0)
    body = """
        import time

        time.sleep(0.02)
        yield Number(number.value % 10)
"""
    job = job_of(changed(tmp_path, body), modes=("embedded",), seconds=1.0, warm_up_s=0.1)
    (one,) = compare(job, Told()).modes
    assert one.problem.startswith("it did not keep up: 1 s after the last message was due")
    assert one.arrived == 40
    assert max(one.latencies) > 1_000
