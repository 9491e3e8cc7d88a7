"""What the deaths of a worker say about the messages of its spouts, by what its store has of them (E7). Pure.

A mark says what was under way when a worker died: from its position up to about the newest message. If the position
after one death is not beyond what was the newest at the death before, there are messages that were under way in both:
suspects, as for a home that has survived. For each partition one row says how far it was at the last death, and for
how many deaths in a row that has been so. Must not know who keeps what, nor what becomes of a suspect.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from acker.identity import MessageId
from topology.storage.values import Loaded, Mark, Trial

SUSPECT: Final = 2.0  # deaths while a message was under way with others; more of those make it no more suspect
GUILTY: Final = 3.0  # deaths, the last one while it was alone; then it is dead
KILLED: Final = 0.5  # what a death by SIGKILL counts
NOTHING_KEPT: Final = "", ""  # in place of partition and epoch, where a task has no mark yet

Key = tuple[str, int, str, str, MessageId]  # a message: component, task, partition, epoch, id
Task = tuple[str, int]
PartitionEpoch = tuple[str, str]  # partition and epoch


@dataclass
class SuspectRange:
    """Messages of one lane that a source gives again, and that are suspects: those up to `newest`, which the mark had
    when the worker died, and the few behind that which it can have given without their being kept. `left` bounds
    both, as a name that never comes again would have no end."""

    newest: MessageId | None
    left: int
    unkept: int

    def take(self, message_id: MessageId) -> bool:
        """Counts the next message that is given again; whether it was the last one."""
        newest = self.newest
        later = isinstance(newest, int) and isinstance(message_id, int) and message_id > newest  # names have no order
        if newest is not None and (message_id == newest or later):
            self.newest, self.left = None, min(self.left, self.unkept)
        self.left -= 1
        return self.left <= 0


@dataclass
class Suspects:
    """`lanes`: where messages of these tasks are suspects, from the mark on. `tried`: messages whose trial was under
    way, with the deaths that are laid to them now. `rows`: what is to be kept, or, where it is None, not any more."""

    lanes: dict[Task, set[PartitionEpoch]] = field(default_factory=dict)
    tried: dict[Key, float] = field(default_factory=dict)
    rows: dict[Key, Trial | None] = field(default_factory=dict)


def suspicion(loaded: Loaded, tasks: Iterable[Task], *, killed: bool) -> Suspects:
    """What to make of the last death; nothing, where the worker had ended in order. `killed`: how it died."""
    found = Suspects()
    known = {key_of(one): one for one in loaded.trials}
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
        found.rows.setdefault(key, None)  # a trial, too: the next death is not laid to it, unless it is tried again
    return found


Reached = tuple[Task, PartitionEpoch, Mark | None]


def _reached(loaded: Loaded, here: set[Task]) -> list[Reached]:
    """Where each task of this worker stands."""
    marks = [one for one in loaded.marks if (one.component, one.task) in here]
    none = here - {(one.component, one.task) for one in marks}
    reached: list[Reached] = [((one.component, one.task), (one.partition, one.epoch), one) for one in marks]
    reached += [(task, NOTHING_KEPT, None) for task in sorted(none)]
    return reached


def _before(at: Reached, known: Mapping[Key, Trial]) -> int:
    """For how many deaths in a row messages have been under way in one as in the one before."""
    task, lane, mark = at
    rows = [one for key, one in known.items() if (key[:2], key[2:4]) == (task, lane) and not one.running]
    return max((one.deaths for one in rows if mark is None or not beyond(mark.position, one.id)), default=0)


def beyond(position: MessageId, newest: MessageId) -> bool:
    """Whether nothing that was given up to `newest` is under way any more. Names have no order."""
    return position > newest if isinstance(position, int) and isinstance(newest, int) else position != newest


def _row(at: Reached, before: int) -> Trial:
    task, lane, mark = at
    return Trial(*task, *lane, mark.newest if mark is not None else "", before + 1, running=False)


def under_way(mark: Mark | None) -> bool:
    """Whether a mark says that something was: a partition with nothing to do stands still as well."""
    return mark is None or not (mark.position == mark.newest and any(mark.newest in span for span in mark.done))


def key_of(trial: Trial) -> Key:
    """The message, or the place, that it is about."""
    return trial.component, trial.task, trial.partition, trial.epoch, trial.id
