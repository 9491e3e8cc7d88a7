"""Workers that crash on virtual time: nothing is lost, nothing of the dead goes on, and a crash must hit something."""

import asyncio
import gc
import inspect
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kit_topologies import SENTENCES, WORDS, Count, Sentence, Split, Word, counted, words

from topology import Bolt, Collector, Config, Grouping, Message, Spout, StartError, Task, Topology, Tuple
from topology.runtime.links.protocol import Frame
from topology.testing import Captured, Crash, CrashMissed, Pause, ScriptedSpout, Watch, run_topology, run_virtual
from topology.testing.virtual_time.crashing_run import BEGIN_S
from topology.testing.virtual_time.loop import VirtualLoop
from topology.testing.virtual_time.process import SimulatedProcess


def found(captured: Captured[Word]) -> list[str]:
    return sorted(word.text for word in captured.distinct.values())


# -- nothing is lost


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("worker", [0, 1], ids=["with-the-spout", "without"])
def test_a_crash_loses_nothing_and_doubles_nothing_at_a_sink_that_knows_identities_a14(worker: int, seed: int) -> None:
    captured, watch = Captured[Word](), Watch()
    random = Random(seed)
    crash = Crash(worker, acked=random.randrange(250))
    report = run_topology(words(captured, paused_s=0.01), seed=seed, workers=2, crashes=[crash], watch=watch)
    assert (report.exit_status, report.ended, report.restarts) == (0, "ended", 1)
    assert found(captured) == WORDS
    total = report.snapshot.total
    assert total("emitted") == total("acked") + total("dead")
    assert not total("pending")
    assert [one.worker for one in watch.deaths] == [worker]
    assert report.snapshot.seconds < Config().tree_timeout_s / 5, "nobody has waited for a deadline"
    assert total("replayed") > 0 or total("emitted") > len(SENTENCES), "it hit something"


@pytest.mark.parametrize("seed", range(20))
def test_crashes_of_both_workers_one_in_the_others_recovery_lose_nothing(seed: int) -> None:
    captured = Captured[Word]()
    random = Random(seed)
    crashes = [Crash(random.randrange(2), at_s=random.random() * 0.6, acked=random.randrange(200)) for _ in range(4)]
    report = run_topology(
        words(captured, paused_s=0.02, config=Config(max_restarts=10)), seed=seed, workers=2, crashes=crashes
    )
    assert (report.exit_status, report.restarts) == (0, 4)
    assert found(captured) == WORDS


@pytest.mark.parametrize("seed", range(10))
def test_crashes_beside_links_that_lose_and_delay_frames_lose_nothing_a11(seed: int) -> None:
    captured, random = Captured[Word](), Random(seed)

    def faults(frame: Frame) -> Sequence[float]:
        draw = random.random()
        return () if draw < 0.01 else (random.random() / 50,) if draw < 0.2 else (0.0,)

    report = run_topology(
        words(captured, paused_s=0.02, config=Config(tree_timeout_s=5)),
        seed=seed,
        workers=2,
        faults=faults,
        crashes=[Crash(1, acked=10), Crash(0, acked=20)],
    )
    assert (report.exit_status, report.restarts) == (0, 2)
    assert found(captured) == WORDS


def test_three_workers_of_which_two_crash_at_one_moment() -> None:
    captured = Captured[Word]()
    topology = Topology("three")
    sentences = topology.spout("sentences", ScriptedSpout(SENTENCES), tasks=3)
    split = topology.bolt("split", Split(), sentences.shuffle(), tasks=3)
    topology.bolt("captured", captured, split.fields("text"), tasks=3)
    report = run_topology(topology, workers=3, crashes=[Crash(1), Crash(2)])
    assert (report.exit_status, report.restarts) == (0, 2)
    assert found(captured) == WORDS


def test_the_only_worker_can_crash_and_its_spout_reads_again_from_the_start() -> None:
    captured = Captured[Word]()
    report = run_topology(words(captured, paused_s=0.01), crashes=[Crash("split", acked=50)])
    assert (report.exit_status, report.restarts) == (0, 1)
    assert found(captured) == WORDS
    assert report.snapshot.total("acked") >= 50 + len(SENTENCES)


def test_state_in_the_dead_workers_memory_begins_anew_and_the_others_is_kept() -> None:
    captured, watch = Captured[Count](), Watch()
    report = run_topology(counted(captured), workers=2, crashes=[Crash(1, acked=200)], watch=watch)
    assert report.exit_status == 0
    highest: Counter[str] = Counter()
    for word, count in watch.state("count").items():
        highest[word.decode("latin-1")] = count
    whole = Counter(WORDS)
    kept = sum(highest.values())
    assert 0 < kept < sum(whole.values()), "promise 2 of 7: state kept in memory begins anew, until it is stored"


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    def run(seed: int) -> tuple[Any, ...]:
        captured, watch = Captured[Word](), Watch()
        report = run_topology(
            words(captured, paused_s=0.01), seed=seed, workers=2, crashes=[Crash(1, acked=30)], watch=watch
        )
        return captured.records, captured.times, watch.deaths, report.snapshot.total("replayed")

    assert run(3) == run(3)
    assert run(3) != run(4)


# -- nothing of the dead goes on


class Tidy(Bolt):
    """Says when its code cleans up, which a killed process never does."""

    cleaned: list[str] = []  # noqa: RUF012 – shared by all its tasks, on purpose

    async def process(self, sentence: Sentence) -> list[Word]:
        try:
            await asyncio.sleep(0.05)
            return [Word(word) for word in sentence.text.split()]
        finally:
            Tidy.cleaned.append(sentence.text)

    def close(self) -> None:
        Tidy.cleaned.append("closed")


class Reads(Spout):
    """An async generator that would clean up, too."""

    cleaned: list[str] = []  # noqa: RUF012 – shared by all its tasks, on purpose

    async def records(self) -> AsyncIterator[Message[Sentence]]:
        try:
            for number, sentence in enumerate(SENTENCES[:50]):
                await asyncio.sleep(0.01)
                yield Message(sentence, number)
        finally:
            Reads.cleaned.append("read")


def test_the_dead_workers_code_does_nothing_more_not_even_clean_up() -> None:
    Tidy.cleaned.clear()
    Reads.cleaned.clear()
    captured, watch = Captured[Word](), Watch()
    topology = Topology("tidy")
    split = topology.bolt("tidy", Tidy(), topology.spout("reads", Reads()).shuffle(), concurrency=8)
    topology.bolt("captured", captured, split.shuffle())
    report = run_topology(topology, crashes=[Crash("tidy", acked=10)], watch=watch)
    assert report.restarts == 1
    assert found(captured) == sorted(word for one in SENTENCES[:50] for word in one.text.split())
    assert Reads.cleaned == ["read"], "the replacement's"
    assert Tidy.cleaned.count("closed") == 1
    gc.collect()
    never = report.snapshot.bolts["tidy"].executed - (len(Tidy.cleaned) - 1)
    assert never > 0
    assert f"and {never} in hand" in watch.deaths[0].in_flight


def test_what_a_run_with_a_crash_has_sent_and_captured_is_not_kept_once_nobody_has_it() -> None:
    def run() -> weakref.ref[Captured[Word]]:
        captured = Captured[Word]()
        report = run_topology(words(captured, paused_s=0.01), workers=2, crashes=[Crash(1, acked=30), Crash(0)])
        assert report.restarts == 2
        return weakref.ref(captured)

    kept = run()
    gc.collect()
    assert kept() is None, "the frames of the dead are kept; a suite of thousands of crashes keeps only them"


CRASHED_IN_FLUSH = """
import asyncio, gc, logging
from topology import Bolt, Collector, Record, Topology, Tuple
from topology.testing import Crash, ScriptedSpout, run_topology
from topology.testing.virtual_time import loop as virtual

class Word(Record):
    text: str

class Holds(Bolt):
    def execute(self, tup: Tuple[Word], out: Collector[Word]) -> None:
        self.held = tup

    async def flush(self, out: Collector[Word]) -> None:
        try:
            await asyncio.sleep(1)
            out.ack(self.held)
        finally:
            print("cleaned up", flush=True)

logging.disable()
topology = Topology("held")
topology.bolt("holds", Holds(), topology.spout("words", ScriptedSpout([Word("a")])).shuffle())
print(run_topology(topology, crashes=[Crash(0, at_s=0.5)]).restarts)
vars(virtual).clear()  # as Python does at its end, in an order that hangs on what else is loaded
gc.collect()
"""


def test_the_dead_workers_code_does_nothing_at_pythons_end_either() -> None:
    ran = subprocess.run([sys.executable, "-c", CRASHED_IN_FLUSH], capture_output=True, text=True, timeout=60)
    assert (ran.stdout.split("\n"), ran.stderr) == (["cleaned up", "1", ""], ""), "once, by the replacement"


def test_code_of_the_dead_that_had_not_begun_is_closed_so_that_python_does_not_warn_of_it_at_its_end() -> None:
    async def given() -> None:
        ran.append("given")

    async def waits(work: Coroutine[Any, Any, None]) -> None:
        ran.append("waits")
        await work

    async def main() -> list[str]:
        loop, life = asyncio.get_running_loop(), SimulatedProcess()
        assert isinstance(loop, VirtualLoop)
        inner = given()
        outer = waits(inner)
        life.call(loop.create_task, outer)
        loop.kill(life)
        await asyncio.sleep(1)
        return [inspect.getcoroutinestate(one) for one in (inner, outer)]

    ran: list[str] = []
    assert run_virtual(main()) == [inspect.CORO_CLOSED] * 2
    assert ran == []


def test_a_task_that_is_due_while_its_worker_stands_still_does_nothing_once_that_is_killed() -> None:
    """What was due may be the last that knows of the task; as garbage it would say that it was destroyed."""
    ran: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ran.append("cleaned up")

    async def main() -> None:
        loop, life = asyncio.get_running_loop(), SimulatedProcess()
        assert isinstance(loop, VirtualLoop)
        task = life.task(waits())
        await asyncio.sleep(1)
        loop.pause(life)
        task.cancel()
        del task
        await asyncio.sleep(1)
        gc.collect()
        loop.kill(life)
        gc.collect()
        await asyncio.sleep(1)

    run_virtual(main())
    assert ran == []


class ToWorkerOne(Grouping):
    """The second task of two."""

    def choose(self, record: Sentence, tasks: int) -> list[int]:
        return [1]


@pytest.mark.parametrize("seed", range(4))  # in some of them tasks work in the turn that feeds them
def test_nothing_that_is_sent_to_the_dead_arrives_before_another_is_there_a15(seed: int) -> None:
    captured, watch = Captured[Sentence](), Watch()
    topology = Topology("dead-end")
    script: list[Sentence | Pause] = [one for sentence in SENTENCES for one in (sentence, Pause(0.001))]
    sentences = topology.spout("sentences", ScriptedSpout[Sentence](script))
    topology.bolt("captured", captured, sentences.custom(ToWorkerOne()), tasks=2)
    report = run_topology(topology, seed=seed, workers=2, crashes=[Crash(1, acked=100)], watch=watch)
    assert report.exit_status == 0
    assert len(captured.distinct) == len(SENTENCES)
    (death,) = watch.deaths
    assert not [at for at in captured.times if death.at_s < at < death.at_s + BEGIN_S]


def test_a_worker_in_an_endless_call_can_crash_and_the_run_ends() -> None:
    class Hangs(Bolt):
        def __init__(self) -> None:
            self.lives = lives

        def __deepcopy__(self, memo: object) -> "Hangs":
            return self

        def open(self, task: Task) -> None:
            self.lives.append(1)

        async def process(self, sentence: Sentence) -> list[Word]:
            if len(self.lives) == 1:
                await asyncio.get_running_loop().create_future()
            return [Word(sentence.text)]

    lives: list[int] = []
    captured = Captured[Word]()
    topology = Topology("hangs")
    hangs = topology.bolt("hangs", Hangs(), topology.spout("sentences", ScriptedSpout(SENTENCES[:5])).shuffle())
    topology.bolt("captured", captured, hangs.shuffle())
    report = run_topology(topology, crashes=[Crash("hangs", at_s=1)])
    assert (report.exit_status, len(captured.distinct), len(lives)) == (0, 5, 2)


def test_a_worker_that_crashes_while_its_bolt_is_flushed_is_flushed_again_and_the_run_ends() -> None:
    class Holds(Bolt):
        def __init__(self) -> None:
            self.held: list[Tuple[Sentence]] = []

        def execute(self, tup: Tuple[Sentence], out: Collector[Word]) -> None:
            self.held.append(tup)

        async def flush(self, out: Collector[Word]) -> None:
            await asyncio.sleep(1)
            for tup in self.held:
                out.emit(Word(tup.record.text), anchors=[tup])
                out.ack(tup)
            self.held.clear()

    captured, watch = Captured[Word](), Watch()
    topology = Topology("flushed")
    sentences = topology.spout("sentences", ScriptedSpout(SENTENCES[:20]))
    holds = topology.bolt("holds", Holds(), sentences.shuffle(), tasks=2)
    topology.bolt("captured", captured, holds.shuffle())
    report = run_topology(topology, workers=2, crashes=[Crash(1, at_s=0.5)], watch=watch)
    assert (report.exit_status, report.ended, report.restarts) == (0, "ended", 1)
    assert len(captured.distinct) == 20
    assert watch.deaths[0].at_s == pytest.approx(0.5, abs=0.1)


# -- what can't be, and what was not hit


def test_a_crash_that_nothing_was_left_to_hit_for_fails_the_test_and_says_what_helps() -> None:
    with pytest.raises(CrashMissed, match=r"Crash\(worker=1, at_s=50, acked=0\); let it come earlier"):
        run_topology(words(Captured[Word]()), workers=2, crashes=[Crash(1, at_s=50)])


@pytest.mark.parametrize("of", [2, "nobody"])
def test_a_crash_of_a_worker_that_is_not_there_is_refused(of: int | str) -> None:
    with pytest.raises(ValueError, match=r"the plan has workers \[0, 1\] for captured, sentences, split"):
        run_topology(words(Captured[Word]()), workers=2, crashes=[Crash(of)])


@pytest.mark.parametrize("wrong", [{"at_s": -1.0}, {"at_s": float("nan")}, {"acked": -1}])
def test_a_crash_at_no_possible_time_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at_s is a number of seconds from 0 on"):
        Crash(1, **wrong)


def test_one_death_too_many_fails_the_run_and_says_so() -> None:
    config = Config(max_restarts=1)
    report = run_topology(
        words(Captured[Word](), paused_s=0.1, config=config), workers=2, crashes=[Crash(1), Crash(1, acked=50)]
    )
    assert (report.ended, report.exit_status, report.restarts) == ("failed", 1, 2)
    assert "worker 1 died 2 times within a minute; the last time it crashed" in str(report.error)


def test_a_replacement_that_can_not_open_is_one_more_death() -> None:
    class Opens(Bolt):
        opened: list[int] = []  # noqa: RUF012 – shared by all its tasks, on purpose

        def open(self, task: Task) -> None:
            Opens.opened.append(1)
            if len(Opens.opened) == 2:
                raise StartError("the port is taken")

        def process(self, sentence: Sentence) -> Iterator[Word]:
            yield Word(sentence.text)

    captured = Captured[Word]()
    topology = Topology("opens")
    opens = topology.bolt("opens", Opens(), topology.spout("sentences", ScriptedSpout(SENTENCES)).shuffle())
    topology.bolt("captured", captured, opens.shuffle())
    report = run_topology(topology, crashes=[Crash(0)])
    assert (report.exit_status, report.restarts, len(Opens.opened)) == (0, 2, 3)
    assert len(captured.distinct) == len(SENTENCES)


def test_a_spout_that_dies_as_the_run_drains_is_not_read_again_and_the_run_is_no_success() -> None:
    class Slow(Bolt):
        async def process(self, sentence: Sentence) -> list[Word]:
            await asyncio.sleep(1)
            return [Word(sentence.text)]

    topology = Topology("drains")
    script: list[Sentence | Pause] = [SENTENCES[0], Pause(100)]
    slow = topology.bolt("slow", Slow(), topology.spout("sentences", ScriptedSpout(script)).shuffle())
    topology.bolt("captured", Captured[Word](), slow.shuffle())
    report = run_topology(topology, until_s=0.2, crashes=[Crash(0, at_s=0.5)])
    assert (report.ended, report.aborted, report.exit_status) == ("stopped", 1, 1)


@pytest.mark.parametrize("drained", [False, True])
def test_a_run_that_ends_while_a_worker_is_dead_is_not_noted_as_clean_B11(tmp_path: Path, drained: bool) -> None:
    class Slow(Bolt):
        async def process(self, sentence: Sentence) -> list[Word]:
            await asyncio.sleep(0 if sentence == SENTENCES[0] else 5)
            return [Word(sentence.text)]

    topology = Topology("dies", Config(max_restarts=int(drained)))
    script: list[Sentence | Pause] = [SENTENCES[0], Pause(1), SENTENCES[1], Pause(100)]
    slow = topology.bolt("slow", Slow(), topology.spout("sentences", ScriptedSpout(script)).shuffle(), tasks=2)
    topology.bolt("captured", Captured[Word](), slow.shuffle())
    report = run_topology(
        topology,
        workers=2,
        state_dir=tmp_path / "state",
        crashes=[Crash("sentences", at_s=1)],
        until_s=1.1 if drained else None,
    )
    assert (report.ended, report.aborted) == ("stopped" if drained else "failed", 1)
    assert not report.clean, "the second sentence is on no mark, and nobody has done it"
