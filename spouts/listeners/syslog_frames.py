"""Messages out of a stream of syslog over TCP (RFC 6587): each is preceded by its length, or ended by a newline or NUL.

Pure. Must not know the content of a message, but for its first characters.
"""

import re
from typing import Final

from spouts.incoming.cutter import LineCut

COUNTED: Final = re.compile(rb"([1-9][0-9]{0,8}) <")
PERHAPS_COUNTED: Final = re.compile(rb"[1-9][0-9]{0,8} ?\Z")
ENDS: Final = re.compile(rb"[\n\0]")  # behind a message without a length; Python's handler ends them by a NUL
BLANK: Final = b"\r\n\0"  # between messages; some senders end a counted message with one of them


class SyslogCutter:
    """LineCuts the stream of one connection. The framing is that of each message: `LENGTH <` begins one with a length.

    Anything else ends at a newline or a NUL, also a line that begins with a number. Of a message that is longer than
    `longest` bytes, the first ones come, with a problem, and the rest is skipped.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._rest = b""
        self._skip = 0  # bytes of a counted message that is too long
        self._skips_line = False  # what comes up to the next newline

    @property
    def held(self) -> int:
        """Return how many bytes of a message that is not whole have come."""
        return len(self._rest)

    def feed(self, block: bytes) -> list[LineCut]:
        """Return the messages that are whole now."""
        data, found, at = self._rest + block if self._rest else block, list[LineCut](), 0
        while at < len(data):
            if self._skip:
                skipped = min(self._skip, len(data) - at)
                self._skip -= skipped
                at += skipped
            elif self._skips_line:
                end = ENDS.search(data, at)
                at, self._skips_line = (end.end(), False) if end is not None else (len(data), True)
            elif data[at] in BLANK:
                at += 1
            elif counted := COUNTED.match(data, at):
                begin, length = counted.end() - 1, int(counted[1])
                if len(data) - begin < min(length, self._longest):
                    break
                found.append(self._cut(data[begin : begin + length], length))
                self._skip = max(0, length - (len(data) - begin))
                at = min(begin + length, len(data))
            elif PERHAPS_COUNTED.match(data, at):
                break
            else:
                end = ENDS.search(data, at)
                if end is None and len(data) - at <= self._longest:
                    break
                self._skips_line = end is None
                behind = end.start() if end is not None else len(data)
                found.append(self._cut(data[at:behind], behind - at))
                at = behind
        self._rest = data[at:]
        return found

    def end(self) -> list[LineCut]:
        """Return the beginning of a message that has not ended."""
        rest, self._rest = self._rest, b""
        if not rest:
            return []
        if (counted := COUNTED.match(rest)) is None:
            return [self._cut(rest, len(rest))]
        content = rest[counted.end() - 1 :]
        text = f"the connection has ended after {len(content):,} of the {int(counted[1]):,} bytes of the message"
        return [LineCut(0, content, text)]

    def _cut(self, content: bytes, length: int) -> LineCut:
        if length <= self._longest:
            return LineCut(0, content)
        text = f"the message has more than {self._longest:,} bytes (max_message_bytes)"
        return LineCut(0, content[: self._longest], text)
