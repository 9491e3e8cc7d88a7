"""Requests to HTTP servers, and what their answers mean. Knows aiohttp; must not know records or batches."""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from bolts.sinks.http.hiding import hidden_parts, without_parts
from bolts.sinks.http.retries import AskedToWait, DeliveryRefused, Retries
from topology.clients.addresses import without_secrets
from topology.clients.errors import ServerAway, invalid
from topology.clients.extras import client
from topology.clients.tls import Tls
from topology.components import Clock
from topology.secrets import Secret
from topology.text import printable

RETRY_AFTER_MAX_S: Final = 300.0  # seconds that a server may ask us to wait
SAID_BYTES: Final = 1_024  # bytes of an answer that are read …
SAID_MAX: Final = 200  # … and characters of it that a sentence repeats
PORTS: Final = {"http": 80, "https": 443}
OF_THE_CONNECTION: Final = ("connection", "content-length", "host", "transfer-encoding")  # headers


class HttpUrl:
    """An address, and how people may see it. A `Secret` is shown without its path, which may be one, as Slack's is.

    `origin` is its scheme, host and port. Two are equal if their addresses are. Raises ConfigurationError, which begins
    with `needed_by`, for a text that is no URL.
    """

    __slots__ = ("origin", "secret", "where")

    def __init__(self, needed_by: str, url: "str | Secret") -> None:
        self.secret = Secret(url) if isinstance(url, str | Secret) else Secret("")
        address = self.secret.reveal()
        self.where = without_secrets(address)
        if not _is_url(address):
            shown = f", not {self.where!r:.200}" if isinstance(url, str) else ""
            raise invalid(f"{needed_by}: url is http://HOST/PATH or https://HOST/PATH{shown}")
        if isinstance(url, Secret):
            self.where = "/".join(self.where.split("/", 3)[:3])
        parts = urlsplit(address)
        self.origin = f"{parts.scheme}://{parts.hostname}:{parts.port or PORTS[parts.scheme]}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HttpUrl) and self.secret == other.secret

    def __hash__(self) -> int:
        return hash(self.secret)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in PORTS and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return is_whole and text.isprintable() and " " not in text


def checked_headers(needed_by: str, headers: Mapping[str, "str | Secret"] | None) -> Mapping[str, Secret]:
    """Return the headers, all as secrets. Raises ConfigurationError for one that no request can have."""
    found: dict[str, Secret] = {}
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise invalid(f"{needed_by}: {name!r:.80} is no name of a header")
        if name.lower() in OF_THE_CONNECTION:
            raise invalid(f"{needed_by}: the header {name} is set by the HTTP client itself, so it can't be given")
        if not isinstance(value, str | Secret) or not (secret := Secret(value)).reveal().isprintable():
            raise invalid(f"{needed_by}: the header {name} is a text of one line")
        found[name] = secret
    return found


def merged_headers(
    usual: Mapping[str, "str | Secret"], given: Mapping[str, "str | Secret"]
) -> dict[str, "str | Secret"]:
    """Return the headers of a request: those that are given, and the usual ones of other names, in letters of either
    case."""
    names = {name.lower() for name in given}
    return {name: value for name, value in usual.items() if name.lower() not in names} | {**given}


class HttpClient:
    """The requests of one task. `open` it in a running loop. Raises ConfigurationError if aiohttp is missing, or the
    certificates cannot be used."""

    def __init__(
        self, needed_by: str, retries: Retries, clock: Clock, *, timeout_s: float, concurrency: int, tls: Tls | None
    ) -> None:
        self._library = client("aiohttp", package="aiohttp", extra="http", needed_by=needed_by)
        self._context = tls.for_client() if tls is not None else True
        self._retries, self._clock, self._timeout_s, self._concurrency = retries, clock, timeout_s, concurrency
        self._session: Any = None

    def open(self) -> None:
        """Take the resources. Nothing is asked yet."""
        library = self._library
        self._session = library.ClientSession(
            connector=library.TCPConnector(ssl=self._context, limit=self._concurrency),
            timeout=library.ClientTimeout(total=self._timeout_s),
            cookie_jar=library.DummyCookieJar(),
            headers={"User-Agent": "kedge"},
        )

    async def post(
        self, url: HttpUrl, body: bytes, headers: Mapping[str, "str | Secret"], hidden: Sequence[Secret] = ()
    ) -> None:
        """Send a body, and wait for the answer. Redirects are not followed: they would lose the body.

        `hidden`: secrets in the body, which an answer may repeat. Raises DeliveryRefused and ServerAway, without
        secrets, as the status and the `Retries` say.
        """
        library = self._library
        plain = {name: value.reveal() if isinstance(value, Secret) else value for name, value in headers.items()}
        said = b""
        try:
            request = self._session.post(url.secret.reveal(), data=body, headers=plain, allow_redirects=False)
            async with request as answer:
                status, after = answer.status, answer.headers.get("Retry-After", "")
                if status not in self._retries.ok:
                    with contextlib.suppress(library.ClientError, OSError, TimeoutError):
                        said = await _first_bytes(answer.content)
        except library.InvalidURL as error:  # its text has the address
            raise DeliveryRefused(f"{url.where} can't be used: {type(error).__name__}") from None
        except TimeoutError:
            raise ServerAway(f"{url.where} has not answered within {self._timeout_s:g} s") from None
        except (library.ClientError, OSError) as error:
            reason = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
            text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
            raise ServerAway(f"{url.where} can't be used: {printable(text)[:SAID_MAX]}") from None
        except ValueError as error:  # of the parts of a request; its text may have the address
            raise DeliveryRefused(f"{url.where} can't be used: {type(error).__name__}") from None
        if status in self._retries.ok:
            return
        secrets = [*hidden, *(value for value in headers.values() if isinstance(value, Secret))]
        why = f"{url.where} answers {_told(status, said, hidden_parts(url.secret, secrets))}"
        if status not in self._retries.again:
            raise DeliveryRefused(why)
        if (after_s := retry_after_s(after, self._clock.utc())) > 0:
            raise AskedToWait(f"{why}; it asks to wait for {after_s:.0f} s", after_s)
        raise AskedToWait(why, 0.0) if status == HTTPStatus.TOO_MANY_REQUESTS else ServerAway(why)

    async def close(self) -> None:
        """Give back what `open` took. Does not raise."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):
                await session.close()


async def _first_bytes(content: Any) -> bytes:
    """Return the begin of an answer."""
    said = b""
    while len(said) < SAID_BYTES and (more := await content.read(SAID_BYTES - len(said))):
        said += more
    return said


def _told(status: int, said: bytes, hidden: Sequence[str]) -> str:
    """Return a status and the begin of an answer, in one line and without these texts."""
    with contextlib.suppress(ValueError):
        status_text = f"{status} {HTTPStatus(status).phrase}"
        text = without_parts(said.decode("utf-8", "replace"), hidden)
        if len(said) >= SAID_BYTES and hidden:  # the last one may be cut, and is not found then
            text = text[: -len(hidden[0])]
        text = printable(" ".join(text.split()))[:SAID_MAX]
        return f"{status_text}: {text}" if text else status_text
    return str(status)


def retry_after_s(value: str, now: datetime) -> float:
    """Return the seconds that the header Retry-After asks for: a number, or a date. At most RETRY_AFTER_MAX_S; 0 for a
    text that is neither."""
    seconds = 0.0
    if value.strip().isdecimal() and value.isascii():
        seconds = float(value[:10])
    else:
        with contextlib.suppress(ValueError, TypeError):
            date = parsedate_to_datetime(value)
            seconds = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    return min(max(0.0, seconds), RETRY_AFTER_MAX_S)
