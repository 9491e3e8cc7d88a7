"""`ListeningSource`: the common part of sources that listen on a port, from an address to messages.

Knows how what has come is held, and how a life names its messages. Must not know a protocol above TCP and UDP.
"""

import socket
import ssl
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from acker.identity import MessageId
from spouts.checks import alone
from spouts.incoming.cutter import LineCut, LineCuts
from spouts.incoming.inbox import Inbox, Incoming
from spouts.incoming.lives import new_life
from spouts.listeners.addresses import ListenAddress, address_of, bound
from spouts.listeners.tcp import TcpServer
from spouts.listeners.udp import UdpServer
from topology.clients.errors import invalid
from topology.clients.tls import Tls
from topology.components import ONE_PARTITION, Message, Spout, Task
from topology.secrets import Secret

PEERS_MAX: Final = 1_024  # senders whose attributes are remembered, so that not each message has its own


class ListeningSource(Spout):
    """A source with a server of its own. A subclass says how bytes are cut into messages, and makes their records.

    A message that has come is in no place but this process: what is under way when the process is killed is lost.
    """

    given_again = "never"
    schemes: ClassVar[Mapping[str, int | None]] = {}  # scheme → default port

    def __init__(
        self, address: str, *, longest: int, max_connections: int, tls: Tls | None, prefetch: int, option: str
    ) -> None:
        self._kind = type(self).__name__
        self.address = address_of(self._kind, address, self.schemes)
        self.max_connections, self.tls, self.prefetch = max_connections, tls, prefetch
        self._longest = longest
        for name, value in ((option, longest), ("max_connections", max_connections), ("prefetch", prefetch)):
            if type(value) is not int or value < 1:
                raise invalid(f"{self._kind}: {name} is a number of at least 1, not {value!r:.80}")
        if (self.address.scheme == "tls") != (tls is not None):
            raise invalid(f"{self._kind}: an address with tls:// and tls=Tls(certificate=…) go together")
        self._token: Secret | None = None
        self._buffer_bytes: int | None = None
        self._epochs: Mapping[str, str] = ONE_PARTITION
        self._inbox: Inbox | None = None
        self._server: TcpServer | UdpServer | None = None
        self._count = 0

    @abstractmethod
    def _cuts(self) -> LineCuts:
        """Return the cutting of a new connection."""

    @abstractmethod
    def _message(self, incoming: Incoming) -> Message[Any]:
        """Return the message of what has come. Does not raise."""

    def _wants(self, data: bytes) -> bool:
        """Return True if this content is a message."""
        return bool(data)

    async def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Listen. Blocks for a note's fsync.

        Raises NotYet for a port that another program has, and ConfigurationError for an address or a certificate that
        cannot be used.
        """
        alone(task, "listens on one port")
        self._clock = task.clock
        self._count = 0
        context = self.tls.for_server() if self.tls is not None else None
        is_udp = self.address.scheme == "udp"
        sockets = await bound(self._kind, self.address, socket.SOCK_DGRAM if is_udp else socket.SOCK_STREAM)
        try:
            self._epochs = {"": new_life(task, self._kind)}
            self.port = sockets[0].getsockname()[1]
            self._listen(sockets, context)
            if isinstance(self._server, TcpServer):
                await self._server.open(sockets, context)
        except BaseException:
            for each in sockets:
                each.close()
            raise

    def _listen(self, sockets: Sequence[socket.socket], context: ssl.SSLContext | None) -> None:
        came = self._receiver()
        server: TcpServer | UdpServer
        if self.address.scheme == "udp":
            server = UdpServer(self._kind, came, self._longest)
        else:
            server = TcpServer(self._kind, came, self._cuts, most=self.max_connections, token=self._token)
        self._server = server
        self._inbox = Inbox(self.prefetch, server.hold, stops=server.stop)
        if isinstance(server, UdpServer):
            server.open(sockets, self._buffer_bytes)

    def _receiver(self) -> Callable[[Sequence[LineCut], str, int], None]:
        """Return the function that takes what has come."""
        peers: dict[tuple[str, int], Mapping[str, Any]] = {}

        def came(cuts: Sequence[LineCut], host: str, port: int) -> None:
            assert self._inbox is not None, "open"
            if (attributes := peers.get((host, port))) is None:
                if len(peers) >= PEERS_MAX:
                    peers.clear()
                attributes = peers[host, port] = {"peer": host, "port": port}
            at, wants = self._clock.utc(), self._wants
            numbered = enumerate((cut for cut in cuts if wants(cut.data)), self._count + 1)
            messages = [Incoming(number, cut.data, cut.problem, attributes, at) for number, cut in numbered]
            self._count += len(messages)
            self._inbox.put(messages)

        return came

    async def poll(self, limit: int) -> list[Message[Any]]:
        """Wait for a message; return up to `limit`. Cancelling it loses nothing."""
        assert self._inbox is not None, "open"
        return [self._message(incoming) for incoming in await self._inbox.take(limit)]

    def partitions(self) -> Mapping[str, str]:
        """Return one partition; its epoch is the life of the source."""
        return self._epochs

    @property
    def polling_within(self) -> Inbox | None:
        """The messages that have come: they are emitted before a drain ends."""
        return self._inbox

    async def close(self) -> None:
        """Close the port and all connections. What has come and is not emitted is lost."""
        server, self._server = self._server, None
        if isinstance(server, TcpServer):
            await server.close()
        elif server is not None:
            server.close()

    def summary(self) -> Iterable[str]:
        """Yield the counts."""
        server = self._server
        if server is None:
            return
        where = str(ListenAddress(self.address.scheme, self.address.host, self.port))
        parts = [f"{self._count:,} received on {where}"]
        if isinstance(server, TcpServer):
            plural = "s" * (server.connections != 1)
            parts[0] = f"{self._count:,} received from {server.connections:,} connection{plural} on {where}"
            parts += [f"{server.refused:,} refused"] * bool(server.refused)
            parts += [f"{server.broken:,} broken"] * bool(server.broken)
        elif dropped := server.dropped():
            parts.append(f"{dropped:,} dropped by the system, which had no room for them")
        parts += [f"{self._malformed:,} malformed"] * bool(self._malformed)
        yield ", ".join(parts)

    @property
    @abstractmethod
    def _malformed(self) -> int:
        """The number of messages that could not be read."""
