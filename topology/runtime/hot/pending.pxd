# The types of `pending.pyx`, for the compiled modules that begin and end trees.

from libc.stdint cimport uint64_t


cdef class Pending:
    cdef public uint64_t root
    cdef public uint64_t value
    cdef public object message
    cdef public uint64_t seed
    cdef public object owner
    cdef public double started_at
    cdef public double failing
    cdef public double deaths
    cdef public tuple renamed
    cdef public uint64_t seen
    cdef public int idle
    cdef public int own
    cdef public int others
    cdef public int also


cdef inline Pending new(
    uint64_t root, uint64_t value, object message, uint64_t seed, object owner, double started_at
):
    cdef Pending made = Pending.__new__(Pending)
    made.root = root
    made.value = value
    made.message = message
    made.seed = seed
    made.owner = owner
    made.started_at = started_at
    made.renamed = ()
    return made
