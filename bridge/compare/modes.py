"""Which modes there are: how each is started, its settings, whom a kill hits, what it guarantees. Starts nothing."""

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
TRIGGERS: Final = (DEFAULT, "100ms", "1s")  # of `--trigger`, that are named; any other interval will do
NAMED: Final = (RECORD, EMBEDDED, *(f"{SPARK}{one}" for one in TRIGGERS), *jvm.MODES)
WORKERS: Final = 2  # of RECORD alone; of `record:N` it is N

_DEFAULTS: Final = {  # what Spark has where we have something else; what the bridge can't do without stays
    "spark.sql.streaming.checkpointFileManagerClass": f"{STREAMING}checkpointing.FileContextBasedCheckpointFileManager",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
    "spark.sql.streaming.pollingDelay": "10ms",
}
_STAY: Final = (  # what state per key needs; and few shuffles, as 200 on one machine are no use to anybody
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.shuffle.partitions",
)
_TOLD: Final = (*_DEFAULTS, *_STAY)  # settings that a row of Spark's names


def default_modes() -> tuple[str, ...]:
    """All that can run here: Spark's only where pyspark can be imported, the JVM's only where there is a javac too."""
    spark = NAMED[2 : 2 + len(TRIGGERS)] if _has_spark() else ()
    return (RECORD, EMBEDDED, *spark, *(jvm.MODES[:2] if spark and not jvm.why_not() else ()))


def rows_of(modes: Sequence[str]) -> list[ComparisonRow]:
    """The rows of these modes, in their order, each once. Raises ConfigurationError for one that there is none of."""
    return [way.row for way in ways_of(modes, "")]


def ways_of(modes: Sequence[str], guarantee: str, key: str = "") -> list[ModeRun]:
    """As `rows_of`, with how each is run. `guarantee`: what the topology gets from Kedge itself; `key` as `jvm.rows`
    has it."""
    ways: dict[str, ModeRun] = {}
    for mode in modes:
        for way in _ways(mode.strip(), guarantee, key):
            ways.setdefault(way.row.title, way)
    return [*ways.values()]


def why_not(way: ModeRun) -> str:
    """Why it can't run here, in a sentence; empty where it can, as far as that is known beforehand."""
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
    if interval == AVAILABLE_NOW:  # it ends, and does not keep up with a source
        near = did_you_mean(mode, NAMED)
        known = ", ".join((RECORD, f"{RECORD}:N", *NAMED[1:]))
        raise ConfigurationError(
            f"there is no mode {mode!r:.80}{near}; there are {known}", code=UNKNOWN_COMPARISON_MODE
        )
    interval_s = float(interval.split()[0]) / 1000 if interval != DEFAULT else 0.0
    return _micro_batch(mode, trigger, interval_s, guarantee)


def _workers(mode: str) -> int | None:
    """How many a mode of Kedge's has; None for what is no such mode, or has a number that `kedge run` does not take."""
    name, colon, given = mode.partition(":")
    if name != RECORD or not colon:
        return WORKERS if mode == RECORD else None
    found = int(given) if given.isdecimal() and len(given) <= len(str(WORKERS_MAX)) else 0
    return found if 1 <= found <= WORKERS_MAX else None


def _micro_batch(mode: str, trigger: str, interval_s: float, guarantee: str) -> list[ModeRun]:
    """Two rows: with the settings that `--engine spark` has by itself, and with Spark's own."""
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
