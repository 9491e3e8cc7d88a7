# The types of `tuples.pyx`, for the compiled modules that make and read tuples.

from libc.stdint cimport uint64_t


cdef class Tuple:
    cdef readonly object record
    cdef readonly uint64_t origin
    cdef readonly uint64_t identity
    cdef readonly uint64_t root
    cdef readonly tuple others
    cdef readonly object source


cdef inline Tuple new(
    object record, uint64_t origin, uint64_t identity, uint64_t root, tuple others, object source
):
    cdef Tuple made = Tuple.__new__(Tuple)
    made.record = record
    made.origin = origin
    made.identity = identity
    made.root = root
    made.others = others
    made.source = source
    return made
