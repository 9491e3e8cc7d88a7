"""`simulate`: run a topology on virtual time through the faults of one seed, and compare it with a run without faults.

The run without faults comes first and says what must arrive. Then the topology runs again while workers crash and stand
still, frames are lost, late and repeated, the disk fails, and everything is killed and begins again. At the end all
heals, and the captured records must be the same. Must not know how a fault is carried out, nor any particular topology.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from topology.errors import StartError
from topology.plan import plan
from topology.runtime.run.component_files import ComponentFolder
from topology.runtime.run.report import Report
from topology.storage.dead_questions import DeadAsk
from topology.storage.directory import savepoints
from topology.storage.directory.state_dir import StateDir
from topology.storage.offline import dead_letters
from topology.storage.sqlite.store import SqliteStore
from topology.testing.simulator import between_runs
from topology.testing.simulator.comparing import SHOWN_MAX, compare
from topology.testing.simulator.disk import SimulatedDisk
from topology.testing.simulator.expected import Peace, captured_of, deliveries, quiet, timed_out
from topology.testing.simulator.fate import STATE_DIR, Fate
from topology.testing.simulator.faults import ALL, FaultyLinks, Hazard, draw_strikes
from topology.testing.simulator.files import SimulatedFiles
from topology.testing.simulator.run import SimulatedRun, SimulatedWorker, takes
from topology.testing.simulator.sinks import SimulatedSinks
from topology.testing.virtual_time.loop import VirtualLoop, run_virtual
from topology.testing.virtual_time.process import SimulatedProcess
from topology.testing.virtual_time.worker import Dead, Watch
from topology.topology import Topology

RUNS_MAX: Final = 40  # runs of one simulation: each strike may end one, and a full disk keeps a few from beginning
HEALS_S: Final = 60.0  # seconds of virtual time after which no more faults occur
LIMIT_S: Final = 900.0  # seconds of virtual time after which a simulation counts as one that never ends
AGAIN_S: Final = 1.0  # seconds before a run is started again
ORDERS_S: Final = (0.005, 0.005, 0.1)  # seconds that an order to a worker, or its answer, may take
ORDERS_LATE: Final = 0.1  # share of the orders to workers
ANSWERS_TWICE: Final = 0.05  # share of their answers
POLLS_S: Final = (0.001, 0.1)  # seconds between two polls; after the longer ones a source is read through checkpoints
COPIES: Final = 0.3  # chance that the disk copies what is written over
BY_HAND: Final = 8  # replays of dead letters by hand during a run; one more happens between two runs
TASKS_MAX: Final = 3  # tasks, and workers, if their number changes between two runs
IN_VAIN: Final = "trees timed out when nothing went wrong"  # a path


class SimulationFailed(AssertionError):
    """Something was lost or doubled, or did not complete. The text has the seed, the faults in their order, and the
    differences."""


@dataclass(frozen=True)
class SimReport:
    """The result of a simulation. `faults` are those that hit something, by name. `paths` are the rare code paths that
    were taken. `told` is what happened, in order, in words. `trace` is the same for the same seed.

        report = simulate(make, seed=7)
        assert report.messages == len(FAILURES)
    """

    seed: int
    messages: int
    runs: int
    seconds: float  # of virtual time
    faults: Mapping[str, int]
    paths: Mapping[str, int]
    told: tuple[str, ...]
    trace: str
    dead: tuple[Dead, ...] = ()
    topology: Topology | None = None
    states: Mapping[str, Mapping[bytes, Any]] = field(default_factory=dict)


def simulate(
    make: Callable[[], Topology],
    *,
    seed: int,
    workers: int = 2,
    faults: Collection[Hazard] = ALL,
    exact: bool | None = None,
    rescale: bool = False,
) -> SimReport:
    """Run the topology that `make` returns through the faults of a seed, and compare its `Captured` with those of a run
    without faults. Every (origin, identity) must be there, and no other, with the same record.

    The runtime, its stores and SQLite are the real ones. Time, links, disk and the workers' deaths depend on the seed.
    The topology reads `ScriptedSpout`s, or spouts of your own that end and resume at the position that `open` gets.
    State survives, and so do the outputs of a bolt that is not deterministic: what it has emitted once must be the same
    each time. State with recovery 'none' or 'replay' is only in a worker's memory. If such state was lost, its outputs
    are compared by identities, unless `exact` requires equal records. With `rescale`, each restart of the whole run has
    another number of workers, and of tasks of bolts that store something, or of spouts if no bolt does.

    SimulatedSinks with a file or a server are not supported, because nothing of them dies with a simulated worker. Use
    `Captured` instead, which holds what an idempotent sink would. To test the sink itself, use `run_processes` and the
    suite in `topology.testing.sinks`. Dead letters are replayed by hand during the simulation, and must die again.
    Raises SimulationFailed, with the seed and all that happened. Raises ValueError for a topology without Captured.

        @pytest.mark.parametrize("seed", range(50))
        def test_every_alert_arrives_once_whatever_dies(seed):
            def make():
                topology = Topology("alerts")
                failures = topology.spout("failures", ScriptedSpout(FAILURES))
                alerts = topology.bolt("alerts", Detect(), failures.fields("source_ip"), tasks=2)
                topology.bolt("captured", Captured(), alerts.shuffle())
                return topology

            simulate(make, seed=seed)
    """
    peace = _in_peace(make, workers, seed)
    topology, watch = make(), Watch()
    fate = _drawn(topology, peace, seed, faults, workers)
    try:
        with quiet():
            report, runs, seconds = run_virtual(
                _lived(topology, fate, watch, workers, seed, rescale), seed=seed, limit_s=LIMIT_S
            )
        compare(topology, peace, always=exact, memory_lost=fate.memory_lost, went_back=fate.went_back)
        _check_letters(peace, fate)
        _check_ways(peace, watch, fate)
    except BaseException as error:
        if isinstance(error, Exception):
            raise SimulationFailed(_explained(seed, fate, error)) from error
        raise
    finally:
        fate.files.close()
        fate.disk.release()
    return _reported(seed, peace, fate, topology, watch, report, runs, seconds)


def _drawn(topology: Topology, peace: Peace, seed: int, faults: Collection[Hazard], workers: int) -> Fate:
    """Draw all that will happen to a topology."""
    random = Random(seed)
    places = sorted(plan(topology, workers).workers)
    strikes, chances = draw_strikes(random, faults, places, peace.messages)
    disk, hits = SimulatedDisk(Random(random.getrandbits(64))), Counter[Hazard]()
    disk.copies = random.random() < COPIES
    files = SimulatedFiles(disk, Random(random.getrandbits(64)))
    files.make_directory(STATE_DIR, 0o700)
    links = FaultyLinks(Random(random.getrandbits(64)), chances, hits)
    of_hand = Random(f"by hand of {seed}")
    by_hand = sorted(of_hand.randrange(peace.messages + 1) for _ in range(BY_HAND)) if peace.dead else []
    between = between_runs.drawn(seed, faults, peace.messages)
    drops = bool(peace.dead) and random.random() < 0.5
    order_s, poll_s = Random(f"orders of {seed}").choice(ORDERS_S), Random(f"pace of {seed}").choice(POLLS_S)
    return Fate(
        Random(random.getrandbits(64)),
        peace.messages,
        strikes,
        order_s,
        drops,
        by_hand,
        links,
        hits,
        disk,
        files,
        between,
        bool(peace.dead),
        SimulatedSinks(captured_of(topology)),
        poll_s,
        ORDERS_LATE,
        ANSWERS_TWICE,
    )


def _in_peace(make: Callable[[], Topology], workers: int, seed: int) -> Peace:
    captured_of(make())
    try:
        peace = Peace(make, workers)
    except Exception as error:
        raise SimulationFailed(f"seed {seed}, when nothing goes wrong: {type(error).__name__}: {error}") from error
    if peace.ended != "ended":
        raise SimulationFailed(f"the topology does not end by itself when nothing goes wrong: it {peace.ended}")
    return peace


async def _lived(
    topology: Topology, fate: Fate, watch: Watch, workers: int, seed: int, rescale: bool
) -> tuple[Report, int, float]:
    """Run the topology again and again until it has ended by itself."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.executor_takes = takes(Random(seed))
    loop.call_later(HEALS_S, fate.heal)
    gone: list[SimulatedRun] = []
    made = type("Made", (SimulatedWorker,), {"done": fate.done, "paths": fate.paths, "refused": fate.refused})
    kind = partial(made, watch=watch, seed=seed)
    clock, source = loop.utc, None
    folder = ComponentFolder()  # of all runs; a real one, from which no loss of power takes anything
    try:
        for number in range(1, RUNS_MAX + 1):
            life = SimulatedProcess()
            run = SimulatedRun(
                topology,
                fate=fate,
                life=life,
                source=source,
                watch=watch,
                orders=Random(fate.random.getrandbits(64)),
                random=Random(fate.random.getrandbits(64)),
                workers=workers,
                worker_kind=kind,
                utc=clock,
                folder=folder,
            )
            if (soon := fate.between.soon()) is not None:
                loop.call_later(soon, run.drain_now)
            report = await _one(run, life, fate)
            gone.append(run)
            fate.states = {bolt.name: watch.state(bolt.name) for bolt in topology.components if bolt.shape == "state"}
            watch.workers.clear()
            _check_late(topology, fate)
            if report is not None and report.ended == "ended":
                if fate.is_last or not _replayed_by_hand(topology, fate):
                    return report, number, loop.time()
                fate.is_last = True
            fate.paths["the whole run began again"] += 1
            fate.went_back |= topology.config.durability == "checkpoint"  # its last checkpoint may have been given up
            if rescale:
                workers = _rescaled(topology, fate)
            clock = _between(topology, fate, clock)
            source = _kept_checkpoint(fate) if run.has_begun else source  # one that could not begin is tried again
            await asyncio.sleep(AGAIN_S)
    finally:
        for run in gone:
            run.let_go()
        folder.close()
    raise SimulationFailed(f"it has not ended after {RUNS_MAX} runs")


def _between(topology: Topology, fate: Fate, clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """Let happen what happens between two runs. Return the wall clock of the next one."""
    now = asyncio.get_running_loop().time()
    with (
        contextlib.suppress(StartError),  # the disk is full
        contextlib.closing(StateDir(STATE_DIR, topology.name, files=fate.files)) as state,
    ):
        if count := fate.between.starts_in_vain(state):
            fate.hits[Hazard.VAIN_STARTS] += 1
            fate.tell(now, f"{Hazard.VAIN_STARTS.value}: {count:,}")
    if not (step := fate.between.step()):
        return clock
    fate.hits[Hazard.CLOCK_STEP] += 1
    fate.tell(now, f"{Hazard.CLOCK_STEP.value} by {step.total_seconds():,.1f} s")
    return lambda: clock() + step


def _kept_checkpoint(fate: Fate) -> Path | None:
    """Return the savepoint from which the next run begins; None if it resumes with the content of the directory. The
    last run begins from none: that would forget which letters were replayed by hand."""
    if fate.is_last or (name := fate.between.begins_from(fate.sinks.kept)) is None:
        return None
    fate.hits[Hazard.SAVEPOINT] += 1
    fate.tell(asyncio.get_running_loop().time(), f"it begins again from checkpoint {name}")
    fate.commits.clear()  # the stores will be copies, with fewer
    return savepoints.folder_of(STATE_DIR, name)


def _rescaled(topology: Topology, fate: Fate) -> int:
    """Give bolts that store something another number of tasks; or spouts, if no bolt does, as it would count twice what
    these read again (D18), and no message is dead, as it would die again. Return the number of workers."""
    workers = fate.random.randint(1, TASKS_MAX)
    changed = [bolt for bolt in topology.components if bolt.shape in ("state", "journal")]
    if not changed and not fate.dies:
        changed = [spout for spout in topology.components if spout.kind == "spout" and spout.prototype.shared_ids]
    for component in changed:
        component.tasks = fate.random.randint(1, TASKS_MAX)
    tasks = ", ".join(f"{component.tasks} of {component.name!r}" for component in changed)
    fate.tell(asyncio.get_running_loop().time(), f"it begins again with {workers} workers, and as tasks {tasks}")
    return workers


async def _one(run: SimulatedRun, life: SimulatedProcess, fate: Fate) -> Report | None:
    """Run one run up to its end. Return None if it was killed, or could not begin."""
    loop = asyncio.get_running_loop()
    finishing = life.task(run.finish())
    killed = asyncio.ensure_future(run.killed.wait())
    await asyncio.wait({finishing, killed}, return_when=asyncio.FIRST_COMPLETED)
    if not finishing.done():
        return None
    killed.cancel()
    fate.acked = run.acked()
    try:
        report = finishing.result()
    except StartError as error:
        fate.tell(loop.time(), f"  the run could not begin: {error}")
        fate.paths["a run could not begin"] += 1
        fate.memory_lost = True
        fate.new_machine(power=False)
        return None
    if report.ended != "ended":
        fate.tell(loop.time(), f"  the run {report.ended}: {report.error}")
        fate.memory_lost = True
    fate.new_machine(power=False)
    return report


def _replayed_by_hand(topology: Topology, fate: Fate) -> bool:
    """Request the replay of all dead letters, as `kedge dead replay` does without a run. Return False if there are
    none."""
    try:
        with contextlib.closing(StateDir(STATE_DIR, topology.name, files=fate.files)) as state:
            answer = dead_letters.answer(state, DeadAsk(0, "replay"))
    except StartError:  # the disk is full
        return False
    fate.by_hand_done(asyncio.get_running_loop().time(), answer)
    return bool(answer.names)


# -- comparison


def _check_late(topology: Topology, fate: Fate) -> None:
    """Check that nothing arrived in this run when its tree was complete. Roots may occur again in later runs."""
    for name, captured in captured_of(topology).items():
        seen = fate.seen[name]
        for tup, at in zip(captured.tuples[seen:], captured.times[seen:], strict=True):
            if at > fate.done.get(tup.root, at):
                raise AssertionError(f"{name!r} got {tup.record} at {at:.4f} s, when its tree was complete already")
        fate.seen[name] = len(captured.tuples)
    fate.done.clear()


def _check_letters(peace: Peace, fate: Fate) -> None:
    letters = _kept_letters(fate)
    if twice := [letter for letter, count in letters.items() if count > 1]:
        raise AssertionError(f"there is more than one dead letter of {twice[:SHOWN_MAX]}")
    wanted = set[Any]() if fate.paths["letters dropped"] else peace.dead
    if (dead := {*letters}) != wanted:
        more, less = sorted(dead - wanted, key=str), sorted(wanted - dead, key=str)
        raise AssertionError(f"there are dead letters of {more[:SHOWN_MAX]}, and none of {less[:SHOWN_MAX]}")


def _check_ways(peace: Peace, watch: Watch, fate: Fate) -> None:
    """Check that the run reached its result without the paths that exist for unnoticed losses."""
    if not peace.timed_out and (late := timed_out(watch)):
        raise AssertionError(f"{late} trees timed out: what they waited for was lost, and no part noticed")
    if (lost := fate.paths["a session was lost"]) > fate.hits[Hazard.LOST_FRAME]:
        raise AssertionError(f"{lost} sessions were lost, and {fate.hits[Hazard.LOST_FRAME]} frames")


def _kept_letters(fate: Fate) -> Counter[tuple[str, Any]]:
    """Return the spout and id of each dead letter in the stores, and how many letters it has. There must be one,
    because a letter and the mark that passes its message are in one commit (E2)."""
    found = Counter[tuple[str, Any]]()
    for name in fate.files.names(STATE_DIR):
        if name.endswith(".db"):
            store = SqliteStore(fate.files, STATE_DIR / name)
            found.update((letter.component, letter.id) for letter in store.letters())
            store.close()
    return found


def _explained(seed: int, fate: Fate, error: Exception) -> str:
    happened = "\n".join(fate.events) or "  nothing"
    stuck = not isinstance(error, AssertionError)
    where = f"\nin flight: {fate.in_flight()}" if stuck else ""
    kind = f"{type(error).__name__}: " if stuck else ""
    return f"seed {seed}: {kind}{error}\nwhat happened:\n{happened}{where}"


def _reported(
    seed: int, peace: Peace, fate: Fate, topology: Topology, watch: Watch, report: Report, runs: int, seconds: float
) -> SimReport:
    for text in (peace.trace, *deliveries(topology)):
        fate.trace.update(text.encode())
    for name, count in report.snapshot.rare.items():
        fate.paths[name] += count
    fate.paths["replays"] += report.snapshot.total("replayed")
    for name, count in fate.disk.hits.items():
        fate.paths[name] += count
    fate.paths[IN_VAIN] += peace.timed_out
    faults = {hazard.name: fate.hits[hazard] for hazard in ALL if fate.hits[hazard]}
    events, trace = tuple(fate.events), fate.trace.hexdigest()
    ends = tuple(watch.dead), topology, fate.states
    return SimReport(seed, peace.messages, runs, seconds, faults, fate.paths, events, trace, *ends)
