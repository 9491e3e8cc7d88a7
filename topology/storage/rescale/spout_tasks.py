"""Before a run: a spout has another number of tasks than in the run before.

What all of the former ones together had reached becomes the mark of each new one, in one transaction of one store; cut
short, the next start completes it (F56). That reads again what some of them had done, which sinks drop and state counts
twice, as state has forgotten by then what it had. So where state would count twice, and where what is read again would
have other identities, another number is refused (D18). Must not know the plan, nor what a run is.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from topology.codes.code import FRESH
from topology.codes.startup import STATEFUL_SPOUT_RESCALED, UNSHARED_ID_SPOUT_RESCALED
from topology.errors import StartError
from topology.storage.rescale.positions import common, newest
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Begun, Changes, Mark

CHANGING: Final = -1  # the task of a `Begun` that says: this store has the marks of the new tasks, no other has any

logger = logging.getLogger("kedge")


@dataclass(frozen=True)
class Rescaling:
    """What another number of tasks of a spout would do. `name` is its present one, `known_as` that in the stores.
    `counts`: the bolts below it that remember what they have counted in earlier runs. `own_ids`: whether each of its
    tasks has message ids of its own, now or in the run before."""

    name: str
    known_as: str
    counts: Sequence[str]
    own_ids: bool

    def check(
        self, stores: Mapping[int, SqliteStore], tasks: int, *, clean: bool, accept_duplicates: bool = False
    ) -> None:
        """Raises StartError where the spout has begun with another number of tasks, and this one may not follow.
        `clean`: all that was read had been done when the last run ended; without a mark that is nothing at all."""
        before = max((one.tasks for one in _begun(stores, self.known_as)), default=tasks)
        marked = any(one.component == self.known_as for store in stores.values() for one in store.loaded.marks)
        if before == tasks or (clean and not marked):
            return
        said = f"spout {self.name!r} has {_tasks(tasks)} now, and had {before}"
        again = f"give it tasks={before} again"
        if self.counts:
            bolts = " and ".join(map(repr, self.counts))
            text = f"{said}: what it reads again would count twice in the state of {bolts}"
            raise StartError(text, code=STATEFUL_SPOUT_RESCALED, next=f"{again}; or {FRESH}")
        if self.own_ids and not accept_duplicates:
            text = f"{said}; each task has message ids of its own, so all would be read and stored again"
            more = "where its tasks share one set of ids, write shared_ids = True in its class"
            raise StartError(
                text, code=UNSHARED_ID_SPOUT_RESCALED, next=f"{again}; {more}; or --accept-duplicates; or {FRESH}"
            )


def _tasks(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"


def _begun(stores: Mapping[int, SqliteStore], component: str) -> list[Begun]:
    return [one for store in stores.values() for one in store.reread().begun if one.component == component]


def change(
    stores: Mapping[int, SqliteStore], component: str, tasks: int, worker: int, *, own_ids: bool = False
) -> None:
    """Where the former tasks were not as many as these: all of them have begun now, at what those had reached. With
    `own_ids` that says nothing of what these have to read, and all begin at the beginning: nothing is passed over."""
    former = _begun(stores, component)
    begun = {one.task: one.tasks for one in former}
    if not begun or {*begun.values()} == {tasks}:
        return
    marks = [mark for store in stores.values() for mark in store.loaded.marks if mark.component == component]
    by_task = newest(marks)
    reached = {} if own_ids else common(begun, by_task)
    _tell(component, tasks, begun, reached, {mark.partition for mark in marks})
    now = [msgspec.structs.replace(mark, task=task) for task in range(tasks) for mark in reached.values()]
    ahead = sum(one.ahead for one in former)  # what all of them may have emitted beyond the marks, any of these gives
    first = stores[worker]
    old = [mark for mark in first.loaded.marks if mark.component == component]
    first.replace(
        Changes(marks=now, begun=[Begun(component, task, tasks, ahead) for task in (*range(tasks), CHANGING)]),
        marks=old,
        begun=[one for one in first.loaded.begun if one.component == component],
    )
    complete(stores, component)


def complete(stores: Mapping[int, SqliteStore], component: str) -> None:
    """Where one store has the marks of a changed number of tasks, the others forget those from before."""
    for store in stores.values():
        held = store.reread()
        changing = [one for one in held.begun if (one.component, one.task) == (component, CHANGING)]
        if not changing:
            continue
        for other in stores.values():
            there = other.reread()
            marks: list[Mark] = [mark for mark in there.marks if mark.component == component]
            begun = [one for one in there.begun if one.component == component]
            if other is not store and (marks or begun):
                other.replace(Changes(), marks=marks, begun=begun)
        store.replace(Changes(), begun=changing)


def _tell(
    component: str, tasks: int, begun: Mapping[int, int], reached: Mapping[str, Mark], partitions: set[str]
) -> None:
    before = max(begun.values())
    if len(reached) == len(partitions):
        logger.info("%r has %d tasks now, and had %d: all go on where those had been", component, tasks, before)
        return
    logger.warning(
        "%r has %d tasks now, and had %d; how far those had come together is known of %d of %d partitions, and the "
        "others are read from their beginning",
        *(component, tasks, before, len(reached), len(partitions)),
    )
