# cython: language_level=3, auto_pickle=False
"""The compiled core's table of open trees. `open_trees.py` says what it is for.

Open addressing with linear probing (Knuth, The Art of Computer Programming 3, 6.4, Algorithms L and R): what follows a
place that is left moves up, so that no mark of a deletion stays. A root's place is its product with 2**64 over the
golden ratio (Fibonacci hashing, ibid.), which spreads roots that follow each other, as those of a home do.
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t

cdef enum:
    FIRST_BITS = 6  # it begins with 64 places

cdef object MISSING = object()


@cython.final
cdef class OpenTrees:
    """Root → tree. A root is a number of 64 bits, and not zero."""

    def __cinit__(self):
        self.places = <Place *>PyMem_Calloc(1 << FIRST_BITS, sizeof(Place))
        if self.places is NULL:
            raise MemoryError
        self.mask = (1 << FIRST_BITS) - 1
        self.shift = 64 - FIRST_BITS

    def __dealloc__(self):
        cdef size_t at
        if self.places is NULL:
            return
        for at in range(self.mask + 1):
            if self.places[at].root:
                Py_DECREF(<object>self.places[at].tree)
        PyMem_Free(self.places)

    cdef Place *_place(self, uint64_t root) noexcept:
        """Return the place of this root, or the free one at which it belongs."""
        cdef size_t at = first_place(root, self.shift)
        while self.places[at].root and self.places[at].root != root:
            at = (at + 1) & self.mask
        return &self.places[at]

    cdef int _grow(self) except -1:
        """Double the number of places."""
        cdef Place *old = self.places
        cdef size_t count = self.mask + 1, at
        cdef Place *places = <Place *>PyMem_Calloc(2 * count, sizeof(Place))
        if places is NULL:
            raise MemoryError
        self.places = places
        self.mask = 2 * count - 1
        self.shift -= 1
        for at in range(count):
            if old[at].root:
                self._place(old[at].root)[0] = old[at]
        PyMem_Free(old)
        return 0

    cpdef object get(self, uint64_t root):
        """Return the tree, or None."""
        cdef Place *place = self._place(root)
        return <object>place.tree if place.root else None

    cpdef object setdefault(self, uint64_t root, object tree):
        """Return the tree that is there; if there is none, put this one there."""
        if not root:
            raise ValueError("a root is not zero")
        cdef Place *place = self._place(root)
        if place.root:
            return <object>place.tree
        if 5 * (self.used + 1) > 4 * (self.mask + 1):
            self._grow()
            place = self._place(root)
        Py_INCREF(tree)
        place.root = root
        place.tree = <PyObject *>tree
        self.used += 1
        return tree

    cpdef object pop(self, uint64_t root, object default=MISSING):
        """Take the tree out, and return it; `default` if it is not there, or else KeyError."""
        cdef Place *place = self._place(root)
        if not place.root:
            if default is MISSING:
                raise KeyError(root)
            return default
        found = <object>place.tree
        cdef size_t hole = place - self.places, at = hole, wanted
        while True:
            at = (at + 1) & self.mask
            if not self.places[at].root:
                break
            wanted = first_place(self.places[at].root, self.shift)
            if ((at - wanted) & self.mask) >= ((at - hole) & self.mask):  # it may be as far forward as the hole
                self.places[hole] = self.places[at]
                hole = at
        self.places[hole].root = 0
        self.places[hole].tree = NULL
        self.used -= 1
        Py_DECREF(found)  # the table's own reference
        return found

    cpdef list values(self):
        """Return all trees, in no promised order."""
        cdef size_t at
        return [<object>self.places[at].tree for at in range(self.mask + 1) if self.places[at].root]

    def __setitem__(self, object root, object tree):  # a root in C would be an index here, of 63 bits
        self.pop(root, None)
        self.setdefault(root, tree)

    def __delitem__(self, object root):
        self.pop(root)

    def __contains__(self, uint64_t root):
        return self._place(root).root != 0

    def __len__(self):
        return self.used
