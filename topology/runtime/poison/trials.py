"""Trials: find the message that takes workers down by replaying the suspects one at a time (E7, F12).

With a thousand messages in flight, one death says nothing about any of them, so all are replayed at once after the
first death. A message in flight at two deaths is a suspect. Suspects are replayed alone, the oldest first, and each is
noted in the store before it leaves. A death during a trial is blamed on the message, and after three deaths it is dead.
A trial that ends well, or fails in any other way, clears its message.

Why no innocent message is blamed: at most one home of the whole run has a trial in progress (`turns`). A trial runs
only while all workers run and have done so for a second; a worker that has died of a message of its own dies again
within that time. A home with suspects has nothing else in flight. The result of a trial is stored before the next one
begins. A home without suspects had nothing in flight at both deaths, so its messages can't have caused both.

What remains is another death at the very moment of a trial. One cause is another home that meets a deadly message for
the first time. The other cause is outside, and then it is mostly SIGKILL (kill -9, memory, a supervisor that replaces a
stuck worker). So SIGKILL counts half, and has to hit the same message's trial twice in a row.

A trial that takes too long is let go. A death while its message is still in flight counts half, because the message may
have caused it, and the next trials may take twice as long.

A home that dies itself can't count. From its marks it finds which messages were in flight at two of its deaths
(`suspects`), and after one death it keeps its marks close (`frequent_marks`). Must not know what the store has of all
this, nor how a message is emitted.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any, Final, NamedTuple, Protocol

from topology.codes.runtime import REPLAYING_ONE_BY_ONE
from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.runtime.failures import Failure, Reason
from topology.runtime.hot.pending import Pending
from topology.runtime.poison.frequent_marks import UNKEPT_MAX, CloseMarks
from topology.runtime.poison.records import TrialNotes
from topology.runtime.poison.suspects import (
    GUILTY,
    KILLED,
    NOTHING_KEPT,
    SUSPECT,
    Key,
    PartitionEpoch,
    SuspectRange,
    Task,
    suspicion,
)
from topology.runtime.poison.turns import Alone, TrialTurns
from topology.runtime.tasks.spout_task import SpoutTask
from topology.storage.values import Loaded, Mark, Trial

# seconds that a trial may take; a bolt that holds inputs until others arrive would hold it for ever
ALONE_S: Final = 5.0
ALONE_LEAST_S: Final = 0.1  # seconds: each trial that takes too long halves its limit, down to this
ALONE_MOST_S: Final = 40.0  # seconds: a death while such a message is in flight doubles the limit, up to this
ARRIVE_S: Final = 2.0  # seconds that a source may take to emit the next of its suspects again
TURN_MAX: Final = 100  # trials in one turn
REMEMBERED_MAX: Final = 100  # deaths that may be reported again

logger = logging.getLogger("kedge")


class Fallen(NamedTuple):
    """A dead worker."""

    owner: int
    killed: bool  # True for SIGKILL from any sender; otherwise the process has ended by itself
    ran: bool = True  # False if its tasks were not started, so that no message caused its death


class PausedTrees(Protocol):
    """Something else that begins trees here. It pauses while trials are on."""

    def hold(self) -> None: ...
    def release(self) -> None: ...


class Trials:
    """The trials of one worker. Make it after the part that stores marks.

    While `on`, nothing of this home leaves but the message that is tried, and its spouts pass what they read to `take`.
    Call `begin` before they read, and run `run` as a task. `window` is how many messages of one task may be in flight.
    """

    def __init__(self, spout_tasks: Mapping[Any, SpoutTask], checkpoints: WorkerCheckpoints, *, window: int) -> None:
        self.on = False
        self.turns: TrialTurns = Alone()
        self.others: list[PausedTrees] = []
        self._spout_tasks = [*spout_tasks.values()]
        self._checkpoints = checkpoints
        self._notes = TrialNotes(checkpoints)
        self._close_marks = CloseMarks(self._spout_tasks, checkpoints, self._notes, window=window)
        self._window = window
        self._suspects: list[Pending] = []
        self._running: Pending | None = None
        self._alone_s = self._longest_s = ALONE_S
        self._let_go: list[Pending] = []  # messages whose trials took too long, since the last death
        self._ended: asyncio.Future[None] | None = None
        self._fallen: list[int] = []  # owners whose deaths have been counted
        self._deaths = 0  # of other workers, in this life
        self._wake = asyncio.Event()
        self._noted: dict[Key, float] = {}  # messages whose trial was under way when this worker died → deaths
        self._zones: dict[Task, dict[PartitionEpoch, SuspectRange]] = {}  # suspects that are still to come
        for spout_task in self._spout_tasks:
            spout_task.pauses.checks.append(partial(self._holds, spout_task))

    # -- after a death of this worker

    def begin(self, *, killed: bool) -> None:
        """Looks at what the deaths of this worker have left. `killed`: how it died last."""
        if self._checkpoints.store is not None and self._spout_tasks:
            loaded = self._checkpoints.loaded
            self._look_back(loaded, killed)
            self._close_marks.begin(loaded)
        if self._zones:
            self._begin()

    def _look_back(self, loaded: Loaded, killed: bool) -> None:
        self._notes.load(loaded.trials)
        found = suspicion(loaded, [(spout.component, spout.task) for spout in self._spout_tasks], killed=killed)
        marks = {((mark.component, mark.task), (mark.partition, mark.epoch)): mark for mark in loaded.marks}
        self._zones = {
            task: {lane: self._zone(marks.get((task, lane))) for lane in lanes} for task, lanes in found.lanes.items()
        }
        self._noted = found.tried
        for key, trial in found.rows.items():
            self._notes.note(key, trial)

    def _zone(self, mark: Mark | None) -> SuspectRange:
        most = UNKEPT_MAX if mark is None else 2 * self._window
        return SuspectRange(mark.newest if mark is not None else None, most, min(UNKEPT_MAX, most))

    def _holds(self, spout_task: SpoutTask) -> str:
        """Return the reason why this spout must not read, or an empty text: during trials only suspects come again."""
        if why := self._close_marks.holds(spout_task):
            return why
        if not self.on or (spout_task.component, spout_task.task) in self._zones:
            return ""
        return "messages are replayed one at a time, because workers have died while they were in flight"

    def take(self, spout_task: SpoutTask, trees: Sequence[Pending]) -> None:
        """Take what a spout has read while `on`. Each message is emitted in its turn, or after the trials."""
        zones = self._zones.get((spout_task.component, spout_task.task), {})
        guilty: list[Pending] = []
        for tree in trees:
            partition, epoch = tree.message.partition, spout_task.epoch_of(tree)
            if (partition, epoch) in zones:
                at = partition, epoch
            elif NOTHING_KEPT in zones:
                at = NOTHING_KEPT
            else:
                continue
            if zones[at].take(tree.message.id):
                del zones[at]
            deaths = self._noted.pop(self._key_of(tree), 0.0)
            tree.deaths = max(SUSPECT, deaths)
            (guilty if deaths >= GUILTY else self._suspects).append(tree)
        if not zones:
            self._zones.pop((spout_task.component, spout_task.task), None)
        spout_task.replays.put([tree for tree in trees if tree not in guilty])
        for tree in guilty:  # the cause is found: the others are replayed at once, as after a first death
            self._condemn(tree)
            self._zones.clear()
            self._suspects.clear()
        self._wake.set()

    # -- after a death of another worker

    def died(self, fallen: Fallen | None, trees: Sequence[Any], failure: Failure) -> None:
        """Fail all these trees, because another worker is dead. A death may be reported more than once, and counts
        once."""
        counts = 0.0
        if fallen is not None and fallen.owner not in self._fallen:
            self._fallen = [*self._fallen, fallen.owner][-REMEMBERED_MAX:]
            counts = (KILLED if fallen.killed else 1.0) if fallen.ran else 0.0
        self._deaths += 1
        messages = [tree for tree in trees if type(tree) is Pending]
        let_go, self._let_go = {id(tree) for tree in self._let_go}, []
        # the message that is tried now was not alone: the other one may be the cause
        if not let_go.isdisjoint(map(id, messages)):
            counts = min(counts, KILLED)
            self._longest_s = min(ALONE_MOST_S, 2 * self._longest_s)  # and the next trials may take longer
        elif counts:
            self._longest_s = ALONE_S
        self._alone_s = self._longest_s
        tried = self._running
        for tree in messages:
            if tree is tried:
                tree.deaths += counts
            else:
                tree.deaths = max(tree.deaths, min(SUSPECT, tree.deaths + counts))
        guilty = tried if tried in messages and tried is not None and tried.deaths >= GUILTY else None
        suspects = [tree for tree in messages if tree.deaths >= SUSPECT and tree is not guilty]
        if suspects and not self.on:
            self._begin()
        for tree in trees:
            if tree is guilty:
                self._condemn(tree)
            else:
                tree.owner.failed_tree(tree, failure)
        known = {id(tree) for tree in self._suspects}
        replayed = {id(tree) for spout in self._spout_tasks for tree in spout.replays.trees()}  # others are dead
        self._suspects += [tree for tree in suspects if id(tree) in replayed - known]
        self._suspects.sort(key=lambda tree: tree.root)
        self._wake.set()

    def _condemn(self, tree: Pending) -> None:
        """Make a message dead. The commit that has its letter removes its row."""
        text = f"workers have died {ceil(tree.deaths)} times while it was in flight, the last time while it was alone"
        self._notes.note(self._key_of(tree), None)
        tree.owner.failed_tree(tree, Failure(Reason.DEADLY, tree.owner.component, text))

    # -- one at a time

    async def run(self) -> None:
        """Try suspects whenever there are some, until cancelled. Raises StoreBroken."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self.on:
                continue
            while await self._arrived():
                await self._turn()
                try:
                    await self._try_some()
                finally:
                    self.turns.over()
            # the letter of a message that was found by a death of this worker; a later one may be deadly too
            await self._keep()
            self._end()

    def close(self) -> None:
        """Stop. `run` was cancelled, or is about to be."""
        self._close_marks.close()

    async def _try_some(self) -> None:
        """Try suspects one after the other, until a worker dies; at most TURN_MAX, so that other workers have their
        turns.

        One commit has both the result of a trial and the beginning of the next one.
        """
        deaths, alone_s = self._deaths, self._alone_s
        for tree in self._suspects[:TURN_MAX]:
            key = self._key_of(tree)
            self._notes.note(key, Trial(*key, ceil(tree.deaths), running=True))
            await self._keep()
            # no worker has died meanwhile, and this message is not dead
            if self._deaths == deaths and self._suspects[:1] == [tree]:
                self._suspects.pop(0)
                self._running, self._ended = tree, asyncio.get_running_loop().create_future()
                tree.owner.replays.alone(tree)
                await asyncio.wait({self._ended}, timeout=alone_s)
                if not self._ended.done():  # it is still in flight, and is let go
                    alone_s = self._alone_s = max(ALONE_LEAST_S, alone_s / 2)
                    self._let_go.append(tree)
                self._running = self._ended = None
            self._notes.note(key, None)
            if self._deaths != deaths:
                break
        # before another worker's turn; otherwise this message would be blamed for what happens in it
        await self._keep()

    async def _arrived(self) -> bool:
        """Return True if there is a suspect. Waits, at most ARRIVE_S each, for those that a source has to emit
        again."""
        while not self._suspects and self._zones:
            self._wake.clear()
            try:
                async with asyncio.timeout(ARRIVE_S):
                    await self._wake.wait()
            except TimeoutError:
                self._zones.clear()
        return bool(self._suspects)

    async def _keep(self) -> None:
        while not await self._checkpoints.commit():
            await self._checkpoints.room()

    async def _turn(self) -> None:
        granted = asyncio.Event()
        self.turns.want(granted.set)
        await granted.wait()

    def ended(self, trees: Iterable[Any]) -> None:
        """Note that these trees are done, dead, or have failed."""
        gone = {id(tree) for tree in trees}
        if self._ended is not None and id(self._running) in gone and not self._ended.done():
            self._ended.set_result(None)
        self._suspects = [tree for tree in self._suspects if id(tree) not in gone]

    def _begin(self) -> None:
        self.on = True
        for spout_task in self._spout_tasks:
            spout_task.replays.hold()
        for other in self.others:
            other.hold()
        logger.warning(
            "workers have died repeatedly while the same messages were in flight: these are replayed one at a "
            "time, and new ones wait (%s)",
            REPLAYING_ONE_BY_ONE,
        )
        self._wake.set()

    def _end(self) -> None:
        self.on = False
        self._noted.clear()
        for spout_task in self._spout_tasks:
            spout_task.replays.release()
            spout_task.wake()
        for other in self.others:
            other.release()
        logger.warning("the messages that were replayed one at a time are done or dead; the others resume")

    def _key_of(self, tree: Pending) -> Key:
        spout_task, message = tree.owner, tree.message
        return spout_task.component, spout_task.task, message.partition, spout_task.epoch_of(tree), message.id
