"""Modes of Spark's that take no topology: continuous and real-time, with a source, a filter and a sink in Java.

They accept no operators in Python, so what they run is not the user's topology: the same messages, as text, through a
filter; and in real time, where a topology counts by a key that can be said in SQL, counted by that. Beside them
real-time mode with a filter in Python, which Spark has to be forced to take. Imports no pyspark; how a round goes is
`jvm_round`'s.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bridge.compare.job import ComparisonJob, ComparisonRow
from bridge.compare.jvm import jar as jvm_jar
from bridge.compare.jvm.round import JvmTask, Round
from bridge.compare.processes import Interrupts
from bridge.compare.results import ModeResult
from bridge.compare.workload.script import Script, Tell
from bridge.queries.options import SETTING
from bridge.spark.master import SETTINGS
from topology.loading.settings import looked_up, pairs

MODES: Final = ("spark:continuous", "spark:real-time", "spark:real-time-python")
COUNTING: Final = "spark:real-time"  # the one of them that has state in SQL
TITLES: Final = {
    "spark:continuous": "Spark continuous, JVM only (a filter, not this topology)",
    "spark:real-time": "Spark real-time, JVM only (a filter, not this topology)",
    "spark:real-time-python": "Spark real-time, a Python filter forced in (not this topology)",
}
GUARANTEES: Final = {
    "spark:continuous": "at least once",
    "spark:real-time": "at least once",
    "spark:real-time-python": "at least once; not supported by Spark",
}
# Continuous: a checkpoint each second, as in Spark's guide. Real-time: one at the end of each batch, which is as long
# as Spark has it by default.
TRIGGERS: Final = {
    "spark:continuous": {"continuous": "1 second"},
    "spark:real-time": {"realTime": "5 minutes"},
    "spark:real-time-python": {"realTime": "5 minutes"},
}
# Real-time mode refuses operators in Python unless told not to look; and these gather rows, unless each goes on alone.
FORCED: Final = {
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    "spark.python.udf.pipelined.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.buffer.size": "16",
    "spark.sql.execution.python.udf.buffer.size": "16",
}
TOLD: Final = ("spark.sql.streaming.checkpointFileManagerClass",)  # of Kedge's settings for Spark, what matters here
MASTER: Final = "local[2]"
BEHIND: Final = 16  # messages that may have to follow one before Python's result of it comes out; two or three do

COUNTS: Final = {
    "spark.sql.shuffle.partitions": "1",  # one task reads, and one counts: MASTER has room for no more
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",  # how long a row may wait for others on its way there
}

# Which messages pass, as `re.match` takes it, by the name of the topology; of others all do. This is how lines that
# ssh_alerts makes something of begin.
FAILED: Final = (
    r"(?P<time>[A-Z].{14}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}(?:Z|[-+][0-9:]{5})?) "
    r"[^ ]+ sshd(?:-session|-auth)?\[[0-9]+\]: "
    r"(?:message repeated (?P<times>[1-9][0-9]{0,8}) times: \[ )?"
    r"Failed (?:password|keyboard-interactive/pam) for (?:invalid user )?"
    r"(?P<user>.*) from (?P<address>[^ ]+) port [0-9]"
)
PATTERNS: Final[Mapping[str, tuple[str, str]]] = {"ssh-alerts": (FAILED, "lines that are a failed login, by a regex")}
KEYS: Final[Mapping[str, str]] = {"ssh-alerts": "address"}  # what it counts by: a group of its pattern
ALL: Final = ("", "none: all messages pass")


def work_of(topology: str, counted: tuple[str, str] | tuple[()] = ()) -> tuple[str, str, str]:
    """Of a topology: which messages pass, as a regex and in words, and by which group of that it counts, "" for none.
    `counted` as `ComparisonJob` has it."""
    if counted:
        return counted[0], "messages that a regex of samples.py takes", counted[1]
    return (*PATTERNS.get(topology, ALL), KEYS.get(topology, ""))


def rows(mode: str, key: str = "") -> list[ComparisonRow]:
    """The rows of one of MODES. `key`: what the topology counts by, where that can be said in SQL."""
    (name, every), *_ = TRIGGERS[mode].items()
    settings = {"trigger": f"{name} {every}"} | {one: SETTINGS[one] for one in TOLD} | _forced(mode)
    title = TITLES[mode]
    if key and mode == COUNTING:
        title = f"Spark real-time, JVM only (a count by {key} in SQL, and no more of this topology)"
        settings |= COUNTS
    return [ComparisonRow(mode, title, GUARANTEES[mode], settings)]


def why_not() -> str:
    """Why these modes can't run here, and what to install, in a sentence; empty where they can."""
    return jvm_jar.why_not()


def measure(
    row: ComparisonRow, job: ComparisonJob, script: Script, folder: Path, tell: Tell, mark: str, interrupts: Interrupts
) -> ModeResult:
    """One round of a row, in an empty folder: blocks until all results are there, or no more come. `tell` is given the
    phase, and how many seconds of how many. Whatever ends it, its processes are ended first. KeyboardInterrupt in the
    measured part is the result's problem, "interrupted"; before that it is raised.

    Raises Problem where it can't run, or has not come to its end; with what was measured by then. OSError where files
    of its own can't be written.
    """
    pattern, passing, key = work_of(script.topology, job.counted)
    key = key if row.mode == COUNTING else ""
    with interrupts.raising():
        jar = jvm_jar.jar(folder)
    told: dict[str, Any] = {
        "master": job.spark_master if job.spark_master.startswith("local") else MASTER,
        "jar": str(jar),
        "settings": _forced(row.mode) | (COUNTS if key else {}) | looked_up(pairs(job.spark_conf, SETTING), SETTING),
        "trigger": TRIGGERS[row.mode],
        "output": "append" if row.mode == "spark:continuous" else "update",
        "pattern": pattern,
        "key": key,
        "python": row.mode == "spark:real-time-python",
    }
    behind = BEHIND if told["python"] else 0
    result = Round(JvmTask(row, script, folder, pattern, told, job.kill, behind), tell, mark, interrupts).measured()
    result.settings["filter"] = passing
    if key:
        result.settings["SQL"] = f"select last(number), count(*) from those messages group by {key}"
    return result


def _forced(mode: str) -> dict[str, str]:
    return dict(FORCED) if mode == "spark:real-time-python" else {}
