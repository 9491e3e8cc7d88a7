# The types of `known_input.pyx`, for the compiled module that makes them.

from libc.stdint cimport int64_t


cdef class KnownInput:
    cdef public object messages
    cdef public object key
    cdef public object records
    cdef public object outputs
    cdef public bint loaded
    cdef public int64_t first
    cdef public bint out
    cdef public object waiting
    cdef public bint timer
    cdef public int slot


cdef inline KnownInput new(object messages, object key, object records, object outputs, bint loaded, int64_t first):
    cdef KnownInput made = KnownInput.__new__(KnownInput)
    made.messages = messages
    made.key = key
    made.records = records
    made.outputs = outputs
    made.loaded = loaded
    made.first = first
    made.out = True
    made.timer = False
    made.slot = -1
    return made
