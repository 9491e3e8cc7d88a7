"""How a run begins on a state directory that earlier runs have used, and what it leaves there for the next one.

Files are checked (D12), the topology is compared (B11), what is kept is filed for the workers that there are now; only
then may anything be emitted. For every kind of run. Must not know workers, nor how lines are shown.
"""

import contextlib
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from topology.codes.startup import RUN_END_NOT_RECORDED
from topology.errors import StartError
from topology.filesystem.files import Files
from topology.graph import Declared
from topology.plan import Plan
from topology.runtime.plan_facts import remembers_itself
from topology.runtime.run import remnants
from topology.storage.directory.shape import agreed, components_in, following, has_own_ids, left_in, shape_of, text_of
from topology.storage.directory.state_dir import StateDir
from topology.storage.rescale.assign import opened_stores, refile
from topology.storage.rescale.positions import positions
from topology.storage.rescale.spout_tasks import Rescaling
from topology.storage.values import Mark
from topology.text import escaped

NEW: Final = "new"  # a run id that nobody has had
TOLD_MAX: Final = 5  # partitions that are told one by one
PARTITION_MAX: Final = 16  # characters of a partition's name, and of a position, in a sentence
POSITION_MAX: Final = 40
RESUMING: Final = "resuming at"  # how the sentence begins that says where sources go on

logger = logging.getLogger("kedge")


@dataclass(frozen=True)
class Terms:
    """On what terms a run takes over what earlier ones have left.

    fresh              forgets positions, state and notes: everything is read again, and sinks drop what they hold.
    run_id             part of all identities from now on, so that everything is read, processed and stored again; 'new'
                       for one that nobody has had; empty for the one that is kept.
    accept_duplicates  goes on though the topology has changed while something was in flight (B11).
    accept_loss        goes on though a store is missing or behind (D12).
    """

    fresh: bool = False
    run_id: str = ""
    accept_duplicates: bool = False
    accept_loss: bool = False


CARRY_ON: Final = Terms()


@dataclass(frozen=True)
class Beginning:
    """What a run begins with. `told`: a sentence for each thing that people should know about it."""

    topology_id: str  # what identities begin with
    stores: Mapping[int, Path]  # worker → its store, absolute
    told: Sequence[str]
    clean: bool = True  # whether nothing was in flight when the last run ended


def topology_id(name: str, run_id: str) -> str:
    """What the identities of a topology's messages begin with (C3); no topology's name has a slash."""
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
    """The state directory, locked and prepared, until the end. Raises StartError, having changed nothing but what
    `terms` have asked to forget. `files` is the disk that it is on, `secret` makes bytes that nobody can guess."""
    with contextlib.closing(StateDir(path, plan.topology, fresh=terms.fresh, files=files, secret=secret)) as state:
        yield state, prepared(state, plan, terms)


def prepared(state: StateDir, plan: Plan, terms: Terms) -> Beginning:
    """Makes an open state directory ready for this plan. Everything that it writes is durable when it returns. Blocks.
    Raises StartError where the run may not begin."""
    renewed = bool(terms.run_id) and terms.run_id != state.run_id
    if renewed:
        state.forget()  # before the new id is kept: cut short between the two, everything is only read again
    told = [_forgotten()] if terms.fresh and not renewed else []
    told += remnants.ended(state)
    lost = state.check_files(accept_loss=terms.accept_loss)
    if terms.accept_loss and not lost:
        told.append("--accept-loss: no file is missing or behind")
    told += lost
    shape = shape_of(plan)
    clean = state.clean
    known = state.shape is not None
    empty = {one.known_as for one in plan.components.values() if one.begins_empty}
    changed = agreed(state.shape, clean, shape, accept_duplicates=terms.accept_duplicates, begin_empty=empty)
    told += changed
    if terms.accept_duplicates and not changed:
        told.append("--accept-duplicates: the topology has not changed")
    if renewed:
        state.new_run_id(None if terms.run_id == NEW else terms.run_id)
    identity = topology_id(plan.topology, state.run_id)
    if renewed:
        stored = "and stored again" if terms.run_id == NEW else "and stored again where no earlier run had that id"
        told.append(f"identities begin with {identity} from now on: everything is read, processed {stored}")
    elif state.run_id:
        told.append(f"identities begin with {identity}, as an earlier run was told")
    placed = _placed(plan)
    rescales = _rescales(plan, state.shape)
    paths = refile(state, placed, _kept(plan), rescales=rescales, accept_duplicates=terms.accept_duplicates)
    if known and (where := _resuming(state, plan, placed)):
        told.append(where if clean else f"{where}; the last run was cut short, and what was in flight is read again")
    state.set_begun(text_of(following(state.shape, shape)))
    return Beginning(identity, {worker: path.absolute() for worker, path in paths.items()}, told, clean)


def ended(state: StateDir, *, drained: bool) -> bool:
    """After the last worker is gone: notes how far the stores are, and, where this run has done all that it read,
    whether everything is done: what an earlier run had in flight may not have come again, and a dead letter may still
    be replayed. Returns whether that is
    noted, so that a changed topology may follow. What can't be noted is logged, and the next run takes this one for cut
    short."""
    try:
        with opened_stores(state) as stores:
            marks = [mark for store in stores.values() for mark in store.loaded.marks]
            replaying = any(store.loaded.replaying for store in stores.values())
        newest = {(one.component, one.task, one.partition): one for one in marks}  # older epochs can't come again
        clean = drained and not replaying and all(map(_finished, newest.values()))
        if clean:
            state.set_clean()
        return clean
    except StartError as error:
        logger.warning("the end of the run could not be noted: %s (%s)", error, RUN_END_NOT_RECORDED)
        return False


def _finished(mark: Mark) -> bool:
    """Whether all that was emitted up to the newest is done."""
    return mark.position == mark.newest and mark.done[:1] == ((mark.position, mark.position),)


def _forgotten() -> str:
    return "--fresh: positions and state are forgotten, and everything is read again; sinks drop what they hold"


def _placed(plan: Plan) -> dict[int, list[tuple[str, int]]]:
    """Worker → the spouts' tasks on it, by the names that they are known as; every worker is there."""
    placed: dict[int, list[tuple[str, int]]] = {worker: [] for worker in plan.workers}
    for (name, task), worker in plan.placement.items():
        if plan.components[name].kind == "spout":
            placed[worker].append((plan.components[name].known_as, task))
    return placed


def _kept(plan: Plan) -> dict[str, list[int]]:
    """The worker of each task of the bolts of which something is kept, by the names that they are known as."""
    return {
        one.known_as: [plan.placement[one.name, task] for task in range(one.tasks)]
        for one in plan.components.values()
        if one.shape == "journal" or (one.shape == "state" and one.prototype.recovery == "checkpoint")
    }


def _rescales(plan: Plan, kept: str | None) -> dict[str, Rescaling]:
    """What another number of tasks would do, by the name that a spout is known as; `kept`: the shape of the run before.
    A bolt that had remembered nothing then counts nothing twice."""
    before = components_in(kept)
    had = {name for name, one in (left_in(kept) | before).items() if one.get("kept", bool(one["state"]))}
    had |= {name for name, one in before.items() if one["how"] == "execute"}  # by themselves, perhaps
    found: dict[str, Rescaling] = {}
    for one in plan.components.values():
        if one.kind == "spout":
            names = plan.below(one.name) | plan.below(one.name, dead=True)
            below = [plan.components[name] for name in names]
            counts = sorted(bolt.name for bolt in below if bolt.known_as in had and _keeps_counts(bolt))
            own = one.tasks > 1 and not one.prototype.shared_ids
            own |= has_own_ids(*(before[name] for name in (one.known_as,) if name in before))
            found[one.known_as] = Rescaling(one.name, one.known_as, counts, own)
    return found


def _keeps_counts(one: Declared) -> bool:
    """Whether what this bolt has counted in one run is there in the next."""
    return (one.shape == "state" and one.prototype.recovery == "checkpoint") or remembers_itself(one)


def _resuming(state: StateDir, plan: Plan, placed: Mapping[int, Sequence[tuple[str, int]]]) -> str:
    """Where the sources go on, in a sentence; empty where no position is kept. Of tasks that share a partition the one
    that is told is the furthest back, where ids can be compared."""
    resumed: dict[tuple[str, str], Mark] = {}
    known = {one.known_as: one for one in plan.components.values()}
    with opened_stores(state) as stores:
        for worker, tasks in placed.items():
            kept = stores[worker].loaded
            for known_as, task in tasks:
                found = positions(kept.marks, kept.begun, known_as, task, known[known_as].tasks)
                for partition, mark in found.items():
                    name = known[known_as].name
                    resumed[name, partition] = _further_back(mark, resumed.get((name, partition), mark))
    told = [_at(name, partition, mark) for (name, partition), mark in resumed.items()]
    more = len(told) - TOLD_MAX
    listed = [*told[:TOLD_MAX], *([f"and {more:,} more partitions"] if more > 0 else [])]
    return f"{RESUMING} {', '.join(listed)}" if told else ""


def _further_back(one: Mark, other: Mark) -> Mark:
    if isinstance(one.position, int) and isinstance(other.position, int):
        return min(one, other, key=lambda mark: mark.position)
    return one


def _at(name: str, partition: str, mark: Mark) -> str:
    """'lines' 1234 of f3a2… (2 ranges above it are done). An id is no quantity, and has no separators; ranges of ints
    have gaps that nobody knows, so they are counted, and not what is in them."""
    of = f" of {_cut(escaped(partition), PARTITION_MAX)}" if partition else ""
    above = len([span for span in mark.done if span != (mark.position, mark.position)])
    one = "range" if isinstance(mark.position, int) else "message"
    done = f" ({above:,} {one}{'s' * (above != 1)} above it {'are' if above != 1 else 'is'} done)" if above else ""
    return f"{name!r} {_cut(escaped(repr(mark.position)), POSITION_MAX)}{of}{done}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
