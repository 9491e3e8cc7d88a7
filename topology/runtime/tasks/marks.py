"""Marks: how far the spout tasks of a worker have come, and resume; noted with a checkpoint (E2, E3).

That a task has begun is durable before anything of it is emitted, so that a mark which is missing says something. Must
not know how messages are emitted, nor what a store is made of.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from acker.identity import MessageId, partition_seed
from acker.ledger import Ledger
from acker.marks import Lane, Marks, Reached
from topology.components import Positions
from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.runtime.hot.pending import Pending
from topology.storage.rescale.positions import positions
from topology.storage.values import Begun, Changes, Loaded, Mark, Span

NAMES_LAG_MAX: Final = 20_000  # as max_lag, where ids are names: a commit writes each that is done, one by one
PARTITIONS_KEPT: Final = 1_000  # that are done, and that the source does not name any more, as after a rotation
LAG_STEPS: Final = 1_000  # into which max_lag is divided, to tell how far back the oldest message is


class TaskMarks:
    """Of one spout task. `resume` once, before the spout is opened."""

    def __init__(
        self,
        component: str,
        task: int,
        tasks: int,
        *,
        topology_id: str,
        keeps: bool,
        max_lag: int,
        names_lag: int = NAMES_LAG_MAX,
        known_as: str = "",
        shared_ids: bool = False,
        settles: bool = False,
    ) -> None:
        self.begun = not keeps  # whether it is durable that the task has
        self.begins = False  # whether it is about to: one whose spout could not be opened never does
        self._beginning = False  # whether the commit under way says so
        self.lanes: dict[
            str, tuple[int, Lane]
        ] = {}  # partition → the seed of its epoch, and the order of its ids there
        self.given = 0  # messages
        self.moved = False  # it is kept that this life has come further than the ones before
        self._component, self._task, self._tasks = component, task, tasks
        self._topology_id = topology_id
        self._known_as = known_as or component
        self._ids_of = 0 if shared_ids else task  # ids name messages of this task alone, or of all (B14)
        self._settles = settles  # whether its source hears of what is done
        self._marks = Marks()
        self._loaded: dict[tuple[str, str], Reached] = {}
        self._known: dict[tuple[str, str], bool] = {}  # of what a mark is kept, and whether all was done; oldest first
        self._grown = False  # it has become more: only then is there too much, and not while a source names its own
        self._over: list[tuple[str, str]] = []  # forgotten by this commit
        self._at: dict[int, tuple[str, str]] = {}  # seed → partition, epoch
        self._gathered: dict[tuple[str, str], Reached] = {}
        self.max_lag = max_lag  # that holds for the ids that it has given
        self._names_lag = min(max_lag, names_lag)
        self._steps: deque[tuple[float, int]] = deque()  # loop time → how many had been given before
        self._room = max_lag
        self._oldest: Pending | None = None

    def resume(self, loaded: Loaded) -> Positions:
        """Takes up what an earlier run has left; returns what the spout is opened with."""
        started = [begin for begin in loaded.begun if begin.component == self._component]
        mine = [begin for begin in started if (begin.task, begin.tasks) == (self._task, self._tasks)]
        self.begun = self.begun or bool(mine)
        found = positions(loaded.marks, loaded.begun, self._component, self._task, self._tasks)
        self._loaded = {
            (partition, mark.epoch): Reached(mark.position, mark.done, mark.newest) for partition, mark in found.items()
        }
        self._marks = Marks(self._loaded)
        own = (mark for mark in loaded.marks if (mark.component, mark.task) == (self._component, self._task))
        self._known = {(mark.partition, mark.epoch): _is_done(mark) for mark in own}
        ids = {partition: mark.position for partition, mark in found.items()}
        return Positions(ids, {partition: mark.epoch for partition, mark in found.items()})

    def renewed(self, epochs: Mapping[str, str]) -> None:
        """The source has these partitions now, in these epochs."""
        self.lanes = {}
        for partition, epoch in epochs.items():
            seed = partition_seed(self._topology_id, self._known_as, partition, epoch, self._ids_of)
            self.lanes[partition] = seed, self._marks.lane(partition, epoch)
            self._at[seed] = partition, epoch

    def epoch_of(self, tree: Pending) -> str:
        """The epoch of its partition in which a message was emitted."""
        return self._at.get(tree.seed, ("", ""))[1]

    # -- how far it is ahead of its oldest message that is not done (E4)

    def room(self, unfinished: Callable[[], Sequence[Pending]]) -> int:
        """Return how many messages it may give before it is max_lag ahead of its oldest one. `unfinished` is asked only
        where that is near."""
        if self._room > 0 or (self._oldest is not None and self._oldest.value):
            return self._room
        self._oldest = min(unfinished(), key=lambda tree: tree.started_at, default=None)
        steps = self._steps
        if self._oldest is None:
            steps.clear()
        while len(steps) > 1 and self._oldest is not None and steps[1][0] <= self._oldest.started_at:
            steps.popleft()
        self._room = self.max_lag - (self.given - steps[0][1] if steps else 0)
        return self._room

    @property
    def why_held(self) -> str:
        """The reason why it may give none."""
        return f"it is {self.max_lag:,} messages ahead of its oldest one that is not done (max_lag)"

    def gives(self, ids: Sequence[MessageId], now: float) -> None:
        """Messages with these ids are given now, at this loop time."""
        count = len(ids)
        if self.max_lag > self._names_lag and not (type(ids[0]) is int and type(ids[-1]) is int):
            self._room -= self.max_lag - self._names_lag
            self.max_lag = self._names_lag
        if not self._steps or self.given - self._steps[-1][1] >= max(1, self.max_lag // LAG_STEPS):
            self._steps.append((now, self.given))
        self.given += count
        self._room -= count

    def reopen(self, trees: Sequence[Pending]) -> None:
        """These were done, and are not any more."""
        ids: dict[int, list[MessageId]] = {}
        for tree in sorted(trees, key=lambda one: one.root):
            ids.setdefault(tree.seed, []).append(tree.message.id)
        for seed, of_seed in ids.items():
            self._marks.lane(*self._at[seed]).reopen(of_seed)

    # -- what is kept

    def gather(self, changes: Changes, trees: Sequence[Pending], unsettled: Sequence[Pending] = ()) -> None:
        """`trees`: all of its messages that are not done, and perhaps some that are since this commit. `unsettled`:
        those that are done, and that the source is to hear of."""
        self._beginning = self.begins
        if self.begins and not self.begun:
            changes.begun.append(Begun(self._component, self._task, self._tasks))
        if unsettled and type(unsettled[0].message.id) is type(unsettled[-1].message.id) is int:
            unsettled = ()  # ints are below the mark, and there may be many
        unfinished: dict[tuple[str, str], list[MessageId]] = {}
        done: dict[tuple[str, str], list[MessageId]] = {}
        for tree in (*trees, *unsettled):
            (unfinished if tree.value else done).setdefault(self._at[tree.seed], []).append(tree.message.id)
        self._gathered = self._marks.reached(unfinished, done if self._settles else {})
        changes.marks.extend(self._mark(*at, one) for at, one in self._gathered.items())
        self._over = self._long_over() if self._grown and self.lanes else []
        self._grown = self._grown and not self.lanes
        changes.over.extend(Mark(self._component, self._task, *at, 0, (), 0) for at in self._over)

    def _long_over(self) -> list[tuple[str, str]]:
        """Forget partitions that are not named any more, but for the last of them. What is not done stays: it must not
        be taken for done (B11). A partition goes with all its epochs, as the newest one counts."""
        done: dict[str, bool] = {}
        for (partition, _), is_done in self._known.items():
            done[partition] = done.pop(partition, True) and is_done
        open_ones = {partition for partition, _ in self._gathered} | self.lanes.keys()
        done = {partition: is_done for partition, is_done in done.items() if partition not in open_ones}
        over = {partition for partition in [*done][: max(0, len(done) - PARTITIONS_KEPT)] if done[partition]}
        return [at for at in self._known if at[0] in over]

    def kept(self) -> None:
        self.begun = self.begun or self._beginning
        for at in self._over:
            del self._known[at]
        for at, one in self._gathered.items():
            self._grown |= self._known.pop(at, None) is None
            self._known[at] = _is_done(one)
        self._over = []
        self.moved = self.moved or any(map(self._is_further, self._gathered.items()))
        current = {self._at[seed] for seed, _ in self.lanes.values()}
        for at in self._marks.note_stored(self._gathered, current):
            self._at = {seed: one for seed, one in self._at.items() if one != at}

    def not_kept(self) -> None:
        self._grown |= bool(self._over)

    def _is_further(self, gathered: tuple[tuple[str, str], Reached]) -> bool:
        at, one = gathered
        return at not in self._loaded or self._loaded[at].newest != one.newest

    def _mark(self, partition: str, epoch: str, reached: Reached) -> Mark:
        done = tuple(Span(*span) for span in reached.done)
        return Mark(self._component, self._task, partition, epoch, reached.position, done, reached.newest)


def _is_done(one: Mark | Reached) -> bool:
    return one.position == one.newest and one.done[:1] == ((one.position, one.position),)


class Markings:
    """The marks of all spout tasks of a worker: a `NotedPart`. `buried` returns the dead messages whose
    letters are not kept yet."""

    def __init__(
        self,
        spout_tasks: Mapping[tuple[str, int], Any],
        ledger: Ledger[Any],
        buried: Callable[[], Iterable[Pending]],
        checkpoints: WorkerCheckpoints,
    ) -> None:
        self._spout_tasks, self._ledger, self._buried = spout_tasks, ledger, buried
        self._gathered: list[Any] = []
        checkpoints.add(self)
        checkpoints.at_decision.append(self._decided)
        checkpoints.waits.append(lambda: any(task.unsettled for task in spout_tasks.values()))

    @property
    def caught_up(self) -> bool:
        """True if every source has given something that no earlier life has kept, or has had nothing to give. Until
        then what was emitted after the last commit of a life that was killed may not have come again: it is in no mark
        (B11)."""
        return all(
            task.reader.dry or task.reader.exhausted or task.marking.moved for task in self._spout_tasks.values()
        )

    def unfinished(self) -> dict[Any, list[Pending]]:
        """The messages of each spout task that were read and are not done, wherever they are (E3)."""
        found = {task: task.later() for task in self._spout_tasks.values()}
        for tree in (*self._ledger.trees(), *self._buried()):
            if (trees := found.get(tree.owner)) is not None:
                trees.append(tree)
        return found

    def gather(self, changes: Changes) -> None:
        unfinished = self.unfinished()
        self._gathered = [*unfinished]
        for spout_task, trees in unfinished.items():  # counted: the next run would skip one that is in no place
            assert len(trees) == spout_task.open, f"{spout_task.open} messages are not done, and {len(trees)} are known"
            spout_task.marking.gather(changes, trees, spout_task.unsettled)
            spout_task.noted()

    def _decided(self) -> None:
        for spout_task in self._gathered:
            spout_task.decided()

    def kept(self) -> None:
        for spout_task in self._gathered:
            spout_task.marking.kept()
            spout_task.look_again()

    def not_kept(self) -> None:
        """Gather it again next time, as it is by then."""
        for spout_task in self._gathered:
            spout_task.marking.not_kept()
