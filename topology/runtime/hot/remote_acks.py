"""Acks between workers: those that wait to leave for a peer, and those of one frame.

This is the Python core's; `remote_acks.pyx` does the same without an object for a number. A column is of unsigned
64-bit numbers, little-endian on every host: the roots, and then the values. Must not know frames, nor sessions.
"""

from collections.abc import Callable, Iterator, Mapping
from struct import pack, unpack
from types import MappingProxyType
from typing import Any

from acker.ledger import Ledger
from acker.roots import WORKER_SHIFT


class Acks:
    """The acks of one frame, each a root and the XOR of its values. `columns` and `settle` change nothing."""

    def __init__(self, acks: Mapping[int, int] = MappingProxyType({})) -> None:
        self._pairs = [*acks.items()]

    def __len__(self) -> int:
        return len(self._pairs)

    def __iter__(self) -> Iterator[int]:
        return iter([root for root, _ in self._pairs])

    def values(self) -> list[int]:
        """Return the values, in the order of the roots."""
        return [value for _, value in self._pairs]

    def items(self) -> list[tuple[int, int]]:
        """Return each root with its value."""
        return [*self._pairs]

    def columns(self, most: int) -> list[bytes]:
        """Return columns of at most so many acks; none if there are no acks."""
        roots, values = [*self], self.values()
        parts = [(roots[at : at + most], values[at : at + most]) for at in range(0, len(roots), most)]
        return [pack(f"<{2 * len(some)}Q", *some, *those) for some, those in parts]

    def settle(self, ledger: Ledger[Any]) -> list[Any]:
        """Ack them all. Return the trees that this completes."""
        ack = ledger.ack
        return [tree for root, value in self._pairs if (tree := ack(root, value)) is not None]


def acks_of(data: bytes) -> Acks:
    """Return the acks of a column. Raises ValueError for bytes that are none."""
    count, rest = divmod(len(data), 16)
    if rest:
        raise ValueError(f"{len(data)} bytes are no pairs of 64-bit numbers")
    numbers = unpack(f"<{2 * count}Q", data)
    found = Acks()
    found._pairs = [*zip(numbers[:count], numbers[count:], strict=True)]
    return found


class WaitingAcks:
    """The acks that wait to leave for one peer. While it is not `open`, as that peer is away, acks are dropped: their
    trees are gone with it. `came` is called after an ack if they are of one tree then, or of
    more than `most`."""

    def __init__(self, came: Callable[[], None], most: int) -> None:
        self.open = False
        self._came = came
        self._most = most
        self._acks: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._acks)

    def add(self, root: int, value: int) -> None:
        """Take an ack. Those of one tree become one."""
        if not self.open:
            return
        acks = self._acks
        acks[root] = acks.get(root, 0) ^ value
        if len(acks) == 1 or len(acks) > self._most:
            self._came()

    def take(self) -> Acks:
        """Return all that wait; none wait then."""
        taken, self._acks = Acks(self._acks), {}
        return taken


class AckRoutes:
    """Leads an ack to its tree: into this worker's ledger, or to what waits for the tree's worker."""

    def __init__(self, worker: int, ledger: Ledger[Any], peers: dict[int, WaitingAcks]) -> None:
        self._worker = worker
        self._here = ledger.ack
        self._peers = peers

    def ack(self, root: int, value: int) -> Any:
        """Ack. Return the tree if it is of this worker, and that has completed it."""
        worker = root >> WORKER_SHIFT
        if worker == self._worker:
            return self._here(root, value)
        peer = self._peers.get(worker)
        if peer is not None:
            peer.add(root, value)
        return None
