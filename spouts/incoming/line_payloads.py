"""From a line to a message's record, for a source whose payloads are lines.

Knows `value` and what a line that is too long becomes; must not know where lines come from.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Generic

from typing_extensions import TypeVar

from spouts.incoming.cutter import LineCutter
from spouts.lines import Line, line_of
from spouts.payload.decoder import Decoded, PayloadDecoder, malformed
from spouts.payload.formats import Msgpack, Payload, Value
from topology.clients.errors import invalid
from topology.dead_letters import Malformed
from topology.records import Record

R = TypeVar("R", bound=Record, default=Line)

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class LinePayloads(Generic[R]):
    """The payloads of one source, each a line of at most `max_line_bytes`.

    A longer line comes in pieces if the records are `Line`s, and is else malformed. An empty line is a `Line`, and for
    any other record it is nothing. Raises ConfigurationError for a wrong `value` or `max_line_bytes`.
    """

    def __init__(
        self, source: str, value: Value[R], max_line_bytes: int, offered: frozenset[str] = frozenset()
    ) -> None:
        if type(max_line_bytes) is not int or max_line_bytes < 1:
            raise invalid(f"{source}: max_line_bytes is a number of bytes of at least 1, not {max_line_bytes!r:.80}")
        self._decoder = PayloadDecoder(source, value, offered)
        if self._decoder.names_messages:
            raise invalid(f"{source}: it names its messages itself; leave out id")
        if isinstance(value, Msgpack):
            raise invalid(f"{source}: its payloads are lines, and msgpack may have a newline anywhere; use JSON")
        self._longest = max_line_bytes
        given: Any = value
        self._are_lines = given is Line
        self.malformed = 0

    def emits(self) -> tuple[type[Record], ...]:
        """Return the record class, and `Malformed`."""
        return self._decoder.emits()

    def cutter(self, offset: int = 0) -> LineCutter:
        """Return what cuts a stream into the lines of this source."""
        return LineCutter(self._longest, pieces=self._are_lines, offset=offset)

    def wants(self, data: bytes) -> bool:
        """Return True if a line is a message."""
        return self._are_lines or bool(data)

    def decoded(
        self, data: bytes, problem: str = "", attributes: Mapping[str, Any] = NOTHING, at: datetime | None = None
    ) -> Decoded[R]:
        """Return the record of a line. Does not raise."""
        if self._are_lines:
            line: Any = line_of(data)
            return Decoded(line, at)
        payload = Payload(data, attributes, at)
        decoded: Decoded[R] = Decoded(malformed(payload, problem), at) if problem else self._decoder.decode(payload)
        if type(decoded.record) is Malformed:
            self.malformed += 1
        return decoded
