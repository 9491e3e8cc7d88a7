# cython: language_level=3, auto_pickle=False
"""The compiled core's acks between workers. `remote_acks.py` says what they are, and runs if nothing is compiled."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cimport topology.runtime.hot.hot_path as hot_path
from topology.runtime.hot.little_endian cimport get, put
from topology.runtime.hot.open_trees cimport first_place

from acker.roots import WORKER_SHIFT as SHIFT

cdef enum:
    FIRST = 256  # acks for which there is room at first; a power of two

cdef int WORKER_SHIFT = SHIFT


cdef struct Pair:
    uint64_t root
    uint64_t value


@cython.final
cdef class Acks:
    cdef Pair *pairs  # owned
    cdef size_t count

    def __dealloc__(self):
        PyMem_Free(self.pairs)

    def __init__(self, acks=()):
        """Of a mapping, or of pairs of root and value."""
        found = dict(acks)
        self.pairs = <Pair *>PyMem_Realloc(self.pairs, (len(found) or 1) * sizeof(Pair))
        if self.pairs is NULL:
            raise MemoryError
        self.count = 0
        for root, value in found.items():
            self.pairs[self.count].root = root
            self.pairs[self.count].value = value
            self.count += 1

    def __len__(self):
        return self.count

    def __iter__(self):
        return iter([self.pairs[at].root for at in range(self.count)])

    def values(self):
        return [self.pairs[at].value for at in range(self.count)]

    def items(self):
        return [(self.pairs[at].root, self.pairs[at].value) for at in range(self.count)]

    def columns(self, size_t most):
        cdef size_t first, count, at
        cdef bytes data
        cdef uint8_t *to
        found = []
        for first in range(0, self.count, most):
            count = min(most, self.count - first)
            data = PyBytes_FromStringAndSize(NULL, 16 * count)
            to = <uint8_t *>PyBytes_AS_STRING(data)
            for at in range(count):
                put(to + 8 * at, self.pairs[first + at].root)
                put(to + 8 * (count + at), self.pairs[first + at].value)
            found.append(data)
        return found

    def settle(self, ledger):
        cdef list done = []
        cdef size_t at
        young, ack = ledger.young, ledger.ack
        for at in range(self.count):
            hot_path.settle(young, ack, self.pairs[at].root, self.pairs[at].value, done)
        return done


def acks_of(bytes data not None):
    cdef size_t count = len(data) // 16, at
    if len(data) % 16:
        raise ValueError(f"{len(data)} bytes are no pairs of 64-bit numbers")
    cdef const uint8_t *numbers = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Acks made = Acks.__new__(Acks)
    made.pairs = <Pair *>PyMem_Malloc((count or 1) * sizeof(Pair))
    if made.pairs is NULL:
        raise MemoryError
    made.count = count
    for at in range(count):
        made.pairs[at].root = get(numbers + 8 * at)
        made.pairs[at].value = get(numbers + 8 * (count + at))
    return made


@cython.final
cdef class WaitingAcks:
    """The pairs lie in the order of their first acks; `index`, twice as long, has the place of a root's pair, and one
    more. It is a table as `OpenTrees` is."""

    cdef public bint open
    cdef object came
    cdef size_t most
    cdef Pair *pairs  # owned
    cdef uint32_t *index  # owned
    cdef size_t count
    cdef size_t room  # a power of two
    cdef int shift

    def __init__(self, came, size_t most):
        self.open = False
        self.came = came
        self.most = most
        self._begin(FIRST)

    def __dealloc__(self):
        PyMem_Free(self.pairs)
        PyMem_Free(self.index)

    def __len__(self):
        return self.count

    cdef int _begin(self, size_t room) except -1:
        """Begin with nothing, and room for so many. The pairs that were there are the caller's. If this raises,
        nothing has changed."""
        cdef int bits = 0
        cdef Pair *pairs = <Pair *>PyMem_Malloc(room * sizeof(Pair))
        cdef uint32_t *index = <uint32_t *>PyMem_Calloc(2 * room, sizeof(uint32_t))
        if pairs is NULL or index is NULL:
            PyMem_Free(pairs)
            PyMem_Free(index)
            raise MemoryError
        PyMem_Free(self.index)
        self.pairs, self.index, self.room, self.count = pairs, index, room, 0
        while <size_t>1 << bits < 2 * room:
            bits += 1
        self.shift = 64 - bits
        return 0

    cdef int _grow(self) except -1:
        cdef Pair *old = self.pairs
        cdef size_t count = self.count, at
        self._begin(2 * self.room)
        for at in range(count):
            self._find(old[at].root).value = old[at].value
        PyMem_Free(old)
        return 0

    cdef Pair *_find(self, uint64_t root) noexcept:
        """Return the pair of this root, which is new and zero if there was none. There is room for it."""
        cdef size_t at = first_place(root, self.shift)
        cdef Pair *pair
        while self.index[at]:
            pair = &self.pairs[self.index[at] - 1]
            if pair.root == root:
                return pair
            at = (at + 1) & (2 * self.room - 1)
        pair = &self.pairs[self.count]
        pair.root = root
        pair.value = 0
        self.count += 1
        self.index[at] = <uint32_t>self.count
        return pair

    cpdef object add(self, uint64_t root, uint64_t value):
        if not self.open:
            return
        if self.count == self.room:
            self._grow()
        self._find(root).value ^= value
        if self.count == 1 or self.count > self.most:
            self.came()

    def take(self):
        cdef Acks taken = Acks.__new__(Acks)
        cdef Pair *pairs = self.pairs
        cdef size_t count = self.count
        self._begin(FIRST)
        taken.pairs, taken.count = pairs, count
        return taken


@cython.final
cdef class AckRoutes:
    cdef uint64_t worker
    cdef object here
    cdef dict peers

    def __init__(self, uint64_t worker, ledger, dict peers not None):
        self.worker = worker
        self.here = ledger.ack
        self.peers = peers

    def ack(self, uint64_t root, uint64_t value):
        cdef uint64_t worker = root >> WORKER_SHIFT
        if worker == self.worker:
            return self.here(root, value)
        peer = self.peers.get(worker)
        if peer is not None:
            (<WaitingAcks?>peer).add(root, value)
        return None
