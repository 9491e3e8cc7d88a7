"""Addresses of servers, as people may see them. Pure."""

from urllib.parse import urlsplit

from topology.secrets import Secret
from topology.text import printable


def without_secrets(address: "str | Secret") -> str:
    """Return a URL without the user, the password, the query and the fragment: `nats://broker:4222/path`."""
    text = address.reveal() if isinstance(address, Secret) else address
    try:
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "an address that is no URL"
    if not parts.scheme or not host:
        return printable(text.rpartition("@")[2])
    return printable(f"{parts.scheme}://{host}{parts.path}")
