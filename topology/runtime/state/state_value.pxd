# The types of `state_value.pyx`, for the compiled module that reads them.


cdef class StateFields:
    cdef public object _codec
    cdef public object key
    cdef public object _held
    cdef public bint changed
    cdef public object _value
    cdef public object _timers
