# The types of `open_trees.pyx`, for the compiled modules that begin and end trees.

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t


cdef inline size_t first_place(uint64_t root, int shift) noexcept nogil:
    """Return where a root belongs in a table of 2**(64 - shift) places: its product with 2**64 over the golden ratio."""
    return (root * <uint64_t>0x9E3779B97F4A7C15) >> shift


cdef struct Place:
    uint64_t root  # 0: nothing is here
    PyObject *tree  # owned


cdef class OpenTrees:
    cdef Place *places
    cdef size_t used
    cdef size_t mask  # the number of places, a power of two, less one
    cdef int shift

    cdef Place *_place(self, uint64_t root) noexcept
    cdef int _grow(self) except -1
    cpdef object get(self, uint64_t root)
    cpdef object setdefault(self, uint64_t root, object tree)
    cpdef object pop(self, uint64_t root, object default=*)
    cpdef list values(self)
