"""The modes: how each is started, its settings, the victim of a kill, its guarantee. Starts nothing."""

import importlib.util
from collections.abc import Sequence
from typing import Final

from bridge.compare.job import ComparisonRow
from bridge.compare.jvm import modes as jvm
from bridge.compare.way import A_WORKER, ITS_DRIVER, ITS_PROCESS, ModeRun
from bridge.queries.options import AVAILABLE_NOW, DEFAULT, TRIGGER, trigger_of
from bridge.spark import java
from bridge.spark.master import SETTINGS, STREAMING
from topology.cli.output.numbers import counted
from topology.codes.comparison import UNKNOWN_COMPARISON_MODE
from topology.errors import ConfigurationError, did_you_mean
from topology.plan import WORKERS_MAX

RECORD: Final = "record"
EMBEDDED: Final = "embedded"
SPARK: Final = "spark:"
TRIGGERS: Final = (DEFAULT, "100ms", "1s")  # the named intervals of `--trigger`; any other interval is valid too
NAMED: Final = (RECORD, EMBEDDED, *(f"{SPARK}{trigger}" for trigger in TRIGGERS), *jvm.MODES)
WORKERS: Final = 2  # number of workers of RECORD; for `record:N` it is N

_DEFAULTS: Final = {  # Spark's own defaults for settings that we change; settings that the bridge needs stay
    "spark.sql.streaming.checkpointFileManagerClass": f"{STREAMING}checkpointing.FileContextBasedCheckpointFileManager",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
    "spark.sql.streaming.pollingDelay": "10ms",
}
_STAY: Final = (  # settings that keyed state needs; and few shuffles, as 200 are of no use on one machine
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.shuffle.partitions",
)
_TOLD: Final = (*_DEFAULTS, *_STAY)  # settings that a row of Spark's shows


def default_modes() -> tuple[str, ...]:
    """Return all modes that can run here: Spark's only with pyspark, the JVM's only with a javac too."""
    spark = NAMED[2 : 2 + len(TRIGGERS)] if _has_spark() else ()
    return (RECORD, EMBEDDED, *spark, *(jvm.MODES[:2] if spark and not jvm.why_not() else ()))


def rows_of(modes: Sequence[str]) -> list[ComparisonRow]:
    """Return the rows of these modes, in their order, each once. Raises ConfigurationError for an unknown mode."""
    return [way.row for way in ways_of(modes, "")]


def ways_of(modes: Sequence[str], guarantee: str, key: str = "") -> list[ModeRun]:
    """Return the rows as `rows_of` does, with the way to run each.

    `guarantee`: the topology's guarantee on Kedge itself. `key` as in `jvm.modes.rows`.
    """
    ways: dict[str, ModeRun] = {}
    for mode in modes:
        for way in _ways(mode.strip(), guarantee, key):
            ways.setdefault(way.row.title, way)
    return [*ways.values()]


def why_not(way: ModeRun) -> str:
    """Return the reason why a row cannot run here; empty if no reason is known before it starts."""
    if way.is_jvm:
        return jvm.why_not()
    if way.on_spark and not _has_spark():
        return "there is no pyspark where this kedge runs: pip install 'kedge-streams[spark]'"
    return java.missing() if way.on_spark else ""


def _ways(mode: str, guarantee: str, key: str) -> list[ModeRun]:
    if (workers := _workers(mode)) is not None:
        row = ComparisonRow(mode, f"Kedge, {counted(workers, 'worker')}", guarantee, {"--workers": str(workers)})
        return [ModeRun(row, ("--workers", str(workers)), victim=A_WORKER)]
    if mode == EMBEDDED:
        return [ModeRun(ComparisonRow(mode, "Kedge, one process", guarantee), victim=ITS_PROCESS)]
    if mode in jvm.MODES:
        return [ModeRun(row, is_jvm=True) for row in jvm.rows(mode, key)]
    trigger = mode.removeprefix(SPARK)
    try:
        interval = trigger_of(trigger, TRIGGER) if mode.startswith(SPARK) else AVAILABLE_NOW
    except ConfigurationError:
        interval = AVAILABLE_NOW
    if interval == AVAILABLE_NOW:  # it ends, and does not follow a source
        near = did_you_mean(mode, NAMED)
        known = ", ".join((RECORD, f"{RECORD}:N", *NAMED[1:]))
        raise ConfigurationError(
            f"there is no mode {mode!r:.80}{near}; there are {known}", code=UNKNOWN_COMPARISON_MODE
        )
    interval_s = float(interval.split()[0]) / 1000 if interval != DEFAULT else 0.0
    return _micro_batch(mode, trigger, interval_s, guarantee)


def _workers(mode: str) -> int | None:
    """Return a Kedge mode's number of workers; None for another mode, or for a number that `kedge run` does not
    take."""
    name, colon, given = mode.partition(":")
    if name != RECORD or not colon:
        return WORKERS if mode == RECORD else None
    found = int(given) if given.isdecimal() and len(given) <= len(str(WORKERS_MAX)) else 0
    return found if 1 <= found <= WORKERS_MAX else None


def _micro_batch(mode: str, trigger: str, interval_s: float, guarantee: str) -> list[ModeRun]:
    """Return two rows: with the settings of `--engine spark`, and with Spark's own."""
    title = "Spark micro-batch, " + ("as soon as it can" if trigger == DEFAULT else f"each {trigger}")
    options = ("--engine", "spark", TRIGGER, trigger)
    confs = [word for name, value in _DEFAULTS.items() for word in ("--spark-conf", f"{name}={value}")]
    ours = {name: SETTINGS[name] for name in _TOLD}
    theirs = {**ours, **_DEFAULTS}
    rows = [
        ComparisonRow(mode, f"{title}, tuned", guarantee, {TRIGGER: trigger, **ours}),
        ComparisonRow(mode, f"{title}, Spark's defaults", guarantee, {TRIGGER: trigger, **theirs}),
    ]
    return [
        ModeRun(rows[0], options, {}, ITS_DRIVER, interval_s, on_spark=True),
        ModeRun(rows[1], (*options, *confs), {"JDK_JAVA_OPTIONS": ""}, ITS_DRIVER, interval_s, on_spark=True),
    ]


def _has_spark() -> bool:
    return importlib.util.find_spec("pyspark") is not None
