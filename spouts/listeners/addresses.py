"""Addresses to listen on, and sockets that are bound to them. Knows sockets; must not know what is sent."""

import asyncio
import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from topology.clients.addresses import without_secrets
from topology.clients.errors import invalid, refused
from topology.codes.connectors import SERVER_AWAY
from topology.errors import ConfigurationError, NotYet
from topology.text import printable

ANY: Final = "::"  # all addresses of both protocols, if the machine has both
BACKLOG: Final = 128  # connections that the system holds until they are accepted
MAPPED: Final = "::ffff:"  # how a socket for both protocols shows an IPv4 address


@dataclass(frozen=True)
class ListenAddress:
    """An address to listen on. `host` is empty for all addresses of the machine; `port` is 0 for a free one."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def address_of(source: str, text: str, schemes: Mapping[str, int | None]) -> ListenAddress:
    """Return the address that a text like "tcp://0.0.0.0:5140" names. `schemes`: the default port of each, if it has
    one. Raises ConfigurationError, which begins with `source`."""
    if not isinstance(text, str):
        raise invalid(f"{source}: address is a text, not {text!r:.80}")
    shown = without_secrets(text)[:80]
    example = " or ".join(f"{scheme}://HOST:PORT" for scheme in schemes)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise invalid(f"{source}: address is {example}, not {shown}") from None
    if parts.scheme not in schemes or "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        raise invalid(f"{source}: address is {example}, not {shown}")
    port = schemes[parts.scheme] if port is None else port
    if port is None:
        raise invalid(f"{source}: address {shown} has no port")
    return ListenAddress(parts.scheme, parts.hostname or "", port)


async def bound(source: str, address: ListenAddress, kind: socket.SocketKind) -> list[socket.socket]:
    """Return sockets that are bound to an address, one for each that its host has. They do not block.

    Raises NotYet for a port that another program has, and ConfigurationError for one that cannot be bound.
    """
    sockets: list[socket.socket] = []
    try:
        for family, where in await _resolved(source, address, kind):
            sockets.append(_bound(family, kind, where))
    except OSError as error:
        for each in sockets:
            each.close()
        raise _unbound(source, address, error) from error
    except BaseException:
        for each in sockets:
            each.close()
        raise
    return sockets


async def _resolved(
    source: str, address: ListenAddress, kind: socket.SocketKind
) -> list[tuple[socket.AddressFamily, Any]]:
    if not address.host:
        if _has_both():
            return [(socket.AF_INET6, (ANY, address.port))]
        return [(socket.AF_INET, ("", address.port))]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            address.host, address.port, type=kind, flags=socket.AI_PASSIVE
        )
    except (socket.gaierror, UnicodeError):
        raise invalid(f"{source}: {printable(address.host)!r:.80} is no address, and no name that is known") from None
    places = dict.fromkeys((family, where) for family, _, _, _, where in found)
    return [(family, where) for family, where in places if family in (socket.AF_INET, socket.AF_INET6)]


def _has_both() -> bool:
    """Return True if one socket can listen on all addresses of IPv6 and IPv4."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            probe.bind((ANY, 0))
    except OSError:  # the machine has no IPv6
        return False
    return True


def _bound(family: socket.AddressFamily, kind: socket.SocketKind, where: Any) -> socket.socket:
    made = socket.socket(family, kind)
    try:
        if (
            kind == socket.SOCK_STREAM
        ):  # a port whose last connections have not timed out; for UDP it would share the port
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(where[0] != ANY))
        made.setblocking(False)
        made.bind(where)
        if kind == socket.SOCK_STREAM:
            made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def _unbound(source: str, address: ListenAddress, error: OSError) -> ConfigurationError | NotYet:
    where = f"port {address.port} of {printable(address.host)}" if address.host else f"port {address.port}"
    if error.errno == errno.EADDRINUSE:
        advice = "end the program that has the port, or give another port; start_timeout_s is how long this waits"
        return NotYet(f"{source}: {where} is in use by another program", code=SERVER_AWAY, next=advice)
    if error.errno == errno.EACCES:
        return refused(f"{source}: {where} needs a right that this user lacks; ports from 1024 on need none")
    if error.errno == errno.EADDRNOTAVAIL:
        return invalid(f"{source}: {printable(address.host)!r:.80} is no address of this machine")
    return refused(f"{source}: {where} can't be listened on: {error.strerror or error}")


def host_of(peer: Any) -> str:
    """Return the host of a peer's address, as a socket has it."""
    host = str(peer[0]) if peer else ""
    return host.removeprefix(MAPPED) if "." in host else host
