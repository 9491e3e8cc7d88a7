"""Work from a file into a file, in one process: what keeping costs where nothing else is measured.

The work is that of `benchmarks.peers`: word count, and SSH alerts; with SECONDS there are as many lines as there, and
with another number of seconds a share of them. The time is that of the whole run, from the making of its worker to its
end: the start of Python is not in it. Must not know a benchmark's bars.
"""

import asyncio
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Final

from benchmarks.counts import Kept
from benchmarks.peers.inputs import WORKLOADS, write
from topology.runtime.asyncio_tools import settle_heap
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.run.report import Report
from topology.topology import Topology

SECONDS: Final = 3.0  # for which there are as many lines as the workload has


def lines_a_second(work: str, kept: Kept, seconds: float) -> dict[str, float]:
    """Return `value`: lines per second; `lines`, and `cores` that the process took. Raises RuntimeError if the run
    fails, or its output is empty."""
    workload = next(workload for workload in WORKLOADS if workload.name == work)
    count = max(1, round(workload.lines * seconds / SECONDS))
    module = import_module(f"benchmarks.peers.with_kedge.{work}")
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines"
        write(lines, workload.made(count), count)
        durability = "disk" if kept == "none" else kept
        topology = module.topology(str(lines), str(Path(folder) / "out"), durability)
        settle_heap()  # as `kedge run` does
        started_at, cpu = time.perf_counter(), time.process_time()
        report = asyncio.run(_run(topology, None if kept == "none" else Path(folder) / "state"))
        took, cpu = time.perf_counter() - started_at, time.process_time() - cpu
        written = (Path(folder) / "out").stat().st_size if not report.exit_status else 0
    if report.exit_status or not written:
        raise RuntimeError(f"the run has {report.ended}, with {written} bytes of output: {report.error}")
    return {"value": count / took, "lines": count, "cores": cpu / took}


async def _run(topology: Topology, state_dir: Path | None) -> Report:
    return await EmbeddedRun(topology, state_dir=state_dir).finish()
