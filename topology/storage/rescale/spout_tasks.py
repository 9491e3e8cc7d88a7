"""Change before a run: a spout has another number of tasks than in the last run.

The joint progress of all former tasks becomes the mark of each new task, in one transaction of one store. If that is
interrupted, the next start completes it (F56). Some finished messages are then read again. Sinks deduplicate them, but
state counts them twice, because its memory of inputs is deleted by then. So Kedge refuses another number of tasks if
state would count twice, or if the messages read again would have other identities (D18). Must not know the plan, nor
what a run is.
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

# the task of a `Begun` that says: this store has the marks of the new tasks, and no other store has any
CHANGING: Final = -1

logger = logging.getLogger("kedge")


@dataclass(frozen=True)
class Rescaling:
    """The effects of another number of tasks of a spout.

    name      Its present name.
    known_as  Its name in the stores.
    counts    The bolts below it that remember their counts of earlier runs.
    own_ids   True if each of its tasks has its own message ids, now or in the last run.
    """

    name: str
    known_as: str
    counts: Sequence[str]
    own_ids: bool

    def check(
        self, stores: Mapping[int, SqliteStore], tasks: int, *, clean: bool, accept_duplicates: bool = False
    ) -> None:
        """Raise StartError if the spout has begun with another number of tasks, and this number may not follow.
        `clean`: all input was done when the last run ended; if there is no mark either, there was no input."""
        before = max((entry.tasks for entry in _begun(stores, self.known_as)), default=tasks)
        marked = any(mark.component == self.known_as for store in stores.values() for mark in store.loaded.marks)
        if before != tasks and (marked or not clean):
            self.refuse(before, tasks, accept_duplicates=accept_duplicates, or_else=f"; or {FRESH}")

    def refuse(self, before: int, tasks: int, *, accept_duplicates: bool, or_else: str = "") -> None:
        """Raise StartError if this number of tasks may not follow the one `before`. `or_else`: further advice."""
        said = f"spout {self.name!r} has {_tasks(tasks)} now, and had {before}"
        again = f"give it tasks={before} again"
        if self.counts:
            bolts = " and ".join(map(repr, self.counts))
            text = f"{said}: records that it reads again would count twice in the state of {bolts}"
            raise StartError(text, code=STATEFUL_SPOUT_RESCALED, next=f"{again}{or_else}")
        if self.own_ids and not accept_duplicates:
            text = f"{said}; each task has message ids of its own, so all would be read and stored again"
            more = "if its tasks share one set of ids, write shared_ids = True in its class"
            raise StartError(
                text, code=UNSHARED_ID_SPOUT_RESCALED, next=f"{again}; {more}; or --accept-duplicates{or_else}"
            )


def _tasks(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"


def _begun(stores: Mapping[int, SqliteStore], component: str) -> list[Begun]:
    return [entry for store in stores.values() for entry in store.reread().begun if entry.component == component]


def change(
    stores: Mapping[int, SqliteStore], component: str, tasks: int, worker: int, *, own_ids: bool = False
) -> None:
    """If the number of former tasks differs from `tasks`, let all new tasks begin at the joint progress of the former
    ones. With `own_ids` that progress says nothing about the new tasks' input, so all begin at the beginning, and
    nothing is skipped."""
    former = _begun(stores, component)
    begun = {entry.task: entry.tasks for entry in former}
    if not begun or {*begun.values()} == {tasks}:
        return
    marks = [mark for store in stores.values() for mark in store.loaded.marks if mark.component == component]
    by_task = newest(marks)
    reached = {} if own_ids else common(begun, by_task)
    _tell(component, tasks, begun, reached, {mark.partition for mark in marks})
    now = [msgspec.structs.replace(mark, task=task) for task in range(tasks) for mark in reached.values()]
    first = stores[worker]
    old = [mark for mark in first.loaded.marks if mark.component == component]
    first.replace(
        Changes(marks=now, begun=[Begun(component, task, tasks) for task in (*range(tasks), CHANGING)]),
        marks=old,
        begun=[entry for entry in first.loaded.begun if entry.component == component],
    )
    complete(stores, component)


def complete(stores: Mapping[int, SqliteStore], component: str) -> None:
    """If one store has the marks of a changed number of tasks, delete the former marks from the other stores."""
    for store in stores.values():
        held = store.reread()
        changing = [entry for entry in held.begun if (entry.component, entry.task) == (component, CHANGING)]
        if not changing:
            continue
        for other in stores.values():
            there = other.reread()
            marks: list[Mark] = [mark for mark in there.marks if mark.component == component]
            begun = [entry for entry in there.begun if entry.component == component]
            if other is not store and (marks or begun):
                other.replace(Changes(), marks=marks, begun=begun)
        store.replace(Changes(), begun=changing)


def _tell(
    component: str, tasks: int, begun: Mapping[int, int], reached: Mapping[str, Mark], partitions: set[str]
) -> None:
    before = max(begun.values())
    if len(reached) == len(partitions):
        logger.info(
            "%r has %d tasks now, and had %d: all resume at the positions of the former tasks", component, tasks, before
        )
        return
    logger.warning(
        "%r has %d tasks now, and had %d; the former tasks' joint position is known for %d of %d partitions, and the "
        "others are read from their beginning",
        *(component, tasks, before, len(reached), len(partitions)),
    )
