"""Start a run on a state directory that earlier runs have used, and leave it ready for the next run.

Files are checked (D12), the topology is compared (B11), and what is stored is divided among the present workers. Only
then may anything be emitted. Serves every kind of run. Must not know workers, nor how lines are shown.
"""

import contextlib
import logging
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from topology.codes.startup import RUN_END_NOT_RECORDED
from topology.errors import StartError
from topology.filesystem.files import DiskFiles, Files
from topology.graph import Declared
from topology.plan import Plan
from topology.runtime.clock import utc_now
from topology.runtime.plan_facts import remembers_itself
from topology.runtime.run import remnants
from topology.storage.directory.decision import NAME as DECIDED
from topology.storage.directory.decision import DecisionFile
from topology.storage.directory.shape import agreed, components_in, following, has_own_ids, left_in, shape_of, text_of
from topology.storage.directory.state_dir import StateDir
from topology.storage.encoding.entries import named
from topology.storage.offline.savepoints import begin_from, found
from topology.storage.rescale.assign import opened_as_they_are, opened_stores, refile
from topology.storage.rescale.positions import positions
from topology.storage.rescale.spout_tasks import Rescaling
from topology.storage.sqlite.errors import is_damaged
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Mark
from topology.storage.worker_store import start_errors
from topology.text import escaped

NEW: Final = "new"  # requests a run id that no run has had
TOLD_MAX: Final = 5  # partitions that are listed one by one
PARTITION_MAX: Final = 16  # characters of a partition's name, and of a position, in a sentence
POSITION_MAX: Final = 40
RESUMING: Final = "resuming at"  # the beginning of the sentence that says where sources resume

logger = logging.getLogger("kedge")


@dataclass(frozen=True)
class Terms:
    """The terms on which a run takes over what earlier runs left.

    fresh              Forget positions, state and notes. Everything is read again, and sinks drop what they hold.
    run_id             A part of all identities from now on, so that everything is read, processed and stored again.
                       'new' chooses one that no run has had; empty keeps the stored one.
    accept_duplicates  Continue although the topology has changed while something was in flight (B11).
    accept_loss        Continue although a store is missing or behind (D12).
    source             Begin from the savepoint in this folder, in place of what the directory has.
    """

    fresh: bool = False
    run_id: str = ""
    accept_duplicates: bool = False
    accept_loss: bool = False
    source: Path | None = None


CARRY_ON: Final = Terms()


@dataclass(frozen=True)
class Beginning:
    """The beginning of a run. `notices` has a sentence for each fact that people should know about it."""

    topology_id: str  # the beginning of identities
    stores: Mapping[int, Path]  # worker → its store, absolute
    notices: Sequence[str]
    clean: bool = True  # True if nothing was in flight when the last run ended
    decided: int = 0  # the last decided checkpoint, which all stores have; the next one has a higher number


def topology_id(name: str, run_id: str) -> str:
    """Return the beginning of the identities of a topology's messages (C3). No topology's name has a slash."""
    return f"{name}/{run_id}" if run_id else name


@contextlib.contextmanager
def opened(
    path: Path,
    plan: Plan,
    terms: Terms,
    *,
    files: Files | None = None,
    secret: Callable[[int], bytes] = secrets.token_bytes,
) -> Iterator[tuple[StateDir, Beginning]]:
    """Yield the state directory, locked and prepared, and what the run begins with.

    Raises StartError; then nothing has changed but what `terms` asked to forget. `files` is the disk with the
    directory. `secret` makes bytes that are impossible to guess.
    """
    if terms.source is not None:
        found(files or DiskFiles(), terms.source, plan.topology)  # or no directory is made
    with contextlib.closing(StateDir(path, plan.topology, fresh=terms.fresh, files=files, secret=secret)) as state:
        yield state, prepared(state, plan, terms)


def prepared(state: StateDir, plan: Plan, terms: Terms) -> Beginning:
    """Make an open state directory ready for this plan. All that it writes is durable when it returns. Blocks. Raises
    StartError if the run may not begin."""
    killed = remnants.ended(state)
    begun = _begun(state, plan, terms)
    try:
        return _prepared(state, plan, terms, [*killed, *begun])
    except StartError as error:
        if begun:  # what the directory had is not there any more, and has a name
            error.args = (f"{error} ({'; '.join(begun)})",)
        raise


def _begun(state: StateDir, plan: Plan, terms: Terms) -> list[str]:
    """Have what a checkpoint has, if the run is to begin from one that fits. Return what was done, in sentences."""
    if terms.source is None:
        return []
    kept = found(state.files, terms.source, plan.topology).manifest
    _agreed(plan, kept.shape, terms, clean=kept.clean)
    before = components_in(kept.shape)
    now = {declared.known_as: declared.tasks for declared in plan.components.values()}
    for known_as, rescaling in _rescales(plan, kept.shape).items():  # as `refile` does, which is too late here
        if known_as in before and (had := before[known_as]["tasks"]) != now[known_as]:
            rescaling.refuse(had, now[known_as], accept_duplicates=terms.accept_duplicates)
    return begin_from(state, terms.source, plan.topology, utc_now())


def _agreed(plan: Plan, kept: str | None, terms: Terms, *, clean: bool) -> list[str]:
    empty = {component.known_as for component in plan.components.values() if component.begins_empty}
    duplicates = terms.accept_duplicates
    source = terms.source.name if terms.source is not None else ""
    new = shape_of(plan)
    return agreed(kept, clean, new, accept_duplicates=duplicates, begin_empty=empty, checkpoint=source)


def _prepared(state: StateDir, plan: Plan, terms: Terms, done: Sequence[str]) -> Beginning:
    renewed = bool(terms.run_id) and terms.run_id != state.run_id
    if renewed:
        state.forget()  # before the new id is stored: a run that is killed between the two only reads everything again
    sentences = [_forgotten()] if terms.fresh and not renewed else []
    sentences += done
    lost = state.check_files(accept_loss=terms.accept_loss)
    sentences += lost
    losses_at = len(sentences)
    shape = shape_of(plan)
    clean = state.clean
    known = state.shape is not None
    changed = _agreed(plan, state.shape, terms, clean=clean)
    sentences += changed
    if terms.accept_duplicates and not changed:
        sentences.append("--accept-duplicates: the topology has not changed")
    if renewed:
        state.new_run_id(None if terms.run_id == NEW else terms.run_id)
    identity = topology_id(plan.topology, state.run_id)
    if renewed:
        stored = "and stored again" if terms.run_id == NEW else "and stored again where no earlier run had that id"
        sentences.append(f"identities begin with {identity} from now on: everything is read, processed {stored}")
    elif state.run_id:
        sentences.append(f"identities begin with {identity}, as an earlier run chose")
    placed = _placed(plan)
    rescales = _rescales(plan, state.shape)
    accepted = {"accept_duplicates": terms.accept_duplicates, "accept_loss": terms.accept_loss}
    filed = refile(state, placed, _kept(plan), rescales=rescales, **accepted)
    none = ["--accept-loss: no file is missing or behind"] if terms.accept_loss and not lost else []
    sentences[losses_at:losses_at] = filed.lost or none
    if known and (where := _resuming(state, plan, placed)):
        left = "the last run was interrupted, so its" if terms.source is None else "the checkpoint's"
        sentences.append(where if clean else f"{where}; {left} messages in flight are re-read")
    if len(plan.workers) > 1:
        DecisionFile(state.files, state.path / DECIDED, begins=filed.decided).close()
    logs_are_synced = plan.config.durability != "process"
    state.set_begun(text_of(following(state.shape, shape)), logs_are_synced=logs_are_synced)
    paths = {worker: path.absolute() for worker, path in filed.paths.items()}
    return Beginning(identity, paths, sentences, clean, filed.decided)


def ended(state: StateDir, *, drained: bool, was_killed: bool = False) -> bool:
    """After the last worker is gone, note how far the stores are, and whether everything is done.

    drained     True if this run has done all that it read, and its sources have come as far as those of earlier runs.
    was_killed  True if an earlier run was killed, or a worker of this one. Then nothing may be known of inputs that
                have not come again.

    A dead letter may still be replayed. Return True if it is noted that a changed topology may follow. A failure to
    write is logged, and then the next run treats this one as interrupted.
    """
    try:
        with opened_stores(state) as stores:
            marks = [mark for store in stores.values() for mark in store.loaded.marks]
            replaying = any(store.loaded.replaying for store in stores.values())
            left = was_killed and _left(stores.values())
        newest = {(mark.component, mark.task, mark.partition): mark for mark in marks}  # older epochs can't come again
        clean = drained and not replaying and not left and all(map(_finished, newest.values()))
        if clean:
            state.set_clean()
        return clean
    except StartError as error:
        logger.warning("the end of the run could not be noted: %s (%s)", error, RUN_END_NOT_RECORDED)
        return False


def _left(stores: Collection[SqliteStore]) -> bool:
    """Return True if an input is known that has not come again, and that no dead letter is of. Raises StartError."""
    dead = {origin for store in stores for origin in store.loaded.dead_origins}
    for store in stores:
        with start_errors(store.path):
            rows = store.entries()
        try:
            known = (found.entry for row in rows for found in named(row.entries))
            if any(not entry.timer and entry.origin not in dead for entry in known):
                return True
        except ValueError as error:
            is_damaged(store.path, str(error))
    return False


def _finished(mark: Mark) -> bool:
    """Return True if all that was emitted up to the newest message is done."""
    return mark.position == mark.newest and mark.done[:1] == ((mark.position, mark.position),)


def _forgotten() -> str:
    return "--fresh: positions and state are forgotten, and everything is read again; sinks drop what they hold"


def _placed(plan: Plan) -> dict[int, list[tuple[str, int]]]:
    """Return worker → the tasks of spouts on it, by the names that they are known as. Every worker is included."""
    placed: dict[int, list[tuple[str, int]]] = {worker: [] for worker in plan.workers}
    for (name, task), worker in plan.placement.items():
        if plan.components[name].kind == "spout":
            placed[worker].append((plan.components[name].known_as, task))
    return placed


def _kept(plan: Plan) -> dict[str, list[int]]:
    """Return the worker of each task of the bolts whose state or known inputs are stored, by the names that they are
    known as."""
    return {
        component.known_as: [plan.placement[component.name, task] for task in range(component.tasks)]
        for component in plan.components.values()
        if component.shape == "journal" or (component.shape == "state" and component.prototype.recovery == "checkpoint")
    }


def _rescales(plan: Plan, kept: str | None) -> dict[str, Rescaling]:
    """Return what another number of tasks would do, by the name that a spout is known as. `kept` is the shape of the
    run before. A bolt that had remembered nothing then counts nothing twice."""
    before = components_in(kept)
    had = {
        name for name, component in (left_in(kept) | before).items() if component.get("kept", bool(component["state"]))
    }
    had |= {name for name, component in before.items() if component["how"] == "execute"}  # perhaps by themselves
    found: dict[str, Rescaling] = {}
    for component in plan.components.values():
        if component.kind == "spout":
            names = plan.below(component.name) | plan.below(component.name, dead=True)
            below = [plan.components[name] for name in names]
            counts = sorted(bolt.name for bolt in below if bolt.known_as in had and _keeps_counts(bolt))
            own = component.tasks > 1 and not component.prototype.shared_ids
            own |= has_own_ids(*(before[name] for name in (component.known_as,) if name in before))
            found[component.known_as] = Rescaling(component.name, component.known_as, counts, own)
    return found


def _keeps_counts(one: Declared) -> bool:
    """Return True if what this bolt has counted in one run is there in the next."""
    return (one.shape == "state" and one.prototype.recovery == "checkpoint") or remembers_itself(one)


def _resuming(state: StateDir, plan: Plan, placed: Mapping[int, Sequence[tuple[str, int]]]) -> str:
    """Return where the sources resume, in a sentence; empty if no position is stored. If tasks share a partition, the
    sentence names the position that is furthest back, if ids can be compared."""
    resumed: dict[tuple[str, str], Mark] = {}
    known = {component.known_as: component for component in plan.components.values()}
    with opened_as_they_are(state) as stores:
        for worker, tasks in placed.items():
            kept = stores[worker].loaded
            for known_as, task in tasks:
                found = positions(kept.marks, kept.begun, known_as, task, known[known_as].tasks)
                for partition, mark in found.items():
                    name = known[known_as].name
                    resumed[name, partition] = _further_back(mark, resumed.get((name, partition), mark))
    places = [_at(name, partition, mark) for (name, partition), mark in resumed.items()]
    more = len(places) - TOLD_MAX
    listed = [*places[:TOLD_MAX], *([f"and {more:,} more partitions"] if more > 0 else [])]
    return f"{RESUMING} {', '.join(listed)}" if places else ""


def _further_back(one: Mark, other: Mark) -> Mark:
    if isinstance(one.position, int) and isinstance(other.position, int):
        return min(one, other, key=lambda mark: mark.position)
    return one


def _at(name: str, partition: str, mark: Mark) -> str:
    """Return a position as text: 'lines' 1234 of f3a2… (2 ranges above it are done). An id is no quantity, so it has no
    separators. Ranges of ints have unknown gaps, so the ranges are counted, not their content."""
    of = f" of {_cut(escaped(partition), PARTITION_MAX)}" if partition else ""
    above = 0 if _finished(mark) else len([span for span in mark.done if span != (mark.position, mark.position)])
    noun = "range" if isinstance(mark.position, int) else "message"
    done = f" ({above:,} {noun}{'s' * (above != 1)} above it {'are' if above != 1 else 'is'} done)" if above else ""
    return f"{name!r} {_cut(escaped(repr(mark.position)), POSITION_MAX)}{of}{done}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
