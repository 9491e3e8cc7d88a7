"""Addresses of servers, as people may see them. Pure."""

import re
from typing import Final

from topology.secrets import Secret
from topology.text import printable

HIDDEN: Final = "…"
# How an error goes on that begins with the name of the argument.
LOOSE_AT: Final = "has an @ after the host: in a password write %2F for /, %3F for ? and %23 for #; elsewhere %40 for @"
_NEXT: Final = re.compile(r",(?=\s*[A-Za-z][A-Za-z0-9+.-]*://)")  # a comma within a password has no URL after it
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_AUTHORITY: Final = re.compile(r"[^/?#]*")
_QUERY: Final = re.compile(r"\?[\w.~%-]+=")
_HOST: Final = re.compile(r"(?:\[[^\]]*\]|[^:]*)(?::\d*)?")


def without_secrets(address: "str | Secret") -> str:
    """Return a URL without the user, the password, the query and the fragment: `nats://broker:4222/path`. Several
    addresses have commas between them.

    A password may have a character that should be escaped, such as `/` or `#`. So everything before the last `@` is
    left out, and what stands in the place of a port but is no number.
    """
    text = address.reveal() if isinstance(address, Secret) else address
    return printable(", ".join(_shown(part.strip()) for part in _NEXT.split(text)))


def has_loose_at(url: str) -> bool:
    """Return True if an `@` comes after the host. Then most likely a password has a character that is not escaped, and
    the host is a part of the password."""
    rest = url.partition("://")[2]
    authority = _AUTHORITY.match(rest)
    return "@" in rest[authority.end() if authority else 0 :]


def _shown(text: str) -> str:
    """Return one address without its secrets."""
    found = _SCHEME.match(text)
    scheme, rest = (f"{found[1].lower()}://", text[found.end() :]) if found else ("", text)
    before, _, after = rest.rpartition("@")
    if _QUERY.search(before):  # the @ may be a part of the query, and secrets come after it
        return f"{scheme}{HIDDEN}"
    hosts, slash, path = re.split("[?#]", after)[0].partition("/")
    return f"{scheme}{','.join(map(_host, hosts.split(',')))}{slash}{path}"


def _host(text: str) -> str:
    return text if _HOST.fullmatch(text) else f"{text.partition(':')[0]}:{HIDDEN}"
