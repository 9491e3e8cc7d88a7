"""When Spark begins a micro-batch, as `--trigger` says it. Pure."""

from typing import Final, Never

from topology.codes.starting import K454
from topology.errors import ConfigurationError
from topology.plan import seconds

DEFAULT: Final = "default"  # as soon as the last one has ended
AVAILABLE_NOW: Final = "available-now"  # once all sources have ended, for all that there is


def trigger_of(given: str, called: str) -> str:
    """`default`, `available-now`, or an interval as Spark reads it. Raises ConfigurationError."""
    if given in (DEFAULT, AVAILABLE_NOW):
        return given
    try:
        return f"{round(seconds(given) * 1000)} milliseconds"
    except ValueError:
        raise _wrong(f"{called} {given!r:.80} is no trigger; default, available-now, 100ms and 1s are") from None


def refuse(called: str) -> Never:
    """Raises ConfigurationError: queries of the topology's own have no trigger."""
    raise _wrong(f"{called} is for runs with --engine spark; queries of the topology's own begin as soon as they can")


def _wrong(text: str) -> ConfigurationError:
    return ConfigurationError(text, code=K454)
