# cython: language_level=3, auto_pickle=False
"""The compiled core's class of tuples. `tuples.py` says what it is for, and is what runs where nothing is compiled."""

cimport cython
from types import GenericAlias


@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class Tuple:
    """A record and its position in tuple trees. Compared by identity of the object: one delivery is one tuple.

    `root` is the tree that the tuple belongs to, or 0 if it belongs to none. `others` are further trees, after a join.
    (`origin`, `identity`) is the same for every replay: an idempotent sink deduplicates by this key.
    """

    __match_args__ = ("record", "origin", "identity", "root", "others", "source")

    def __init__(
        self, record, uint64_t origin, uint64_t identity, uint64_t root, tuple others not None, source
    ):
        self.record = record
        self.origin = origin
        self.identity = identity
        self.root = root
        self.others = others
        self.source = source

    @property
    def roots(self):
        """All trees that the tuple belongs to."""
        return (self.root, *self.others) if self.root else self.others

    def carrying(self, record):
        """Return this tuple with another record."""
        return new(record, self.origin, self.identity, self.root, self.others, self.source)

    def __repr__(self):
        return (
            f"Tuple(record={self.record!r}, origin={self.origin!r}, identity={self.identity!r}, root={self.root!r}, "
            f"others={self.others!r}, source={self.source!r})"
        )

    def __reduce__(self):
        return Tuple, (self.record, self.origin, self.identity, self.root, self.others, self.source)

    @classmethod
    def __class_getitem__(cls, item):
        if type(item) is tuple and len(item) != 1:
            raise TypeError(f"Too many arguments for {cls}; actual {len(item)}, expected 1")
        return GenericAlias(cls, item)
