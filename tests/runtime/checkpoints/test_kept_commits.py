"""State that survives: what becomes durable together, and what waits for it. Rules D1, D2, D3, D10, D11, P8, P13,
P14."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Literal, Never

import pytest
from kept_kit import Counting, dies, dies_unwritten, inputs_of, kept_in, of_row, run_on, through
from letters_kit import Disk, until
from runtime_kit import Number, line, numbers

from acker.identity import message_pair, partition_seed
from topology import Bolt, Collector, Config, Grouping, State, Topology, Tuple
from topology.keys import value_of
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.failures import Failure, Reason
from topology.runtime.worker.worker import Worker
from topology.storage.encoding.state import SUM_BYTES
from topology.storage.encoding.state import value_of as stored_value
from topology.storage.values import Changes
from topology.testing import Captured, Pause, ScriptedSpout, Watch, run_topology
from topology.testing.simulator.disk import SimulatedDisk
from topology.testing.simulator.files import SimulatedFiles
from topology.testing.simulator.run import STATE_DIR

KEYS = 5
Durability = Literal["disk", "process"]


def inputs(count: int, *, pause_s: float = 0.0) -> ScriptedSpout[Number]:
    """Numbers of a few keys, perhaps one after the other."""
    script: list[Number | Pause] = []
    for n in range(count):
        script += [Number(n % KEYS), Pause(pause_s)]
    return ScriptedSpout[Number](script)


def counts(count: int) -> dict[int, int]:
    return dict(Counter(n % KEYS for n in range(count)))


def once(act: Callable[[], None]) -> Callable[..., None]:
    """A hook that does this the first time that it is called with something."""
    over: list[bool] = []

    def hook(*_: Any) -> None:
        if not over:
            over.append(True)
            act()

    return hook


def fail_all(worker: Worker) -> None:
    """Fail all messages, as a death elsewhere does."""
    failure = Failure(Reason.PEER_LOST, "links", "as if another worker were dead")
    for tree in worker.ledger.fail_all():
        tree.owner.failed_tree(tree, failure)


class Timed(Counting):
    """Notes when it was given each number, too."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def process(self, number: Number, state: State[int]) -> Iterator[Number]:
        self.times.append(asyncio.get_running_loop().time())
        return super().process(number, state)


# -- D1, P8


class Log:
    """Which inputs the log has, and up to which of them it was synced."""

    def __init__(self) -> None:
        self.appended: list[tuple[int, int]] = []  # position, origin
        self.written: set[int] = set()
        self.synced: set[int] = set()

    def append(self, records: Sequence[bytes], position: int) -> None:
        origins = [one.origin for one in inputs_of(records)]
        self.appended += [(position, origin) for origin in origins]
        self.written.update(origins)

    def sync(self, position: int) -> None:
        self.synced.update(origin for at, origin in self.appended if at <= position)


@pytest.mark.parametrize("durability", ["disk", "process"])
@pytest.mark.parametrize("seed", range(3))
def test_outputs_and_acks_wait_until_the_log_has_their_inputs_D1_P8(
    tmp_path: Path, seed: int, durability: Durability
) -> None:
    """With "process" until they are written, with "disk" until they are synced."""
    log, early = Log(), list[str]()
    safe = log.synced if durability == "disk" else log.written
    spout = inputs(200, pause_s=0.005)

    class Sink(Captured[Number]):
        def execute(self, tup: Tuple[Number], out: Collector[Never]) -> None:
            if len(self.records) >= len(safe):  # outputs come in the order of the log
                early.append(f"{tup.record} came")
            if len(spout.acked) > len(safe):
                early.append(f"{len(spout.acked)} are acked")
            super().execute(tup, out)

    topology = Topology("first-durable", Config(durability=durability))
    bolt = topology.bolt("bolt", Counting(), topology.spout("numbers", spout).fields("n"), tasks=2)
    sink = Sink()
    topology.bolt("sink", sink, bolt.shuffle())
    watch = Watch(before=through(appended=log.append, synced=log.sync, takes_s=0.01))
    assert run_topology(topology, seed=seed, state_dir=tmp_path, watch=watch).exit_status == 0
    assert early == []
    assert len(safe) == len(sink.records) == 200


def test_a_lone_input_takes_the_time_of_one_sync_D1_P8(tmp_path: Path) -> None:
    bolt = Timed()
    topology, captured = line(ScriptedSpout([Number(1), Pause(1.07), Number(2)]), bolt, by="n")
    run_topology(topology, state_dir=tmp_path, watch=Watch(before=through(takes_s=0.001)))
    assert captured.times[1] - bolt.times[1] == pytest.approx(0.002, abs=0.0005)


def test_with_process_an_input_waits_for_no_thread_though_several_bolts_have_state_D1_P8(tmp_path: Path) -> None:
    script = [step for n in range(4) for step in (Pause(2.0), Number(n))]
    bolts = [Timed() for _ in range(3)]
    topology, captured = line(ScriptedSpout(script), *bolts, by="n", config=Config(durability="process"))
    watch = Watch(before=through(takes_s=0.05))
    assert run_topology(topology, seed=None, state_dir=tmp_path, watch=watch).exit_status == 0
    assert captured.times == bolts[0].times == bolts[2].times
    assert len(captured.records) == 4


@pytest.mark.parametrize("durability", ["disk", "process"])
def test_a_worker_that_dies_before_the_log_has_an_input_has_counted_nothing_D1_P8(
    tmp_path: Path, durability: Durability
) -> None:
    bolt = Counting()
    topology, captured = line(inputs(1), bolt, by="n", config=Config(durability=durability))
    watch = Watch(before=through(appending=once(dies_unwritten)))
    report = run_topology(topology, state_dir=tmp_path, watch=watch, may_crash=True)
    assert report.restarts == 1
    assert bolt.given == [0, 0]
    assert captured.records == [Number(1)]
    assert kept_in(tmp_path) == {0: 1}


# -- D2


@pytest.mark.parametrize("durability", ["disk", "process"])
@pytest.mark.parametrize("seed", range(3))
def test_a_replay_after_a_death_between_log_and_send_gets_what_was_put_out_D2_P7(
    tmp_path: Path, seed: int, durability: Durability
) -> None:
    bolt = Counting()
    topology, captured = line(inputs(1), bolt, by="n", config=Config(durability=durability))
    hooks: dict[str, Any] = {"appended": once(dies_unwritten)} if durability == "process" else {"synced": once(dies)}
    watch = Watch(before=through(takes_s=0.01, **hooks))
    report = run_topology(topology, seed=seed, state_dir=tmp_path, watch=watch, may_crash=True)
    assert report.restarts == 1
    assert bolt.given == [0], "it is not processed again"
    assert captured.records == [Number(1)], "nothing had left"
    assert kept_in(tmp_path) == {0: 1}


def test_what_is_sent_again_goes_to_whom_routing_chooses_now_D2(tmp_path: Path) -> None:
    """A run that is aborted keeps what it has done, and sends nothing of it; the next one has one sink more."""

    def topology_of(*sinks: Captured[Number]) -> Topology:
        topology = Topology("routed")
        bolt = topology.bolt("bolt", Counting(), topology.spout("numbers", inputs(20)).fields("n"))
        for number, sink in enumerate(sinks):
            topology.bolt(f"sink{number}", sink, bolt.fields("n"), tasks=1 + 2 * number)
        return topology

    async def abort(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers) and run.workers[0].executors["bolt", 0].executed == 20)
        run.abort()

    one, other, more = Captured[Number](), Captured[Number](), Captured[Number]()
    watch = Watch(before=through(takes_s=0.01))
    assert run_topology(topology_of(one), state_dir=tmp_path, during=abort, watch=watch).ended == "aborted"
    assert kept_in(tmp_path) == counts(20)
    assert run_topology(topology_of(other, more), state_dir=tmp_path).exit_status == 0
    assert not one.records
    assert Counter(other.records) == Counter(more.records) == Counter(Number(n) for n in range(1, 5) for _ in range(5))
    assert kept_in(tmp_path) == counts(20)


# -- D3


def test_a_second_attempt_that_comes_while_the_first_is_in_process_waits_for_it_D3(tmp_path: Path) -> None:
    given: list[int] = []

    class Slow(Bolt):
        async def process(self, number: Number, state: State[int]) -> list[Number]:
            given.append(number.n)
            await asyncio.sleep(25)
            state.set(state.get(0) + 1)
            return [Number(state.get(0))]

    config = Config(tree_timeout_s=1, process_timeout_s=1000)
    topology, captured = line(ScriptedSpout(numbers(1)), Slow(), by="n", concurrency=4, config=config)
    report = run_topology(topology, state_dir=tmp_path)
    assert report.snapshot.total("replayed") >= 1
    assert given == [0]
    assert set(captured.distinct.values()) == {Number(1)}
    assert kept_in(tmp_path) == {0: 1}


def test_a_second_attempt_that_comes_while_the_first_waits_for_the_log_waits_too_D3(tmp_path: Path) -> None:
    bolt, waiting = Counting(), list[int]()
    topology, captured = line(ScriptedSpout([Pause(10), Number(7)]), bolt, by="n")

    async def fail(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers) and bool(run.workers[0].executors["bolt", 0].executed))
        fail_all(run.workers[0])
        ((_, entry),) = run.workers[0].executors["bolt", 0].known  # type: ignore[attr-defined]
        await until(lambda: bool(entry.waiting))
        waiting.append(len(entry.waiting))
        assert not captured.records

    report = run_topology(topology, state_dir=tmp_path, during=fail, watch=Watch(before=through(takes_s=2)))
    assert report.exit_status == 0
    assert waiting == [1]
    assert bolt.given == [7]
    assert set(captured.distinct.values()) == {Number(1)}
    assert kept_in(tmp_path) == {7: 1}


def test_a_second_attempt_goes_on_though_the_outputs_of_the_first_could_not_leave_D3(tmp_path: Path) -> None:
    """A grouping of the user's own raises once; the attempt that has waited for the log must not wait for ever."""
    failing = [True]

    class Picky(Grouping):
        def __deepcopy__(self, memo: object) -> "Picky":
            return self

        def choose(self, record: Number, tasks: int) -> list[int]:
            if failing:
                failing.clear()
                raise ValueError("not this time")
            return [0]

    topology, captured = Topology("picky", Config(max_replays=0)), Captured[Number]()
    stream = topology.spout("numbers", ScriptedSpout[Number]([Pause(10), Number(7)]))
    topology.bolt("captured", captured, topology.bolt("bolt", Counting(), stream.fields("n")).custom(Picky()))

    async def fail(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers) and bool(run.workers[0].executors["bolt", 0].executed))
        fail_all(run.workers[0])

    watch = Watch(before=through(takes_s=2))
    assert run_topology(topology, state_dir=tmp_path, during=fail, watch=watch).exit_status == 0
    assert captured.records == [Number(1)]
    assert captured.times[0] < 20, "and not when its tree has timed out"


# -- D10


def test_a_disk_that_is_full_for_a_while_fails_doubles_and_recomputes_nothing_D10_P14(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk, bolt = Disk(), Counting()
    topology, captured = line(inputs(400, pause_s=0.01), bolt, by="n", tasks=2)

    async def fill(run: EmbeddedRun) -> None:
        await until(lambda: len(captured.records) >= 50)
        disk.full = True
        await until(lambda: disk.refused > 0)
        await asyncio.sleep(1)
        before = len(captured.records), len(bolt.given)
        await asyncio.sleep(15)
        assert (len(captured.records), len(bolt.given)) == before, "nothing leaves, and nothing is read"
        snapshot = run.snapshot()
        assert snapshot is not None
        assert "no space left on device" in snapshot.limit
        disk.full = False

    watch = Watch(before=through(before=disk.check, appending=disk.check))
    report = run_topology(topology, state_dir=tmp_path, during=fill, watch=watch)
    assert report.exit_status == 0
    assert watch.failures == []
    assert report.snapshot.total("replayed") == 0
    assert len(bolt.given) == len(captured.records) == len(captured.distinct) == 400
    assert kept_in(tmp_path) == counts(400)
    assert any("K536" in entry.getMessage() for entry in caplog.records)


@pytest.mark.parametrize("seed", range(3))
def test_a_real_store_on_a_disk_that_runs_full_goes_on_when_there_is_room_D10_P14(seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    with closing(SimulatedFiles(disk, Random(seed))) as files:
        bolt = Counting()
        topology, captured = line(inputs(400, pause_s=0.01), bolt, by="n", tasks=2)

        async def fill(run: EmbeddedRun) -> None:
            for full in (100, 200, 300):
                await until(lambda full=full: len(captured.records) >= full)  # type: ignore[misc]
                disk.full = True
                await asyncio.sleep(7)
                disk.full = False

        watch = Watch()
        report = run_on(files, topology, seed=seed, during=fill, watch=watch)
        assert report.exit_status == 0
        assert disk.hits["full"] > 0
        assert watch.failures == []
        assert len(bolt.given) == len(captured.distinct) == len(captured.records) == 400
        assert kept_in(STATE_DIR, files=files) == counts(400)


@pytest.mark.parametrize("seed", range(5))
def test_a_failed_fsync_ends_the_process_without_an_ack_and_the_next_one_counts_on_D10_F18_P13(seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    with closing(SimulatedFiles(disk, Random(seed))) as files:
        spout, bolt = inputs(300, pause_s=0.003), Counting()
        topology, captured = line(spout, bolt, by="n", tasks=2)

        async def fail(run: EmbeddedRun) -> None:
            await until(lambda: len(captured.records) >= 100)
            disk.failing_syncs = 1

        report = run_on(files, topology, seed=seed, during=fail)
        assert report.ended == "failed"
        files.end_all()
        disk.lose_power()
    with closing(SimulatedFiles(disk, Random(seed))) as files:
        assert 300 > sum(kept_in(STATE_DIR, files=files).values()) >= len(spout.acked) >= 100
        topology, _ = line(inputs(300), Counting(), by="n", tasks=2)
        assert run_on(files, topology, seed=seed).exit_status == 0
        assert kept_in(STATE_DIR, files=files) == counts(300)


# -- D11


@pytest.mark.parametrize("durability", ["disk", "process", "checkpoint"])
@pytest.mark.parametrize("seed", range(3))
def test_a_snapshot_counts_what_is_done_or_known_in_it_and_nothing_else_D11_P1(
    tmp_path: Path, seed: int, durability: Any
) -> None:
    """It is packed and written while inputs of the same keys go on."""
    lane = partition_seed("line", "numbers", "", "", 0)
    ids = {message_pair(id, lane)[0]: id for id in range(100)}
    done, values, wrong, growing = set[int](), dict[int, int](), list[str](), list[int]()

    def after(changes: Changes) -> None:
        growing.append(sum(values.values()))
        for mark in changes.marks:
            assert isinstance(mark.position, int)
            done.update(range(mark.position))
            for first, last in mark.done:
                assert isinstance(first, int)
                assert isinstance(last, int)
                done.update(range(first, last + 1))
        known = {ids[one.origin] for row in changes.entries for one in of_row(row)}
        for change in changes.states:
            for _, key, body in change.rows:
                values[value_of(key)] = int.from_bytes(stored_value(body[SUM_BYTES:]) or b"", "big")
        if values != dict(Counter(id % KEYS for id in done | known)):
            wrong.append(f"{values} in place of {Counter(id % KEYS for id in done | known)}")

    topology, _ = line(
        inputs(100, pause_s=0.026), Counting(), by="n", tasks=2, config=Config(durability=durability, checkpoint_s=0.1)
    )
    watch = Watch(before=through(after=after, takes_s=0.03))
    run_topology(topology, seed=seed, state_dir=tmp_path, watch=watch)
    assert wrong == []
    assert done == {*range(100)}
    assert len({*growing}) > 5, "it took several checkpoints"


def test_many_inputs_of_one_group_leave_together_and_in_their_order(tmp_path: Path) -> None:
    class Everyone(Bolt):
        def process(self, number: Number, state: State[int]) -> Iterator[Number]:
            state.set(state.get(0) + 1)
            yield number

    topology = Topology("in-order")
    bolt = topology.bolt("bolt", Everyone(), topology.spout("numbers", ScriptedSpout(numbers(1000))).global_())
    captured = Captured[Number]()
    topology.bolt("captured", captured, bolt.shuffle())
    run_topology(topology, seed=None, state_dir=tmp_path, watch=Watch(before=through(takes_s=0.01)))
    assert [one.n for one in captured.records] == [*range(1000)]
    assert kept_in(tmp_path) == {(): 1000}
