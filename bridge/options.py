"""Options of `kedge run` for Spark. Imported with each run of whatever topology, so it imports next to nothing."""

from typing import Final

from topology.companions import Option

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
