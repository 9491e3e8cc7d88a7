# In C what `hash64.py` has: XXH3_64bits_withSeed of eight bytes, as the specification of XXH3 gives it for 4 to 8 bytes.

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    static inline uint64_t kedge_rotated(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
    static inline uint64_t kedge_xxh3_of_8(uint64_t value, uint64_t seed) {
        const uint64_t prime = 0x9FB21C651E98DF25ULL;  /* PRIME_MX2 */
        uint32_t low = (uint32_t)seed;
        low = (low << 24) | ((low << 8) & 0xFF0000U) | ((low >> 8) & 0xFF00U) | (low >> 24);
        seed ^= (uint64_t)low << 32;
        uint64_t mixed = (value >> 32) + (value << 32);
        mixed ^= (0x1CAD21F72C81017CULL ^ 0xDB979083E96DD4DEULL) - seed;  /* bytes 8 to 23 of the default secret */
        mixed ^= kedge_rotated(mixed, 49) ^ kedge_rotated(mixed, 24);
        mixed *= prime;
        mixed ^= (mixed >> 35) + 8;
        mixed *= prime;
        return mixed ^ (mixed >> 28);
    }
    """
    uint64_t kedge_xxh3_of_8(uint64_t value, uint64_t seed) noexcept nogil


cdef inline uint64_t parent_of(uint64_t identity) noexcept nogil:
    return identity


cdef inline uint64_t derived(uint64_t parent, uint64_t seed) noexcept nogil:
    return kedge_xxh3_of_8(parent, seed)


# XXH3_128bits_withSeed of nine bytes: the tag of a small int, and the int. `acker.identity.message_pair` reads the two
# halves of the digest, whose bytes are in big-endian order, as little-endian numbers.

cdef extern from *:
    """
    static inline uint64_t kedge_swapped(uint64_t x) {
        x = ((x << 8) & 0xFF00FF00FF00FF00ULL) | ((x >> 8) & 0x00FF00FF00FF00FFULL);
        x = ((x << 16) & 0xFFFF0000FFFF0000ULL) | ((x >> 16) & 0x0000FFFF0000FFFFULL);
        return (x << 32) | (x >> 32);
    }
    static inline uint64_t kedge_avalanche(uint64_t x) {
        x ^= x >> 37;
        x *= 0x165667919E3779F9ULL;
        return x ^ (x >> 32);
    }
    static inline void kedge_xxh3_of_9(uint8_t tag, uint64_t value, uint64_t seed, uint64_t *high, uint64_t *low) {
        const uint64_t prime = 0xC2B2AE3D27D4EB4FULL;  /* PRIME64_2 */
        uint64_t flip_low = (0x78E5C0CC4EE679CBULL ^ 0x2172FFCC7DD05A82ULL) - seed;  /* bytes 32 to 47 of the secret */
        uint64_t flip_high = (0x8E2443F7744608B8ULL ^ 0x4C263A81E69035E0ULL) + seed;  /* bytes 48 to 63 */
        uint64_t first = (uint64_t)tag | (value << 8);
        unsigned __int128 product = (unsigned __int128)(first ^ value ^ flip_low) * 0x9E3779B185EBCA87ULL;
        uint64_t lower = (uint64_t)product + (8ULL << 54);
        uint64_t upper = (uint64_t)(product >> 64);
        value ^= flip_high;
        upper += value + (uint64_t)(uint32_t)value * (0x85EBCA77ULL - 1);
        lower ^= kedge_swapped(upper);
        product = (unsigned __int128)lower * prime;
        *low = kedge_avalanche((uint64_t)product);
        *high = kedge_avalanche((uint64_t)(product >> 64) + upper * prime);
    }
    """
    void kedge_xxh3_of_9(uint8_t tag, uint64_t value, uint64_t seed, uint64_t *high, uint64_t *low) noexcept nogil
    uint64_t kedge_swapped(uint64_t x) noexcept nogil


cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1


cdef inline (uint64_t, uint64_t) pair(object message_id, uint64_t seed) except *:
    cdef uint64_t high, low
    if type(message_id) is not int:
        raise TypeError("only ints are hashed here")
    cdef int overflow = 0
    cdef int64_t number = PyLong_AsLongLongAndOverflow(message_id, &overflow)
    if overflow:
        from acker.identity import message_pair

        return message_pair(message_id, seed)
    kedge_xxh3_of_9(1, <uint64_t>number, seed, &high, &low)
    return kedge_swapped(high) or 1, kedge_swapped(low) or 1
