# The types of `keyed_work.py`, for the compiled core.

cimport cython
from libc.stdint cimport int64_t, uint64_t

cimport acker.hash64 as hash64
cimport topology.runtime.hot.hot_path as hot_path
cimport topology.runtime.state.known_input as known_input
from topology.core.tuples cimport Tuple
from topology.runtime.state.known_input cimport KnownInput
from topology.runtime.state.lookups cimport HeldKeys, KnownPairs
from topology.runtime.state.state_value cimport StateFields

cdef int NUMBER_BITS
cdef int NUMBER_SHIFT
cdef int64_t TIMERS_FIRST


@cython.final
cdef class KeyedWork:
    cdef object executor
    cdef object codec
    cdef KnownPairs known
    cdef HeldKeys keys
    cdef dict busy
    cdef object decided
    cdef object outputs
    cdef bint by_count
    cdef public object timers
    cdef public object logged
    cdef public object takes
    cdef dict newest
    cdef object process
    cdef long executed
    cdef uint64_t last
    cdef uint64_t value
    cdef list over

    @cython.locals(taken=long)
    cpdef long slice(self, long count) except -1

    cpdef object take(self, Tuple tup)

    cdef object _look(self)

    @cython.locals(root=uint64_t, message=int64_t, newest=int64_t)
    cdef object _begin(self, Tuple tup)

    @cython.locals(root=uint64_t, first=int64_t, size=int64_t, sent=uint64_t, timer=bint, entry=KnownInput)
    cpdef object done(self, Tuple tup, object records, StateFields state)

    cpdef uint64_t emit(self, Tuple tup, object records, KnownInput entry) except? 0

    @cython.locals(root=uint64_t, tag=uint64_t, edge=uint64_t)
    cpdef object leaves(self, Tuple tup, KnownInput entry, uint64_t sent)

    cdef object _settle(self)

    @cython.locals(over=list)
    cpdef object complete(self)
