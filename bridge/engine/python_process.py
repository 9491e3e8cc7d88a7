"""One of Spark's Python processes, as bolts see it: the topology loaded once more, their tasks, notes and folder.

Bolts are opened once in a process, for each of Spark's partitions that comes there, and stay open as long as it lives:
opening them for each batch would cost more than most batches. So are sinks that run there, but once for all partitions,
as each may hold a connection. Where Spark ends a process, by a signal or `_exit`, nothing is closed. What they raise is
noted for the driver. Knows no DataFrame.
"""

import asyncio
import atexit
import contextlib
import json
import secrets
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import xxhash

from bridge.engine.handover import QUERY
from bridge.engine.mapping import Mapped, mapped
from bridge.engine.sinks import Sinks
from bridge.engine.stage import Routing, StageBolts
from bridge.engine.user_errors import ComponentRaised, RaisedNotes
from bridge.files.query import TEMPORARY, place
from bridge.handover.results import query_folder
from topology.components import Task
from topology.loading.load import again
from topology.runtime.clock import LoopClock

COUNTS_S: Final = 10.0  # after it was written


class AwayNotes:
    """The notes of one topology, in a folder that all of its processes see. `note` is for one process, from any thread
    of it."""

    def __init__(self, folder: Path) -> None:
        """Makes nothing yet."""
        self._folder = folder
        self._own = folder / secrets.token_hex(8)
        self._noted = False

    def note(self, away: Mapping[str, str]) -> None:
        """For which sinks this process waits, and why; for none any more where that is empty. It is only telling: a
        disk that takes no file changes nothing."""
        with contextlib.suppress(OSError):
            if away:
                place(self._own, json.dumps(dict(away)).encode(), durable=False)
            elif self._noted:
                self._own.unlink(missing_ok=True)
            self._noted = bool(away)

    def read(self) -> dict[str, str]:
        """All that is waited for now: sink → why."""
        found: dict[str, str] = {}
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(self._folder.iterdir()):
                if path.name.startswith("."):
                    continue  # being written
                if time.time() - path.stat().st_mtime < COUNTS_S:
                    found |= json.loads(path.read_bytes())
                else:
                    path.unlink(missing_ok=True)
        return found


LEFT_S: Final = 600.0  # a small file that was begun so long ago will not be finished


@dataclass(frozen=True)
class PythonProcess:
    """What a process has to know. `again`: what makes the topology once more; `folder`: that of the run's files; `life`
    of the driver; `tasks`: how many partitions a stage has."""

    again: Mapping[str, Any] = field(repr=False)
    folder: str
    life: str
    tasks: int

    @property
    def query(self) -> Path:
        """The folder of the query."""
        return query_folder(Path(self.folder), QUERY)

    @property
    def notes(self) -> Path:
        """The folder of bolts' notes."""
        return self.query / "notes"

    @property
    def away(self) -> Path:
        """That of the notes of stores that are away."""
        return self.query / "away"

    @property
    def raised(self) -> RaisedNotes:
        """What was raised in this life of the driver."""
        return RaisedNotes(self.query, self.life)


class FolderNotes:
    """`topology.components.RaisedNotes` in files, one a note, which all processes of Spark's share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer = f"-{secrets.token_hex(8)}"  # another one may be on another machine, under the same pid

    def get(self, name: str) -> str | None:
        try:
            return self._path(name).read_text("utf-8")
        except FileNotFoundError:
            return None

    def set(self, name: str, text: str) -> None:
        place(self._path(name), text.encode(), writer=self._writer)

    def _path(self, name: str) -> Path:
        return self._folder / xxhash.xxh3_128_hexdigest(name.encode())  # a name may be longer than a file's


def sweep(folder: Path) -> None:
    """Removes what processes that were killed have left half written in a folder: each has drawn a name of its own for
    that, so nobody else writes it anew. One that still lives, on any machine, may be writing what is younger."""
    for path in folder.glob(f"{TEMPORARY}*"):
        with contextlib.suppress(FileNotFoundError):  # it has its name now
            if time.time() - path.stat().st_mtime > LEFT_S:
                path.unlink()


class Process:
    """All that this process has of one life of the driver."""

    def __init__(self, python_process: PythonProcess) -> None:
        self.python_process = python_process
        self.mapped: Mapped = mapped(again(**python_process.again))
        self.routing = Routing(self.mapped)
        self.loop = asyncio.new_event_loop()
        self.clock = LoopClock(self.loop)
        self._parts: dict[tuple[int, int], StageBolts] = {}
        self._sinks: Sinks | None = None
        self.away = AwayNotes(python_process.away)
        atexit.register(self.close)

    def part(self, stage: int, index: int) -> StageBolts:
        """The open bolts of a stage, for a partition."""
        part = self._parts.get((stage, index))
        if part is None:
            part = StageBolts(
                self.routing, stage, lambda name: self.task(name, index, self.python_process.tasks), self.loop
            )
            try:
                part.open()
            except BaseException:
                with contextlib.suppress(ComponentRaised):  # the first that was raised says why
                    part.close()
                raise
            self._parts[stage, index] = part
        return part

    def sinks(self, index: int) -> Sinks:
        """The open sinks that run in Spark's processes, for whatever partition comes here; `index` is of the first one.
        A store that is away is waited for: it was there when the run began."""
        if self._sinks is None:
            places = [(name, 0) for name in self.mapped.shared]
            made = Sinks(
                self.routing, places, lambda name, _: self.task(name, index, self.python_process.tasks), self.away.note
            )
            try:
                made.open(patient=True)
            except BaseException:
                made.end()
                raise
            self._sinks = made
        return self._sinks

    def task(self, name: str, index: int, tasks: int) -> Task:
        """What `open` is given."""
        folder = Path(self.python_process.folder)
        return Task(
            self.mapped.plan.topology,
            name,
            index % tasks,  # with several inputs, the first stage has more partitions than there are tasks
            tasks,
            self.clock,
            Random(f"{name} {index}"),
            FolderNotes(self.python_process.notes),
            self.mapped.plan.components[name].known_as,
            folder_of=lambda: folder,
        )

    def close(self) -> None:
        """Closes all bolts and sinks, and prints what they raise then. After it nothing else is called; it may be
        called again."""
        raised: list[ComponentRaised] = []
        if self._sinks is not None:
            raised += self._sinks.close()[1]
            self._sinks.end()
            self._sinks = None
        while self._parts:
            try:
                self._parts.popitem()[1].close()
            except ComponentRaised as error:
                raised.append(error)
        for one in raised:
            traceback.print_exception(one, file=sys.stderr)
        atexit.unregister(self.close)
        self.loop.close()


_processes: dict[str, Process] = {}


def process_of(python_process: PythonProcess) -> Process:
    """This process's own; that of an earlier life is closed first."""
    found = _processes.get(python_process.life)
    if found is None:
        while _processes:
            _processes.popitem()[1].close()
        found = _processes[python_process.life] = Process(python_process)
    return found


@contextmanager
def told(python_process: PythonProcess) -> Iterator[None]:
    """What is raised within is noted for the driver, and goes on."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):  # then Spark's own words have to do
            python_process.raised.write(error)
        raise
