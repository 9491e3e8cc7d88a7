# cython: language_level=3
"""The compiled core's columns of tuples. `tuple_columns.py` says what they are, and runs if nothing is compiled."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t

cimport topology.core.tuples as tuples
from topology.core.tuples cimport Tuple
from topology.runtime.hot.little_endian cimport get, put

TUPLE_BYTES = 24


def packed(list made not None):
    """Return the columns of these tuples, and whether one of them belongs to further trees."""
    cdef Py_ssize_t count = len(made)
    cdef Py_ssize_t size = 8 * count
    cdef bytes data = PyBytes_FromStringAndSize(NULL, 3 * size)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(data)
    cdef bint joined = False
    cdef Tuple tup
    for tup in made:
        put(at, tup.root)
        put(at + size, tup.origin)
        put(at + 2 * size, tup.identity)
        at += 8
        if tup.others:
            joined = True
    return data, joined


def tuples_of(bytes data not None, list records not None, list others, source):
    """Return the tuples of these columns, each with its record and, unless `others` is None, its further roots.

    Raises ValueError if the columns, or `others`, are not those of as many tuples.
    """
    cdef Py_ssize_t count = len(records)
    cdef Py_ssize_t size = 8 * count
    if PyBytes_GET_SIZE(data) != 3 * size or (others is not None and len(others) != count):
        raise ValueError(f"{len(data)} bytes are no columns of {count} tuples")
    cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef list found = []
    cdef Py_ssize_t index = 0
    for record in records:
        found.append(
            tuples.new(
                record,
                get(at + size),
                get(at + 2 * size),
                get(at),
                () if others is None else others[index],
                source,
            )
        )
        at += 8
        index += 1
    return found
