"""One call that runs a topology on virtual time: the real runtime, every record checked, workers that may crash.

Results are returned as values. An error names its seed and what was in flight. Must not know how time is made virtual,
nor how anything is driven.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random

from topology.components import R
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.links.memory import Faults, faultless
from topology.runtime.run.report import Report
from topology.testing import history
from topology.testing.captured import Captured
from topology.testing.virtual_time.crashing_run import Crash, CrashingRun
from topology.testing.virtual_time.loop import LIMIT_S, START, VirtualLoop, run_virtual
from topology.testing.virtual_time.mortal_worker import MortalWorker
from topology.testing.virtual_time.worker import Watch, WatchedWorker
from topology.topology import Topology

During = Callable[[EmbeddedRun], Awaitable[object]]


class Divergence(AssertionError):
    """A replay emitted one (origin, identity) with another record, or other identities: a sink could not have dropped
    it."""


def run_topology(
    topology: Topology,
    *,
    seed: int | None = 0,
    replay_all: bool = False,
    until_s: float | None = None,
    during: During | None = None,
    state_dir: str | Path | None = None,
    workers: int = 1,
    crashes: Sequence[Crash] = (),
    may_crash: bool = False,
    faults: Faults = faultless,
    start: datetime = START,
    limit_s: float = LIMIT_S,
    watch: Watch | None = None,
) -> Report:
    """Run a topology on virtual time and return its report. The same seed gives the same run.

    `seed` is that of all randomness, and shuffles what is ready together; None shuffles nothing, and otherwise acts as
    0. `replay_all` replays each message once more after all of it was done. `until_s` drains the run after so many
    virtual seconds. `during(run)` is awaited beside the run, and may drain it. `workers` share one loop, and `faults`
    decides what happens to the frames between them. `watch` is filled with dead messages, failures and deaths.

    `crashes` are deaths of workers, as by SIGKILL: a worker stops from one moment to the next, and a new one takes its
    place, as under `kedge run --workers`. With `state_dir` its spouts resume from their last stored position, and its
    bolts with their stored state; without it, both start from scratch. What a bolt has opened stays open, because it
    belongs to this process. Crash bolts that hold files or connections with `run_processes`. `may_crash` allows user
    code to call `crash_here`, which ends its worker.

    Raises what `serve` raises, and what `run_virtual` raises. Raises Divergence if a `Captured` got one key with two
    records, CrashMissed if a crash had nothing to hit, and ValueError for a crash of an unknown worker.

        alerts = Captured[Alert]()
        report = run_topology(build(alerts), seed=7, workers=2, crashes=[Crash("alerts", acked=10)])
        assert report.exit_status == 0 and report.restarts == 1 and len(alerts.distinct) == 1
    """
    watch = watch or Watch()
    entry = history.begin(topology.name, seed)
    mortal = bool(crashes) or may_crash
    kind = partial(MortalWorker if mortal else WatchedWorker, watch=watch, replay_all=replay_all, seed=seed)
    drawn = seed or 0  # Random(None) would differ each time
    alone = partial(EmbeddedRun, companions=False)
    make = partial(CrashingRun, crashes=crashes, watch=watch, orders=Random(drawn)) if mortal else alone
    made = partial(
        make, topology, state_dir=state_dir, random=Random(drawn), workers=workers, faults=faults, worker_kind=kind
    )
    with _noted(entry, watch):
        report = run_virtual(_ran(made, until_s, during, entry), seed=seed, start=start, limit_s=limit_s)
        _refuse_divergence(topology)
        entry.ended = f"{report.ended} after {report.snapshot.seconds:.3g} virtual seconds"
    return report


@contextlib.contextmanager
def _noted(entry: history.RunHistory, watch: Watch) -> Iterator[None]:
    """Record the result of a run in the history, and add it to an exception."""
    try:
        yield
    except BaseException as error:
        entry.ended = f"raised {type(error).__name__}"
        error.add_note(str(entry))
        raise
    finally:
        entry.failures = [str(failure) for failure in watch.failures]
        entry.deaths = [str(death) for death in watch.deaths]


async def _ran(
    made: Callable[..., EmbeddedRun], until_s: float | None, during: During | None, entry: history.RunHistory
) -> Report:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    run = made(utc=loop.utc)
    if until_s is not None:
        loop.call_later(until_s, run.drain)
    try:
        return await _beside(run, during)
    except BaseException:
        entry.in_flight = run.in_flight()
        raise


def _refuse_divergence(topology: Topology) -> None:
    for declared in topology.components:
        if isinstance(declared.prototype, Captured) and declared.prototype.divergent:
            found = declared.prototype.divergent[:3]
            raise Divergence(f"{declared.name!r} got one key with other records: {found}")


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
    """Run a topology twice, the second time with every message replayed once more, and compare what its sink holds.

    `make` is called with the sink for each run. Returns what the sink holds, by (origin, identity). Raises Divergence
    if the replays add, change or lose something, for example if a bolt counts a replay twice (B4). Without a seed, both
    runs take asyncio's own order, so that a result that depends on the order of arrival is the same.

        held = check_replays(build)
        assert sorted(alert.source_ip for alert in held.values()) == ["192.0.2.1"]
    """
    once, again = Captured[R](), Captured[R]()
    run_topology(make(once), seed=seed)
    run_topology(make(again), seed=seed, replay_all=True)
    only = [record for key, record in once.distinct.items() if again.distinct.get(key) != record]
    more = [record for key, record in again.distinct.items() if once.distinct.get(key) != record]
    if only or more:
        raise Divergence(f"with replays the sink has {len(more)} other records: {more[:3]} in place of {only[:3]}")
    return once.distinct
