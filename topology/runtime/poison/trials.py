"""Trials: which message takes workers down is found out by replaying the suspects one at a time (E7, F12).

With a thousand messages under way, a death says nothing about any of them, so the first one has them all replayed at
once. A message under way in two deaths is a suspect. Suspects are replayed alone, the oldest first, each noted in the
store before it leaves: a death then is laid to it, and after three it is dead. What ends well, or fails in any other
way, is free.

Why no innocent is blamed: at most one home of the whole run has a trial under way (`turns`), only while all workers
run, and have for a second, in which one that has died of a message of its own does so again; no home that has suspects
has anything else under way; and what a trial has ended with is kept before the next one begins. A home without suspects
had nothing under way in both of the deaths, so what it has now can't have caused both. What is left is another death at
the very moment of a trial: by another home's first meeting with what is deadly, or from outside. The latter is by
SIGKILL mostly (kill -9, memory, a supervisor that replaces who hangs), so that counts half, and has to hit the same
message's trial twice in a row.

What takes long is let go. A death while it is under way still, which it may have caused, counts half, and the next
trials may take twice as long.

A home that dies itself can't count: by its marks it finds out who was under way in two of its deaths (`suspicion`),
and after one it keeps them close (`close_marks`). Must not know what the store has of all this, nor how a message is
emitted.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any, Final, NamedTuple, Protocol

from topology.codes.runtime import REPLAYING_ONE_BY_ONE
from topology.runtime.commits.group_commit import GroupCommit
from topology.runtime.failures import Failure, Reason
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
from topology.runtime.tasks.pending import Pending, Replays
from topology.storage.values import Loaded, Mark, Trial

ALONE_S: Final = 5.0  # how long a trial may take: what a bolt holds until others come would wait for ever.
ALONE_LEAST_S: Final = 0.1  # Each one that takes as long halves it, down to this,
ALONE_MOST_S: Final = 40.0  # and a death while one of those is under way still doubles it, up to this
ARRIVE_S: Final = 2.0  # how long a source may take to give the next of its suspects again
TURN_MAX: Final = 100  # trials in one turn
REMEMBERED_MAX: Final = 100  # deaths that may be told of again

logger = logging.getLogger("kedge")


class Fallen(NamedTuple):
    """A dead worker."""

    owner: int
    killed: bool  # by SIGKILL, whoever sent it; else it has ended by itself
    ran: bool = True  # False: its tasks were not started, so its death is nobody's fault


class Suspected(Protocol):
    """A spout task, as far as trials see it."""

    component: str
    task: int
    emitted: int
    replays: Replays
    holds: list[Callable[[], str]]

    def epoch_of(self, tree: Pending) -> str: ...
    def failed_tree(self, tree: Any, failure: Failure) -> None: ...
    def wake(self) -> None: ...


class PausedTrees(Protocol):
    """What else begins trees here: it stands still while the trials are on."""

    def hold(self) -> None: ...
    def release(self) -> None: ...


class Trials:
    """Of one worker; make it after the part that keeps marks. While `on`, nothing of this home leaves but the message
    that is tried, and its spouts give what they read to `take`. `begin` it before they read, and have `run` run as a
    task. `window`: how many messages of one task may be under way at a time.
    """

    def __init__(self, spout_tasks: Mapping[Any, Suspected], group_commit: GroupCommit, *, window: int) -> None:
        self.on = False
        self.turns: TrialTurns = Alone()
        self.others: list[PausedTrees] = []
        self._spoutings = [*spout_tasks.values()]
        self._keeper = group_commit
        self._notes = TrialNotes(group_commit)
        self._close_marks = CloseMarks(self._spoutings, group_commit, self._notes, window=window)
        self._window = window
        self._suspects: list[Pending] = []
        self._running: Pending | None = None
        self._alone_s = self._longest_s = ALONE_S
        self._let_go: list[Pending] = []  # whose trials took too long, since the last death
        self._ended: asyncio.Future[None] | None = None
        self._fallen: list[int] = []  # owners whose deaths have been counted
        self._deaths = 0  # of other workers, in this life
        self._wake = asyncio.Event()
        self._noted: dict[Key, float] = {}  # messages whose trial was under way when this worker died → deaths
        self._zones: dict[Task, dict[PartitionEpoch, SuspectRange]] = {}  # suspects that are still to come
        for spout_task in self._spoutings:
            spout_task.holds.append(partial(self._holds, spout_task))

    # -- after a death of this worker

    def begin(self, *, killed: bool) -> None:
        """Looks at what the deaths of this worker have left. `killed`: how it died last."""
        if self._keeper.store is not None and self._spoutings:
            loaded = self._keeper.loaded
            self._look_back(loaded, killed)
            self._close_marks.begin(loaded)
        if self._zones:
            self._begin()

    def _look_back(self, loaded: Loaded, killed: bool) -> None:
        self._notes.load(loaded.trials)
        found = suspicion(loaded, [(one.component, one.task) for one in self._spoutings], killed=killed)
        marks = {((one.component, one.task), (one.partition, one.epoch)): one for one in loaded.marks}
        self._zones = {
            task: {lane: self._zone(marks.get((task, lane))) for lane in lanes} for task, lanes in found.lanes.items()
        }
        self._noted = found.tried
        for key, trial in found.rows.items():
            self._notes.note(key, trial)

    def _zone(self, mark: Mark | None) -> SuspectRange:
        most = UNKEPT_MAX if mark is None else 2 * self._window
        return SuspectRange(mark.newest if mark is not None else None, most, min(UNKEPT_MAX, most))

    def _holds(self, spout_task: Suspected) -> str:
        """Why this spout reads nothing: while the trials are on, only suspects are to come again."""
        if why := self._close_marks.holds(spout_task):
            return why
        if not self.on or (spout_task.component, spout_task.task) in self._zones:
            return ""
        return "messages are replayed one at a time, as workers have died while they were under way"

    def take(self, spout_task: Suspected, trees: Sequence[Pending]) -> None:
        """What a spout has read while `on`: each is emitted in its turn, or after the trials."""
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
        for tree in guilty:  # found: the others are replayed at once, as after a first death
            self._condemn(tree)
            self._zones.clear()
            self._suspects.clear()
        self._wake.set()

    # -- after a death of another worker

    def died(self, fallen: Fallen | None, trees: Sequence[Any], failure: Failure) -> None:
        """Another worker is dead, and all these trees fail by it. May be told of one death again, which counts once."""
        counts = 0.0
        if fallen is not None and fallen.owner not in self._fallen:
            self._fallen = [*self._fallen, fallen.owner][-REMEMBERED_MAX:]
            counts = (KILLED if fallen.killed else 1.0) if fallen.ran else 0.0
        self._deaths += 1
        messages = [tree for tree in trees if type(tree) is Pending]
        let_go, self._let_go = {id(tree) for tree in self._let_go}, []
        if not let_go.isdisjoint(map(id, messages)):  # who is tried now was not alone: that may have been it,
            counts = min(counts, KILLED)
            self._longest_s = min(ALONE_MOST_S, 2 * self._longest_s)  # and has more time now
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
                tree.spout_task.failed_tree(tree, failure)
        known = {id(tree) for tree in self._suspects}
        replayed = {id(tree) for one in self._spoutings for tree in one.replays.trees()}  # the others are dead by now
        self._suspects += [tree for tree in suspects if id(tree) in replayed - known]
        self._suspects.sort(key=lambda tree: tree.root)
        self._wake.set()

    def _condemn(self, tree: Pending) -> None:
        """It is dead; its row goes with the commit that has its letter."""
        text = f"workers have died {ceil(tree.deaths)} times while it was under way, the last time while it was alone"
        self._notes.note(self._key_of(tree), None)
        tree.spout_task.failed_tree(tree, Failure(Reason.DEADLY, tree.spout_task.component, text))

    # -- one at a time

    async def run(self) -> None:
        """Tries suspects whenever there are some, until cancelled. Raises StoreBroken."""
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
            await self._keep()  # the letter of who was found by a death of this worker: what comes now may be the next
            self._end()

    def close(self) -> None:
        """The worker ends; `run` was cancelled, or is about to be."""
        self._close_marks.close()

    async def _try_some(self) -> None:
        """Tries suspects one after the other, until a worker dies; at most so many that others have their turns. One
        commit has both what a trial has ended with and that the next one begins."""
        deaths, alone_s = self._deaths, self._alone_s
        for tree in self._suspects[:TURN_MAX]:
            key = self._key_of(tree)
            self._notes.note(key, Trial(*key, ceil(tree.deaths), running=True))
            await self._keep()
            if self._deaths == deaths and self._suspects[:1] == [tree]:  # nobody has died meanwhile, nor is it dead
                self._suspects.pop(0)
                self._running, self._ended = tree, asyncio.get_running_loop().create_future()
                tree.spout_task.replays.alone(tree)
                await asyncio.wait({self._ended}, timeout=alone_s)
                if not self._ended.done():  # it is under way still, and free
                    alone_s = self._alone_s = max(ALONE_LEAST_S, alone_s / 2)
                    self._let_go.append(tree)
                self._running = self._ended = None
            self._notes.note(key, None)
            if self._deaths != deaths:
                break
        await self._keep()  # before anybody has the next turn, or it would be blamed for what comes of that

    async def _arrived(self) -> bool:
        """Whether there is a suspect; waits for those that a source has to give again, within a bound."""
        while not self._suspects and self._zones:
            self._wake.clear()
            try:
                async with asyncio.timeout(ARRIVE_S):
                    await self._wake.wait()
            except TimeoutError:
                self._zones.clear()
        return bool(self._suspects)

    async def _keep(self) -> None:
        while not await self._keeper.commit():
            await self._keeper.room()

    async def _turn(self) -> None:
        granted = asyncio.Event()
        self.turns.want(granted.set)
        await granted.wait()

    def ended(self, trees: Iterable[Any]) -> None:
        """These are done, dead, or have failed."""
        gone = {id(tree) for tree in trees}
        if self._ended is not None and id(self._running) in gone and not self._ended.done():
            self._ended.set_result(None)
        self._suspects = [tree for tree in self._suspects if id(tree) not in gone]

    def _begin(self) -> None:
        self.on = True
        for spout_task in self._spoutings:
            spout_task.replays.hold()
        for other in self.others:
            other.hold()
        logger.warning(
            "workers have died again and again while the same messages were under way: these are replayed one at a "
            "time, and new ones wait (%s)",
            REPLAYING_ONE_BY_ONE,
        )
        self._wake.set()

    def _end(self) -> None:
        self.on = False
        self._noted.clear()
        for spout_task in self._spoutings:
            spout_task.replays.release()
            spout_task.wake()
        for other in self.others:
            other.release()
        logger.warning("the messages that were replayed one at a time are done, or dead; the others go on")

    def _key_of(self, tree: Pending) -> Key:
        spout_task, message = tree.spout_task, tree.message
        return spout_task.component, spout_task.task, message.partition, spout_task.epoch_of(tree), message.id
