"""`Tls`: the certificates of a connection, as paths. Makes the contexts of clients and of servers.

Must not know any protocol.
"""

import ssl
from dataclasses import dataclass

from topology.codes.connectors import INVALID_TLS
from topology.errors import ConfigurationError
from topology.secrets import Secret
from topology.text import printable


@dataclass(frozen=True, kw_only=True)
class Tls:
    """The certificates of an encrypted connection, and the authorities that are trusted. All files are PEM.

        NatsSource("tls://broker.example:4222", "logins", tls=Tls(ca="company.pem"))

    ca           The authorities that sign the other side's certificate. None: those of the system for a client. A
                 server with a `ca` asks its clients for a certificate, and refuses those without.
    certificate  Our own certificate, with those that lead to its authority. A server needs one.
    key          Its private key. None: the file of the certificate has it.
    password     Of an encrypted private key.
    check        False: a client takes any certificate. For tests only: a program between both could read
           everything.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    password: Secret | None = None
    check: bool = True

    def for_client(self) -> ssl.SSLContext:
        """Return the context of a client. Blocks while it reads the files. Raises ConfigurationError for files that
        cannot be read or do not fit."""
        context = self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        if self.ca is None:
            context.load_default_certs()
        if not self.check:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def for_server(self) -> ssl.SSLContext:
        """Return the context of a server, as `for_client` does."""
        if self.certificate is None:
            raise _invalid("a server needs its certificate")
        context = self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        if self.ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _loaded(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        path = self.ca
        try:
            if self.ca is not None:
                context.load_verify_locations(self.ca)
            if self.certificate is not None:
                path = self.certificate if self.key is None else f"{self.certificate} with {self.key}"
                password = self.password.reveal() if self.password is not None else ""  # "" never asks on a terminal
                context.load_cert_chain(self.certificate, self.key, password)
        except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
            why = getattr(error, "strerror", None) or str(error)
            raise _invalid(f"{printable(str(path))} can't be used: {why}") from None
        return context


def _invalid(text: str) -> ConfigurationError:
    return ConfigurationError(f"Tls: {text}", code=INVALID_TLS)
