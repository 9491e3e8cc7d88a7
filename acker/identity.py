"""Identities: the names that messages and tuples keep through replays, restarts and rescaling.

Pure functions of bytes and numbers. This file must not know what a record, a task or a socket is.

A message's pair (origin, identity) is one xxh3-128 of its id. A tuple that a bolt emits keeps the origin of its input.
Its identity is a hash of the input's identity, seeded by the emitter and the ordinal of the emission (B1). The hash
never depends on the target, the number of copies, or the subscribers. MillWheel's record ids have the same role.
"""

import hashlib
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, TypeAlias

import msgspec
from xxhash import xxh3_64_intdigest, xxh3_128_digest

MessageId: TypeAlias = int | str | bytes
Pair: TypeAlias = tuple[int, int]

MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
KEY_BYTES: Final = 32  # length of the secret for hashing ids that outsiders choose

# Type tags, so that 1, "1" and b"1" are three messages (B12). Fixed forever, by golden vectors.
_SMALL_INT: Final = 1
_LARGE_INT: Final = b"\x02"
TEXT: Final = b"\x03"  # the prefix of the byte form of a str
_BYTES: Final = b"\x04"

_pack_small = Struct("<Bq").pack
_unpack_pair = Struct("<QQ").unpack
_pack_u64 = Struct("<Q").pack
_encode = msgspec.msgpack.Encoder().encode


def id_bytes(message_id: MessageId) -> bytes:
    """Return the type-tagged byte form of a message id or an emission's key: injective over int, str and bytes.

    Raises TypeError for any other type, bool included: True equals 1, and would be mistaken for it.
    """
    kind = type(message_id)
    if kind is int:
        number: int = message_id  # type: ignore[assignment]  # `kind` says so
        if -0x8000_0000_0000_0000 <= number <= 0x7FFF_FFFF_FFFF_FFFF:
            return _pack_small(_SMALL_INT, number)
        return _LARGE_INT + number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
    if kind is str:
        return TEXT + message_id.encode("utf-8", "surrogatepass")  # type: ignore[union-attr]
    if kind is bytes:
        return _BYTES + message_id  # type: ignore[operator]
    raise TypeError(f"an id is an int, a str or bytes, not {kind.__name__}: {message_id!r:.80}")


def partition_seed(topology_id: str, spout: str, partition: str, epoch: str, task: int = 0) -> int:
    """Return the seed for the ids of one epoch of one partition: an id names a message only within it (B12, C2, C3).

    `task`: the task that the ids belong to, if each task of the spout has its own ids. 0 for the first task, and for
    tasks that share one set of ids (B14).
    """
    return xxh3_64_intdigest(_encode([topology_id, spout, partition, epoch]) + (_encode(task) if task else b""))


def message_pair(message_id: MessageId, seed: int) -> Pair:
    """Return (origin, identity) of the message with this id; `seed` is that of its partition. Neither is zero.

    128 bits in all: two messages with one origin still have different identities (C1).
    """
    if type(message_id) is int and -0x8000_0000_0000_0000 <= message_id <= 0x7FFF_FFFF_FFFF_FFFF:
        data = _pack_small(_SMALL_INT, message_id)  # as in id_bytes, without the call: this is the hot path
    else:
        data = id_bytes(message_id)
    origin, identity = _unpack_pair(xxh3_128_digest(data, seed))
    return origin or 1, identity or 1


def outside_pair(message_id: MessageId, seed: int, key: bytes) -> Pair:
    """Return the pair as `message_pair` does, for ids that outsiders choose: hashed with a key, so that an outsider
    cannot make two ids collide (S19)."""
    assert key, "without a key this hash is as open to outsiders as the other one"
    digest = hashlib.blake2b(_pack_u64(seed) + id_bytes(message_id), digest_size=16, key=key).digest()
    origin, identity = _unpack_pair(digest)
    return origin or 1, identity or 1


def salt(component: str, stream: str) -> int:
    """Return the seed of a component's emissions on one stream; the k-th emission for an input is seeded by `salt + k`.

    63 bits, so that the sum never leaves 64 and the hot path needs no mask.
    """
    return xxh3_64_intdigest(_encode([component, stream])) >> 1


def keyed_salt(stream_salt: int, key: MessageId) -> int:
    """Return the seed of an emission that is named by a key instead of its ordinal (B2, B3)."""
    return xxh3_64_intdigest(b"key" + id_bytes(key), stream_salt)


def derive(identity: int, seed: int) -> int:
    """Return the identity of an emission for the tuple `identity`; `seed` is salt + k or a keyed salt.

    For one parent, distinct seeds cannot collide: xxh3-64 of eight bytes is a bijection of (rotated input ^ f(seed)).
    """
    return xxh3_64_intdigest(identity.to_bytes(8, "little"), seed) or 1


def death_identity(identity: int, attempts: int, died_at_us: int) -> int:
    """Return the identity of a dead letter. One death is one letter, however often it is sent. A message that dies
    again after a replay by hand is another letter."""
    return derive(identity, xxh3_64_intdigest(_encode(["dead", attempts, died_at_us])))


def timer_pair(topology: str, component: str, key: bytes, name: str, due_us: int) -> Pair:
    """Return (origin, identity) of a timer's emission: a hash of the topology and its run, component, key, name and due
    time (B10). Neither is zero."""
    origin, identity = _unpack_pair(xxh3_128_digest(_encode(["timer", topology, component, key, name, due_us])))
    return origin or 1, identity or 1


def mixed(values: Iterable[int]) -> int:
    """Return one 64-bit value for the identities (or origins) of several anchors, in any order (B7)."""
    return sum(xxh3_64_intdigest(value.to_bytes(8, "little")) for value in values) & MASK or 1


def common_origin(origins: Iterable[int]) -> int:
    """Return the origin of a tuple with several anchors. If all anchors have one origin, as the two sides of a join of
    one message do, the tuple has it too. So every effect of a message, dead or not, has its origin (E1). Otherwise the
    origins are mixed (B7)."""
    found = [*origins]
    return found[0] if len({*found}) == 1 else mixed(found)


def edge_tag(subscription: int) -> int:
    """Return the number that turns an identity into the edge of a delivery to one subscription of its stream; 0 for the
    first subscription.

    Both ends know it, so it is not sent.
    """
    return (xxh3_64_intdigest(_encode(["edge", subscription])) or 1) if subscription else 0


def copy_of(identity: int, copy: int) -> int:
    """Return the identity of one copy, if one emission goes to several tasks of a bolt. The first copy keeps the
    identity.

    With one identity for all copies, the emissions of their tasks would have one identity and one edge, which cancel
    (A18). Copies are counted, not named by their task: a grouping that chooses another task for a replay changes
    nothing.
    """
    return derive(identity, xxh3_64_intdigest(_encode(["copy", copy]))) if copy else identity


def edge(identity: int, tag: int) -> int:
    """Return the value that one delivery contributes to the XOR. Tag 0: the stream's first subscription; the value is
    the identity itself.

    Others are mixed non-linearly: with `identity ^ tag`, two records to two subscriptions would cancel (B1).
    """
    return derive(identity, tag) if tag else identity


content_hash: Final[Callable[[bytes], int]] = xxh3_64_intdigest  # distinguishes two contents of one identity (B2 iv)
