"""`Socket`: lines that any number of programs send over TCP. Must not know what a line means."""

from collections.abc import Mapping
from typing import Any, ClassVar, Generic

from typing_extensions import TypeVar

from spouts.incoming.cutter import LineCuts
from spouts.incoming.inbox import PREFETCH, Incoming
from spouts.incoming.line_payloads import LinePayloads
from spouts.lines import Line
from spouts.listeners.source import ListeningSource
from spouts.payload.formats import Value
from topology.clients.errors import invalid
from topology.clients.tls import Tls
from topology.components import Message
from topology.records import Record
from topology.secrets import Secret

R = TypeVar("R", bound=Record, default=Line)

OFFERED = frozenset({"peer", "port"})


class Socket(ListeningSource, Generic[R]):
    """Lines that programs send to a port over TCP, from any number of connections at once.

        logins = topology.spout("logins", Socket("tcp://127.0.0.1:5140", value=Login))

        tail -f logins.jsonl | nc 127.0.0.1 5140

    Lines of one connection keep their order. If a connection ends without a newline, its last bytes are a line; if it
    breaks (a reset, for example), they are not, and a warning says so. A message's id counts the lines of this life of
    the source, and its event time is the time at which the line came, unless `Json(…, at=…)` names a field.

    Nothing can be read again, and nothing is confirmed to the client: lines that have come, and are not done when the
    process is killed, are lost. When a run drains, the lines that have come are finished. If bolts are slow, the source
    stops reading, so TCP makes the clients wait.

    address  tcp://HOST:PORT, or tls://; without a HOST, all addresses of the machine, of IPv4 and of IPv6. An IPv6
             address is in brackets: tcp://[::1]:5140.
    value    The record class of lines that are JSON objects; `Json` or a function for other ones. `Line`: the text.
    max_line_bytes  A longer line comes in pieces, each a `Line`; with any other `value` it is malformed.
    max_connections  Connections at once; further ones are closed at once, and a warning says so.
    tls      The server's certificate, for tls://. With a `ca`, clients need a certificate too.
    token    A text that each client sends as its first line, within 10 seconds; a connection that begins otherwise is
             closed. Use it with tls:// on an open network, because others on the way could read it.
    prefetch Lines that have come and are not emitted, at most.

    Beside the payload there are `peer`, the client's host, and `port`, its port.

    One task: a port has one owner. `open` raises NotYet while another program has the port.
    """

    schemes: ClassVar[Mapping[str, int | None]] = {"tcp": None, "tls": None}

    def __init__(
        self,
        address: str,
        *,
        value: Value[R] = Line,  # type: ignore[assignment]
        max_line_bytes: int = 1 << 16,
        max_connections: int = 1_000,
        tls: Tls | None = None,
        token: str | Secret | None = None,
        prefetch: int = PREFETCH,
    ) -> None:
        super().__init__(
            address,
            longest=max_line_bytes,
            max_connections=max_connections,
            tls=tls,
            prefetch=prefetch,
            option="max_line_bytes",
        )
        self._payloads = LinePayloads("Socket", value, max_line_bytes, OFFERED)
        self._token = None if token is None else Secret(token)
        if self._token is not None and (not self._token or "\n" in self._token.reveal()):
            raise invalid("Socket: token is a text of one line that is not empty")

    def emits(self) -> tuple[type[Record], ...]:
        """Return the record class, and `Malformed`."""
        return self._payloads.emits()

    def _cuts(self) -> LineCuts:
        return self._payloads.cutter()

    def _wants(self, data: bytes) -> bool:
        return self._payloads.wants(data)

    def _message(self, incoming: Incoming) -> Message[Any]:
        decoded = self._payloads.decoded(incoming.data, incoming.problem, incoming.attributes, incoming.at)
        return Message(decoded.record, incoming.id, at=decoded.at)

    @property
    def _malformed(self) -> int:
        return self._payloads.malformed
