"""A connection string: what libpq takes of it, and what people may see of it. Connects to nothing.

Error texts of libpq may repeat parts of a connection string, so each passes through `said`. Must not know sessions.
"""

from typing import Any, Final

from topology.clients.errors import invalid
from topology.clients.extras import client
from topology.secrets import SHOWN, Secret, resolved
from topology.text import printable

SAID_MAX: Final = 300  # characters of a server's message that a sentence repeats

_FORMS: Final = "postgresql://USER@HOST:PORT/DATABASE or host=… port=… dbname=… user=…"
_SECRETS: Final = ("password", "sslpassword", "sslkey", "passfile")
# Unless the string says otherwise. A peer that has vanished is noticed within 25 seconds.
_UNLESS_SET: Final[dict[str, str]] = {
    "application_name": "kedge",
    "connect_timeout": "4",  # seconds for each address
    "keepalives_idle": "10",  # seconds
    "keepalives_interval": "5",  # seconds
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",  # milliseconds
}


class PostgresAddress:
    """A connection string that was read, of the component `needed_by`.

    parameters  As libpq takes them, with the password.
    where       "database test at 127.0.0.1:5432", for people.

    `given` may also be `env:NAME` or `file:PATH`. Raises ConfigurationError, without a part of the string, if it cannot
    be read, and if psycopg is missing.
    """

    def __init__(self, given: "str | Secret", needed_by: str) -> None:
        self.library: Any = client("psycopg", package="psycopg", extra="postgres", needed_by=needed_by)
        text = resolved(given.reveal() if isinstance(given, Secret) else given, f"{needed_by}: its dsn").reveal()
        try:
            read = self.library.conninfo.conninfo_to_dict(text)
        except self.library.ProgrammingError:
            raise invalid(f"{needed_by}: its dsn is no connection string; write {_FORMS}") from None
        found = {name: str(value) for name, value in read.items() if value is not None}
        place = "".join(found.get(name, "") for name in ("host", "port", "dbname"))
        ports = found.get("port", "0").replace(",", "")
        if "@" in place or not (ports.isdecimal() or not ports):  # libpq has taken a part of the password for it
            why = "write the marks @ : / ? # and % of its password as %40 %3A %2F %3F %23 and %25"
            raise invalid(f"{needed_by}: its dsn can't be read; {why}")
        hidden = {found[name] for name in _SECRETS if name in found}
        self._hidden = sorted({part for part in (*hidden, text if hidden else "") if part.strip()}, key=len)[::-1]
        self.parameters: dict[str, Any] = {**_UNLESS_SET, **found, "client_encoding": "UTF8"}
        host = found.get("host") or found.get("hostaddr") or found.get("service") or "the default host"
        port = found.get("port", "")
        database = f"database {found['dbname']}" if "dbname" in found else "the default database"
        self.where = printable(f"{database} at {host}{':' * bool(port)}{port}")

    def said(self, error: BaseException) -> str:
        """Return an error's text in one line, without secrets."""
        diag = getattr(error, "diag", None)
        text = getattr(diag, "message_primary", None) or str(error) or type(error).__name__
        for hidden in self._hidden:
            text = text.replace(hidden, SHOWN)
        return printable(" ".join(text.split())[:SAID_MAX])
