"""A topology on real worker processes that are killed: `kedge run --workers` from within a test.

The supervisor runs in the test's own process, so it knows how far the run is and which process is which worker. The
workers are the usual ones. They always end: with the run, or, if this process dies, because their control sockets
close. Must not know pytest.
"""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from topology.plan import plan
from topology.runtime.asyncio_tools import asyncio_run
from topology.runtime.os_process.output import Output
from topology.runtime.run.report import Report
from topology.testing import history
from topology.testing.virtual_time.crashing_run import Crash, missed, worker_of

if TYPE_CHECKING:
    from topology.runtime.supervisor.supervisor import (
        SupervisedRun,  # sockets and processes, which most tests do without
    )

LOADER: Final = "topology.loading.load:again"  # builds the topology again, in a worker
LOOK_S: Final = 0.01  # seconds between two looks for a kill that is due
OUTPUT_LINES_MAX: Final = 10_000  # lines of workers' output that are kept


@dataclass(frozen=True)
class ProcessReport(Report):
    """A Report, and what a user would have seen.

    killed  The ids of the processes that were killed, in order.
    told    What the supervisor has logged about deaths and returns, one line each.
    output  The lines that workers printed to stdout and stderr; if there are more than 10,000, the last ones.

        report = run_processes("words.py", crashes=[Crash(1, acked=100)])
        assert report.restarts == len(report.killed) == 1, report.told
    """

    killed: Sequence[int] = ()
    told: Sequence[str] = ()
    output: Sequence[str] = ()


def run_processes(
    target: str | Path,
    *,
    set: Mapping[str, object] | None = None,
    config: Mapping[str, object] | None = None,
    workers: int = 2,
    crashes: Sequence[Crash] = (),
    when: Callable[[], bool] | None = None,
    state_dir: str | Path | None = None,
    within_s: float = 60.0,
) -> ProcessReport:
    """Run a topology as `kedge run TARGET --workers N` does, kill workers with SIGKILL, and return the report.

    `target` is a file or module, with an optional `:ATTRIBUTE`. `set` are parameters of the function that makes the
    topology, and `config` are fields of its Config.

    A crash kills its worker's process once `at_s` seconds have passed and `acked` messages are done. At least one
    message must be done, and one more than at the crash before. Workers report that about once per second. The first
    crash also waits for `when()`, which is called often, and may look at what a sink has stored; with `when`, no
    message has to be reported. Without a `state_dir`, state is in a temporary folder. Blocks until the run has ended,
    for at most `within_s`.

    Raises what keeps the run from beginning: ConfigurationError, DeclarationError, StartError. Raises ValueError for a
    crash of an unknown worker, and CrashMissed if the run was over before a kill. Raises TimeoutError, which names what
    was in flight.

        report = run_processes("words.py", set={"path": "words.txt"}, crashes=[Crash("count", acked=1_000)])
        assert report.exit_status == 0 and report.restarts == 1
    """
    from topology.loading import load, settings
    from topology.runtime.supervisor.supervisor import SupervisedRun

    found = load.target_of(str(target))
    parameters = _texts(set)
    messages: list[str] = []
    output: deque[str] = deque(maxlen=OUTPUT_LINES_MAX)
    folder_of_code = found.file.resolve().parent if found.file else Path.cwd()
    with _unloaded(folder_of_code), tempfile.TemporaryDirectory(prefix="kedge-") as folder:
        topology = load.load(found, parameters)
        topology.config = settings.configured(topology.config, _texts(config), {})
        run = SupervisedRun(
            topology,
            workers=workers,
            loader=LOADER,
            arguments=load.recipe(found, parameters, topology.config),
            state_dir=state_dir or Path(folder) / "state",
            report=messages.append,
            output=Output(lambda worker, stream, line: output.append(line)),
        )
        placement = plan(topology, workers).placement
        killing = _Killing(run, [(crash, worker_of(placement, crash.worker)) for crash in crashes], when)
        report = _noted(topology.name, messages, lambda: asyncio_run(_bounded(run, killing, within_s, messages)))
    if killing.left and report.ended != "failed":
        raise missed([crash for crash, _ in killing.left], report.snapshot.seconds)
    parts: dict[str, Any] = {field.name: getattr(report, field.name) for field in fields(Report)}
    return ProcessReport(**parts, killed=killing.killed, told=messages, output=[*output])


def _noted(name: str, messages: list[str], run: Callable[[], Report]) -> Report:
    """Run and record the result in the history."""
    entry = history.begin(name, None)
    entry.deaths = messages
    try:
        report = run()
    except BaseException as error:
        entry.ended = f"raised {type(error).__name__}"
        raise
    entry.ended = f"{report.ended} after {report.snapshot.seconds:.3g} s on worker processes"
    return report


class _Killing:
    """Kills workers when they are due. `left` are the crashes that are still to come."""

    def __init__(self, run: "SupervisedRun", left: list[tuple[Crash, int]], when: Callable[[], bool] | None) -> None:
        self.left = left
        self.killed: list[int] = []
        self._run = run
        self._when = when
        self._acked_then = 0  # messages done at the last kill: the run must make progress before the next one

    async def work(self) -> None:
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        while self.left:
            await asyncio.sleep(LOOK_S)
            crash, worker = self.left[0]
            pid = self._run.processes().get(worker)
            if pid is not None and loop.time() - started_at >= crash.at_s and self._far_enough(crash):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.killed.append(pid)
                    self.left.pop(0)
                    self._acked_then = self._acked()

    def _far_enough(self, crash: Crash) -> bool:
        """Return True if a crash is due, by what workers have reported, or for a first crash with `when` by `when`."""
        if self._when is not None and not self.killed:
            return self._acked() >= crash.acked and self._when()
        return self._acked() >= max(crash.acked, self._acked_then + 1)

    def _acked(self) -> int:
        return sum(snapshot.total("acked") for snapshot in self._run.by_worker().values())


async def _bounded(run: "SupervisedRun", killing: _Killing, within_s: float, messages: list[str]) -> Report:
    finishing = asyncio.ensure_future(run.finish())
    working = asyncio.ensure_future(killing.work())
    deadline = asyncio.ensure_future(asyncio.sleep(within_s))
    try:
        waited: set[asyncio.Future[Any]] = {finishing, working, deadline}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if working.done() and not working.exception():
            await asyncio.wait({finishing, deadline}, return_when=asyncio.FIRST_COMPLETED)
        in_flight, ended = run.in_flight(), finishing.done()
        if not ended:
            run.abort()
        report = await finishing
        if working.done():
            working.result()  # or raise what the caller's own `when` has raised
        if not ended:
            raise TimeoutError("\n".join([f"not done within {within_s:g} s; {in_flight}", *messages]))
        return report
    finally:
        for future in (working, deadline):
            future.cancel()
        await asyncio.gather(working, deadline, return_exceptions=True)


@contextlib.contextmanager
def _unloaded(folder: Path) -> Iterator[None]:
    """Undo the imports of a topology at the end: its folder on the import path, and the modules from there, also if
    the folder was on the path before, as pytest puts a test's own. Another test may have files of the same names."""
    path, modules = [*sys.path], {*sys.modules}
    try:
        yield
    finally:
        folders = {str(folder), *(added for added in sys.path if added not in path)}
        sys.path[:] = path
        for name in {*sys.modules} - modules:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if os.path.dirname(file) in folders:
                del sys.modules[name]


def _texts(values: Mapping[str, object] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (values or {}).items()}
