"""One call that runs a bolt, or a topology, on virtual time: with the real executors, every record checked.

What a test wants to know comes back as a value. Must not know how time is made virtual, nor how anything is driven.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, Generic, TypeVar, cast

from topology import signatures
from topology.components import A, Out, R, Runs
from topology.config import Config
from topology.graph import Topology
from topology.groupings import key_bytes, key_function
from topology.records import Record
from topology.runtime.embedded import EmbeddedRun
from topology.runtime.keyed import KeyedExecutor
from topology.runtime.memory import Faults, faultless
from topology.runtime.report import Report
from topology.runtime.worker import Worker
from topology.testing.captured import Captured
from topology.testing.scripted import Pause, ScriptedSpout
from topology.testing.virtual import LIMIT_S, START, VirtualLoop, run_virtual
from topology.testing.watched import Watch, WatchedWorker

PATIENCE_S: Final = 60.0  # virtual seconds that `run_bolt` gives a bolt to ack or fail what it was given last
C = TypeVar("C", bound=Record)

During = Callable[[EmbeddedRun], Awaitable[object]]


class Divergence(AssertionError):
    """A replay gave one (origin, identity) with another record, or other ones: a sink could not have dropped it."""


def run_topology(
    topology: Topology,
    *,
    seed: int | None = 0,
    replay_all: bool = False,
    until_s: float | None = None,
    during: During | None = None,
    state_dir: str | Path | None = None,
    workers: int = 1,
    faults: Faults = faultless,
    start: datetime = START,
    limit_s: float = LIMIT_S,
    watch: Watch | None = None,
) -> Report:
    """Runs a topology on virtual time and tells how it ended. The same seed gives the same run.

    `seed` is that of all randomness, and shuffles what is ready together; None shuffles nothing. `replay_all` has each
    message replayed once more when all of it was done. `until_s`: drained after so many virtual seconds. `during(run)`
    is awaited beside the run, and may drain it. `workers` share one loop, and `faults` says what becomes of the frames
    between them. `watch` is filled with dead messages and failures. Raises what `serve` raises; Divergence where a
    `Captured` got one key with two records; what `run_virtual` raises.

        alerts = Captured[Alert]()
        report = run_topology(build(alerts), seed=7, replay_all=True)
        assert report.exit_status == 0 and len(alerts.distinct) == 1
    """
    watch = watch or Watch()

    async def main() -> Report:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        run = EmbeddedRun(
            topology,
            state_dir=state_dir,
            random=Random(seed),
            utc=loop.utc,
            workers=workers,
            faults=faults,
            worker_kind=partial(WatchedWorker, watch=watch, replay_all=replay_all, seed=seed),
        )
        if until_s is not None:
            loop.call_later(until_s, run.drain)
        return await _beside(run, during)

    report = run_virtual(main(), seed=seed, start=start, limit_s=limit_s)
    for declared in topology.components:
        if isinstance(declared.prototype, Captured) and declared.prototype.divergent:
            raise Divergence(f"{declared.name!r} got one key with other records: {declared.prototype.divergent[:3]}")
    return report


async def _beside(run: EmbeddedRun, during: During | None) -> Report:
    finishing = asyncio.ensure_future(run.finish())
    if during is None:
        return await finishing
    beside = asyncio.ensure_future(during(run))
    await asyncio.wait({finishing, beside}, return_when=asyncio.FIRST_COMPLETED)
    if not finishing.done() and not beside.cancelled() and beside.exception() is not None:
        run.abort()  # the test has failed
    report = await asyncio.gather(finishing, return_exceptions=True)
    beside.cancel()
    await asyncio.gather(beside, return_exceptions=True)
    if not beside.cancelled():
        beside.result()
    if isinstance(report[0], BaseException):
        raise report[0]
    return report[0]


def check_replays(make: Callable[[Captured[R]], Topology], *, seed: int | None = None) -> dict[tuple[int, int], R]:
    """Runs a topology twice, the second time with every message replayed once more, and compares what its sink holds.

    `make` is called with the sink for each of the two. Returns what the sink holds, by (origin, identity). Raises
    Divergence where the replays add, change or lose something: where a bolt counts a replay twice, say (B4). Without
    a seed both runs take asyncio's own order, so that a result that hangs on the order of arrival is the same.
    """
    once, again = Captured[R](), Captured[R]()
    run_topology(make(once), seed=seed)
    run_topology(make(again), seed=seed, replay_all=True)
    only = [record for key, record in once.distinct.items() if again.distinct.get(key) != record]
    more = [record for key, record in again.distinct.items() if once.distinct.get(key) != record]
    if only or more:
        raise Divergence(f"with replays the sink has {len(more)} other records: {more[:3]} in place of {only[:3]}")
    return once.distinct


@dataclass(frozen=True)
class FailedInput(Generic[A]):
    """An input that failed: why, in words, and what was raised, if anything."""

    record: A
    reason: str
    error: BaseException | None


@dataclass(frozen=True)
class BoltRun(Generic[A, Out]):
    """What a bolt did with its inputs. `held` were neither acked nor failed; `errors` were raised by tick, flush or
    close. `state` has one value a key: of one field its value, of several their tuple, of none ()."""

    outputs: list[Out]
    acked: list[A]
    failed: list[FailedInput[A]]
    held: list[A]
    errors: list[BaseException]
    state: Mapping[Any, Any]

    def of(self, cls: type[C]) -> list[C]:
        """The outputs of one class."""
        return [record for record in self.outputs if isinstance(record, cls)]


def run_bolt(
    bolt: Runs[A, Out],
    inputs: Iterable[A | Pause],
    *,
    by: tuple[str, ...] = (),
    state: Mapping[Any, Any] | None = None,
    every: str | None = None,
    until_s: float = 0.0,
    concurrency: int = 1,
    seed: int | None = 0,
    start: datetime = START,
    config: Config | None = None,
) -> BoltRun[A, Out]:
    """Gives a bolt its inputs, on virtual time, through the real runtime; each once: a failed one is not replayed.

    `by` are the fields of its grouping, `state` what its keys hold at the beginning. `every` has `tick` called, and
    `until_s` is how long the input lasts at least. At the end of input `flush` is called. Raises DeclarationError,
    ConfigurationError or StartError where the bolt can't be run.

        done = run_bolt(DetectBruteForce(limit=2), [failure, failure], by=("source_ip",))
        assert [alert.failures for alert in done.outputs] == [2]
    """
    given = list(inputs)
    records: list[A] = [one for one in given if not isinstance(one, Pause)]
    signature = signatures.of_bolt(bolt)
    spout = ScriptedSpout[A]([*given, Pause(until_s)], emits=signature.takes)
    topology = Topology("run_bolt", dataclasses.replace(config or Config(), max_replays=0))
    source = topology.spout("inputs", spout)
    keyed = by or signature.shape == "state"
    streams = [source[cls] for cls in spout.emits()]
    read = [(one.fields(*by) if by else one.global_()) if keyed else one.shuffle() for one in streams]
    emitted = topology.bolt("bolt", cast("Any", bolt), *read, concurrency=concurrency, every=every)
    captured = Captured[Record]()
    if classes := topology.components[-1].streams:
        topology.bolt("captured", captured, *(emitted[cls].shuffle() for cls in classes))

    watch = Watch(before=partial(_set_state, keys={_key(by, key): value for key, value in (state or {}).items()}))
    pauses = sum(one.seconds for one in given if isinstance(one, Pause))
    report = run_topology(
        topology, seed=seed, start=start, watch=watch, during=partial(_impatient, pauses + until_s + PATIENCE_S)
    )
    if report.error is not None:
        raise report.error
    return _told(watch, spout, captured, records, by, state or {})


async def _impatient(seconds: float, run: EmbeddedRun) -> None:
    """Ends a run whose bolt does not finish its inputs."""
    await asyncio.sleep(seconds)
    run.abort()


def _told(
    watch: Watch, spout: ScriptedSpout[A], captured: Captured[Any], records: list[A], by: tuple[str, ...], state: Any
) -> BoltRun[A, Any]:
    acked = {number for number in spout.acked if isinstance(number, int)}
    dead = {one.id: one.failure for one in watch.dead}
    failed = [
        FailedInput(record, str(dead[number]), dead[number].error)
        for number, record in enumerate(records)
        if number in dead
    ]
    of_inputs = {id(failure) for failure in dead.values()}
    get = key_function(by)
    names = {get(record): _name(by, record) for record in records if all(hasattr(record, name) for name in by)}
    names |= {_key(by, key): key for key in state}
    return BoltRun(
        captured.records,
        [records[number] for number in sorted(acked)],
        failed,
        [record for number, record in enumerate(records) if number not in acked and number not in dead],
        [one.error for one in watch.failures if one.error is not None and id(one) not in of_inputs],
        {names[key]: value for key, value in watch.state("bolt").items()},
    )


def _key(by: tuple[str, ...], key: Any) -> bytes:
    return key_bytes(key) if by else b""


def _name(by: tuple[str, ...], record: Record) -> Any:
    values = tuple(getattr(record, name) for name in by)
    return values[0] if len(by) == 1 else values


def _set_state(worker: Worker, keys: Mapping[bytes, Any]) -> None:
    for executor in worker.executors.values():
        if isinstance(executor, KeyedExecutor):
            executor.values.update(keys)
