# Unsigned 64-bit numbers as bytes, little-endian on every host: columns of a frame have them.

from libc.stdint cimport uint8_t, uint64_t


cdef inline void put(uint8_t *to, uint64_t number) noexcept nogil:
    cdef int at
    for at in range(8):
        to[at] = <uint8_t>(number >> (8 * at))


cdef inline uint64_t get(const uint8_t *at) noexcept nogil:
    cdef uint64_t number = 0
    cdef int index
    for index in range(8):
        number |= <uint64_t>at[index] << (8 * index)
    return number
