"""One of Spark's Python processes from the view of bolts: the topology loaded again, its tasks, notes and folder.

Bolts are opened once per process, for each of Spark's partitions that comes there, and stay open for as long as the
process lives: opening them per batch would cost more than most batches. Sinks in these processes are opened once for
all partitions, because each may hold a connection. If Spark ends a process by a signal or `_exit`, nothing is closed.
Errors of components are noted for the driver. Must not know a DataFrame.
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

COUNTS_S: Final = 10.0  # seconds after it was written for which a note counts


class AwayNotes:
    """The notes about unavailable stores of one topology, in a folder that all of its processes see. Only one process
    calls `note`, from any of its threads."""

    def __init__(self, folder: Path) -> None:
        """Does no I/O."""
        self._folder = folder
        self._own = folder / secrets.token_hex(8)
        self._noted = False

    def note(self, away: Mapping[str, str]) -> None:
        """Note for which sinks this process waits, and why; empty if it waits for none. The note is only for display,
        so a failing disk changes nothing."""
        with contextlib.suppress(OSError):
            if away:
                place(self._own, json.dumps(dict(away)).encode(), durable=False)
            elif self._noted:
                self._own.unlink(missing_ok=True)
            self._noted = bool(away)

    def read(self) -> dict[str, str]:
        """Return all sinks that are waited for now, each with the reason."""
        found: dict[str, str] = {}
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(self._folder.iterdir()):
                if path.name.startswith("."):
                    continue  # the file is being written
                if time.time() - path.stat().st_mtime < COUNTS_S:
                    found |= json.loads(path.read_bytes())
                else:
                    path.unlink(missing_ok=True)
        return found


LEFT_S: Final = 600.0  # seconds after which an unfinished small file is abandoned


@dataclass(frozen=True)
class PythonProcess:
    """Everything that a process needs to know. `again`: the arguments that load the topology again; `folder`: the run's
    folder for files; `life`: of the driver; `tasks`: the number of partitions of a stage."""

    again: Mapping[str, Any] = field(repr=False)
    folder: str
    life: str
    tasks: int

    @property
    def query(self) -> Path:
        """Return the folder of the query."""
        return query_folder(Path(self.folder), QUERY)

    @property
    def notes(self) -> Path:
        """Return the folder of the bolts' notes."""
        return self.query / "notes"

    @property
    def away(self) -> Path:
        """Return the folder of the notes about unavailable stores."""
        return self.query / "away"

    @property
    def raised(self) -> RaisedNotes:
        """Return the note of the last error in this life of the driver."""
        return RaisedNotes(self.query, self.life)


class FolderNotes:
    """The `topology.components.Notes` of a topology on Spark, as files, one per note, which all processes of Spark
    share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer = f"-{secrets.token_hex(8)}"  # drawn, because a process on another machine may have the same pid

    def get(self, name: str) -> str | None:
        try:
            return self._path(name).read_text("utf-8")
        except FileNotFoundError:
            return None

    def set(self, name: str, text: str) -> None:
        place(self._path(name), text.encode(), writer=self._writer)

    def _path(self, name: str) -> Path:
        return self._folder / xxhash.xxh3_128_hexdigest(name.encode())  # a note's name may be too long for a file


def sweep(folder: Path) -> None:
    """Remove unfinished files that killed processes left in a folder. Each process draws its own names, so no other
    process overwrites such a file. A process that still runs, on any machine, may be writing a younger file, which
    stays."""
    for path in folder.glob(f"{TEMPORARY}*"):
        with contextlib.suppress(FileNotFoundError):  # it was finished and renamed meanwhile
            if time.time() - path.stat().st_mtime > LEFT_S:
                path.unlink()


class Process:
    """Everything that this process holds in one life of the driver."""

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
        """Return the open bolts of a stage for a partition."""
        part = self._parts.get((stage, index))
        if part is None:
            part = StageBolts(
                self.routing, stage, lambda name: self.task(name, index, self.python_process.tasks), self.loop
            )
            try:
                part.open()
            except BaseException:
                with contextlib.suppress(ComponentRaised):  # the first exception is the reason
                    part.close()
                raise
            self._parts[stage, index] = part
        return part

    def sinks(self, index: int) -> Sinks:
        """Return the open sinks that run in Spark's processes, for any partition that comes here. `index` is the number
        of the first partition. Waits for an unavailable store, because it was available when the run began."""
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
        """Return the `Task` that `open` is called with."""
        folder = Path(self.python_process.folder)
        return Task(
            self.mapped.plan.topology,
            name,
            index % tasks,  # with several inputs, the first stage has more partitions than tasks
            tasks,
            self.clock,
            Random(f"{name} {index}"),
            FolderNotes(self.python_process.notes),
            self.mapped.plan.components[name].known_as,
            folder_of=lambda: folder,
        )

    def close(self) -> None:
        """Close all bolts and sinks, and print what they raise. No other method may be called afterwards. May be called
        again."""
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
        for failure in raised:
            traceback.print_exception(failure, file=sys.stderr)
        atexit.unregister(self.close)
        self.loop.close()


_processes: dict[str, Process] = {}


def process_of(python_process: PythonProcess) -> Process:
    """Return this process's own object. Closes that of an earlier life first."""
    found = _processes.get(python_process.life)
    if found is None:
        while _processes:
            _processes.popitem()[1].close()
        found = _processes[python_process.life] = Process(python_process)
    return found


@contextmanager
def reported_errors(python_process: PythonProcess) -> Iterator[None]:
    """Note for the driver what is raised within this context, and raise it again."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):  # then only Spark's own words remain
            python_process.raised.write(error)
        raise
