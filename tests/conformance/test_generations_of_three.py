"""Three workers in one event loop, one of which dies: a replay goes to its successor, whoever hears of the death last.

The home of all trees is worker 0; each tuple goes through worker 1 to worker 2, which takes none and dies. What each
survivor is told, and when, is the test's.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from acker.roots import owner
from topology import Bolt, Config, Message, Record, Spout, Topology
from topology.groupings import Grouping
from topology.plan import plan
from topology.runtime.clock import LoopClock
from topology.runtime.links.memory import ByReference, MemoryNetwork
from topology.runtime.links.peers import Wiring
from topology.runtime.poison.trials import Fallen
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

    def _worker(self, number: int, incarnation: int, generation: int = 1) -> Worker:
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
            wiring=Wiring(1, self._net, ByReference(), lambda *lost: None, lambda *refused: None, generation),
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

    def tells(self, *workers: Worker, generation: int = 2, gone: Worker | None = None) -> None:
        """As a supervisor has workers begin a generation."""
        owner = (gone or self.dead).owner
        for one in workers:
            report = self.recovered.append
            fallen = Fallen(owner, killed=True)
            self.failed.append(one.begin_generation(generation, "a worker was killed", report, fallen, gone=owner))

    async def replace(self, incarnation: int = 2, generation: int = 2) -> Worker:
        """Another worker 2, of this generation, that all others are told of."""
        another = self._worker(2, incarnation, generation)
        await another.open()
        for one in (self.home, self.between):
            one.peers.join(2, another.owner, "")
            another.peers.join(one.worker, one.owner, "")
        self.workers[2] = another
        return another

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SOON_S):
            while not condition():  # noqa: ASYNC110 – nothing tells
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        for one in {*self.workers, self.dead}:
            await one.close()


def test_a_replay_waits_for_a_survivor_that_hears_of_the_death_later_a14() -> None:
    async def main() -> None:
        three = Three()
        await three.begin()
        three.tells(three.home)
        await asyncio.sleep(0.5)
        assert three.failed == [MESSAGES]
        assert three.passed == MESSAGES, "the replays are of a generation that worker 1 is not in"
        three.tells(three.between)
        assert three.failed == [MESSAGES, 0]
        await three.until(lambda: three.passed == 2 * MESSAGES)
        (await three.replace()).start()
        await three.until(lambda: three.acked == MESSAGES)
        assert three.recovered[-1] == 0
        await three.close()

    run_virtual(main(), seed=None)


def test_what_a_survivor_sends_to_the_dead_until_it_hears_of_the_death_is_replayed_a14() -> None:
    async def main() -> None:
        three = Three()
        await three.begin()
        three.tells(three.between)
        await asyncio.sleep(0.5)
        assert three.passed == MESSAGES, "the home has not failed anything"
        (await three.replace()).start()
        await asyncio.sleep(0.5)
        assert three.acked == 0
        three.tells(three.home)
        assert three.failed == [0, MESSAGES]
        await three.until(lambda: three.acked == MESSAGES)
        await three.close()

    run_virtual(main(), seed=None)


def test_a_replacement_that_is_met_before_a_survivor_hears_of_the_death_gets_every_replay_a14() -> None:
    async def main() -> None:
        three = Three()
        await three.begin()
        (await three.replace()).start()
        await asyncio.sleep(0.5)
        assert three.acked == 0, "nothing of the generation before reaches it"
        three.tells(three.home, three.between)
        await three.until(lambda: three.acked == MESSAGES)
        await three.close()

    run_virtual(main(), seed=None)


def test_a_second_death_while_the_first_is_not_heard_of_by_all_loses_nothing_a14() -> None:
    async def main() -> None:
        three = Three()
        await three.begin()
        three.tells(three.home)
        second = await three.replace()
        three._net.attach(2, lambda frame: None)  # which dies as it begins
        three.tells(three.home, generation=3, gone=second)
        three.tells(three.between)
        three.tells(three.between, generation=3, gone=second)
        await three.until(lambda: three.passed == 2 * MESSAGES)
        (await three.replace(3, 3)).start()
        await three.until(lambda: three.acked == MESSAGES)
        await second.close()
        await three.close()

    run_virtual(main(), seed=None)


def test_a_replacement_that_another_death_finds_joining_begins_the_next_generation_with_the_others_a14() -> None:
    async def main() -> None:
        three = Three()
        await three.begin()
        three.tells(three.home, three.between)
        joining = await three.replace()
        await three.until(lambda: joining.peers.linked and three.passed == 2 * MESSAGES)
        third = owner(1, 99)  # a worker whose death all hear of, as if there were one more
        for one in (three.between, joining, three.home):
            one.begin_generation(3, "another was killed", three.recovered.append, Fallen(third, True), gone=third)
            await asyncio.sleep(0.1)
        await three.until(lambda: three.passed == 3 * MESSAGES)
        await asyncio.sleep(0.1)
        assert len(joining.executors["takes", 2].queue) == MESSAGES, "what came before was of another generation"
        joining.start()
        await three.until(lambda: three.acked == MESSAGES)
        await three.close()

    run_virtual(main(), seed=None)
