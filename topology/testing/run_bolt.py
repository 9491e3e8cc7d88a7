"""A bolt's unit test in one call: inputs go through the real runtime, on virtual time, and the bolt's results are
returned.

Must not know how a topology is run, nor how anything is driven.
"""

import asyncio
import dataclasses
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Generic, Self, TypeVar, cast

from topology import signatures
from topology.components import A, Out, Runs
from topology.config import Config
from topology.groupings import key_bytes, key_function
from topology.records import Record
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.state.state_executor import StateExecutor
from topology.runtime.worker.worker import Worker
from topology.storage.encoding import state as states
from topology.testing.captured import Captured
from topology.testing.run_topology import run_topology
from topology.testing.scripted import Pause, ScriptedSpout
from topology.testing.virtual_time.loop import LIMIT_S, START
from topology.testing.virtual_time.worker import Watch
from topology.topology import Topology
from topology.user_frames import described, shown

PATIENCE_S: Final = 60.0  # virtual seconds that `run_bolt` gives a bolt to ack or fail its last input
SHOWN_MAX: Final = 60  # characters of a record in a sentence
C = TypeVar("C", bound=Record)


@dataclass(frozen=True)
class FailedInput(Generic[A]):
    """An input that failed. `reason` says why, in words. `error` is the exception, with its traceback, or None if the
    bolt called `out.fail`.

        (failed,) = run_bolt(Parse(), [Line("?")]).failed
        assert isinstance(failed.error, Reject) and "not a login" in failed.reason
    """

    record: A
    reason: str
    error: BaseException | None


@dataclass(frozen=True, repr=False)
class BoltRun(Generic[A, Out]):
    """The results of a bolt. `held` inputs were neither acked nor failed. `errors` were raised by tick, flush or close.

    `state` has one value per key: for a grouping by one field the key is its value, for several fields their tuple, and
    without fields ().

    An input that fails is not an error here, as it is none in a run, where it is replayed. A test of the good path says
    so: `run_bolt(…).well().outputs`. The repr begins with what went wrong.

        done = run_bolt(CountWords(), [Word("a"), Word("a")], by=("text",)).well()
        assert done.outputs == [Count("a", 1), Count("a", 2)] and done.state == {"a": 2}
    """

    outputs: list[Out]
    acked: list[A]
    failed: list[FailedInput[A]]
    held: list[A]
    errors: list[BaseException]
    state: Mapping[Any, Any]

    def of(self, cls: type[C]) -> list[C]:
        """Return the outputs of one class."""
        return [record for record in self.outputs if isinstance(record, cls)]

    def well(self) -> Self:
        """Return this object if every input was acked and nothing was raised.

        Otherwise raises the bolt's first exception, with the bolt's own traceback. Raises AssertionError if the bolt
        raised nothing, and failed or held an input.

            assert run_bolt(Shout(), [Word("a")]).well().outputs == [Word("A")]
        """
        __tracebackhide__ = True  # pytest should show the bolt's own frames
        raised = [*(failed.error for failed in self.failed if failed.error is not None), *self.errors]
        if raised:
            raised[0].add_note(repr(self))
            raise raised[0].with_traceback(_own_frames(raised[0]))
        assert not self.failed, repr(self)
        assert not self.held, repr(self)
        return self

    def __repr__(self) -> str:
        counts = f"{len(self.outputs)} output{'s' * (len(self.outputs) != 1)}, {len(self.acked)} acked"
        wrong = [f"failed {shown(failed.record, SHOWN_MAX)}: {failed.reason}" for failed in self.failed[:2]]
        wrong += [f"raised {described(error)}" for error in self.errors[:2]]
        wrong += [f"holds {shown(record, SHOWN_MAX)}" for record in self.held[:2]]
        total = len(self.failed) + len(self.errors) + len(self.held)
        if total > len(wrong):
            wrong.append(f"{total - len(wrong)} more like these")
        return f"<BoltRun: {'; '.join([*wrong, counts])}>"


def _own_frames(error: BaseException) -> types.TracebackType | None:
    """Return a traceback without the runtime's leading frames; the whole traceback if there are no others."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").startswith("topology."):
        frames = frames.tb_next
    return frames or error.__traceback__


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
    """Give a bolt its inputs once each, on virtual time, through the real runtime. A failed input is not replayed.

    `by` are the fields of its grouping. `state` is what its keys hold at the beginning. `every` makes the runtime call
    `tick`. `until_s` is how long the input lasts at least. A `Pause` among the inputs lets time pass, also for timers.
    At the end of input, `flush` is called. Raises DeclarationError, ConfigurationError or StartError if the bolt can't
    be run.

        done = run_bolt(DetectBruteForce(limit=2, within_s=60), [failure] * 2, by=("source_ip",))
        assert [alert.failures for alert in done.outputs] == [2]
    """
    script = list(inputs)
    records: list[A] = [entry for entry in script if not isinstance(entry, Pause)]
    signature = signatures.of_bolt(bolt)
    spout = ScriptedSpout[A]([*script, Pause(until_s)], emits=signature.takes)
    topology = Topology("run_bolt", dataclasses.replace(config or Config(), max_replays=0))
    source = topology.spout("inputs", spout)
    keyed = by or signature.shape == "state"
    streams = [source[cls] for cls in spout.emits()]
    read = [(stream.fields(*by) if by else stream.global_()) if keyed else stream.shuffle() for stream in streams]
    emitted = topology.bolt("bolt", cast("Any", bolt), *read, concurrency=concurrency, every=every)
    captured = Captured[Record]()
    if classes := topology.components[-1].streams:
        topology.bolt("captured", captured, *(emitted[cls].shuffle() for cls in classes))

    watch = Watch(before=partial(_set_state, keys={_key(by, key): value for key, value in (state or {}).items()}))
    pauses = sum(entry.seconds for entry in script if isinstance(entry, Pause))
    lasts_s = pauses + until_s
    report = run_topology(
        topology,
        seed=seed,
        start=start,
        limit_s=LIMIT_S + lasts_s,
        watch=watch,
        during=partial(_impatient, lasts_s + PATIENCE_S),
    )
    if report.error is not None:
        raise report.error
    return _bolt_run(watch, spout, captured, records, by, state or {})


async def _impatient(seconds: float, run: EmbeddedRun) -> None:
    """End a run whose bolt does not finish its inputs."""
    await asyncio.sleep(seconds)
    run.abort()


def _bolt_run(
    watch: Watch, spout: ScriptedSpout[A], captured: Captured[Any], records: list[A], by: tuple[str, ...], state: Any
) -> BoltRun[A, Any]:
    acked = {number for number in spout.acked if isinstance(number, int)}
    dead = {message.id: message.failure for message in watch.dead}
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
        [failure.error for failure in watch.failures if failure.error is not None and id(failure) not in of_inputs],
        {names[key]: value for key, value in watch.state("bolt").items()},
    )


def _key(by: tuple[str, ...], key: Any) -> bytes:
    return key_bytes(key) if by else b""


def _name(by: tuple[str, ...], record: Record) -> Any:
    values = tuple(getattr(record, name) for name in by)
    return values[0] if len(by) == 1 else values


def _set_state(worker: Worker, keys: Mapping[bytes, Any]) -> None:
    for executor in worker.executors.values():
        if isinstance(executor, StateExecutor) and executor.codec is not None:
            for key, value in keys.items():
                executor.keys.put(key, states.packed(executor.codec.encode(value), {}))
