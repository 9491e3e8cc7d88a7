"""Mails to an SMTP server, and the meaning of its answers. Knows aiosmtplib; must not know alerts."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any, Final, Literal, TypeAlias

from bolts.sinks.http.parcels import HeldOutput
from bolts.sinks.http.retries import DeliveryRefused
from topology.clients.errors import ServerAway, refused
from topology.clients.extras import client
from topology.clients.tls import Tls
from topology.secrets import Secret
from topology.text import printable

QUIT_S: Final = 2.0  # seconds that the end of a connection may take
SAID_MAX: Final = 200  # characters of an answer that a sentence repeats
PORTS: Final = {"starttls": 587, "tls": 465, None: 25}
LEFT_MAX: Final = 1_000  # mails of which some addresses are left for later
AUTH_LATER: Final = 454  # not now, of an answer to a password

MakesMail: TypeAlias = Callable[[Sequence[HeldOutput], str], EmailMessage]

log = logging.getLogger("kedge.bolts")


@dataclass(frozen=True)
class SmtpAccess:
    """The way to a server. `tls`: a connection that is encrypted at once, after STARTTLS, or never."""

    host: str
    port: int
    user: str | None
    password: Secret
    tls: Literal["starttls", "tls"] | None
    certificates: Tls | None
    timeout_s: float

    @property
    def where(self) -> str:
        return f"smtp://{self.host}:{self.port}"


@dataclass(frozen=True)
class LeftAddresses:
    """The addresses that do not have a mail yet, and whether another has."""

    addresses: tuple[str, ...]
    accepted: bool = False


class SmtpReceiver:
    """A `Receiver` of mails, each by a connection of its own. `mail` makes the mail of some alerts, under a key.

    If a server takes a mail for some addresses and for others not now, it is sent again to those only. If it
    never takes it for any address, the mail is refused. If it has taken it for some, refused addresses are logged.
    """

    def __init__(
        self,
        access: SmtpAccess,
        to: Sequence[str],
        sender: str,
        mail: Callable[[Sequence[HeldOutput], str], EmailMessage],
    ) -> None:
        self._library = client("aiosmtplib", package="aiosmtplib", extra="email", needed_by="Email")
        self._access, self._to, self._sender, self._mail = access, tuple(dict.fromkeys(to)), sender, mail
        self._context = access.certificates.for_client() if access.certificates is not None else None
        self._left: OrderedDict[str, LeftAddresses] = OrderedDict()  # by the key of a mail
        self.where = access.where

    async def open(self) -> None:
        """See `Receiver.open`. Connects once, so a wrong password or host is found at the start."""
        library = self._library
        try:
            async with self._connected():
                pass
        except library.SMTPAuthenticationError as error:
            if error.code == AUTH_LATER:
                raise self._away(error) from None
            text = f"Email: {self.where} refuses this user or password: {_said(error)}"
            raise refused(text) from None
        except (library.SMTPException, OSError, TimeoutError) as error:
            if type(error) in (library.SMTPException, library.SMTPNotSupported):  # it offers no TLS, or no passwords
                raise refused(f"Email: {self.where} can't be used as tls= and user= say: {_said(error)}") from None
            if isinstance(error.__cause__ or error, ssl.SSLCertVerificationError):
                raise refused(f"Email: TLS with {self.where} fails: {_said(error)}") from None
            raise self._away(error) from None

    async def deliver(self, outputs: Sequence[HeldOutput], key: str) -> None:
        """See `Receiver.deliver`."""
        library = self._library
        left = self._left.get(key, LeftAddresses(self._to))
        mail = self._mail(outputs, key).as_bytes(policy=SMTP)
        try:
            async with self._connected() as connection:
                failed, _ = await connection.sendmail(self._sender, left.addresses, mail)
        except library.SMTPRecipientsRefused as error:
            failed = {each.recipient: (each.code, each.message) for each in error.recipients}
        except (library.SMTPSenderRefused, library.SMTPDataError) as error:
            if error.code < 500:
                raise self._away(error) from None
            if not left.accepted:
                self._left.pop(key, None)
                raise DeliveryRefused(f"{self.where} refuses it: {_said(error)}") from None
            failed = dict.fromkeys(left.addresses, (error.code, error.message))
        except (library.SMTPException, OSError, TimeoutError) as error:
            raise self._away(error) from None
        self._judge(key, left, failed)

    def _judge(self, key: str, left: LeftAddresses, failed: dict[str, tuple[int, str]]) -> None:
        """Raise the error for the addresses that the server has not taken the mail for."""
        later = tuple(address for address, (code, _) in failed.items() if code < 500)
        never = len(failed) - len(later)
        accepted = left.accepted or len(failed) < len(left.addresses)
        said = "; ".join(printable(f"{address}: {code} {text}")[:SAID_MAX] for address, (code, text) in failed.items())
        self._left.pop(key, None)
        if not later and not accepted:
            raise DeliveryRefused(f"{self.where} refuses all addresses: {said}")
        if never:
            log.warning(
                "Email: %s does not take a mail for %d of %d addresses: %s", self.where, never, len(self._to), said
            )
        if later:
            self._left[key] = LeftAddresses(later, accepted)
            if len(self._left) > LEFT_MAX:
                self._left.popitem(last=False)
            raise ServerAway(f"{self.where} does not take it now: {said}")

    async def close(self) -> None:
        """See `Receiver.close`. Nothing is open between two mails."""
        self._left.clear()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        """Yield a connection, encrypted and authenticated. Raises what aiosmtplib does, and TimeoutError after
        `timeout_s` seconds in all."""
        access = self._access
        connection = self._library.SMTP(
            hostname=access.host,
            port=access.port,
            username=access.user,
            password=access.password.reveal() if access.user is not None else None,
            local_hostname=socket.gethostname() or "localhost",
            timeout=access.timeout_s,
            use_tls=access.tls == "tls",
            start_tls=access.tls == "starttls",
            tls_context=self._context,
        )
        try:
            async with asyncio.timeout(access.timeout_s):
                await connection.connect()
                yield connection
            with contextlib.suppress(self._library.SMTPException, OSError, TimeoutError):  # the mail is taken
                await connection.quit(timeout=QUIT_S)
        finally:
            connection.close()

    def _away(self, error: BaseException) -> ServerAway:
        return ServerAway(f"{self.where} can't be used: {_said(error)}")


def _said(error: BaseException) -> str:
    """Return what a server or the system says, in one line. Never has a password: aiosmtplib repeats answers only."""
    number = getattr(error, "code", None)
    code = f"{number} " if isinstance(number, int) else ""
    text = getattr(error, "message", None) or getattr(error, "strerror", None) or str(error) or type(error).__name__
    return printable(code + " ".join(str(text).split()))[:SAID_MAX]
