"""Reads a script from a topology's own spouts: `python -m bridge.compare.workload.read_sources FILE`, its own process.

The effects of opening a spout happen only here; bolts are not opened. FILE says as JSON what to read. The process
writes `script.json` beside the records: how many there are, or why none. Messages, bytes and seconds are all bounded.
Nothing is acked, as nothing is processed.
"""

import asyncio
import contextlib
import inspect
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from bridge.compare.folder import end_with, unmade
from bridge.compare.workload.script import INDEX, RECORDS, SCRIPT, NoRoom, ScriptWriter
from topology.components import Message, Positions, Task
from topology.errors import KedgeError
from topology.filesystem.safe_files import rename_over
from topology.graph import Declared, Graph
from topology.loading.load import LoadTarget, load
from topology.runtime.clock import LoopClock
from topology.runtime.prototypes import prototype_copy
from topology.runtime.tasks.polling import Polling, polling
from topology.user_frames import described, users_frames

AT_ONCE: Final = 64  # messages of one poll, so that several spouts take turns
QUIET_S: Final = 2.0  # seconds without a message after which no more are expected
ALL_S: Final = 30.0  # seconds of reading in all
BYTES_MAX: Final = 512 * 2**20  # bytes of records
CLOSE_S: Final = 5.0  # seconds for closing one spout


@dataclass
class ReadProgress:
    """The progress of the reading."""

    wanted: int
    first_s: float  # seconds that all spouts together may take to give their first message
    last_at: float = 0.0  # when the last message came, by the loop's clock
    why: str = ""  # why reading stops, if not because the spouts ended


class ForgottenNotes:
    """`topology.components.Notes` of a process that no run continues."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        return self._texts.get(name)

    def set(self, name: str, text: str) -> None:
        self._texts[name] = text


class SourceReader:
    """One task of a spout, from its opening to its end."""

    def __init__(self, number: int, declared: Declared, task: Task) -> None:
        self.number, self.declared, self.task = number, declared, task
        self.spout: Any = prototype_copy(declared)
        self._polling: Polling | None = None

    async def open(self) -> None:
        """Open the spout. Raises the exceptions of its `open`."""
        await _awaited(self.spout.open(self.task, Positions()))
        self._polling = polling(self.spout)

    async def read(self, writer: ScriptWriter, seen: ReadProgress) -> None:
        """Write the spout's messages, until it ends or there are enough."""
        assert self._polling is not None, "opened"
        while not seen.why:
            messages: Sequence[Message[Any]] = await self._polling.poll(AT_ONCE)
            if not messages:
                return
            seen.last_at = asyncio.get_running_loop().time()
            for message in messages:
                if writer.held >= seen.wanted:
                    seen.why = "enough"
                elif writer.size >= BYTES_MAX:
                    seen.why = "bytes"
                else:
                    stream = self.declared.streams.index(type(message.record))
                    writer.add(self.number, stream, message.record)
                    continue
                return
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Close the spout. Never raises, because its messages are already written."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_S):
                if self._polling is not None:
                    await self._polling.close()
                await _awaited(self.spout.close())


class SpoutError(Exception):
    """A spout's exception, with the spout's name and the step: "opening it" or "reading it"."""

    def __init__(self, name: str, doing: str, error: BaseException) -> None:
        super().__init__(name)
        self.name, self.doing, self.error = name, doing, error


async def read(topology: Graph, writer: ScriptWriter, seen: ReadProgress, folder: Path) -> str:
    """Read all tasks of the spouts; return why it has ended, "" if they have. Raises SpoutError and NoRoom."""
    loop = asyncio.get_running_loop()
    seen.last_at = started_at = loop.time()
    tasks = [
        SourceReader(number, entry, _task(topology.name, entry, index, folder, loop))
        for number, entry in enumerate(entry for entry in topology.components if entry.kind == "spout")
        for index in range(entry.tasks)
    ]
    reading: list[asyncio.Task[None]] = []
    try:
        for entry in tasks:
            await _blamed(entry, "opening it", entry.open())
        reading = [asyncio.create_task(_blamed(entry, "reading it", entry.read(writer, seen))) for entry in tasks]
        while (left := [entry for entry in reading if not entry.done()]) and not seen.why:
            await asyncio.wait(left, timeout=0.1, return_when=asyncio.FIRST_EXCEPTION)
            for done in filter(asyncio.Task.done, reading):
                done.result()
            quiet = loop.time() - seen.last_at
            if quiet > (QUIET_S if writer.held else seen.first_s):
                seen.why = "quiet"
            elif loop.time() - started_at > ALL_S:
                seen.why = "slow"
    finally:
        for pending in reading:
            pending.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        for entry in tasks:
            await entry.close()
    return seen.why


def main() -> int:
    """Read the spouts of FILE; the exit status is 0 if `script.json` has the result."""
    description: dict[str, Any] = json.loads(Path(sys.argv[1]).read_bytes())
    folder = Path(description["folder"])
    end_with(folder.parent)
    said: dict[str, Any]
    try:
        topology = load(
            LoadTarget(description["where"], description["attribute"], _path(description["file"])),
            description["values"],
        )
        writer = ScriptWriter(folder)
        with tempfile.TemporaryDirectory(dir=folder) as files:
            why = asyncio.run(
                read(topology, writer, ReadProgress(description["wanted"], description["first_s"]), Path(files))
            )
        writer.close()
        said = {"held": writer.held, "why": why}
    except KedgeError as error:
        said = {"error": str(error), "code": error.code.name if error.code else "", "next": error.next}
    except SpoutError as error:
        said = _said(error)
    except OSError as error:
        for name in (RECORDS, INDEX):  # makes room for the result
            (folder / name).unlink(missing_ok=True)
        said = {"unmade": unmade(error)}
    beside = folder / f".{SCRIPT}"
    beside.write_text(json.dumps(said))
    rename_over(beside, folder / SCRIPT)
    return 0


def _said(error: SpoutError) -> dict[str, Any]:
    inner = error.error
    if isinstance(inner, KedgeError):
        return {"error": str(inner), "code": inner.code.name if inner.code else "", "next": inner.next}
    text = f"the spout {error.name!r} raised {described(inner)} while {error.doing}"
    return {"error": text, "code": "", "next": "", "trace": users_frames(inner)}


async def _blamed(one: SourceReader, doing: str, work: Any) -> None:
    try:
        await work
    except (asyncio.CancelledError, NoRoom):
        raise
    except BaseException as error:
        raise SpoutError(one.declared.name, doing, error) from error


async def _awaited(result: Any) -> None:
    if result is not None and inspect.isawaitable(result):
        await result


def _task(topology: str, one: Declared, index: int, folder: Path, loop: asyncio.AbstractEventLoop) -> Task:
    return Task(
        f"{topology}-compare",  # a consumer at a server is then not that of a run
        one.name,
        index,
        one.tasks,
        LoopClock(loop),
        Random(f"{one.name} {index}"),
        ForgottenNotes(),
        one.known_as,
        folder_of=lambda: folder,
    )


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # threads of a spout's may never end
