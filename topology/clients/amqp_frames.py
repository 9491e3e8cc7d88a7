"""`ReadableFrames`: what RabbitMQ sends, without what pamqp refuses to read, so that no message ends its connection.

RabbitMQ passes on what producers have set: a `timestamp` in nanoseconds, texts that are not UTF-8, headers of unknown
types. pamqp raises for those (`short_str`, `timestamp` and `field_table` in pamqp/decode.py), and aiormq's reader
(`FrameReceiver.get_frame` in aiormq/connection.py) then ends the connection. So such a property or header is left out
before aiormq sees it, and the message comes without. Must not know connections.
"""

from asyncio import StreamReader
from collections.abc import Callable, Iterator
from typing import Any, Final

HEAD_BYTES: Final = 7  # type, channel and size of a frame
METHOD, HEADER = 1, 2  # types of frames
DELIVER: Final = b"\x00\x3c\x00\x3c"  # the class and the method of basic.deliver
FLAGS_AT: Final = 12  # where the flags of the properties are in a content header
UNUSED: Final = 0x0003  # flags that are none of a property

# The properties of a message in their order, each with its flag and its type
PROPERTIES: Final = (
    ("content-type", 1 << 15, "text"),
    ("content-encoding", 1 << 14, "text"),
    ("headers", 1 << 13, "table"),
    ("delivery-mode", 1 << 12, "octet"),
    ("priority", 1 << 11, "octet"),
    ("correlation-id", 1 << 10, "text"),
    ("reply-to", 1 << 9, "text"),
    ("expiration", 1 << 8, "text"),
    ("message-id", 1 << 7, "text"),
    ("timestamp", 1 << 6, "time"),
    ("type", 1 << 5, "text"),
    ("user-id", 1 << 4, "text"),
    ("app-id", 1 << 3, "text"),
    ("cluster-id", 1 << 2, "text"),
)
# Bytes of a value in a table, by the byte of its type
SIZES: Final = {
    **dict.fromkeys(b"V\x00", 0),
    **dict.fromkeys(b"tbB", 1),
    **dict.fromkeys(b"su", 2),
    **dict.fromkeys(b"Iif", 4),
    ord("D"): 5,
    **dict.fromkeys(b"lLdT", 8),
}
SIZED: Final = b"SAFx"  # types of values that begin with their size

LeftOut = Callable[[str], None]


class Truncated(ValueError):
    """The error for a frame whose parts do not fit in it."""


class ReadableFrames:
    """The reading end of a connection, as aiormq uses it: `readexactly` and `at_eof`.

    `decode` is the module pamqp.decode. `left_out` is called with the name of each property or header that is left out.
    """

    def __init__(self, reader: StreamReader, decode: Any, left_out: LeftOut) -> None:
        self._reader, self._decode, self._left_out = reader, decode, left_out
        self._frame, self._at = b"", 0

    def at_eof(self) -> bool:
        """Return True if nothing more comes."""
        return self._at >= len(self._frame) and self._reader.at_eof()

    async def readexactly(self, count: int) -> bytes:
        """Return so many bytes of the frames. Raises as StreamReader.readexactly."""
        while len(self._frame) - self._at < count:
            self._frame, self._at = self._frame[self._at :] + await self._next(), 0
        self._at += count
        return self._frame[self._at - count : self._at]

    async def _next(self) -> bytes:
        head = await self._reader.readexactly(HEAD_BYTES)
        if head.startswith(b"AMQP"):  # no frame: the server has another version
            return head
        kind, size = head[0], int.from_bytes(head[3:])
        rest = await self._reader.readexactly(size + 1)  # with the byte that ends a frame
        if kind == HEADER:
            readable = readable_header(rest[:-1], self._decode, self._left_out)
        elif kind == METHOD and rest.startswith(DELIVER):
            readable = readable_delivery(rest[:-1], self._left_out)
        else:
            return head + rest
        return head[:3] + len(readable).to_bytes(4) + readable + rest[-1:]


def readable_header(payload: bytes, decode: Any, left_out: LeftOut) -> bytes:
    """Return a content header without the properties that pamqp does not read. One that is no content header stays."""
    flags = int.from_bytes(payload[FLAGS_AT : FLAGS_AT + 2])
    if flags & UNUSED:
        return payload
    kept: list[bytes] = []
    at, is_whole = FLAGS_AT + 2, True
    try:
        for name, flag, kind in PROPERTIES:
            if not flags & flag:
                continue
            value = _part(payload, at, _size(payload, at, kind))
            at += len(value)
            if _is_readable(value, kind, decode):
                kept.append(value)
                continue
            is_whole = False
            if kind == "table" and (smaller := _readable_table(value, decode, left_out)):
                kept.append(smaller)
            else:
                flags &= ~flag
                left_out(name)
    except Truncated:
        return payload
    return payload if is_whole else payload[:FLAGS_AT] + flags.to_bytes(2) + b"".join(kept)


def readable_delivery(payload: bytes, left_out: LeftOut) -> bytes:
    """Return a basic.deliver whose exchange and routing key are UTF-8: other bytes become question marks."""
    try:
        at = len(DELIVER)
        at += 1 + payload[at] + 9  # the consumer, the number of the delivery, and whether it was given before
        exchange = _part(payload, at, 1 + payload[at])
        at += len(exchange)
        key = _part(payload, at, 1 + payload[at])
    except (Truncated, IndexError):
        return payload
    if _is_text(exchange) and _is_text(key):
        return payload
    left_out("routing-key")
    return payload[: at - len(exchange)] + _as_text(exchange) + _as_text(key)


def _size(payload: bytes, at: int, kind: str) -> int:
    """Return the bytes that the property has which begins here."""
    if kind == "octet":
        return 1
    if kind == "time":
        return 8
    if kind == "table":
        return 4 + int.from_bytes(_part(payload, at, 4))
    return 1 + _part(payload, at, 1)[0]


def _part(payload: bytes, at: int, size: int) -> bytes:
    found = payload[at : at + size]
    if len(found) < size:
        raise Truncated
    return found


def _is_readable(value: bytes, kind: str, decode: Any) -> bool:
    if kind == "octet":
        return True
    if kind == "text":
        return _is_text(value)
    try:
        (decode.field_table if kind == "table" else decode.timestamp)(value)
    except Exception:  # any error would end the connection
        return False
    return True


def _is_text(value: bytes) -> bool:
    if value.isascii():
        return True
    try:
        value[1:].decode()  # the first byte is the length
    except UnicodeDecodeError:
        return False
    return True


def _as_text(value: bytes) -> bytes:
    shown = value[1:].decode(errors="replace").replace("\ufffd", "?").encode()  # which is never longer
    return bytes([len(shown)]) + shown


def _readable_table(value: bytes, decode: Any, left_out: LeftOut) -> bytes:
    """Return a table of headers without those that pamqp does not read; empty if none is left."""
    kept: list[bytes] = []
    for entry in _entries(value):
        if _is_readable(len(entry).to_bytes(4) + entry, "table", decode):
            kept.append(entry)
        else:
            left_out(f"header {entry[1 : 1 + entry[0]].decode(errors='replace')!r:.80}")
    entries = b"".join(kept)
    return len(entries).to_bytes(4) + entries if kept else b""


def _entries(table: bytes) -> Iterator[bytes]:
    """Yield the headers of a table. What comes after a value of an unknown type is one header, as no end is known."""
    at = 4
    while at < len(table):
        kind_at = at + 1 + table[at]
        kind = table[kind_at : kind_at + 1]
        if kind and kind in SIZED and kind_at + 5 <= len(table):
            end = kind_at + 5 + int.from_bytes(table[kind_at + 1 : kind_at + 5])
        elif kind and kind[0] in SIZES:
            end = kind_at + 1 + SIZES[kind[0]]
        else:
            end = len(table)
        end = min(end, len(table))
        yield table[at:end]
        at = end
