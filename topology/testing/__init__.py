"""The test kit: run a bolt or a topology on virtual time, with the real runtime, and inspect all that it did.

`run_bolt` is a bolt's unit test in one call. `run_topology` runs a topology of scripted spouts and captured streams,
and can crash its workers. `check_replays` repeats every message and compares. Every record is encoded between tasks,
and checked. `simulate` puts a topology through crashes, bad links and failing disks, all from one seed. `run_processes`
runs a topology on real processes, and kills them. pytest has all of these as fixtures. Must not know what is tested.
"""

from topology.testing.captured import Captured
from topology.testing.fixtures import NewCaptured, RunBolt, RunProcesses, RunTopology, VirtualTime
from topology.testing.run_bolt import BoltRun, FailedInput, run_bolt
from topology.testing.run_processes import ProcessReport, run_processes
from topology.testing.run_topology import Divergence, check_replays, run_topology
from topology.testing.scripted import Fail, Pause, ScriptedSpout, Stop, Wait
from topology.testing.simulator.faults import Hazard
from topology.testing.simulator.simulate import SimReport, SimulationFailed, simulate
from topology.testing.virtual_time.crashing_run import Crash, CrashMissed
from topology.testing.virtual_time.loop import Deadlock, Unhandled, VirtualTimeLimit, run_virtual, spend
from topology.testing.virtual_time.process import crash_here
from topology.testing.virtual_time.worker import Dead, Death, Watch

__all__ = [
    "BoltRun",
    "Captured",
    "Crash",
    "CrashMissed",
    "Dead",
    "Deadlock",
    "Death",
    "Divergence",
    "Fail",
    "FailedInput",
    "Hazard",
    "NewCaptured",
    "Pause",
    "ProcessReport",
    "RunBolt",
    "RunProcesses",
    "RunTopology",
    "ScriptedSpout",
    "SimReport",
    "SimulationFailed",
    "Stop",
    "Unhandled",
    "VirtualTime",
    "VirtualTimeLimit",
    "Wait",
    "Watch",
    "check_replays",
    "crash_here",
    "run_bolt",
    "run_processes",
    "run_topology",
    "run_virtual",
    "simulate",
    "spend",
]
