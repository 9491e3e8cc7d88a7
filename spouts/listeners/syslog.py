"""`Syslog`: a server for the log messages of other machines. Knows its options; the format is elsewhere."""

from collections.abc import Mapping
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from spouts.incoming.cutter import LineCuts
from spouts.incoming.inbox import PREFETCH, Incoming
from spouts.listeners.source import ListeningSource
from spouts.listeners.syslog_format import SyslogMessage, syslog_message
from spouts.listeners.syslog_frames import SyslogCutter
from topology.clients.errors import invalid
from topology.clients.tls import Tls
from topology.components import Message
from topology.dead_letters import Malformed
from topology.records import Record
from topology.text import printable


class Syslog(ListeningSource):
    """Messages of syslog that other machines send, over UDP, TCP or TLS, as `SyslogMessage` records.

        messages = topology.spout("messages", Syslog("udp://:514"))

    RFC 5424 and RFC 3164 are understood, and much that is only like them. No message is refused: `text` has all that is
    not understood. Over TCP, a message is preceded by its length, or ended by a newline or a NUL (RFC 6587), as each
    message begins. A message that is too long, or that ends with its connection, is malformed.

    A message's id counts the messages of this life of the source. Its event time is its own time, or the time at which
    it came if it has none. A time without a year is in the year that puts it nearest to that.

    Nothing can be read again, and nothing is confirmed to the sender: messages that have come, and are not done when
    the process is killed, are lost. When a run drains, the messages that have come are finished. If bolts are slow, the
    source stops reading: over TCP the senders wait, and over UDP the system drops what its buffer has no room for. On
    Linux, the source's last line says how many messages it has dropped.

    address  udp://HOST:PORT, tcp:// or tls://; without a HOST, all addresses of the machine, of IPv4 and of IPv6. The
             port is 514 if it is left out, and 6514 for tls://. Ports below 1024 need a right, on most systems.
    max_message_bytes  A longer message is malformed: its first bytes come, and the rest is skipped.
    max_connections  Connections at once; further ones are closed at once, and a warning says so.
    tls      The server's certificate, for tls://. With a `ca`, senders need a certificate too.
    time_zone  The zone of times that have none, as "Europe/Berlin".
    receive_buffer_bytes  Bytes that the system keeps of datagrams that are not read yet. None: 4 MiB, or as much as it
             gives. If it gives less than this number, a warning says so.
    prefetch Messages that have come and are not emitted, at most.

    One task: a port has one owner. `open` raises NotYet while another program has the port.
    """

    schemes: ClassVar[Mapping[str, int | None]] = {"udp": 514, "tcp": 514, "tls": 6514}

    def __init__(
        self,
        address: str,
        *,
        max_message_bytes: int = 1 << 16,
        max_connections: int = 1_000,
        tls: Tls | None = None,
        time_zone: str = "UTC",
        receive_buffer_bytes: int | None = None,
        prefetch: int = PREFETCH,
    ) -> None:
        super().__init__(
            address,
            longest=max_message_bytes,
            max_connections=max_connections,
            tls=tls,
            prefetch=prefetch,
            option="max_message_bytes",
        )
        self.time_zone, self.max_message_bytes = time_zone, max_message_bytes
        if receive_buffer_bytes is not None and (type(receive_buffer_bytes) is not int or receive_buffer_bytes < 1):
            raise invalid(f"Syslog: receive_buffer_bytes is a number of at least 1, not {receive_buffer_bytes!r:.80}")
        if receive_buffer_bytes is not None and self.address.scheme != "udp":
            raise invalid("Syslog: receive_buffer_bytes is for udp:// only; TCP has no messages to drop")
        self._buffer_bytes = receive_buffer_bytes
        try:
            self._zone = ZoneInfo(time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
            raise invalid(
                f"Syslog: time_zone {printable(str(time_zone))!r:.80} is no zone that this machine knows"
            ) from None
        self._bad = 0

    def emits(self) -> tuple[type[Record], ...]:
        """Return `SyslogMessage`, and `Malformed`."""
        return (SyslogMessage, Malformed)

    def _cuts(self) -> LineCuts:
        return SyslogCutter(self.max_message_bytes)

    def _message(self, incoming: Incoming) -> Message[Any]:
        assert incoming.at is not None
        peer = incoming.attributes["peer"]
        if incoming.problem:
            self._bad += 1
            beside = tuple((name, str(value)) for name, value in incoming.attributes.items())
            return Message(Malformed(incoming.data, incoming.problem, beside), incoming.id, at=incoming.at)
        record = syslog_message(incoming.data, incoming.at, self._zone, peer)
        return Message(record, incoming.id, at=record.at or incoming.at)

    @property
    def _malformed(self) -> int:
        return self._bad
