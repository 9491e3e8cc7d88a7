"""The options of `kedge run` for Spark. Each run of any topology imports this module, so it imports almost nothing."""

from typing import Final, Never

from topology.codes.startup import INVALID_TRIGGER
from topology.companions import Option
from topology.errors import ConfigurationError
from topology.plan import seconds

DEFAULT: Final = "default"  # a micro-batch starts as soon as the one before has ended
AVAILABLE_NOW: Final = "available-now"  # one micro-batch of everything, once all sources have ended


def trigger_of(given: str, called: str) -> str:
    """Return `default`, `available-now`, or an interval in Spark's syntax. Raises ConfigurationError."""
    if given in (DEFAULT, AVAILABLE_NOW):
        return given
    try:
        return f"{round(seconds(given) * 1000)} milliseconds"
    except ValueError:
        raise _wrong(
            f"{called} {given!r:.80} is not a trigger; use default, available-now, or an interval such as 100ms"
        ) from None


def refuse(called: str) -> Never:
    """Raises ConfigurationError: the topology's own queries have no trigger."""
    raise _wrong(f"{called} needs --engine spark; the topology's own queries always start a batch as soon as they can")


def _wrong(text: str) -> ConfigurationError:
    return ConfigurationError(text, code=INVALID_TRIGGER)


MASTER: Final = "--spark"
SETTING: Final = "--spark-conf"
TRIGGER: Final = "--trigger"
OPTIONS: Final = (
    Option(
        MASTER,
        "MASTER",
        "Spark's master: local[CORES] runs Spark on this machine (default local[2], unless the topology sets another); "
        "spark://HOST:PORT is a cluster; sc://HOST:PORT is Spark Connect; any other master of Spark works too.",
    ),
    Option(SETTING, "KEY=VALUE", "A Spark setting; overrides the topology's; may be repeated.", pairs=True),
    Option(
        TRIGGER,
        "WHEN",
        "With --engine spark, when a micro-batch starts: default, as soon as the one before has ended; an interval "
        "such as 100ms or 1s; or available-now, once all sources have ended.",
    ),
)
