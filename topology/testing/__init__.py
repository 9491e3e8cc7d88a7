"""The test kit: run a bolt or a topology on virtual time, with the real runtime, and see all that it did.

`run_bolt` is a bolt's unit test in one call. `run_topology` takes a topology made of scripted spouts and captured
streams; `check_replays` repeats every message and compares. Every record is encoded between tasks, and checked.
"""

from topology.testing.captured import Captured
from topology.testing.running import (
    BoltRun,
    Divergence,
    FailedInput,
    check_replays,
    run_bolt,
    run_topology,
)
from topology.testing.scripted import Fail, Pause, ScriptedSpout, Stop, Wait
from topology.testing.virtual import Deadlock, Unhandled, VirtualTimeLimit, run_virtual, spend
from topology.testing.watched import Dead, Watch

__all__ = [
    "BoltRun",
    "Captured",
    "Dead",
    "Deadlock",
    "Divergence",
    "Fail",
    "FailedInput",
    "Pause",
    "ScriptedSpout",
    "Stop",
    "Unhandled",
    "VirtualTimeLimit",
    "Wait",
    "Watch",
    "check_replays",
    "run_bolt",
    "run_topology",
    "run_virtual",
    "spend",
]
