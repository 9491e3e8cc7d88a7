"""Connections to Redis, and what its errors mean. Knows redis-py; must not know streams or records.

A connection here is one connection of redis-py's, without its pool and its retries: a source or a sink decides itself
when to connect again, and has to know of each lost answer.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from topology.clients.addresses import LOOSE_AT, has_loose_at, without_secrets
from topology.clients.errors import ServerAway, invalid, refused
from topology.clients.extras import client
from topology.clients.tls import Tls
from topology.errors import ConfigurationError
from topology.secrets import Secret
from topology.text import printable

CONNECT_S: Final = 3.0  # seconds that connecting may take
CLOSE_S: Final = 1.0  # seconds that closing may take
PORT: Final = 6379
MOVES_MAX: Final = 4  # nodes of a cluster that are asked for a key, one after the other
SAID_MAX: Final = 200  # characters of what the server says that an error repeats
PROTOCOL: Final = 2  # RESP 2: the same answers from every version of Redis and of redis-py

# The first word of an error that passes by itself, or that an operator ends.
_PASSING: Final = frozenset(
    {"LOADING", "BUSY", "OOM", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "ASK"}
)
_CREDENTIALS: Final = frozenset({"NOAUTH", "WRONGPASS"})
_CODES: Final = {  # redis-py has an exception of its own for these, whose text is without the first word
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "BusyLoadingError": "LOADING",
    "MasterDownError": "MASTERDOWN",
    "ClusterDownError": "CLUSTERDOWN",
    "ClusterCrossSlotError": "CROSSSLOT",
    "TryAgainError": "TRYAGAIN",
    "MovedError": "MOVED",
    "AskError": "ASK",
    "NoPermissionError": "NOPERM",
    "NoScriptError": "NOSCRIPT",
    "AuthenticationError": "WRONGPASS",
}


class RedisRefusal(Exception):
    """The error for a call that Redis has refused for its own sake. `code`: the first word, such as WRONGTYPE."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class RedisLate(ServerAway):
    """The error for an answer that has not come whole in its time: the server or the line is too slow for it."""


class RedisMoved(ServerAway):
    """The error for a key that another node of the cluster has. `node`: HOST:PORT, or :PORT."""

    def __init__(self, text: str, node: str) -> None:
        super().__init__(text)
        self.node = node


class RedisLink:
    """One connection. It answers one call after the other; calls that come meanwhile wait.

    A call that is cancelled, or that has no answer, ends the connection: each later call raises ServerAway.
    """

    def __init__(self, server: "RedisServer", raw: Any, answer_s: float) -> None:
        self._server, self._raw, self._answer_s = server, raw, answer_s
        self._writer: Any = getattr(raw, "_writer", None)
        self._lock = asyncio.Lock()
        self._lost = ""  # why no call can be made

    @property
    def is_lost(self) -> bool:
        """True if no call can be made any more."""
        return bool(self._lost)

    async def call(self, *command: Any) -> Any:
        """Send one command, and return its answer. Raises ServerAway (RedisLate if the time is over), RedisRefusal, and
        ConfigurationError for what this user may not do."""
        (answer,) = await self.call_all((command,))
        if isinstance(answer, RedisRefusal):
            raise answer
        return answer

    async def call_all(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Send all commands at once, and return their answers. A RedisRefusal is the answer of a command that was
        refused. Raises ServerAway if one of them could not be done now, and ConfigurationError as `call` does; others
        of them may have been done then."""
        async with self._lock:
            if self._lost:
                raise ServerAway(self._lost)
            answers: list[Any] = []
            errors = self._server.errors
            try:
                async with asyncio.timeout(self._answer_s):
                    await self._raw.send_packed_command(self._raw.pack_commands(commands))
                    for _ in commands:
                        try:
                            answers.append(await self._raw.read_response())
                        except errors.ResponseError as error:
                            answers.append(error)
            except TimeoutError:
                late = RedisLate(str(self._server.away(f"it has not answered within {self._answer_s:g} s")))
                self._lost = self._lost or str(late)
                raise late from None
            except (errors.RedisError, OSError) as error:
                raise self._ended(error) from None  # its frames have the URL
            except BaseException:
                self._lost = "a call was interrupted"
                raise
        explained = [self._server.explained(each) if isinstance(each, Exception) else each for each in answers]
        for each in explained:
            if isinstance(each, ServerAway):
                self._lost = str(each)
            if isinstance(each, ServerAway | ConfigurationError):
                raise each
        return explained

    def cut(self, why: str) -> None:
        """End the connection at once, so that a call that waits for its answer raises ServerAway."""
        self._lost = self._lost or why
        transport = getattr(self._writer, "transport", None)
        if transport is not None:
            transport.abort()

    async def close(self) -> None:
        """End the connection. Does not raise, and takes CLOSE_S at most."""
        self._lost = self._lost or "the connection is closed"
        await discarded(self._raw, self._writer)

    def _ended(self, error: Exception) -> Exception:
        why = self._server.explained(error)
        self._lost = self._lost or str(why)
        return why


class RedisServer:
    """The server at a URL; in a cluster, the node that has `key`. Makes connections to it.

    Raises ConfigurationError, which begins with `needed_by`, for a missing library and for files of `tls` that cannot
    be used.
    """

    def __init__(self, url: Secret, *, needed_by: str, tls: Tls | None, key: str) -> None:
        self.library: Any = client("redis.asyncio", package="redis", extra="redis", needed_by=needed_by)
        self.errors: Any = client("redis.exceptions", package="redis", extra="redis", needed_by=needed_by)
        self.where = without_secrets(url)
        self._needed_by, self._key = needed_by, key
        self._url = url
        secured = urlsplit(url.reveal()).scheme == "rediss"
        self._context = (tls or Tls()).for_client() if secured else None
        self._node: dict[str, Any] = {}  # host and port of the node that has the key, if it is another one

    async def connect(self, *, answer_s: float, name: str) -> tuple[RedisLink, str]:
        """Return a connection that has answered, and the type of the key's value: "none" if there is no such key.

        `answer_s`: seconds that an answer may take. `name`: what CLIENT LIST shows. Raises ServerAway, and
        ConfigurationError for a server that refuses.
        """
        for _ in range(MOVES_MAX):
            link = await self._connected(answer_s)
            try:
                kind = await link.call("TYPE", self._key)
                shown = "".join(mark if "!" <= mark <= "~" else "-" for mark in name)
                with contextlib.suppress(ConfigurationError):  # not every user may do it
                    await link.call_all([("CLIENT", "SETNAME", shown)])
            except RedisRefusal as error:
                await link.close()
                raise refused(f"{self._needed_by}: {self.where} refuses: {error}") from error
            except RedisMoved as error:
                await link.close()
                host, _, port = error.node.rpartition(":")
                asked = self._node.get("host", urlsplit(self._url.reveal()).hostname)
                self._node = {"host": asked if host in ("", "?") else host, "port": int(port)}
                continue
            except BaseException:
                await link.close()
                raise
            return link, kind.decode()
        raise ServerAway(f"{self.where} can't be used: its nodes do not agree on which of them has {self._key!r:.80}")

    async def _connected(self, answer_s: float) -> RedisLink:
        settings = {**_settings(self._url), **self._node}
        if self._context is None:
            raw = self.library.Connection(**settings)
        else:
            raw = self.library.SSLConnection(**settings)
            raw.ssl_context.context = self._context  # one that trusts these authorities only
        try:
            async with asyncio.timeout(CONNECT_S):
                await raw.connect()
        except (self.errors.RedisError, OSError) as error:
            await discarded(raw, getattr(raw, "_writer", None))
            self._node = {}
            why = self.explained(error)
            if isinstance(why, RedisRefusal):  # the number of the database
                why = refused(f"{self._needed_by}: {self.where} refuses: {why}")
            raise why from None  # its frames have the URL
        except BaseException:
            await discarded(raw, getattr(raw, "_writer", None))
            raise
        return RedisLink(self, raw, answer_s)

    def away(self, text: str) -> ServerAway:
        """Return the error for a server that cannot be used now."""
        return ServerAway(f"{self.where} can't be used: {text}")

    def explained(self, error: Exception) -> Exception:
        """Return ServerAway for an error that may pass, ConfigurationError for what this user may not do, RedisRefusal
        for any other error of the server's, and the error itself if it is none."""
        said = printable(" ".join(str(error).split()))[:SAID_MAX]
        code = _code(error, said)
        if code in _CREDENTIALS:
            return refused(f"{self._needed_by}: {self.where} refuses this user or password")
        if code == "DENIED" or "running in protected mode" in said:
            return refused(f"{self._needed_by}: {self.where} lets nobody in from here: it runs in protected mode")
        if code == "NOPERM":
            return refused(f"{self._needed_by}: {self.where} does not let this user do that: {said}")
        if code == "MOVED":
            return RedisMoved(f"{self.where} can't be used: another node has {self._key!r:.80}", said.split()[-1])
        if code in _PASSING:
            return self.away(said if said.startswith(code) else f"{code} {said}")
        if isinstance(error, self.errors.ResponseError):
            return RedisRefusal(code, said)
        if isinstance(error, self.errors.RedisError | OSError):
            return self.away(said or "it does not answer")
        return error


def checked_url(needed_by: str, url: str | Secret, tls: Tls | None) -> Secret:
    """Return the URL. Raises ConfigurationError, which begins with `needed_by`, for one that is none of Redis's."""
    secret = Secret(url)
    if has_loose_at(secret.reveal()):
        raise invalid(f"{needed_by}: url {LOOSE_AT}")
    scheme = path = rest = ""
    try:
        parts = urlsplit(secret.reveal())
        scheme, path, rest = parts.scheme, parts.path.strip("/"), parts.query + parts.fragment
        fits = scheme in ("redis", "rediss") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        fits = False
    if not fits or rest or not (path == "" or (path.isascii() and path.isdigit())):
        text = f"{needed_by}: url is redis://USER:PASSWORD@HOST:PORT/DATABASE, or rediss://, not another one"
        raise invalid(f"{text}; options are arguments" if fits and rest else text)
    if tls is not None and scheme != "rediss":
        raise invalid(f"{needed_by}: tls needs a url that begins with rediss://")
    return secret


def _settings(url: Secret) -> dict[str, Any]:
    """Return what redis-py needs to know."""
    parts = urlsplit(url.reveal())
    return {
        "host": parts.hostname,
        "port": parts.port or PORT,
        "db": int(parts.path.strip("/") or 0),
        "username": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "protocol": PROTOCOL,
        "socket_connect_timeout": CONNECT_S,
        "socket_timeout": None,  # with one, redis-py calls asyncio.wait_for, which forgets a cancellation in 3.11
    }


async def discarded(raw: Any, writer: Any) -> None:
    """Close the connection and its socket. Does not raise, and takes CLOSE_S at most."""
    transport = getattr(writer, "transport", None)
    try:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_S):
                await raw.disconnect(nowait=True)
                if writer is not None:
                    await writer.wait_closed()
    finally:
        if transport is not None:
            transport.abort()


def _code(error: Exception, said: str) -> str:
    """Return the first word that the server has said; "" for an error of the connection."""
    for kind in type(error).__mro__:
        if kind.__name__ in _CODES:
            return _CODES[kind.__name__]
    first = said.partition(" ")[0]
    return first if first.isupper() and first.isalpha() else "ERR"
