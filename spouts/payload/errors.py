"""The error for a record class that payloads cannot become."""

from topology.codes.connectors import INVALID_PAYLOAD_CLASS
from topology.errors import ConfigurationError


def wrong_payload_class(text: str) -> ConfigurationError:
    """Return the error, with its code. `text` is a sentence that begins with the source's class, or with `value`."""
    return ConfigurationError(text, code=INVALID_PAYLOAD_CLASS)
