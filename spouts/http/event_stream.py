"""The format text/event-stream, as the WHATWG's HTML standard defines it: bytes in, events out.

Pure. Must not know a connection, nor what becomes of an event.
"""

import re
from dataclasses import dataclass
from typing import Final

BOM: Final = b"\xef\xbb\xbf"
RETRY_MAX_S: Final = 3_600.0  # seconds that a server may ask to be left alone
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event.

    data     Its lines, with a line feed between two.
    type     "message" unless the server names another.
    id       Its own id; None if it has none.
    last_id  The id of the last event that had one, up to this one; empty if there was none.
    """

    data: bytes
    type: str
    id: str | None
    last_id: str


class EventTooLong(Exception):
    """An event has more bytes than it may have. `before`: the events that were complete before it."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[StreamEvent] = []


class EventStreamParser:
    """Reads one stream. `last_id` is the id to begin with, and then that of the last event; `retry_s` the seconds to
    wait before a new connection, if the server has said so. `max_bytes` bounds one event, and one line."""

    def __init__(self, last_id: str = "", max_bytes: int = 8 * 1024 * 1024) -> None:
        self.last_id = last_id
        self.retry_s: float | None = None
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []  # of a line that is not complete
        self._size = 0  # bytes of the incomplete line, and of the event's data
        self._is_begin = True  # of the stream: a byte order mark may follow
        self._skips_feed = False  # the last line has ended with CR: a LF right after it belongs to it
        self._data: list[bytes] = []
        self._type = b""
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Return the events that these bytes complete. Raises EventTooLong, with the events before the long one; the
        stream cannot be read on then."""
        found: list[StreamEvent] = []
        try:
            self._feed(chunk, found)
        except EventTooLong as error:
            error.before = found
            raise
        return found

    def _feed(self, chunk: bytes, found: list[StreamEvent]) -> None:
        if self._skips_feed and chunk:
            self._skips_feed = False
            chunk = chunk.removeprefix(b"\n") if chunk[:1] == b"\n" else chunk
        if b"\n" in chunk or b"\r" in chunk:
            self._skips_feed = chunk.endswith(b"\r")
            lines = _LINE_END.split(b"".join((*self._parts, chunk)))
            self._size -= sum(map(len, self._parts))
            self._parts = []
            chunk = lines.pop()
            for line in lines:
                if (event := self._line(line)) is not None:
                    found.append(event)
        if chunk:
            self._parts.append(chunk)
            self._grow(len(chunk))

    def _line(self, line: bytes) -> StreamEvent | None:
        if self._is_begin:
            self._is_begin = False
            line = line.removeprefix(BOM)
        if not line:
            return self._dispatched()
        name, _, value = line.partition(b":")
        if not name:
            return None  # a comment
        if value[:1] == b" ":
            value = value[1:]
        match name:
            case b"data":
                self._data.append(value)
                self._grow(len(value) + 1)
            case b"event":
                self._type = value
            case b"id":
                if b"\0" not in value:
                    self._id = value.decode(errors="replace")
            case b"retry":
                if value.isdigit():
                    self.retry_s = min(int(value[:12]) / 1_000, RETRY_MAX_S)
            case _:  # a field of another standard
                pass
        return None

    def _dispatched(self) -> StreamEvent | None:
        data, kind, own = self._data, self._type, self._id
        self._size -= sum(len(line) + 1 for line in data)
        self._data, self._type, self._id = [], b"", None
        if own is not None:
            self.last_id = own
        if not data:
            return None
        return StreamEvent(b"\n".join(data), kind.decode(errors="replace") or "message", own or None, self.last_id)

    def _grow(self, count: int) -> None:
        self._size += count
        if self._size > self._max_bytes:
            raise EventTooLong
