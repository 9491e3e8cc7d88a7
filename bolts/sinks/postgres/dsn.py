"""A connection string, read for the client and for people: the parameters, the place, and nothing secret (S12).

Knows libpq's syntax; connects to nothing. Error texts of libpq quote what they cannot read, and a password with an `@`
in it ends up in the host's name. So every error text goes through this module.
"""

from typing import Any, Final
from urllib.parse import quote, quote_plus

from psycopg import Error, ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from topology.codes.settings import INVALID_CONNECTION_STRING
from topology.errors import ConfigurationError
from topology.secrets import SHOWN, Secret, resolved
from topology.text import printable

TEXT_MAX: Final = 300  # characters of a server's message that a sentence repeats

# Used unless the user sets them. A peer that has vanished is noticed: unanswered data after 20 s, an idle connection
# after 25 s.
_DEFAULTS: Final[dict[str, str]] = {
    "connect_timeout": "5",  # for each host; not more, as `close` waits for a connection attempt under way
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "kedge",
}
_HIDDEN: Final = frozenset(  # secret parameters: those that libpq shows as asterisks, and keys
    option.keyword.decode()
    for option in Conninfo.get_defaults()
    if b"*" in option.dispchar or option.keyword.startswith(b"scram_")
)
_URIS: Final = ("postgresql://", "postgres://")


class Dsn:
    """A connection string that was read. Raises ConfigurationError for an invalid one, without quoting any of it.

    parameters  as libpq takes them, with the password.
    where       "database test at 127.0.0.1:5432", for people.
    """

    def __init__(self, given: "str | Secret") -> None:
        text = resolved(given.reveal() if isinstance(given, Secret) else given, "PostgresSink: its dsn").reveal()
        try:
            found = {name: str(value) for name, value in conninfo_to_dict(text).items() if value is not None}
        except ProgrammingError:
            raise _unreadable("it is neither postgresql://USER@HOST:PORT/DATABASE nor host=… dbname=…") from None
        uri = text.lstrip().startswith(_URIS)
        if uri and ("@" in found.get("host", "") + found.get("dbname", "") or _no_ports(found.get("port", ""))):
            raise _unreadable("in a URI, @ : / ? # and % of a password are written %40 %3A %2F %3F %23 and %25")
        shown = {value for name, value in found.items() if name not in _HIDDEN}  # not secret
        secret = {value for name, value in found.items() if name in _HIDDEN} - shown
        self._secrets = _shapes([*secret, *([text] if secret else [])])
        self.parameters: dict[str, Any] = {**_DEFAULTS, **found}
        host = found.get("host") or found.get("hostaddr") or found.get("service") or "its default host"
        port = f":{found['port']}" if "port" in found else ""
        database = f"database {found['dbname']}" if "dbname" in found else "the default database"
        self.where = printable(f"{database} at {host}{port}")

    def masked(self, text: str) -> str:
        """Return the text without the password and the whole string, in any form in which they may appear."""
        for secret in self._secrets:
            text = text.replace(secret, SHOWN)
        return text

    def said(self, error: BaseException) -> str:
        """Return an error's text for people: one line, nothing secret, and not too long."""
        primary = error.diag.message_primary if isinstance(error, Error) else None  # without details and hints
        words = " ".join(self.masked(primary or str(error)).split()) or type(error).__name__
        return printable(words[:TEXT_MAX])

    def __repr__(self) -> str:
        return f"Dsn({self.where})"


def _shapes(secrets: list[str]) -> list[str]:
    """Return each secret as it is, quoted for a URI, and with the escapes of a key=value string; longest first."""
    shapes = {
        shape
        for secret in secrets
        if secret.strip()
        for shape in (secret, quote(secret), quote(secret, safe=""), quote_plus(secret), _escaped(secret))
    }
    return sorted(shapes, key=len, reverse=True)


def _escaped(secret: str) -> str:
    return secret.replace("\\", "\\\\").replace("'", "\\'")


def _no_ports(ports: str) -> bool:
    return not all(port.isdecimal() for port in ports.split(",") if port)


def _unreadable(why: str) -> ConfigurationError:
    return ConfigurationError(f"PostgresSink: its dsn can't be read: {why}", code=INVALID_CONNECTION_STRING)
