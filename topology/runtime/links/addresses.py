"""Addresses that a worker may bind. Find errors in an address, and too few file descriptors, before libzmq does.

libzmq ends the process if it can't get a descriptor, takes a path away from its owner, and has few error texts. No
sockets are made here.
"""

import contextlib
import errno
import ipaddress
import os
import resource
import socket
import sys
from typing import Final
from urllib.parse import urlsplit

from topology.codes.startup import INVALID_LISTEN_ADDRESS, INVALID_SOCKET_PATH, TOO_FEW_FILE_DESCRIPTORS
from topology.errors import StartError

PATH_BYTES_MAX: Final = 103 if sys.platform == "darwin" else 107  # of a Unix socket's path; sun_path without its end
_LIBRARY_FDS: Final = 16  # a context, its threads, and a PULL with its authenticator
_PEER_FDS: Final = 4  # a PUSH, its own connection, an accepted one, and one that is being replaced
_SPARE_FDS: Final = 32  # for the files of bolts and spouts
# For connections of strangers, each of which is closed after some seconds: libzmq ends the process if it has no
# descriptor to accept one (S25).
RESERVE_FDS: Final = 1_024
_WRITE: Final = "write tcp://host or tcp://host:port"


def check_path(path: str) -> str:
    """Return the path of an ipc socket that can be made. Raises StartError."""
    length = len(os.fsencode(path))
    if length > PATH_BYTES_MAX:
        raise StartError(
            f"the socket's path {path!r} has {length} bytes, and the system allows {PATH_BYTES_MAX}",
            code=INVALID_SOCKET_PATH,
            next="set XDG_RUNTIME_DIR or TMPDIR to a shorter directory",
        )
    if os.path.lexists(path):  # libzmq would take it away from its owner
        raise StartError(
            f"the socket's path {path!r} exists already",
            code=INVALID_SOCKET_PATH,
            next="remove it if no other run uses it",
        )
    if not os.path.isdir(os.path.dirname(path)):
        raise StartError(
            f"the socket's path {path!r} is in no directory that exists",
            code=INVALID_SOCKET_PATH,
            next="give a path in an existing directory",
        )
    return path


def numeric(address: str) -> str:
    """Convert tcp://host[:port] to libzmq's form: the host's number, and * for any free port. Raises StartError.

    Blocks while the name is looked up.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
        if parts.scheme != "tcp" or not host or parts.path or parts.query or parts.fragment or parts.username:
            raise ValueError("no host, or more than a host and a port")
    except ValueError:
        raise StartError(f"{address!r} is no address to bind", code=INVALID_LISTEN_ADDRESS, next=_WRITE) from None
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise StartError(
            f"the host {host!r} in {address!r} can't be resolved",
            code=INVALID_LISTEN_ADDRESS,
            next="give its number, or another name",
        ) from None
    first = min(found, key=lambda one: one[0] != socket.AF_INET)  # many machines have no IPv6 behind their names
    number = str(first[4][0])
    if ipaddress.ip_address(number.partition("%")[0]).is_unspecified:
        raise StartError(
            f"{address!r} is no address that peers can connect to",
            code=INVALID_LISTEN_ADDRESS,
            next="give the address of this machine",
        )
    return f"tcp://{f'[{number}]' if ':' in number else number}:{port or '*'}"


def check_room(peers: int) -> None:
    """Raise StartError if there are too few file descriptors for links to so many peers.

    First raise the soft limit, if possible, to what is needed and a reserve, or to the hard limit; and no further,
    because programs that bolts start may loop over all possible descriptors.
    """
    try:
        open_now = len(os.listdir("/dev/fd"))
    except OSError as error:
        raise StartError(f"no file can be opened ({error.strerror})", code=TOO_FEW_FILE_DESCRIPTORS) from error
    needed = open_now + _LIBRARY_FDS + _PEER_FDS * peers + _SPARE_FDS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed + RESERVE_FDS
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard == resource.RLIM_INFINITY or hard > soft:
        soft_then = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft_then, hard))
            soft = soft_then
    if soft >= needed:
        return
    raise StartError(
        f"a worker that is linked to {peers} others needs {needed} file descriptors, and may have {soft}",
        code=TOO_FEW_FILE_DESCRIPTORS,
        next=f"raise the limit with `ulimit -n {needed}`, or use fewer workers",
    )


def why_not(address: str, number: int) -> tuple[str, str]:
    """Return why an address could not be bound, from the error's number, and what to do about it."""
    if number == errno.EADDRINUSE:
        return f"{address!r} is in use by another program", "give another port, or no port to use a free one"
    if number in (errno.EADDRNOTAVAIL, errno.ENODEV):
        return f"{address!r} is not an address of this machine", "give an address of this machine, or 127.0.0.1"
    if number in (errno.EACCES, errno.EPERM):
        return f"{address!r} may not be bound by this user", "give a port over 1023, or a directory of your own"
    return f"{address!r} can't be bound: {os.strerror(number)}", "give another address"
