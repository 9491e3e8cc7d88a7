# The types of `lookups.py`, for the compiled core.

cimport cython
from libc.stdint cimport int64_t


cdef int NUMBER_BITS


cdef class KnownPairs:
    cdef public dict now
    cdef public dict gathered
    cdef public dict older
    cdef public int64_t bytes

    cpdef object get(self, object pair)
    cpdef object add(self, object pair, object entry, int64_t size)


@cython.locals(looked=int64_t, owner=int64_t, newest=int64_t, message=int64_t)
cpdef bint find_open(object inputs, object done, int64_t most, list found) except -1

@cython.locals(left=int64_t)
cpdef bint drop(dict trash, int64_t most) except -1


cdef class HeldKeys:
    cdef public dict held
    cdef public dict before

    cpdef object get(self, object key)
    @cython.locals(held=dict)
    cpdef object put(self, object key, object now)
