"""A TCP server, with or without TLS: connections whose bytes are cut into messages, and that are not read while held.

Knows asyncio's transports. Must not know what a message means.
"""

import asyncio
import contextlib
import hmac
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from spouts.incoming.cutter import LineCut, LineCuts
from spouts.listeners.addresses import host_of
from topology.secrets import Secret

HANDSHAKE_S: Final = 10.0  # seconds that a TLS handshake may take
TOKEN_S: Final = 10.0  # seconds after which the token has to have come
CLOSE_S: Final = 2.0  # seconds that closing may take
AGAIN_S: Final = 30.0  # seconds between two log lines of one kind

log = logging.getLogger("kedge.spouts")

Came = Callable[[Sequence[LineCut], str, int], None]  # messages, and the host and port that sent them


class TcpServer:
    """The server of one task. `came` is called with the messages of a connection. Use it on one loop.

    cuts   Makes the cutting of a new connection.
    most   Connections at once; more are closed at once.
    token  The first message of a connection has to be this; a connection whose first message is not, or does not come
           within TOKEN_S seconds, is closed. When connections are read again after a while, it has as long again.
    """

    def __init__(
        self,
        source: str,
        came: Came,
        cuts: Callable[[], LineCuts],
        *,
        most: int,
        token: Secret | None = None,
    ) -> None:
        self.connections = self.refused = self.broken = 0
        self._source, self._came, self._cuts = source, came, cuts
        self._most, self._token = most, token
        self._open: set[_Peer] = set()
        self._servers: list[asyncio.Server] = []
        self._held = self._stopped = False
        self._logged_at: dict[str, float] = {}

    async def open(self, sockets: Sequence[socket.socket], context: ssl.SSLContext | None) -> None:
        """Accept connections on these sockets, which it owns from now on."""
        loop = asyncio.get_running_loop()
        handshake_s = HANDSHAKE_S if context is not None else None
        left = [*sockets]
        try:
            while left:
                server = await loop.create_server(
                    lambda: _Peer(self), sock=left[0], ssl=context, ssl_handshake_timeout=handshake_s
                )
                left.pop(0)
                self._servers.append(server)
        finally:
            for each in left:
                each.close()

    def hold(self, held: bool) -> None:
        """Read from no connection while this holds."""
        self._held = held or self._stopped
        for peer in self._open:
            peer.hold(self._held)

    def stop(self) -> None:
        """Read nothing more, and accept no connection."""
        self._stopped = True
        for server in self._servers:
            server.close()
        self.hold(True)

    async def close(self) -> None:
        """Close all. The port is free when this returns."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        closing = [*self._open]
        for peer in closing:
            peer.cut_off()
        with contextlib.suppress(TimeoutError):  # a TLS handshake that does not end
            async with asyncio.timeout(CLOSE_S):
                await asyncio.gather(*(peer.gone.wait() for peer in closing))
                await asyncio.gather(*(server.wait_closed() for server in servers))

    # -- called by its connections

    def accepts(self, peer: "_Peer") -> bool:
        """Note a new connection. Return False if there are too many."""
        if len(self._open) >= self._most:
            self.refused += 1
            self.warn(
                "refused", "%s: %d connections are open (max_connections), so further ones are refused", self._most
            )
            return False
        self.connections += 1
        self._open.add(peer)
        return True

    def new_cuts(self) -> LineCuts:
        return self._cuts()

    @property
    def held(self) -> bool:
        return self._held

    def has_token(self) -> bool:
        return self._token is not None

    def is_token(self, data: bytes) -> bool:
        """Return True if this is the token. Takes a time that does not say how much of it is right."""
        assert self._token is not None
        if hmac.compare_digest(data, self._token.reveal().encode()):
            return True
        self.refused += 1
        self.warn("token", "%s: a connection began without the right token, and was closed; further ones are counted")
        return False

    def silent(self) -> None:
        """Note a connection that has not sent the token in time."""
        self.refused += 1
        text = "%s: a connection sent no token within %g s, and was closed; further ones are counted"
        self.warn("silent", text, TOKEN_S)

    def came(self, cuts: Sequence[LineCut], host: str, port: int) -> None:
        self._came(cuts, host, port)

    def broke(self, held: int) -> None:
        """Note a connection that has broken within a message, of which `held` bytes had come."""
        if held:
            self.broken += 1
            text = (
                "%s: a connection has broken within a message, whose first %d bytes are lost; further ones are counted"
            )
            self.warn("broken", text, held)

    def gone(self, peer: "_Peer") -> None:
        self._open.discard(peer)

    def warn(self, kind: str, text: str, *given: Any) -> None:
        """Log a warning, at most every 30 seconds for one kind."""
        now = asyncio.get_running_loop().time()
        if now - self._logged_at.get(kind, float("-inf")) >= AGAIN_S:
            self._logged_at[kind] = now
            log.warning(text, self._source, *given)


class _Peer(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: TcpServer) -> None:
        self.gone = asyncio.Event()
        self._server = server
        self._transport: Any = None
        self._cuts: LineCuts | None = None  # None: it is refused
        self._knows_token = not server.has_token()
        self._waits_for_token: asyncio.TimerHandle | None = None
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._host = host_of(peer := transport.get_extra_info("peername"))
        self._port = int(peer[1]) if peer else 0
        connected = transport.get_extra_info("socket")
        if connected is not None:  # a peer that is gone without a word is noticed in the end
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if not self._server.accepts(self):
            self.cut_off()
            return
        self._cuts = self._server.new_cuts()
        if not self._knows_token:
            self._wait_for_token()
        if self._server.held:
            self.hold(True)

    def data_received(self, data: bytes) -> None:
        if self._cuts is not None:
            self._give(self._cuts.feed(data))

    def eof_received(self) -> bool:
        self._end()
        return False  # close the other direction too

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None:
            self._end()
        elif self._cuts is not None and not self._ended:
            self._server.broke(self._cuts.held)
        self._forget_token()
        self._server.gone(self)
        self.gone.set()

    def hold(self, held: bool) -> None:
        if self._transport.is_closing():
            return
        if held:
            self._forget_token()  # it may send it, and that is not read now
            self._transport.pause_reading()
        else:
            if self._waits_for_token is not None and not self._knows_token:
                self._forget_token()
                self._wait_for_token()
            self._transport.resume_reading()

    def cut_off(self) -> None:
        """Close the connection now, without its rest."""
        self._ended = True
        self._transport.abort()

    def _wait_for_token(self) -> None:
        self._waits_for_token = asyncio.get_running_loop().call_later(TOKEN_S, self._has_no_token)

    def _has_no_token(self) -> None:
        if not self._ended:
            self._server.silent()
            self._cuts = None
            self.cut_off()

    def _forget_token(self) -> None:
        if self._waits_for_token is not None:
            self._waits_for_token.cancel()

    def _end(self) -> None:
        """Take the rest, which no line end has ended, as a message."""
        if self._cuts is not None and not self._ended:
            self._ended = True
            self._give(self._cuts.end())

    def _give(self, cuts: Sequence[LineCut]) -> None:
        if not self._knows_token and cuts:
            if not self._server.is_token(cuts[0].data):
                self._cuts = None
                self.cut_off()
                return
            self._knows_token = True
            self._forget_token()
            cuts = cuts[1:]
        if cuts:
            self._server.came(cuts, self._host, self._port)
