"""The companions of a run: start them, read what they report, restart those that die, and end them with the run.

They belong to the process that the user started, for a run in that process and for one in workers. Must not know what a
companion is for, nor how its process is started.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from topology.codes.runtime import COMPANION_DIED, COMPANION_FAILED, COMPANION_LAUNCH_RAISED, TOO_MANY_COMPANION_DEATHS
from topology.companions import Companion
from topology.errors import KedgeError, WorkerError
from topology.runtime.companions.process import CompanionProcess
from topology.runtime.os_process.restarts import Restarts
from topology.runtime.pausable_wait import first_of
from topology.text import escaped
from topology.user_frames import described

STOP_S: Final = 10.0  # seconds that a companion may take to end on request
HURRY_S: Final = 2.0  # the same, after a request to end the run at once
LINE_MAX: Final = 2_000  # characters of a line that are shown
LAST_MAX: Final = 10  # lines of stderr that are shown after a death
FOLDER: Final = "companions"  # the folder for their stderr, in the run's folder for files
READY, STATUS, FAILED = "ready", "status", "failed"  # the first word of a line that a companion writes

logger = logging.getLogger("kedge")


class Companions:
    """All companions. Make it in a running loop, call `begin`, and always `close` at the end.

    `folder` makes the run's folder for files. `report` gets lines for people. `failed` and `over` are set if the run
    can't continue.
    """

    def __init__(
        self,
        companions: Sequence[Companion],
        folder: Callable[[], Path],
        *,
        max_restarts: int,
        report: Callable[[str], None],
    ) -> None:
        self.failed: KedgeError | None = None
        self.over = asyncio.Event()
        self._folder = folder
        self._report = report
        self._all = [_Watched(companion, self, max_restarts) for companion in companions]

    def begin(self) -> None:
        """Start all companions, and wait for none. Raises what `launch` raises for the user, and StartError without a
        folder for files."""
        for watched in self._all:
            watched.begin()
            if self.failed is not None:
                raise self.failed

    async def close(self, hurry: asyncio.Event, within_s: float = STOP_S) -> None:
        """Ask all companions to end, and return once all are reaped.

        A companion that has not ended within `within_s` is killed. After `hurry` is set, it has only HURRY_S left. If
        cancelled, `close` kills all at once.
        """
        running = [watched.process for watched in self._all if watched.stop() and watched.process is not None]
        if not running:
            return
        all_reaped: asyncio.Future[Any] = asyncio.gather(*(process.reaped.wait() for process in running))
        hurried: asyncio.Future[Any] = asyncio.ensure_future(hurry.wait())
        try:
            await first_of({all_reaped, hurried}, within_s)
            if hurry.is_set():
                await first_of({all_reaped}, min(HURRY_S, within_s))
        finally:
            hurried.cancel()
            for watched in self._all:
                watched.kill()
            await all_reaped

    def starting(self) -> list[str]:
        """Return the names of companions that should be ready and are not."""
        return [watched.name for watched in self._all if watched.starts]

    def fail(self, error: KedgeError) -> None:
        """End the run with this error. The first error counts."""
        if self.failed is None:
            self.failed = error
            self.over.set()

    def tell(self, name: str, text: str) -> None:
        """Show a line about a companion, or from it, to people."""
        self._report(f"{name}: {escaped(text[:LINE_MAX])}")

    def launched(
        self, companion: Companion, said: Callable[[str], None], ended: Callable[[], None]
    ) -> CompanionProcess:
        """Return a new process of the companion. Raises what `launch` raises, StartError, and OSError."""
        folder = self._folder()
        logs = folder / FOLDER
        logs.mkdir(mode=0o700, exist_ok=True)
        return CompanionProcess(companion.launch(folder), logs / f"{companion.name}.log", said=said, ended=ended)


class _Watched:
    """One companion, over all of its processes."""

    def __init__(self, companion: Companion, all_of_them: Companions, max_restarts: int) -> None:
        self.process: CompanionProcess | None = None
        self._companion = companion
        self.name = companion.name
        self._all = all_of_them
        self._restarts = Restarts(max_restarts)
        self._most = max_restarts
        self._loop = asyncio.get_running_loop()
        self._started_at = 0.0
        self._ready = self._failed = self._closing = False
        self._timer: asyncio.TimerHandle | None = None  # until it should be ready, or until it starts again

    def begin(self) -> None:
        """Start a process. A permanent error ends the run."""
        self._ready = False
        try:
            self.process = self._all.launched(self._companion, self._said, self._ended)
        except OSError as error:  # too few descriptors or processes
            self._again(f"could not be started: {error.strerror or error}")
            return
        except KedgeError as error:
            self._all.fail(error)
            return
        except Exception as error:
            text = f"the companion {self.name!r} could not be launched: {described(error)}"
            self._all.fail(WorkerError(text, code=COMPANION_LAUNCH_RAISED))
            return
        self._started_at = self._loop.time()
        self._timer = self._loop.call_later(self._companion.starting_s, self._report_slow_start)
        self._all.tell(self.name, f"it starts (pid {self.process.pid})")

    def _report_slow_start(self) -> None:
        if self.process is not None:
            text = f"it did not report within {self._companion.starting_s:g} s that it is ready; still waiting"
            self._all.tell(self.name, f"{text}; what it writes to stderr is in {self.process.log}")

    @property
    def starts(self) -> bool:
        """Return True if it should be ready and is not. It may have died, and be about to start again."""
        done = self.process is not None and self.process.reaped.is_set() and self._timer is None
        return not self._ready and not self._closing and not done

    # -- its output

    def _said(self, line: str) -> None:
        word, _, text = line.strip().partition(" ")
        if word == READY and not text:
            self._is_ready()
        elif word == STATUS and text:
            self._all.tell(self.name, text)
        elif word == FAILED and text:
            self._failed = True
            self._all.fail(WorkerError(f"{self.name}: {escaped(text[:LINE_MAX])}", code=COMPANION_FAILED))
        elif line.strip():
            logger.info("%s: %s", self.name, escaped(line[:LINE_MAX]))

    def _is_ready(self) -> None:
        if not self._ready:
            self._ready = True
            self._forget_timer()
            self._all.tell(self.name, f"it is ready, after {self._loop.time() - self._started_at:.1f} s")

    # -- its end

    def _ended(self) -> None:
        """Handle the end of its process, and of all that the process had started."""
        process = self.process
        assert process is not None, "it has ended"
        self._forget_timer()
        if self._closing or self._failed:
            return
        if process.status == 0:
            self._all.tell(self.name, "it is done, and has ended")
            return
        self._again(f"(pid {process.pid}) {process.why}")
        for line in process.last[-LAST_MAX:]:
            self._all.tell(self.name, f"| {line}")

    def _again(self, why: str) -> None:
        """Start it again after its back-off, unless it has died too often."""
        self._ready = False
        after_s = self._restarts.died(0, self._loop.time())
        if after_s is None:
            text = f"the companion {self.name!r} {why}, and max_restarts = {self._most} allows no further restart"
            self._all.fail(WorkerError(f"{text} within a minute", code=TOO_MANY_COMPANION_DEATHS))
            return
        soon = f" in {after_s:g} s" if after_s else ""
        self._all.tell(self.name, f"it {why}; it is started again{soon} ({COMPANION_DIED})")
        self._timer = self._loop.call_later(after_s, self.begin)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- the end of the run

    def stop(self) -> bool:
        """Ask it to end. Return True if there is anything to wait for."""
        self._closing = True
        self._forget_timer()
        if self.process is None or self.process.reaped.is_set():
            return False
        self.process.terminate()
        return True

    def kill(self) -> None:
        """Kill it if it has not ended."""
        if self.process is not None and not self.process.reaped.is_set():
            logger.warning("%s (pid %d) did not end in time, and is killed", self.name, self.process.pid)
            self.process.kill()
