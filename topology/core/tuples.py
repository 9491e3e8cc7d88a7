"""A tuple: a record on its way, with its names and its place in tuple trees.

This is the Python core's class; `tuples.pyx` has the compiled one, whose numbers are no Python objects until they are
asked for. Both have the same attributes. Must not know tasks, queues or ledgers.
"""

from typing import Any, Final, Generic

import msgspec
from typing_extensions import TypeVar

from topology.core.source import Source
from topology.records import Record

RC = TypeVar("RC", bound=Record, covariant=True)


class Tuple(msgspec.Struct, Generic[RC], frozen=True, eq=False, gc=False):
    """A record and its position in tuple trees. Compared by identity of the object: one delivery is one tuple.

    `root` is the tree that the tuple belongs to, or 0 if it belongs to none. `others` are further trees, after a join.
    (`origin`, `identity`) is the same for every replay: an idempotent sink deduplicates by this key.
    """

    record: RC
    origin: int
    identity: int
    root: int
    others: tuple[int, ...]
    source: Source

    @property
    def roots(self) -> tuple[int, ...]:
        """All trees that the tuple belongs to."""
        return (self.root, *self.others) if self.root else self.others

    def carrying(self, record: Any) -> "Tuple[Any]":
        """Return this tuple with another record."""
        return Tuple(record, self.origin, self.identity, self.root, self.others, self.source)


new: Final = Tuple  # compiled: a call in C, without boxes around its numbers
