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

A home that dies itself can't count: by its marks it finds out who was under way in two of its deaths (`suspicion`).
Must not know SQL, nor how a message is emitted.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any, Final, NamedTuple, Protocol

from topology.codes.running import K540
from topology.durable.values import Changes, Loaded, Mark, Trial
from topology.runtime.failures import Failure, Reason
from topology.runtime.keeping import Keeper
from topology.runtime.replaying import Pending, Replays
from topology.runtime.suspicion import (
    GUILTY,
    KILLED,
    NOTHING_KEPT,
    SUSPECT,
    Key,
    Lane,
    Task,
    Zone,
    beyond,
    key_of,
    suspicion,
    under_way,
)

ALONE_S: Final = 5.0  # how long a trial may take: what a bolt holds until others come would wait for ever.
ALONE_LEAST_S: Final = 0.1  # Each one that takes as long halves it, down to this
ARRIVE_S: Final = 2.0  # how long a source may take to give the next of its suspects again
HURRY_S: Final = 5.0  # how long after a death of this worker commits are hurried at least,
HURRY_MOST_S: Final = 60.0  # and at most, where what was under way then is so still,
HURRIED_S: Final = 0.02  # and between two of them
AHEAD_MAX: Final = 128  # messages that a task may then be ahead of what is kept, when it begins to poll
UNKEPT_MAX: Final = 2 * AHEAD_MAX  # so as many may have been given since: a poll gives at most as many
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


class Held(Protocol):
    """What else begins trees here: it stands still while the trials are on."""

    def hold(self) -> None: ...
    def release(self) -> None: ...


class Turns(Protocol):
    """Whose turn it is for a trial, over all workers of the run."""

    def want(self, granted: Callable[[], None]) -> None:
        """`granted` is called once it is this worker's turn, at once or later."""

    def over(self) -> None:
        """It is not any more."""


class Alone:
    """Turns of a run that has one worker."""

    def want(self, granted: Callable[[], None]) -> None:
        granted()

    def over(self) -> None:
        pass


class Trials:
    """Of one worker; a `keeping.Part`, added after that of the marks. While `on`, nothing of this home leaves but the
    message that is tried, and its spouts give what they read to `take`. `begin` it before they read, and have `run` run
    as a task. `window`: how many messages of one task may be under way at a time.
    """

    def __init__(self, spoutings: Mapping[Any, Suspected], keeper: Keeper, *, window: int) -> None:
        self.on = False
        self.turns: Turns = Alone()
        self.others: list[Held] = []
        self._spoutings = [*spoutings.values()]
        self._keeper = keeper
        self._window = window
        self._suspects: list[Pending] = []
        self._running: Pending | None = None
        self._alone_s = ALONE_S
        self._ended: asyncio.Future[None] | None = None
        self._fallen: list[int] = []  # owners whose deaths have been counted
        self._deaths = 0  # of other workers, in this life
        self._hurried = False
        self._reached: dict[int, int] = {}  # spout task → messages that it had given when its marks were kept last
        self._unkept = False  # whether the first commit of this life is still to come, which others wait for
        self._wake = asyncio.Event()
        self._changed: dict[Key, Trial | None] = {}  # None: acquitted
        self._sent: dict[Key, Trial | None] = {}
        self._given: dict[int, int] = {}  # as `_reached`, of the commit under way
        self._rows: dict[Key, Trial] = {}  # what the store has
        self._noted: dict[Key, float] = {}  # messages whose trial was under way when this worker died → deaths
        self._zones: dict[Task, dict[Lane, Zone]] = {}  # suspects that are still to come
        self._marks: dict[tuple[Task, Lane], Mark] = {}  # as they are kept,
        self._sent_marks: list[Mark] = []  # and of the commit under way
        keeper.add(self)
        for spouting in self._spoutings:
            spouting.holds.append(partial(self._holds, spouting))

    # -- after a death of this worker

    def begin(self, *, killed: bool) -> None:
        """Looks at what the deaths of this worker have left. `killed`: how it died last."""
        if self._keeper.store is not None and self._spoutings:
            self._look_back(self._keeper.loaded, killed)
            self._unkept = bool(self._changed)
            if self._keeper.loaded.deaths:
                loop = asyncio.get_running_loop()
                self._hurry(loop, loop.time())
        if self._zones:
            self._begin()

    def _hurry(self, loop: asyncio.AbstractEventLoop, since: float) -> None:
        """Has marks kept more often for a while after a death, and lets nothing get far ahead of them: they have to say
        at the next one what was under way, and who is suspected then is tried alone."""
        passed_s = loop.time() - since
        self._hurried = passed_s < HURRY_S or (passed_s < HURRY_MOST_S and self._behind())
        if self._hurried:
            self._keeper.want()
            loop.call_later(HURRIED_S, self._hurry, loop, since)

    def _behind(self) -> bool:
        """Whether something is under way still that was so when this worker died."""
        for row in self._rows.values():
            mark = self._marks.get(((row.component, row.task), (row.partition, row.epoch)))
            if not row.running and mark is not None and under_way(mark) and not beyond(mark.position, row.id):
                return True
        return False

    def _look_back(self, loaded: Loaded, killed: bool) -> None:
        self._rows = {key_of(one): one for one in loaded.trials}
        found = suspicion(loaded, [(one.component, one.task) for one in self._spoutings], killed=killed)
        self._marks = {((one.component, one.task), (one.partition, one.epoch)): one for one in loaded.marks}
        self._zones = {task: {lane: self._zone(task, lane) for lane in lanes} for task, lanes in found.lanes.items()}
        self._noted = found.tried
        for key, trial in found.rows.items():
            self._note(key, trial)

    def _zone(self, task: Task, lane: Lane) -> Zone:
        mark = self._marks.get((task, lane))
        most = UNKEPT_MAX if mark is None else 2 * self._window
        return Zone(mark.newest if mark is not None else None, most, min(UNKEPT_MAX, most))

    def _holds(self, spouting: Suspected) -> str:
        """Why this spout reads nothing: while the trials are on, only suspects are to come again; and before that, how
        far it was when this worker died has to be kept, or the next death could not be compared with it."""
        if self._unkept:
            self._keeper.want()
            return self._keeper.why_full or "it is not kept yet how far it was when its worker died"
        if self._hurried and spouting.emitted - self._reached.get(id(spouting), 0) >= min(self._window, AHEAD_MAX):
            self._keeper.want()
            return "it is not kept yet how far it is, and its worker has died a moment ago"
        if not self.on or (spouting.component, spouting.task) in self._zones:
            return ""
        return "messages are replayed one at a time, as workers have died while they were under way"

    def take(self, spouting: Suspected, trees: Sequence[Pending]) -> None:
        """What a spout has read while `on`: each is emitted in its turn, or after the trials."""
        zones = self._zones.get((spouting.component, spouting.task), {})
        guilty: list[Pending] = []
        for tree in trees:
            partition, epoch = tree.message.partition, spouting.epoch_of(tree)
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
            self._zones.pop((spouting.component, spouting.task), None)
        spouting.replays.put([tree for tree in trees if tree not in guilty])
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
                tree.spouting.failed_tree(tree, failure)
        known = {id(tree) for tree in self._suspects}
        replayed = {id(tree) for one in self._spoutings for tree in one.replays.trees()}  # the others are dead by now
        self._suspects += [tree for tree in suspects if id(tree) in replayed - known]
        self._suspects.sort(key=lambda tree: tree.root)
        self._wake.set()

    def _condemn(self, tree: Pending) -> None:
        """It is dead; its row goes with the commit that has its letter."""
        text = f"workers have died {ceil(tree.deaths)} times while it was under way, the last time while it was alone"
        self._note(self._key_of(tree), None)
        tree.spouting.failed_tree(tree, Failure(Reason.DEADLY, tree.spouting.component, text))

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

    async def _try_some(self) -> None:
        """Tries suspects one after the other, until a worker dies; at most so many that others have their turns. One
        commit has both what a trial has ended with and that the next one begins."""
        deaths, alone_s = self._deaths, self._alone_s
        for tree in self._suspects[:TURN_MAX]:
            key = self._key_of(tree)
            self._note(key, Trial(*key, ceil(tree.deaths), running=True))
            await self._keep()
            if self._deaths == deaths and self._suspects[:1] == [tree]:  # nobody has died meanwhile, nor is it dead
                self._suspects.pop(0)
                self._running, self._ended = tree, asyncio.get_running_loop().create_future()
                tree.spouting.replays.alone(tree)
                await asyncio.wait({self._ended}, timeout=alone_s)
                if not self._ended.done():  # it is under way still, and free
                    alone_s = self._alone_s = max(ALONE_LEAST_S, alone_s / 2)
                self._running = self._ended = None
            self._note(key, None)
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
        self._alone_s = ALONE_S
        for spouting in self._spoutings:
            spouting.replays.hold()
        for other in self.others:
            other.hold()
        logger.warning(
            "workers have died again and again while the same messages were under way: these are replayed one at a "
            "time, and new ones wait (%s)",
            K540,
        )
        self._wake.set()

    def _end(self) -> None:
        self.on = False
        self._noted.clear()
        for spouting in self._spoutings:
            spouting.replays.release()
            spouting.wake()
        for other in self.others:
            other.release()
        logger.warning("the messages that were replayed one at a time are done, or dead; the others go on")

    # -- what is kept

    def _key_of(self, tree: Pending) -> Key:
        spouting, message = tree.spouting, tree.message
        return spouting.component, spouting.task, message.partition, spouting.epoch_of(tree), message.id

    def _note(self, key: Key, trial: Trial | None) -> None:
        if trial is not None or key in self._rows or self._sent.get(key) is not None:
            self._changed[key] = trial
        else:
            self._changed.pop(key, None)

    def gather(self, changes: Changes) -> None:
        self._sent, self._changed = self._changed, {}
        self._given = {id(one): one.emitted for one in self._spoutings}
        self._sent_marks = list(changes.marks)
        for key, trial in self._sent.items():
            if trial is not None:
                changes.trials.append(trial)
            elif key in self._rows:
                changes.acquitted.append(self._rows[key])

    def kept(self) -> None:
        for key, trial in self._sent.items():
            if trial is not None:
                self._rows[key] = trial
            else:
                self._rows.pop(key, None)
        self._sent = {}
        self._marks.update({((one.component, one.task), (one.partition, one.epoch)): one for one in self._sent_marks})
        self._reached = self._given
        if self._unkept:
            self._unkept = False
            for spouting in self._spoutings:
                spouting.wake()

    def not_kept(self) -> None:
        self._changed = {**self._sent, **self._changed}
        self._sent = {}
