"""Three workers in one event loop, one of which dies: a replay goes to its successor, whoever hears of the death last.

The home of all trees is worker 0; each tuple goes through worker 1 to worker 2, which takes none and dies. What each
survivor is told, and when, is the test's; when trees fail is decided as in a supervisor.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from topology import Bolt, Config, Message, Record, Spout, Topology
from topology.groupings import Grouping
from topology.plan import plan
from topology.runtime.clock import LoopClock
from topology.runtime.links.memory import ByReference, MemoryNetwork
from topology.runtime.links.peers import Wiring
from topology.runtime.supervisor.deaths import Parting
from topology.runtime.telemetry.failure_log import Reporter
from topology.runtime.worker.context import RunContext
from topology.runtime.worker.worker import Worker
from topology.storage.directory.state_dir import MemoryNotes
from topology.testing import run_virtual

TIMEOUT_S = 1_000.0  # of trees; so long on the virtual clock is only waited where a replay was lost
SOON_S = 5.0
MESSAGES = 10


class Number(Record):
    n: int


class Numbers(Spout):
    given = False

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        if self.given:
            await asyncio.Event().wait()
        self.given = True
        return [Message(Number(n), n) for n in range(MESSAGES)]


class Passes(Bolt):
    def process(self, number: Number) -> list[Number]:
        return [number]


class Takes(Bolt):
    def process(self, number: Number) -> None:
        """Takes it."""


class To(Grouping):
    def __init__(self, task: int) -> None:
        self.task = task

    def choose(self, record: Number, tasks: int) -> list[int]:
        return [self.task]


def chain() -> Topology:
    topology = Topology("parting", Config(tree_timeout_s=TIMEOUT_S))
    passed = topology.bolt("passes", Passes(), topology.spout("numbers", Numbers()).custom(To(1)), tasks=2)
    topology.bolt("takes", Takes(), passed.custom(To(2)), tasks=3)
    topology.validate()
    return topology


class Three:
    """The workers, of which the last has died with all that it was sent; then `replace` brings another in its place."""

    def __init__(self) -> None:
        self._net = MemoryNetwork()
        self._plan = plan(chain(), 3)
        self.home, self.between, self.dead = self.workers = [self._worker(number, 1) for number in range(3)]
        self.failed: list[int] = []  # trees, at each time
        self.recovered: list[int] = []

    def _worker(self, number: int, incarnation: int) -> Worker:
        worker = Worker(
            self._plan,
            worker=number,
            incarnation=incarnation,
            context=RunContext(
                topology_id="parting",
                key=b"k" * 32,
                renew=lambda: incarnation + 1,
                clock=LoopClock(asyncio.get_running_loop()),
                notes=MemoryNotes(),
            ),
            random=Random(f"{number} {incarnation}"),
            reporter=Reporter(),
            wiring=Wiring(1, self._net, ByReference(), lambda owner, why: None, lambda owner, text: None),
        )
        self._net.attach(number, worker.peers.received)
        return worker

    async def begin(self) -> None:
        for one in self.workers:
            await one.open()
            for other in self.workers:
                if one is not other:
                    one.peers.join(other.worker, other.owner, "")
        await self.until(lambda: all(one.peers.linked for one in self.workers))
        self._net.attach(2, lambda frame: None)  # worker 2 reads nothing any more
        self.home.start()
        self.between.start()
        await self.until(lambda: self.passed == MESSAGES)

    @property
    def passed(self) -> int:
        return self.between.executors["passes", 1].executed

    @property
    def acked(self) -> int:
        return self.home.spout_tasks["numbers", 0].counters.acked

    def fail(self, besides: int) -> None:
        """As a fleet tells everybody, and they obey."""
        for one in (self.home, self.between):
            if one.owner != besides:
                self.failed.append(one.fail_for("worker 2 was killed", self.recovered.append))

    async def replace(self) -> None:
        another = self._worker(2, 2)
        await another.open()
        for one in (self.home, self.between):
            one.peers.join(2, another.owner, "")
            another.peers.join(one.worker, one.owner, "")
        another.start()
        self.workers[2] = another

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SOON_S):
            while not condition():  # noqa: ASYNC110 – nothing tells
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        for one in {*self.workers, self.dead}:
            await one.close()


def test_no_replay_meets_the_dead_link_of_a_survivor_that_hears_of_the_death_later_a14() -> None:
    async def main() -> None:
        three = Three()
        await three.begin()
        parting = Parting([three.home.owner, three.between.owner], three.fail)
        three.home.peers.gone(three.dead.owner)
        parting.parted(three.home.owner)
        await asyncio.sleep(0.5)
        assert three.failed == []
        assert three.passed == MESSAGES, "nothing is replayed before both have closed their links"
        three.between.peers.gone(three.dead.owner)
        parting.parted(three.between.owner)
        assert three.failed == [MESSAGES, 0]
        await three.until(lambda: three.passed == 2 * MESSAGES)
        await three.replace()
        await three.until(lambda: three.acked == MESSAGES)
        assert three.recovered[-1] == 0
        await three.close()

    run_virtual(main(), seed=None)


def test_what_a_survivor_has_sent_to_the_dead_link_until_it_closed_it_late_is_replayed_once_more_a14() -> None:
    async def main() -> None:
        three = Three()
        await three.begin()
        parting = Parting([three.home.owner, three.between.owner], three.fail)
        three.home.peers.gone(three.dead.owner)
        parting.parted(three.home.owner)
        parting.overdue()
        await three.until(lambda: three.passed == 2 * MESSAGES)  # and the replays are lost
        await three.replace()
        await asyncio.sleep(0.5)
        assert three.acked == 0
        three.between.peers.gone(three.dead.owner)
        parting.parted(three.between.owner)
        assert three.failed == [MESSAGES, 0, MESSAGES]
        await three.until(lambda: three.acked == MESSAGES)
        await three.close()

    run_virtual(main(), seed=None)


def test_the_replacement_may_be_met_before_the_trees_fail_a14() -> None:
    async def main() -> None:
        three = Three()
        await three.begin()
        for one in (three.home, three.between):
            one.peers.gone(three.dead.owner)
        await three.replace()
        await asyncio.sleep(0.5)
        three.fail(0)
        await three.until(lambda: three.acked == MESSAGES)
        await three.close()

    run_virtual(main(), seed=None)


def fails(asked: Sequence[int]) -> tuple[Parting, list[int]]:
    told: list[int] = []
    return Parting(asked, told.append), told


def test_trees_fail_once_however_often_the_last_one_says_that_it_has_parted() -> None:
    parting, told = fails([7, 8])
    parting.parted(9)
    parting.parted(7)
    parting.parted(7)
    assert told == []
    parting.parted(8)
    parting.parted(8)
    parting.overdue()
    assert told == [0]


def test_a_survivor_that_dies_before_it_has_parted_is_not_waited_for() -> None:
    parting, told = fails([7, 8])
    parting.parted(7)
    parting.left(8)
    parting.left(8)
    assert told == [0]


def test_each_one_that_is_late_has_all_others_fail_once_more_unless_it_dies() -> None:
    parting, told = fails([7, 8, 9])
    for late in (parting.overdue, partial(parting.parted, 7), partial(parting.left, 8), partial(parting.parted, 9)):
        late()
        parting.overdue()
    parting.parted(8)
    assert told == [0, 7, 9]
