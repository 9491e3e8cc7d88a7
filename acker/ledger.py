"""The ledger: the open tuple trees of one home, each with one XOR value that shows when the tree is done.

Storm's acker (Nathan Marz, 2011): a tree's value is the XOR of the edges that were sent and not yet processed. Each
edge goes in twice, when it is sent and when it is processed, so the value is zero when nothing is in flight.

Pure and single-threaded: no I/O and no clock; the caller passes the time. This file must not know what a message is:
the home subclasses `Tree` to keep what it needs for a replay.

Deadlines are those of Storm's RotatingMap: two generations, `young` and `old`. Every `timeout_s` the trees still in
`old` expire, and `young` becomes `old`; progress moves a tree back to `young`. So a tree fails after T <= silence < 2T
(A8), and at most two intervals between calls of `advance` later, at no cost to an ack.

There are two deviations. Time in which the caller did not run does not count (A10). A `touch` for a tuple that waits in
a queue is progress too (A9). The hard cap has its own clock, which no touch and no `shift` delays. Every `timeout_s`
the ledger looks at all trees, and a tree in which it has found no ack `hard_cap` times in a row expires.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Final, Generic, TypeVar

import msgspec

# seconds; a longer gap between two calls of `advance` means that the process was stalled, not the trees
STALL_S: Final = 1.0


class CapState(msgspec.Struct, gc=False, eq=False, kw_only=True):
    """The data that the hard cap needs per tree. Only the ledger reads and sets it."""

    seen: int = 0  # the tree's value at the ledger's last look
    idle: int = 0  # looks in a row that found this same value, so no ack between them


class Tree(CapState, gc=False, eq=False):
    """One open tree. `value` is the XOR of its open edges, never zero while the tree is in a ledger."""

    root: int
    value: int


T = TypeVar("T", bound=Tree)
_by_root: Final = attrgetter("root")


class Ledger(Generic[T]):
    """The open trees of one home. The caller calls `advance` several times per second: a gap of STALL_S is a stall.

    `unknown` counts acks, fails and touches for trees that are not open: late, repeated or foreign ones, all harmless.
    `stalls` counts the stalls of the caller, `begun` the trees that were opened. All only grow. `young` has the trees
    that were begun, or had an ack, in this generation, and `old` all others. The hot path puts in what it begins, and
    takes out what it completes, as `begin` and `ack` do. `table` makes what holds open trees by root: a dict, or what
    behaves as one.
    """

    def __init__(
        self, timeout_s: float, now: float, hard_cap: int = 20, table: Callable[[], dict[int, T]] = dict
    ) -> None:
        self.timeout_s = timeout_s
        self.hard_cap = hard_cap
        self.unknown = 0
        self.stalls = 0
        self.begun = 0
        self._table = table
        self.young = table()
        self.old = table()
        self._due = now + timeout_s
        self._look_due = now + timeout_s
        self._last = now

    def __len__(self) -> int:
        return len(self.young) + len(self.old)

    @property
    def cap_s(self) -> float:
        """Seconds without an ack after which a tree expires despite touches; it may take up to about `timeout_s`
        more."""
        return self.hard_cap * self.timeout_s

    def __contains__(self, root: int) -> bool:
        return root in self.young or root in self.old

    def begin(self, tree: T) -> None:
        """Open a tree. Call it before the tree's first tuple is sent, so that no ack can come too early.

        `tree.value` is the XOR of its first edges and not zero. A root is never used twice (A7). A tree that has just
        expired may be opened again as it is: all its deadlines start again.
        """
        root = tree.root
        assert tree.value, "a tree begins with an open edge"
        assert not (self.old and root in self.old), "a root is begun once"
        self.begun += 1
        previous = self.young.setdefault(root, tree)
        assert previous is tree, "a root is begun once"
        tree.seen = tree.idle = 0  # the value of a replay's tree is that of the first attempt

    def ack(self, root: int, value: int) -> T | None:
        """XOR one input's value in: its edge ^ the edges registered with this root. Return the tree if it is now done.

        Each emission is registered exactly once in each distinct root (A1).
        """
        tree = self.young.get(root)
        if tree is None:
            tree = self.old.pop(root, None)
            if tree is None:
                self.unknown += 1
                return None
            self.young[root] = tree
        left = tree.value ^ value
        tree.value = left
        if left:
            return None
        del self.young[root]
        return tree

    def fail(self, root: int) -> T | None:
        """End a tree at once, and return it; None if it is not open."""
        tree = self.young.pop(root, None) or self.old.pop(root, None)
        if tree is None:
            self.unknown += 1
        return tree

    def touch(self, root: int) -> None:
        """Report that a tuple of this tree waits in a queue or is held: silence, but not a loss (A9). The cap keeps
        running."""
        tree = self.old.pop(root, None)
        if tree is not None:
            self.young[root] = tree
        elif root not in self.young:
            self.unknown += 1

    def renew(self, root: int) -> None:
        """Report that a tuple of this tree waits in a queue that moves: not stuck, however long the queue takes (A9).
        Works as `touch`, and the cap starts again."""
        self.touch(root)
        tree = self.young.get(root)
        if tree is not None:
            tree.idle = 0

    def advance(self, now: float) -> list[T]:
        """Set the time, in the caller's monotonic seconds. Return the trees that expired, by root; they are closed."""
        gap = now - self._last
        self._last = now
        if gap > STALL_S:
            self.stalls += 1
            self._due += gap
            self._look_due += gap
        expired: list[T] = []
        if now >= self._due:
            expired = list(self.old.values())
            self.old, self.young = self.young, self._table()
            self._due = now + self.timeout_s
        if now >= self._look_due:
            self._look_due = now + self.timeout_s
            expired += self._look()
        expired.sort(key=_by_root)
        return expired

    def _look(self) -> list[T]:
        """Look at all trees; end and return those without an ack since `hard_cap` looks ago (A9)."""
        over: list[T] = []
        for tree in self.trees():
            if tree.value != tree.seen:
                tree.seen, tree.idle = tree.value, 0
                continue
            tree.idle += 1
            if self.over_the_cap(tree):
                over.append(tree)
        for tree in over:
            if self.young.pop(tree.root, None) is None:
                del self.old[tree.root]
        return over

    def over_the_cap(self, tree: T) -> bool:
        """Return True if this tree, which has just expired, expired by the hard cap."""
        return tree.idle >= self.hard_cap

    def shift(self, seconds: float) -> None:
        """Move all deadlines except the hard cap: the time in which a spout was paused is not silence (A9)."""
        self._due += seconds

    def fail_all(self) -> list[T]:
        """End every tree and return them by root, so the oldest first: a worker that they need has died (A11, A14)."""
        trees = sorted(self.trees(), key=_by_root)
        self.old, self.young = self._table(), self._table()
        return trees

    def trees(self) -> list[T]:
        """Return the open trees, in no promised order."""
        return [*self.old.values(), *self.young.values()]
