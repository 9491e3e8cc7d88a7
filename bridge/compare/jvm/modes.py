"""Modes of Spark's that take no topology: continuous and real-time, with a source, a filter and a sink in Java.

They accept no operators in Python, so they do not run the user's topology: they send the same messages, as text,
through a filter. Real-time mode also counts by a key, if the topology counts by a key that SQL can express. A further
row has real-time mode with a filter in Python, which Spark has to be forced to accept. Imports no pyspark; `round` runs
a round.
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
COUNTING: Final = "spark:real-time"  # the only one of these modes that has state in SQL
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
# Continuous: a checkpoint each second, as in Spark's guide. Real-time: one at the end of each batch, whose length is
# Spark's default.
TRIGGERS: Final = {
    "spark:continuous": {"continuous": "1 second"},
    "spark:real-time": {"realTime": "5 minutes"},
    "spark:real-time-python": {"realTime": "5 minutes"},
}
# Real-time mode refuses operators in Python unless its check is off. These operators gather rows, unless each row is
# passed on alone.
FORCED: Final = {
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    "spark.python.udf.pipelined.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.buffer.size": "16",
    "spark.sql.execution.python.udf.buffer.size": "16",
}
TOLD: Final = ("spark.sql.streaming.checkpointFileManagerClass",)  # the settings of Kedge for Spark that a row shows
MASTER: Final = "local[2]"
BEHIND: Final = 16  # messages that may have to follow one before its result from Python arrives; usually two or three

COUNTS: Final = {
    "spark.sql.shuffle.partitions": "1",  # one task reads and one counts: MASTER has no room for more
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",  # how long a row may wait for others on its way there
}

# The messages that pass, as a pattern of `re.match`, by the name of the topology; of other topologies all pass. This
# pattern matches the beginning of lines that ssh_alerts uses.
FAILED: Final = (
    r"(?P<time>[A-Z].{14}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}(?:Z|[-+][0-9:]{5})?) "
    r"[^ ]+ sshd(?:-session|-auth)?\[[0-9]+\]: "
    r"(?:message repeated (?P<times>[1-9][0-9]{0,8}) times: \[ )?"
    r"Failed (?:password|keyboard-interactive/pam) for (?:invalid user )?"
    r"(?P<user>.*) from (?P<address>[^ ]+) port [0-9]"
)
PATTERNS: Final[Mapping[str, tuple[str, str]]] = {"ssh-alerts": (FAILED, "lines that are a failed login, by a regex")}
KEYS: Final[Mapping[str, str]] = {"ssh-alerts": "address"}  # the key that a topology counts by: a group of its pattern
ALL: Final = ("", "none: all messages pass")


def work_of(topology: str, counted: tuple[str, str] | tuple[()] = ()) -> tuple[str, str, str]:
    """Return for a topology the regex of the messages that pass, its description, and the group that it counts by.

    The group is "" if it counts by none. `counted` as in `ComparisonJob`.
    """
    if counted:
        return counted[0], "messages that a regex of samples.py takes", counted[1]
    pattern, words = PATTERNS.get(topology, ALL)
    return pattern, words, KEYS.get(topology, "")


def rows(mode: str, key: str = "") -> list[ComparisonRow]:
    """Return the rows of one of MODES. `key`: what the topology counts by, if SQL can express it."""
    (name, every), *_ = TRIGGERS[mode].items()
    settings = {"trigger": f"{name} {every}"} | {setting: SETTINGS[setting] for setting in TOLD} | _forced(mode)
    title = TITLES[mode]
    if key and mode == COUNTING:
        title = f"Spark real-time, JVM only (a count by {key} in SQL, and no more of this topology)"
        settings |= COUNTS
    return [ComparisonRow(mode, title, GUARANTEES[mode], settings)]


def why_not() -> str:
    """Return why these modes cannot run here, and what to install; empty if they can."""
    return jvm_jar.why_not()


def measure(
    row: ComparisonRow, job: ComparisonJob, script: Script, folder: Path, tell: Tell, mark: str, interrupts: Interrupts
) -> ModeResult:
    """Run one round of a row in an empty folder. Blocks until all results are there, or no more come.

    `tell` receives the phase, its seconds so far, and its seconds in all. However the round ends, its processes are
    ended first. KeyboardInterrupt in the measured part becomes the result's problem, "interrupted"; before that it is
    raised.

    Raises RoundProblem if the round cannot run or did not finish, with everything measured by then. Raises OSError if
    the round's own files cannot be written.
    """
    pattern, passing, key = work_of(script.topology, job.counted)
    key = key if row.mode == COUNTING else ""
    with interrupts.raising():
        jar = jvm_jar.jar(folder)
    request: dict[str, Any] = {
        "master": job.spark_master if job.spark_master.startswith("local") else MASTER,
        "jar": str(jar),
        "settings": _forced(row.mode) | (COUNTS if key else {}) | looked_up(pairs(job.spark_conf, SETTING), SETTING),
        "trigger": TRIGGERS[row.mode],
        "output": "append" if row.mode == "spark:continuous" else "update",
        "pattern": pattern,
        "key": key,
        "python": row.mode == "spark:real-time-python",
    }
    behind = BEHIND if request["python"] else 0
    result = Round(JvmTask(row, script, folder, pattern, request, job.kill, behind), tell, mark, interrupts).measured()
    result.settings["filter"] = passing
    if key:
        result.settings["SQL"] = f"select last(number), count(*) from those messages group by {key}"
    return result


def _forced(mode: str) -> dict[str, str]:
    return dict(FORCED) if mode == "spark:real-time-python" else {}
