"""Options of `kedge run` for Spark. Imported with each run of whatever topology, so it imports next to nothing."""

from typing import Final, Never

from topology.codes.startup import INVALID_TRIGGER
from topology.companions import Option
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
    return ConfigurationError(text, code=INVALID_TRIGGER)


MASTER: Final = "--spark"
SETTING: Final = "--spark-conf"
TRIGGER: Final = "--trigger"
OPTIONS: Final = (
    Option(
        MASTER,
        "MASTER",
        "Where Spark runs: local[CORES] for on this machine, which is local[2] unless the topology says otherwise; "
        "spark://HOST:PORT for a cluster; sc://HOST:PORT for Spark Connect; or another master of Spark's.",
    ),
    Option(SETTING, "KEY=VALUE", "A setting of Spark's, before those of the topology; may be repeated.", pairs=True),
    Option(
        TRIGGER,
        "WHEN",
        "With --engine spark, when a micro-batch begins: default, which is as soon as the last one has ended; each "
        "100ms, 1s and so on; or available-now, once the sources have ended.",
    ),
)
