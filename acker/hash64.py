"""The hash that the hot path derives identities with: xxh3-64 of an identity's eight bytes, and a seed.

This is the Python core's form: `hash64.pxd` has the same in C, in which an identity is never a Python object. A test
compares both. Must not know what an identity names.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

from xxhash import xxh3_64_intdigest

from acker.identity import Pair, message_pair

Parent: TypeAlias = bytes  # an identity as the hash takes it; compiled: the number itself

parent_of: Final[Callable[[int], Parent]] = Struct("<Q").pack
derived: Final[Callable[[Parent, int], int]] = xxh3_64_intdigest  # zero too, which is no identity: `derived(…) or 1`

# (origin, identity) of a message. Compiled, it takes ints alone: TypeError for all others.
pair: Final[Callable[[int | str | bytes, int], Pair]] = message_pair
