# The types of `hot_path.py`, for the compiled core.

cimport cython
from libc.stdint cimport uint64_t

cimport acker.hash64 as hash64
cimport topology.runtime.hot.pending as pending
cimport topology.core.tuples as tuples
from topology.runtime.hot.open_trees cimport OpenTrees
from topology.runtime.hot.pending cimport Pending
from topology.core.tuples cimport Tuple


cdef class Plain:
    cdef public object cls
    cdef public uint64_t salt
    cdef public uint64_t counted_salt
    cdef public object source
    cdef public object one
    cdef public object queues
    cdef public object append
    cdef public object extend
    cdef public uint64_t emitted


@cython.locals(parent=uint64_t, seed=uint64_t, value=uint64_t, identity=uint64_t, copy=Tuple, staged=list)
cpdef uint64_t emit(Plain plain, object records, Tuple tup, object undeclared) except? 0

@cython.locals(
    plain=Plain, young=OpenTrees, done=list, last=uint64_t, value=uint64_t, sent=uint64_t, tag=uint64_t, taken=cython.long,
    tup=Tuple,
)
cpdef long work(object executor, object process, long count) except -1

@cython.locals(
    young=OpenTrees, done=list, missing=list, last=uint64_t, value=uint64_t, tag=uint64_t, edge=uint64_t, tup=Tuple
)
cpdef tuple ack_given(dict given, list tuples, object home)

@cython.locals(message=Pending, left=uint64_t)
cpdef object settle(OpenTrees young, object ack, uint64_t root, uint64_t value, list done)

@cython.locals(
    young=OpenTrees, old=OpenTrees, staged=list, targets=list, origin=uint64_t, identity=uint64_t, tup=Tuple
)
cpdef long begin(Plain plain, object messages, uint64_t seed, uint64_t root, object owner, double now, object ledger) except -1

@cython.locals(tree=Pending, started_at=double, count=cython.long, found=list)
cpdef list begun_together(object trees)
