"""Find suspects: what the deaths of a worker say about the messages of its spouts, from its store (E7). Pure.

A mark says what was in flight when a worker died: from its position up to about the newest message. The next death may
find the position not beyond the newest message of the death before. Then some messages were in flight in both. These
are suspects, as they are for a home that survived. For each partition, one row stores how far it was at the last death,
and for how many deaths in a row that has been so. Must not know which part stores what, nor what becomes of a suspect.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from acker.identity import MessageId
from topology.storage.values import Loaded, Mark, Trial

SUSPECT: Final = 2.0  # deaths while a message was in flight with others; further deaths make it no more suspect
GUILTY: Final = 3.0  # deaths, the last one while it was alone; then it is dead
KILLED: Final = 0.5  # weight of a death by SIGKILL
NOTHING_KEPT: Final = "", ""  # in place of partition and epoch, for a task without a mark

Key = tuple[str, int, str, str, MessageId]  # a message: component, task, partition, epoch, id
Task = tuple[str, int]
PartitionEpoch = tuple[str, str]  # partition and epoch


@dataclass
class SuspectRange:
    """Messages of one lane that are suspects, and that a source emits again.

    They are those up to `newest`, which the mark had when the worker died, and a few later ones that may have been
    emitted without being stored. `left` bounds both, because a name that never comes again would have no end.
    """

    newest: MessageId | None
    left: int
    unkept: int

    def take(self, message_id: MessageId) -> bool:
        """Count the next message that is emitted again. Return True if it was the last one."""
        newest = self.newest
        later = isinstance(newest, int) and isinstance(message_id, int) and message_id > newest  # names have no order
        if newest is not None and (message_id == newest or later):
            self.newest, self.left = None, min(self.left, self.unkept)
        self.left -= 1
        return self.left <= 0


@dataclass
class Suspects:
    """Messages to try.

    lanes  Task → lanes in which messages are suspects, from the mark on.
    tried  Messages whose trial was in progress, with the deaths that they are blamed for now.
    rows   Rows to store; None for a row to remove.
    """

    lanes: dict[Task, set[PartitionEpoch]] = field(default_factory=dict)
    tried: dict[Key, float] = field(default_factory=dict)
    rows: dict[Key, Trial | None] = field(default_factory=dict)


def suspicion(loaded: Loaded, tasks: Iterable[Task], *, killed: bool) -> Suspects:
    """Return the suspects after the last death; none if the worker had a clean end. `killed` is True for a death by
    SIGKILL."""
    found = Suspects()
    known = {key_of(trial): trial for trial in loaded.trials}
    if not loaded.deaths:
        found.rows = dict.fromkeys(known)
        return found
    here = {*tasks}
    rows = {at: _row(at, before) for at in _reached(loaded, here) for before in [_before(at, known)]}
    for at, row in rows.items():
        key = key_of(row)
        again, busy = row.deaths >= (SUSPECT / KILLED if killed else SUSPECT), under_way(at[2])
        others = [other for other in rows.values() if (other.component, other.task) == key[:2]]
        if again and (busy or all(other.deaths > 1 for other in others)):
            found.lanes.setdefault(key[:2], set()).add(key[2:4])
        found.rows[key] = row
    for key, trial in known.items():
        if trial.running and key[:2] in here:
            found.tried[key] = trial.deaths + (KILLED if killed else 1.0)
            found.lanes.setdefault(key[:2], set()).add(key[2:4])
        found.rows.setdefault(key, None)  # also a trial: it is not blamed for the next death, unless it is tried again
    return found


Reached = tuple[Task, PartitionEpoch, Mark | None]


def _reached(loaded: Loaded, here: set[Task]) -> list[Reached]:
    """Return the position of each task of this worker."""
    marks = [mark for mark in loaded.marks if (mark.component, mark.task) in here]
    none = here - {(mark.component, mark.task) for mark in marks}
    reached: list[Reached] = [((mark.component, mark.task), (mark.partition, mark.epoch), mark) for mark in marks]
    reached += [(task, NOTHING_KEPT, None) for task in sorted(none)]
    return reached


def _before(at: Reached, known: Mapping[Key, Trial]) -> int:
    """Return for how many deaths in a row messages have been in flight at one death and at the one before it."""
    task, lane, mark = at
    rows = [trial for key, trial in known.items() if (key[:2], key[2:4]) == (task, lane) and not trial.running]
    return max((trial.deaths for trial in rows if mark is None or not beyond(mark.position, trial.id)), default=0)


def beyond(position: MessageId, newest: MessageId) -> bool:
    """Return True if nothing that was emitted up to `newest` is in flight any more. Names have no order."""
    return position > newest if isinstance(position, int) and isinstance(newest, int) else position != newest


def _row(at: Reached, before: int) -> Trial:
    task, lane, mark = at
    return Trial(*task, *lane, mark.newest if mark is not None else "", before + 1, running=False)


def under_way(mark: Mark | None) -> bool:
    """Return True if a mark says that something was in flight. An idle partition stands still too."""
    return mark is None or not (mark.position == mark.newest and any(mark.newest in span for span in mark.done))


def key_of(trial: Trial) -> Key:
    """Return the message, or the place, that a row is about."""
    return trial.component, trial.task, trial.partition, trial.epoch, trial.id
