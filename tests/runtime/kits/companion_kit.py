"""What the tests of companions share: a topology with one, made by name in workers too, and a run of either kind.

Everything is real: processes, groups, signals. A run lasts until the file `end` is in its folder.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from topology import Bolt, Companion, Config, ConfigurationError, Launch, Message, Record, Spout, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.run.report import Report
from topology.runtime.supervisor.supervisor import SupervisedRun

LOADER = f"{__name__}:made"
PROGRAM = Path(__file__).with_name("companion_program.py")
PATIENCE_S = 30.0  # after which a test that waits for something has failed
DYING_S = 5.0  # that a process may take to end once it was killed


class Tick(Record):
    n: int


class UntilTold(Spout):
    """A tick now and then, until the file is there."""

    def __init__(self, file: Path) -> None:
        self.file = file

    async def records(self) -> AsyncIterator[Message[Tick]]:
        n = 0
        while not self.file.exists():
            await asyncio.sleep(0.02)
            yield Message(Tick(n), n)
            n += 1


class Nothing(Bolt):
    def process(self, tick: Tick) -> None:
        """Takes it."""


class Helper(Companion):
    """The program of `companion_program`. `what` it does; some of it is done before there is any process."""

    def __init__(self, what: str, directory: Path, starting_s: float) -> None:
        self.name, self.what, self.directory, self.starting_s = "helper", what, directory, starting_s

    def launch(self, folder: Path) -> Launch:
        if self.what == "refused":
            raise ConfigurationError("the helper needs a port; give it one")
        if self.what == "raising":
            raise KeyError("port")
        if self.what == "nowhere":
            return Launch(("/no/such/program",), {})
        command = (sys.executable, str(PROGRAM), self.what, str(self.directory))
        return Launch(command, {"PATH": os.environ["PATH"], "WHERE": str(folder)}, b"a gift" * 50_000)


def made(directory: str, what: str, starting_s: float = 120.0, max_restarts: int = 10) -> Topology:
    """ticks → nothing, on one worker each, beside a helper."""
    topology = Topology("beside", Config(max_restarts=max_restarts))
    for name in ("one", "two"):
        ticks = topology.spout(f"{name}-ticks", UntilTold(Path(directory) / "end"))
        topology.bolt(name, Nothing(), ticks.shuffle())
    topology.companion(Helper(what, Path(directory), starting_s))
    return topology


class Beside:
    """A run of `workers` processes, or in this one; and what it has told. `run` is there once it has `begun`."""

    run: EmbeddedRun | SupervisedRun

    def __init__(self, directory: Path, what: str, *, workers: int, **settings: Any) -> None:
        self.directory = directory
        self.told: list[str] = []
        self._workers = workers
        self._given: dict[str, Any] = {"directory": str(directory), "what": what, **settings}

    def begun(self) -> "asyncio.Future[Report]":
        """The run, to its end. In a running loop."""
        settings: dict[str, Any] = {"state_dir": self.directory / "state", "report": self.told.append}
        topology = made(**self._given)
        if self._workers == 1:
            self.run = EmbeddedRun(topology, **settings)
        else:
            settings |= {"workers": self._workers, "loader": LOADER, "arguments": self._given}
            self.run = SupervisedRun(topology, **settings)
        return asyncio.ensure_future(self.run.finish())

    @property
    def log(self) -> Path:
        return self.directory / "state" / "kept" / "companions" / "helper.log"

    def lives(self) -> list[list[int]]:
        """Of each life of the companion its process, and the one that it has started."""
        path = self.directory / "pids"
        text = path.read_text() if path.exists() else ""
        return [[int(pid) for pid in line.split()] for line in text.splitlines() if line.count(" ")]

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what} has not come; told: {self.told}"
            await asyncio.sleep(0.01)

    async def until_told(self, text: str) -> None:
        await self.until(lambda: any(text in line for line in self.told), text)

    def end(self) -> None:
        """The sources end now."""
        (self.directory / "end").touch()

    def all_gone(self) -> bool:
        """Whether nothing is left of any life. Itself has ended by now; what was killed with it is given a moment to
        end, which a busy machine takes, and lives for minutes where it was not killed."""
        if not all(gone(own) for own, *_ in self.lives()):
            return False
        deadline = time.monotonic() + DYING_S
        while not (all_are := all(gone(pid) for life in self.lives() for pid in life)):
            if time.monotonic() >= deadline:
                break
            time.sleep(0.01)
        return all_are


async def through(beside: Beside, during: Callable[[], Any]) -> Report:
    """Runs it; `during` is awaited meanwhile, and the sources end when that is done."""
    finishing = beside.begun()
    doing = asyncio.ensure_future(during())
    try:
        await asyncio.wait({finishing, doing}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            doing.cancel()
            await asyncio.wait({doing})
        else:
            doing.result()
    finally:
        beside.end()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(asyncio.shield(finishing), PATIENCE_S)
    return finishing.result()


def gone(pid: int) -> bool:
    """Whether this process has ended. Nobody may have reaped it yet, where its parent went before it."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] in "ZX"
