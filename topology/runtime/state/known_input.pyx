# cython: language_level=3, auto_pickle=False
"""The compiled core's class of known inputs. `known_input.py` says what its attributes are."""

cimport cython
from libc.stdint cimport int64_t

ENTRY_BYTES = 300  # of memory, approximately, for an input without its outputs
Messages = int | tuple[int, ...]


@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class KnownInput:
    """One input that a task knows, with its outputs."""

    def __init__(
        self,
        messages,
        key=None,
        records=(),
        outputs=(),
        bint loaded=False,
        int64_t first=-1,
        bint out=True,
        waiting=None,
        bint timer=False,
        int slot=-1,
    ):
        self.messages = messages
        self.key = key
        self.records = records
        self.outputs = outputs
        self.loaded = loaded
        self.first = first
        self.out = out
        self.waiting = waiting
        self.timer = timer
        self.slot = slot

    @property
    def size(self):
        """Bytes of memory, about."""
        cdef Py_ssize_t size = ENTRY_BYTES
        for _, data in self.outputs:
            size += len(data) + ENTRY_BYTES
        return size

    def __repr__(self):
        return (
            f"KnownInput(messages={self.messages!r}, key={self.key!r}, records={self.records!r}, "
            f"outputs={self.outputs!r}, loaded={self.loaded!r}, first={self.first!r}, out={self.out!r}, "
            f"waiting={self.waiting!r}, timer={self.timer!r}, slot={self.slot!r})"
        )
