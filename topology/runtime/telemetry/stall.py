"""Explain a silent run: if nothing has been acked for a while, one sentence says why.

`limit` is pure: facts in, a sentence out. `StallWatch` takes a snapshot each second, remembers the last progress and
logs once per change. Reads snapshots and queues, and changes none. Must not know the worker, commands or terminals.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from topology.runtime.telemetry.metrics import Snapshot

SILENT_S: Final = 5.0  # seconds without an ack after which the watch explains why
LOOK_S: Final = 1.0  # seconds between calls of `StallWatch.look`

logger = logging.getLogger("kedge")


@dataclass(frozen=True)
class SpoutFacts:
    """A spout: its messages in flight, those that wait for a replay, and what keeps it from emitting.

    `paused_by` names the bolt whose queue is full. `held_by` is any other reason, in words.
    """

    name: str
    pending: int = 0
    waiting: int = 0
    idle_s: float = 0.0  # seconds since its last message
    paused_by: str | None = None
    ended: bool = False
    held_by: str = ""


@dataclass(frozen=True)
class BoltFacts:
    """A bolt with all its tasks: queued inputs, and inputs that it processes or holds.

    `away` is why the bolt is away (`Bolt.away`). `why_full` is what its sources wait for, if that is not its queue.
    """

    name: str
    queued: int = 0
    in_hand: int = 0
    away: str = ""
    why_full: str = ""


@dataclass(frozen=True)
class RunFacts:
    """A run at one moment. `oldest_in` are the bolts that have a tuple of the oldest message in flight. `oldest_root`
    is the root of its tree."""

    silent_s: float  # seconds since the last ack; in an untracked run, since the last executed input
    spouts: Sequence[SpoutFacts]
    bolts: Sequence[BoltFacts]
    oldest_s: float = 0.0
    oldest_in: Sequence[str] = ()
    oldest_root: int = 0
    starting: Sequence[str] = ()  # companions that are not ready yet


@dataclass(frozen=True)
class Limit:
    """The reason why nothing is acked. `cause` stays the same while only the numbers in `text` change."""

    cause: tuple[str, ...]
    text: str
    stuck: bool = True  # False if there is just nothing to do


def limit(facts: RunFacts) -> Limit | None:
    """Return what holds the run up, or None before SILENT_S seconds without an ack."""
    if facts.silent_s < SILENT_S:
        return None
    pending = sum(spout.pending for spout in facts.spouts)
    paused = next((spout for spout in facts.spouts if spout.paused_by is not None), None)
    away = [bolt for bolt in facts.bolts if bolt.away]
    if away:
        text = "; ".join(f"{bolt.name!r} waits: {bolt.away}" for bolt in away)
        return Limit(("away", *(bolt.name for bolt in away)), f"{text}; {held(facts)}")
    if paused is not None:
        full = next((bolt.why_full for bolt in facts.bolts if bolt.name == paused.paused_by), "")
        by = f"by {paused.paused_by!r}, which has {full}" if full else f"by the queue of {paused.paused_by!r}"
        text = f"{paused.name!r} is paused {by}; {held(facts)}"
        return Limit(("paused", str(paused.paused_by)), text)
    held_back = next((spout for spout in facts.spouts if spout.held_by), None)
    if held_back is not None:
        text = f"{held_back.name!r} is paused: {held_back.held_by}; {held(facts)}"
        return Limit(("held", held_back.held_by), text)
    if pending and pending == sum(spout.waiting for spout in facts.spouts):
        text = (
            f"{_counted(pending, 'message waits', 'messages wait')} to be replayed after a failure; none is under way"
        )
        return Limit(("replays",), text)
    if pending:
        return Limit(("pending", *facts.oldest_in), held(facts))
    busy = [bolt for bolt in facts.bolts if bolt.queued or bolt.in_hand]
    if busy:
        return Limit(("untracked", *(bolt.name for bolt in busy)), held(facts))
    if all(spout.ended for spout in facts.spouts):
        return Limit(("ending",), "all sources have ended; waiting for the bolts to finish")
    idle = [spout for spout in facts.spouts if not spout.ended]
    names = ", ".join(dict.fromkeys(repr(spout.name) for spout in idle))
    shortest = min(spout.idle_s for spout in idle)
    if facts.starting:
        who = f"{' and '.join(map(repr, facts.starting))} {'is' if len(facts.starting) == 1 else 'are'} still starting"
        return Limit(("starting", names), f"no message from {names} for {shortest:.0f} s, and {who}", stuck=False)
    return Limit(("idle", names), f"source idle: no message from {names} for {shortest:.0f} s", stuck=False)


def held(facts: RunFacts) -> str:
    """Return where everything in flight is, for the stall line and for a run that is aborted."""
    pending = sum(spout.pending for spout in facts.spouts)
    parts = [f"{_counted(pending, 'message is', 'messages are')} pending"]
    if facts.oldest_in:
        names = " and ".join(repr(name) for name in facts.oldest_in)
        parts.append(f"{names} {'has' if len(facts.oldest_in) == 1 else 'have'} the oldest, for {facts.oldest_s:.0f} s")
    elif facts.oldest_s:
        parts.append(f"no bolt has the oldest any more, for {facts.oldest_s:.0f} s: it will time out and be replayed")
    places = [
        f"{bolt.name!r} has {bolt.queued:,} queued and {bolt.in_hand:,} in hand"
        for bolt in facts.bolts
        if bolt.queued or bolt.in_hand
    ]
    return "; ".join([*parts, *places])


class StallWatch:
    """The current reason for a stall: `text`, empty while messages are acked. Call `look` each LOOK_S, on the loop."""

    def __init__(self) -> None:
        self.text = ""
        self._done = -1
        self._done_at = 0.0
        self._looked_at = 0.0
        self._pending = 0
        self._emitted: dict[str, tuple[int, float]] = {}  # spout → messages so far, and when that number was first seen
        self._cause: tuple[str, ...] | None = None
        self._stuck_since: float | None = None
        self._starting: Sequence[str] = ()
        self._idle = False  # True if `text` says that no message arrives

    def look(self, now: float, snapshot: Snapshot, facts: Callable[[], RunFacts], starting: Sequence[str] = ()) -> None:
        """Note progress, and log a change. Asks for `facts` only if nothing was acked for a while.

        `starting` are companions that are not ready. It counts as progress too when the last of them gets ready.
        """
        done, pending = _done(snapshot), snapshot.total("pending")
        if done != self._done or (self._starting and not starting):
            self._done, self._done_at = done, now
        elif pending and not self._pending:
            self._done_at = self._looked_at  # while nothing was pending, there was nothing to ack
        self._pending, self._looked_at, self._starting = pending, now, starting
        for name, counts in snapshot.spouts.items():
            if counts.emitted != self._emitted.get(name, (-1, now))[0]:
                self._emitted[name] = (counts.emitted, now)
        found = None
        if self.silent_s >= SILENT_S:
            found = limit(self._dated(facts()))
        self.text = found.text if found else ""
        self._idle = found is not None and not found.stuck
        self._log(found, now)

    def text_with(self, snapshot: Snapshot) -> str:
        """Return `text` if it fits these counters, which may be newer than the last look.

        Return an empty text if there was progress since, or a message from a source that was idle.
        """
        emitted = {name: counts.emitted for name, counts in snapshot.spouts.items()}
        seen = {name: self._emitted.get(name, (0, 0.0))[0] for name in emitted}
        return "" if _done(snapshot) != self._done or (self._idle and emitted != seen) else self.text

    @property
    def silent_s(self) -> float:
        """Return for how many seconds nothing had been acked at the last look."""
        return self._looked_at - self._done_at

    def _dated(self, facts: RunFacts) -> RunFacts:
        """Return the facts with what depends on time: for how long all was silent, and each spout idle."""
        idle_s = {name: self._looked_at - since for name, (_, since) in self._emitted.items()}
        spouts = [replace(spout, idle_s=idle_s.get(spout.name, 0.0)) for spout in facts.spouts]
        return replace(facts, silent_s=self.silent_s, spouts=spouts, starting=self._starting)

    def _log(self, found: Limit | None, now: float) -> None:
        if found is None:
            if self._stuck_since is not None:
                logger.info("messages are acked again, after %.0f s", now - self._stuck_since)
                self._stuck_since = self._cause = None
            return
        if found.cause != self._cause:
            self._cause = found.cause
            logger.log(logging.WARNING if found.stuck else logging.INFO, "%s", found.text)
        if found.stuck and self._stuck_since is None:
            self._stuck_since = self._done_at
        elif not found.stuck:
            self._stuck_since = None


def _done(snapshot: Snapshot) -> int:
    done = snapshot.total("acked") + snapshot.total("dead")
    if not done and not snapshot.total("pending"):  # nothing is tracked, or nothing has arrived yet
        return sum(counts.executed for counts in snapshot.bolts.values())
    return done


def tell_opening(component: str) -> None:
    """Log that a component's `open` takes long. Nothing runs before `open` has returned."""
    logger.warning("worker starting: %r has been opening for %.0f s", component, SILENT_S)


def together(parts: Sequence[RunFacts]) -> RunFacts:
    """Return the facts of several workers as those of one run. `oldest_in` is right if all were asked for the same
    root."""
    oldest = max(parts, key=lambda part: part.oldest_s)
    bolts: dict[str, BoltFacts] = {}
    for bolt in (bolt for part in parts for bolt in part.bolts):
        sums = bolts.get(bolt.name, BoltFacts(bolt.name))
        queued, in_hand = sums.queued + bolt.queued, sums.in_hand + bolt.in_hand
        away, why_full = sums.away or bolt.away, sums.why_full or bolt.why_full
        bolts[bolt.name] = BoltFacts(bolt.name, queued, in_hand, away, why_full)
    return RunFacts(
        min(facts.silent_s for facts in parts),
        [spout for part in parts for spout in part.spouts],
        list(bolts.values()),
        oldest.oldest_s,
        list(dict.fromkeys(name for part in parts for name in part.oldest_in)),
        oldest.oldest_root,
    )


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
