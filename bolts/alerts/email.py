"""`Email`: alerts as mails. Knows mails; must not know how one is sent, nor when."""

import contextlib
from collections.abc import Sequence
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, getaddresses
from typing import Any, ClassVar, Final, Literal

from typing_extensions import Unpack

from bolts.alerts.channel import AlertChannel, Sending
from bolts.alerts.smtp import PORTS, SmtpAccess, SmtpReceiver
from bolts.alerts.templates import Text, cut, encodable, text_maker
from bolts.sinks.http.parcels import HeldOutput
from bolts.sinks.http.requests import Receiver
from topology.clients.errors import invalid
from topology.clients.tls import Tls
from topology.components import Task
from topology.secrets import Secret

SUBJECT_MAX: Final = 200  # characters
TEXT_MAX: Final = 100_000  # characters of one alert
LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class Email(AlertChannel):
    """Send each alert as a mail.

        email = Email("mail.example", sender="kedge@example.org", to="ops@example.org", subject="{host} is {state}",
                      text="{host} is {state} since {at}", user="kedge", password=password)

    A mail has its `Message-ID` from the alert's key. A mail that is sent again, after a crash or a lost answer, has the
    same one, by which people and programs can see that it is the same.

    host      The SMTP server.
    sender    An address: "ops@example.org" or "Operators <ops@example.org>".
    to        The address of a recipient, or several.
    subject   A template, such as "{host} is {state}", or a function of the record. Line breaks become spaces.
    text      Likewise: the text of the mail.
    port      587 with "starttls", 465 with "tls", else 25, unless given.
    user, password  For servers that ask for them. Without TLS they are only sent to this machine.
    tls       "starttls": encrypted before anything is sent. "tls": encrypted at once. None: not encrypted.
    certificates  None: those of the system.
    group_by, group_wait_s, per_minute, retries, timeout_s  As in `AlertChannel`.

    Raises ConfigurationError for an argument outside its limits.
    """

    durability: ClassVar[str] = "an answer of the mail server that says yes"

    def __init__(
        self,
        host: str,
        *,
        sender: str,
        to: str | Sequence[str],
        subject: Text,
        text: Text,
        port: int | None = None,
        user: str | None = None,
        password: str | Secret = "",
        tls: Literal["starttls", "tls"] | None = "starttls",
        certificates: Tls | None = None,
        **sending: Unpack[Sending],
    ) -> None:
        super().__init__(**sending)
        if tls not in PORTS:
            raise invalid(f'Email: tls is "starttls", "tls" or None, not {tls!r:.80}')
        port = PORTS[tls] if port is None else port
        if type(port) is not int or not 0 < port < 65_536:
            raise invalid(f"Email: port is a number from 1 to 65535, not {port!r:.80}")
        if not isinstance(host, str) or not host.isprintable() or not host.strip() or " " in host:
            raise invalid(f"Email: host is the name of a server, not {host!r:.80}")
        if user is not None and tls is None and host not in LOCAL:
            raise invalid('Email: user and password need an encrypted connection: tls is "starttls" or "tls"')
        self.sender = _address("sender", sender)
        if not isinstance(to, str) and (not isinstance(to, Sequence) or not to):
            raise invalid(f"Email: to is an address, or several, not {to!r:.80}")
        self.to = tuple(_address("to", each) for each in ((to,) if isinstance(to, str) else to))
        self._access = SmtpAccess(host, port, user, Secret(password), tls, certificates, self.timeout_s)
        self._subject, self._text = text_maker("Email", "subject", subject), text_maker("Email", "text", text)

    def _make_receiver(self, task: Task) -> Receiver:
        self._clock = task.clock
        return SmtpReceiver(self._access, [each.addr_spec for each in self.to], self.sender.addr_spec, self.mail)

    def _parts(self, output: HeldOutput) -> tuple[str, str]:
        subject = encodable(self._subject(output.record))
        subject = "".join(letter for letter in " ".join(subject.split()) if letter.isprintable())
        return cut(subject, SUBJECT_MAX), cut(encodable(self._text(output.record)), TEXT_MAX)

    def mail(self, outputs: Sequence[HeldOutput], key: str) -> EmailMessage:
        """Return the mail of these alerts, whose key this is."""
        subject, text = outputs[0].parts
        if len(outputs) > 1:
            subject = f"{subject} (and {len(outputs) - 1:,} more)"
            text = "\n\n".join(output.parts[1] for output in outputs)
        mail = EmailMessage(policy=SMTP)  # refuses a header with a line break
        mail["From"], mail["To"], mail["Subject"] = self.sender, self.to, subject
        mail["Date"] = format_datetime(self._clock.utc())
        mail["Message-ID"] = f"<{key}@{self.sender.domain}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(text, cte="quoted-printable")
        return mail


def _address(name: str, given: Any) -> Address:
    """Return an address, checked. Raises ConfigurationError for a text that is none."""
    if isinstance(given, str) and given.isprintable() and len(found := getaddresses([given])) == 1:
        shown, address = found[0]
        user, _, domain = address.rpartition("@")
        if user and domain.strip(".") == domain != "" and address.isascii() and " " not in address:
            with contextlib.suppress(ValueError, IndexError):
                return Address(shown, addr_spec=address)
    raise invalid(f"Email: {name} is an address such as ops@example.org, not {given!r:.80}")
