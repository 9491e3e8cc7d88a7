# cython: language_level=3, auto_pickle=False
"""The compiled core's class of messages under way. `pending.py` says what its attributes are."""

cimport cython
from libc.stdint cimport uint64_t

from topology.runtime.hot.message_tree import MessageTree


@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class Pending:
    """A message under way: its tree, and what a replay needs. Alive from its emission until it is acked or dead."""

    def __init__(
        self,
        uint64_t root,
        uint64_t value,
        message,
        uint64_t seed,
        owner,
        double started_at,
        int own=0,
        double failing=0.0,
        int others=0,
        tuple renamed not None=(),
        int also=0,
        double deaths=0.0,
        *,
        uint64_t seen=0,
        int idle=0,
    ):
        self.root = root
        self.value = value
        self.message = message
        self.seed = seed
        self.owner = owner
        self.started_at = started_at
        self.own = own
        self.failing = failing
        self.others = others
        self.renamed = renamed
        self.also = also
        self.deaths = deaths
        self.seen = seen
        self.idle = idle

    @property
    def attempts(self):
        """Those that have failed, for whatever reason, in all lives of the message."""
        return self.own + self.others

    def __repr__(self):
        return f"Pending(root={self.root!r}, value={self.value!r}, message={self.message!r})"


MESSAGES = (Pending, MessageTree)
