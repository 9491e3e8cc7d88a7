"""Identities: the names that messages and tuples keep through replays, restarts and rescaling.

Pure functions of bytes and numbers. This file must not know what a record, a task or a socket is.

A message's pair (origin, identity) is one xxh3-128 of its id. A tuple that a bolt emits keeps the origin of its input,
and its identity is a hash of the input's identity, seeded by what emitted it and by how manyth it is (B1): never of its
target, of the number of copies, or of who subscribes. MillWheel's record ids play the same part.
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
KEY_BYTES: Final = 32  # of the secret that ids chosen by outsiders are hashed with

# Type tags, so that 1, "1" and b"1" are three messages (B12). Fixed for ever, by golden vectors.
_SMALL_INT: Final = 1
_LARGE_INT: Final = b"\x02"
TEXT: Final = b"\x03"  # what the byte form of a str begins with
_BYTES: Final = b"\x04"

_pack_small = Struct("<Bq").pack
_unpack_pair = Struct("<QQ").unpack
_pack_u64 = Struct("<Q").pack
_encode = msgspec.msgpack.Encoder().encode


def id_bytes(message_id: MessageId) -> bytes:
    """The type-tagged byte form of a message id or an emission's key: injective over int, str and bytes.

    Raises TypeError for anything else. A bool is refused: it equals 1, and would be taken for it.
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
    """The seed for the ids of one epoch of one partition: an id names a message only within it (B12, C2, C3). `task`:
    whose ids they are, where each task of the spout has ids of its own; 0 for the first one, and where all share one
    set (B14)."""
    return xxh3_64_intdigest(_encode([topology_id, spout, partition, epoch]) + (_encode(task) if task else b""))


def message_pair(message_id: MessageId, seed: int) -> Pair:
    """(origin, identity) of the message with this id; `seed` is its partition's. Neither is zero.

    128 bits in all: two messages with one origin still have different identities (C1).
    """
    if type(message_id) is int and -0x8000_0000_0000_0000 <= message_id <= 0x7FFF_FFFF_FFFF_FFFF:
        data = _pack_small(_SMALL_INT, message_id)  # as id_bytes does, without the call: this is the hot path
    else:
        data = id_bytes(message_id)
    origin, identity = _unpack_pair(xxh3_128_digest(data, seed))
    return origin or 1, identity or 1


def outside_pair(message_id: MessageId, seed: int, key: bytes) -> Pair:
    """As `message_pair`, for ids that outsiders choose: keyed, so that nobody can make two ids collide (S19)."""
    assert key, "without a key this hash is as open to outsiders as the other one"
    digest = hashlib.blake2b(_pack_u64(seed) + id_bytes(message_id), digest_size=16, key=key).digest()
    origin, identity = _unpack_pair(digest)
    return origin or 1, identity or 1


def salt(component: str, stream: str) -> int:
    """The seed of a component's emissions on one stream; the k-th emission for an input is seeded by `salt + k`.

    63 bits, so that the sum never leaves 64 and the hot path needs no mask.
    """
    return xxh3_64_intdigest(_encode([component, stream])) >> 1


def keyed_salt(stream_salt: int, key: MessageId) -> int:
    """The seed of an emission that is named by a key, not by how manyth it is (B2, B3)."""
    return xxh3_64_intdigest(b"key" + id_bytes(key), stream_salt)


def derive(identity: int, seed: int) -> int:
    """The identity of what was emitted for the tuple `identity`; `seed` is salt + k or a keyed salt.

    For one parent, distinct seeds can't collide: xxh3-64 of eight bytes is a bijection of (rotated input ^ f(seed)).
    """
    return xxh3_64_intdigest(identity.to_bytes(8, "little"), seed) or 1


def death_identity(identity: int, attempts: int, died_at_us: int) -> int:
    """The identity of the news that a message is dead: one death is one, served however often; a message that dies
    again after it was replayed by hand is another."""
    return derive(identity, xxh3_64_intdigest(_encode(["dead", attempts, died_at_us])))


def timer_pair(topology: str, component: str, key: bytes, name: str, due_us: int) -> Pair:
    """(origin, identity) of what a timer puts out: of the topology and its run, component, key, name and due time
    (B10). Neither is zero."""
    origin, identity = _unpack_pair(xxh3_128_digest(_encode(["timer", topology, component, key, name, due_us])))
    return origin or 1, identity or 1


def mixed(values: Iterable[int]) -> int:
    """One 64-bit value for several anchors' identities (or origins), whatever their order (B7)."""
    return sum(xxh3_64_intdigest(value.to_bytes(8, "little")) for value in values) & MASK or 1


def common_origin(origins: Iterable[int]) -> int:
    """The origin of what is anchored to several tuples: theirs, where they have one, as the two sides of a join that
    were one message; so all that one message causes is known by its origin, a dead one's too (E1). Else theirs mixed
    (B7)."""
    found = [*origins]
    return found[0] if len({*found}) == 1 else mixed(found)


def edge_tag(subscription: int) -> int:
    """What turns an identity into the edge of a delivery to one subscription of its stream, and 0 for the first one.

    Both ends know it, so the wire need not carry it.
    """
    return (xxh3_64_intdigest(_encode(["edge", subscription])) or 1) if subscription else 0


def copy_of(identity: int, copy: int) -> int:
    """The identity of one copy where one emission goes to several tasks of a bolt; the first keeps it as it is.

    With one identity for all copies, what their tasks emit would have one identity and one edge, which cancel (A18).
    Copies are counted, not named by their task: a grouping that chooses one other task for a replay changes nothing.
    """
    return derive(identity, xxh3_64_intdigest(_encode(["copy", copy]))) if copy else identity


def edge(identity: int, tag: int) -> int:
    """What goes into the XOR for one delivery. Tag 0: its stream's first subscription, and the identity itself.

    Others are mixed non-linearly: with `identity ^ tag`, two records to two subscriptions would cancel (B1).
    """
    return derive(identity, tag) if tag else identity


content_hash: Final[Callable[[bytes], int]] = xxh3_64_intdigest  # what tells two contents of one identity apart (B2 iv)
