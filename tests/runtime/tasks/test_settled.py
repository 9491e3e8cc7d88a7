"""A source hears which messages a decided checkpoint has, and never of one that a crash could still need (P11)."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from durability_kit import DURABILITIES, Durability
from kept_kit import dies, kept_in, through
from letters_kit import until
from runtime_kit import Number, built

from topology import Bolt, Config, Message, Spout, State, Topology
from topology.runtime.tasks.done_messages import DoneMessages
from topology.runtime.tasks.spout_task import SpoutTask
from topology.storage.worker_store import WorkerStore
from topology.testing import Watch, run_topology

COUNT = 12
COUNT_OF_BROKER = 200


class Brokered(Spout):
    """Gives numbers, and notes what it hears. Its copies share what they note."""

    def __init__(self, heard: list[tuple[str, Any]]) -> None:
        self.heard = heard
        self.next = 0

    def __deepcopy__(self, memo: Any) -> "Brokered":
        return type(self)(self.heard)

    async def poll(self, limit: int) -> list[Message[Number]]:
        await asyncio.sleep(0.01)
        self.next += 1
        return [Message(Number(self.next), self.next)] if self.next <= COUNT else []

    def ack(self, id: Any) -> None:
        self.heard.append(("ack", id))

    def settled(self, ids: Any, partition: str) -> None:
        self.heard += [("settled", one) for one in ids]


class Sum(Bolt):
    def process(self, number: Number, state: State[int]) -> None:
        state.set(state.get(0) + number.n)


def made(heard: list[tuple[str, Any]], **config: Any) -> Topology:
    topology = Topology("settled", Config(**config))
    topology.bolt("sum", Sum(), topology.spout("numbers", Brokered(heard)).fields("n"))
    return topology


def of(what: str, heard: list[tuple[str, Any]]) -> list[Any]:
    return [one for kind, one in heard if kind == what]


@pytest.mark.parametrize("durability", ["disk", "process", "checkpoint"])
def test_a_source_hears_of_each_message_once_after_its_ack(
    tmp_path: Path, durability: Literal["disk", "process", "checkpoint"]
) -> None:
    heard: list[tuple[str, Any]] = []
    report = made(heard, durability=durability, checkpoint_s=0.02).run(state_dir=tmp_path / "state")
    assert report.exit_status == 0
    assert of("settled", heard) == of("ack", heard) == [*range(1, COUNT + 1)]
    assert all(heard.index(("ack", one)) < heard.index(("settled", one)) for one in of("settled", heard))


def test_a_source_hears_of_a_message_once_a_decided_checkpoint_has_it_P11(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only store of a run decides by what it writes; what is heard before that could still be needed."""
    heard: list[tuple[str, Any]] = []
    concluded: list[int] = []
    conclude = WorkerStore.conclude

    def watched(store: WorkerStore, checkpoint: int, changes: Any) -> None:
        done = len(of("ack", heard))
        conclude(store, checkpoint, changes)
        concluded.append(done)

    class Watching(Brokered):
        def __deepcopy__(self, memo: Any) -> "Watching":
            return Watching(self.heard)

        def settled(self, ids: Any, partition: str) -> None:
            super().settled(ids, partition)
            assert concluded, "nothing was decided before"
            assert len(of("settled", self.heard)) <= concluded[-1]

    monkeypatch.setattr(WorkerStore, "conclude", watched)
    topology = Topology("settled", Config(checkpoint_s=0.02))
    topology.bolt("sum", Sum(), topology.spout("numbers", Watching(heard)).fields("n"))
    report = topology.run(state_dir=tmp_path / "state")
    assert report.exit_status == 0
    assert of("settled", heard) == [*range(1, COUNT + 1)]


def test_a_message_that_an_earlier_run_had_settled_is_settled_at_once_if_it_comes_again(tmp_path: Path) -> None:
    for _ in range(2):
        heard: list[tuple[str, Any]] = []
        made(heard).run(state_dir=tmp_path / "state")
        assert of("settled", heard) == [*range(1, COUNT + 1)]


class Broker:
    """Has messages until they are confirmed, and gives all others to each life of a source. `deaf`: confirmations are
    lost."""

    def __init__(self) -> None:
        self.left = {f"{n:03}": None for n in range(COUNT_OF_BROKER)}
        self.deaf = False


class Client(Spout):
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.given: set[str] = set()

    def __deepcopy__(self, memo: Any) -> "Client":
        return Client(self.broker)

    async def poll(self, limit: int) -> list[Message[Number]]:
        while self.broker.left:
            await asyncio.sleep(0.004)
            one = next((one for one in self.broker.left if one not in self.given), None)
            if one is not None:
                self.given.add(one)
                return [Message(Number(int(one)), one)]
            if self.broker.deaf:
                break
        return []

    def settled(self, ids: Any, partition: str) -> None:
        for one in ids if not self.broker.deaf else ():
            self.broker.left.pop(one, None)


def of_broker(broker: Broker, durability: Durability) -> Topology:
    topology = Topology("settled", Config(checkpoint_s=0.1, durability=durability))
    topology.bolt("sum", Times(), topology.spout("numbers", Client(broker)).fields("n"))
    return topology


class Times(Bolt):
    def process(self, number: Number, state: State[int]) -> None:
        state.set(state.get(0) + 1)


@pytest.mark.parametrize("durability", DURABILITIES)
def test_names_that_a_broker_gives_again_after_a_death_before_it_heard_count_once_P11(
    tmp_path: Path, durability: Durability
) -> None:
    """The worker dies when a checkpoint is on the disk, and before its source has confirmed what that has."""
    calls: list[int] = []

    def before(worker: Any) -> None:
        def concluded(_: Any) -> None:
            calls.append(1)
            if len(calls) in (4, 7):
                dies()

        through(after=concluded)(worker)

    watch = Watch(before=before)
    report = run_topology(of_broker(Broker(), durability), state_dir=tmp_path, may_crash=True, watch=watch)
    assert report.exit_status == 0
    assert report.restarts == 2
    assert kept_in(tmp_path, "sum") == dict.fromkeys(range(COUNT_OF_BROKER), 1)


@pytest.mark.parametrize("durability", DURABILITIES)
def test_names_whose_last_confirmations_were_lost_are_settled_at_once_by_the_next_run(
    tmp_path: Path, durability: Durability
) -> None:
    broker = Broker()

    async def goes_away(run: Any) -> None:
        await until(lambda: len(broker.left) < COUNT_OF_BROKER // 2)
        broker.deaf = True
        run.drain()

    assert run_topology(of_broker(broker, durability), state_dir=tmp_path, during=goes_away).exit_status == 0
    assert broker.left
    broker.deaf = False
    assert run_topology(of_broker(broker, durability), state_dir=tmp_path).exit_status == 0
    assert kept_in(tmp_path, "sum") == dict.fromkeys(range(COUNT_OF_BROKER), 1)


def test_a_source_is_told_of_what_a_decided_frontier_has_and_of_nothing_else_P11() -> None:
    told: list[list[int]] = []
    task: Any = SpoutTask.__new__(SpoutTask)  # as far as checkpoints see it
    task.callbacks = SimpleNamespace(
        wants_settled=True, settled=lambda messages: told.append([message.id for message in messages])
    )
    task.checkpoints = SimpleNamespace(trash=[])
    one, two = (SimpleNamespace(message=SimpleNamespace(id=number)) for number in (1, 2))
    task._done = DoneMessages(kept=True)
    task._done.add([one])
    task.noted()
    task._done.add([two])
    task.noted()  # the checkpoint before was given up
    task._done.add([one])
    assert not told
    task.decided()
    assert told == [[1, 2]]
    task.decided()
    assert told == [[1, 2]], "it is in no frontier yet"
    task.noted()
    task.decided()
    assert told == [[1, 2], [1]]


class Unheard(Brokered):
    settled = Spout.settled  # type: ignore[assignment]


@pytest.mark.parametrize(("workers", "kept"), [(1, False), (2, True)])
def test_what_is_done_is_kept_only_where_a_worker_may_go_back_while_it_lives(
    workers: int, kept: bool, tmp_path: Path
) -> None:
    topology = Topology("unheard", Config(durability="checkpoint", checkpoint_s=60))
    numbers = topology.spout("numbers", Unheard([]))
    topology.bolt("sum", Sum(), numbers.fields("n"), tasks=2)
    found: list[bool] = []

    async def looks(run: Any) -> None:
        task = next(iter((await built(run)).spout_tasks.values()))
        await until(lambda: task.counters.acked >= COUNT // 2)
        found.append(len(task._done) > 0)

    assert run_topology(topology, state_dir=tmp_path, workers=workers, during=looks).exit_status == 0
    assert found == [kept]


class OneAtATime(Spout):
    """Gives its next number once the one before is confirmed. The confirmation of one is lost, and it comes again."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard
        self.given: list[str] = []

    def __deepcopy__(self, memo: Any) -> "OneAtATime":
        return OneAtATime(self.heard)

    async def poll(self, limit: int) -> list[Message[Number]]:
        while len(self.heard) < len(self.given):  # noqa: ASYNC110  a broker is asked so too
            await asyncio.sleep(0.01)
        at = len(self.given)
        if at == COUNT:
            return []
        self.given.append(self.given[-1] if at in (1, 5, 6) else str(at))
        return [Message(Number(at), self.given[-1])]

    def settled(self, ids: Any, partition: str) -> None:
        self.heard += ids


class Looks(Bolt):
    def process(self, number: Number) -> None:
        pass


@pytest.mark.parametrize("kept", [True, False])
def test_a_name_that_comes_again_after_its_decision_is_settled_again_though_nothing_else_changes(
    tmp_path: Path, kept: bool
) -> None:
    heard: list[Any] = []
    topology = Topology("settled", Config(checkpoint_s=0.1))
    topology.bolt("looks", Looks(), topology.spout("numbers", OneAtATime(heard)).shuffle())
    report = run_topology(topology, state_dir=tmp_path if kept else None, until_s=60.0)
    assert report.ended == "ended"
    assert len(heard) == COUNT


@pytest.mark.parametrize("workers", [1, 2])
def test_a_source_is_closed_after_it_has_heard_of_all_messages(tmp_path: Path, workers: int) -> None:
    """The last checkpoint of a run is taken when nothing is read any more; a broker still has to be told of it."""
    heard: list[tuple[str, Any]] = []

    class Closing(Brokered):
        def __deepcopy__(self, memo: Any) -> "Closing":
            return Closing(self.heard)

        def close(self) -> None:
            self.heard.append(("closed", 0))

    topology = Topology("settled", Config(checkpoint_s=30.0))
    topology.bolt("sum", Sum(), topology.spout("numbers", Closing(heard)).fields("n"), tasks=2)
    report = run_topology(topology, workers=workers, state_dir=tmp_path)
    assert report.exit_status == 0
    assert of("settled", heard) == [*range(1, COUNT + 1)]
    assert heard[-1] == ("closed", 0)
    assert len(of("closed", heard)) == 1
