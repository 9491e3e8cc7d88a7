"""The errors of sources and sinks on servers. Knows no server."""

from topology.codes.connectors import INVALID_CONNECTOR, SERVER_AWAY, SERVER_REFUSED
from topology.errors import ConfigurationError, NotYet


class ServerAway(Exception):
    """The error for a server that cannot be used now, but may be later: it is asked again. The text is the reason, for
    people, without secrets."""


def refused(text: str) -> ConfigurationError:
    """Return the error for a server that has answered, and refuses. `text` begins with the component's class."""
    return ConfigurationError(text, code=SERVER_REFUSED)


def invalid(text: str) -> ConfigurationError:
    """Return the error for an argument outside its limits. `text` begins with the component's class."""
    return ConfigurationError(text, code=INVALID_CONNECTOR)


def not_yet(text: str) -> NotYet:
    """Return the error for a server that does not answer at the start. `text` begins with the component's class."""
    return NotYet(text, code=SERVER_AWAY)
