"""Bodies of requests: read within bounds, unpacked, and split into the payloads of their messages.

Must not know a server, records, or what becomes of a payload.
"""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NoReturn

from spouts.http.refusals import HttpRefusal

BODIES_BYTES_MAX: Final = 128 * 1024 * 1024  # bytes of all bodies and messages of one task that are not emitted
GZIP: Final = 31  # zlib's number for gzip with its header and checksum
BLANKS: Final = b" \t\r"

JSON_TYPE: Final = "application/json"
LINES_TYPES: Final = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
RETRY: Final = {"Retry-After": "1"}  # seconds


class HeldBytes:
    """The bytes of bodies that are being read, and of messages that wait to be emitted. Above a limit, none is read."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, count: int) -> None:
        """Count more bytes. Raises HttpRefusal, and counts nothing, if they would be too many."""
        if self.count + count > BODIES_BYTES_MAX:
            raise HttpRefusal(503, "too many bytes wait here; send it again later", headers=RETRY)
        self.count += count

    def keep(self, count: int) -> None:
        """Count the bytes of messages whose body was read: these have passed `add`."""
        self.count += count

    def remove(self, count: int) -> None:
        self.count -= count


class BodyReader:
    """Reads one body of at most `max_bytes`, packed or not. Use it in a `with`: its bytes are held until the end."""

    def __init__(self, held: HeldBytes, max_bytes: int, within_s: float) -> None:
        self._held, self._max_bytes, self._within_s = held, max_bytes, within_s
        self._counted = 0

    def __enter__(self) -> "BodyReader":
        return self

    def __exit__(self, *error: object) -> None:
        self._held.remove(self._counted)

    async def read(self, chunks: AsyncIterator[bytes], *, packed: bool) -> bytes:
        """Return the body, unpacked. Raises HttpRefusal if it is too long, damaged, or takes too much time."""
        body = bytearray()
        received = 0
        unpacking = _Gzip() if packed else None
        try:
            async with asyncio.timeout(self._within_s):
                async for chunk in chunks:
                    received += len(chunk)
                    if received > self._max_bytes:
                        self.too_large()
                    room = self._max_bytes - len(body)
                    part = unpacking.unpacked(chunk, room + 1) if unpacking is not None else chunk
                    if len(part) > room:
                        self.too_large()
                    self._held.add(len(part))
                    self._counted += len(part)
                    body += part
        except TimeoutError:
            text = f"the body was not complete within {self._within_s:g} s"
            raise HttpRefusal(408, text, headers={"Connection": "close"}) from None
        if unpacking is not None:
            unpacking.check_end()
        return bytes(body)

    def too_large(self) -> NoReturn:
        """Raise the refusal for a body that is too long."""
        raise HttpRefusal(413, f"the body has more than {self._max_bytes:,} bytes")


class _Gzip:
    """One or several gzip members, unpacked piece by piece."""

    def __init__(self) -> None:
        self._member: Any = zlib.decompressobj(GZIP)
        self._at_start = True  # of a member: none of its bytes has come

    def unpacked(self, chunk: bytes, max_bytes: int) -> bytes:
        """Return what this chunk unpacks to, or its first `max_bytes`. Raises HttpRefusal for bytes that are no
        gzip."""
        found = bytearray()
        try:
            while chunk and len(found) < max_bytes:
                if self._member.eof:
                    self._member = zlib.decompressobj(GZIP)
                self._at_start = False
                found += self._member.decompress(chunk, max_bytes - len(found))
                chunk = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        except zlib.error as error:
            raise HttpRefusal(400, f"the body is no gzip: {error}") from None
        return bytes(found)

    def check_end(self) -> None:
        """Raise HttpRefusal if the last member is cut off."""
        if self._at_start or not self._member.eof:
            raise HttpRefusal(400, "the body is no gzip: its end is missing")


class BodySplitter:
    """Splits bodies into payloads, at most `max_count` of each. `is_checked`: what decodes a payload refuses what is no
    JSON by itself."""

    def __init__(self, max_count: int, *, is_checked: bool) -> None:
        self._max_count, self._is_checked = max_count, is_checked
        # numbers stay texts: they are not read here, and there may be long ones
        self._json = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)

    def payloads(self, body: bytes, content_type: str) -> tuple[Sequence[bytes], bool]:
        """Return the payloads, and whether the body is a batch. Raises HttpRefusal for a body that is no JSON, with the
        index of the message if the body is of lines."""
        if content_type in LINES_TYPES:
            return self._lines(body), True
        if body.lstrip()[:1] == b"[":
            return self._elements(body), True
        if not self._is_checked:
            self._check(body, {})
        return [body.strip()], False

    def _lines(self, body: bytes) -> Sequence[bytes]:
        if body.count(b"\n") > 2 * self._max_count + 1:  # blank lines do not count, within reason
            self._too_many()
        lines = [line for part in body.split(b"\n") if (line := part.strip(BLANKS))]
        if len(lines) > self._max_count:
            self._too_many()
        if not self._is_checked:
            for index, line in enumerate(lines):
                self._check(line, {"index": index})
        return lines

    def _elements(self, body: bytes) -> Sequence[bytes]:
        text = self._text(body, {})
        found: list[bytes] = []
        end = len(text)
        try:
            at = _after_blanks(text, text.index("[") + 1)
            if at < end and text[at] == "]":
                self._check_rest(text, at + 1)
                return found
            while True:
                start = at
                _, at = self._json.raw_decode(text, at)
                if len(found) == self._max_count:
                    self._too_many()
                found.append(text[start:at].encode())
                at = _after_blanks(text, at)
                if at == end or text[at] not in ",]":
                    raise ValueError(f"expecting ',' or ']' at character {at}")
                if text[at] == "]":
                    self._check_rest(text, at + 1)
                    return found
                at = _after_blanks(text, at + 1)
        except (ValueError, RecursionError) as error:
            raise self._no_json(error, {"index": len(found)}) from None

    def _check_rest(self, text: str, at: int) -> None:
        if (at := _after_blanks(text, at)) < len(text):
            raise ValueError(f"there is more after the array, at character {at}")

    def _check(self, payload: bytes, fields: dict[str, Any]) -> None:
        try:
            self._json.decode(self._text(payload, fields))
        except (ValueError, RecursionError) as error:
            raise self._no_json(error, fields) from None

    def _text(self, payload: bytes, fields: dict[str, Any]) -> str:
        try:
            return payload.decode()
        except UnicodeDecodeError as error:
            raise self._no_json(error, fields) from None

    def _no_json(self, error: Exception, fields: dict[str, Any]) -> HttpRefusal:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        return HttpRefusal(400, f"the body is no JSON: {why}", fields)

    def _too_many(self) -> NoReturn:
        raise HttpRefusal(413, f"the body has more than {self._max_count:,} messages; send them in several requests")


def _after_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
