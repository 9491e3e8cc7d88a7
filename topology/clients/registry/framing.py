"""The bytes in front of a payload: a zero, and the id of its schema; with Protobuf, the place of its message too. Pure.

Confluent's serializers and those of other vendors write the same.
"""

from collections.abc import Sequence
from typing import Final

from topology.errors import Reject

HEAD_BYTES: Final = 5
DEPTH_MAX: Final = 32  # of a Protobuf message within messages
VARINT_BYTES_MAX: Final = 5


def head(schema_id: int) -> bytes:
    """Return the first bytes of a payload."""
    return b"\0" + schema_id.to_bytes(4, "big")


def id_of(data: bytes) -> int | None:
    """Return the id of the schema of a payload. None: the payload names none; no registry has negative ids."""
    is_head = len(data) >= HEAD_BYTES and not data[0] and data[1] < 0x80
    return int.from_bytes(data[1:HEAD_BYTES], "big") if is_head else None


def places_as_bytes(places: Sequence[int]) -> bytes:
    """Return the place of a message in its file, as it is written before the message: [0] is one zero."""
    if [*places] == [0]:
        return b"\0"
    return b"".join(map(_varint, (len(places), *places)))


def places_of(data: bytes) -> tuple[list[int], bytes]:
    """Return the place of a message in its file, and the message. Raises Reject."""
    count, at = _read(data, 0)
    if not 0 <= count <= DEPTH_MAX:
        raise Reject("it does not say which message of its file it is")
    places: list[int] = []
    for _ in range(count):
        place, at = _read(data, at)
        places.append(place)
    return places or [0], data[at:]


def _varint(number: int) -> bytes:
    zigzag, made = number << 1, bytearray()
    while zigzag > 0x7F:
        made.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    made.append(zigzag)
    return bytes(made)


def _read(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, and the position after it."""
    zigzag = 0
    for index, byte in enumerate(data[at : at + VARINT_BYTES_MAX]):
        zigzag |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return (zigzag >> 1) ^ -(zigzag & 1), at + index + 1
    raise Reject("it ends before it says which message of its file it is")
