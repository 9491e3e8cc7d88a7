"""Roots: the names of tuple trees. 64 bits, unique by construction, and the fencing token of the trees' home (A7, D5).

    home worker : 14 | incarnation : 12 | message number : 32 | attempt : 6

An *owner* is (worker, incarnation), packed in the top 26 bits. Pure arithmetic: this file must not know where
incarnations are stored, nor what a message is.
"""

from collections.abc import Callable
from typing import Final

INCARNATION_BITS: Final = 12
INCARNATIONS: Final = 1 << INCARNATION_BITS
WORKERS: Final = 1 << 14
NUMBERS: Final = 1 << 32
ATTEMPTS: Final = 1 << 6
OWNER_SHIFT: Final = 38
WORKER_SHIFT: Final = 50
NUMBER_SHIFT: Final = 6

ROOT_STEP: Final = ATTEMPTS  # the distance between the roots of two successive messages

# the last attempt of a message, and the only attempt of a sub-tree; it marks a sub-tree's root (A16)
LAST_ATTEMPT: Final = ATTEMPTS - 1

UNTRACKED: Final = 0  # the root of a tuple that belongs to no tree


def owner(worker: int, incarnation: int) -> int:
    """Return the owner's 26 bits. `incarnation` may be any count: it is taken modulo 4,096."""
    if not 0 <= worker < WORKERS:
        raise ValueError(f"a worker's number is 0 to {WORKERS - 1}, not {worker}")
    return worker << INCARNATION_BITS | incarnation % INCARNATIONS


def pack(owner_bits: int, number: int, attempt: int) -> int:
    """Return the root of one attempt of one message."""
    return owner_bits << OWNER_SHIFT | number << NUMBER_SHIFT | attempt


def worker_of(root: int) -> int:
    return root >> WORKER_SHIFT


def worker_of_owner(owner_bits: int) -> int:
    return owner_bits >> INCARNATION_BITS


def attempt_of(root: int) -> int:
    return root & ATTEMPTS - 1


def message_of(root: int) -> int:
    """Return the root without its attempt: the name of a message at its home."""
    return root >> NUMBER_SHIFT


class RootSource:
    """The source of message numbers for one home worker.

    `renew()` returns the next durable incarnation. It is called once the 2**32 numbers of an incarnation are used up,
    which takes two and a half hours at 500,000 messages per second. May block as `renew` does.
    """

    def __init__(self, worker: int, incarnation: int, renew: Callable[[], int], first: int = 1) -> None:
        self.worker = worker
        self.owner = owner(worker, incarnation)
        self.owners: tuple[int, ...] = (self.owner,)  # all of this life, the first one first
        self._renew = renew
        self._number = first - 1  # number 0 stays unused: a root is never 0

    def next_root(self) -> int:
        """Return a root with attempt 0 that this home has never used."""
        return self.take(1)

    def next_sub_root(self) -> int:
        """Return the root of a sub-tree, with its only attempt."""
        return self.take(1) | LAST_ATTEMPT

    def take(self, count: int) -> int:
        """Return the first of `count` new roots, each ROOT_STEP above the one before."""
        if self._number + count >= NUMBERS:
            self.owner = owner(self.worker, self._renew())
            self.owners = (*self.owners, self.owner)
            self._number = 0
        first = self._number + 1
        self._number += count
        return self.owner << OWNER_SHIFT | first << NUMBER_SHIFT

    @property
    def latest(self) -> int:
        """The last root that was taken, or one below all of them."""
        return self.owner << OWNER_SHIFT | self._number << NUMBER_SHIFT

    def next_attempt(self, root: int) -> int:
        """Return the root of the next attempt of the same message; a new number if its 64 attempts are used up."""
        if attempt_of(root) == LAST_ATTEMPT:
            return self.next_root()
        return root + 1
