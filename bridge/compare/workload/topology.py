"""The topology that a comparison runs: the user's own, with scripted messages at one end and probes at the other.

    kedge run bridge.compare.workload.topology:topology --set job=FILE [--workers 2 | --engine spark …]

Each spout gives way to `Scripted`, which gives what the feeder has released; each sink to a `ArrivalProbe`, which
writes down what has arrived and when, and what a bolt emits that nobody reads goes to one, too. All bolts in between
are the user's own, on the same streams and groupings, so results have the identities that they have anywhere. No sink
of theirs runs."""

import asyncio
import contextlib
import json
import mmap
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, ClassVar, Final, Never

from bridge.compare.folder import end_with
from bridge.compare.workload.feeder import FIFO, mapped
from bridge.compare.workload.script import ScriptedMessages, ScriptSource, SourceTurns
from topology.components import Bolt, Collector, Message, Positions, Spout, Task, Tuple
from topology.graph import Declared, Graph, Input, Place
from topology.groupings import Global
from topology.loading.load import LoadTarget, load
from topology.records import Record

ACKED: Final = "acked"  # the file: 8 bytes a message, when it was acked, by the monotonic clock in ns; 0: it was not
GIVEN: Final = -1  # there, of the first message: it was given, and is not acked yet
PROBES: Final = "probes"  # the folder of what has arrived
ARRIVED: Final = Struct("=QQq")  # origin, identity, when; the last one is not 0 once all of it is there
CHUNK: Final = ARRIVED.size * 2**16  # bytes of one file of a probe's, which has its room before it is written
AT_ONCE: Final = 128  # messages of one poll


class Scripted(Spout):
    """Gives the messages of one source as they are released, each under its number, from where it was."""

    def __init__(self, script: str, run: str, number: int, sources: tuple[ScriptSource, ...]) -> None:
        self.script, self.run = script, run
        self.source, self.sources = number, sources

    def open(self, task: Task, positions: Positions) -> None:
        run = Path(self.run)
        self._messages = ScriptedMessages(Path(self.script), self.sources)
        self._turns = SourceTurns(self._messages.of(self.source), self._messages.held)
        self._numbers = mapped(run)
        self._acked = acks(run, writes=True)
        last = positions.get("")
        self._next = self._turns.before(last) if isinstance(last, int) else 0
        self._waiting: asyncio.Future[None] | None = None
        self._alone = False  # whether the feeder is gone
        self._loop = asyncio.get_running_loop()
        self._fifo = os.open(run / f"{FIFO}{self.source}", os.O_RDONLY | os.O_NONBLOCK)
        self._loop.add_reader(self._fifo, self._woken)
        self._woken()  # the end of a feeder that was gone before wakes nobody

    async def poll(self, limit: int) -> Sequence[Message[Record]]:
        """Waits until something is released; ends with the feeder, or where it has said that this was all."""
        while True:
            over = self._numbers[1] or self._alone
            until = self._turns.before(self._numbers[0])
            if self._next < until:
                begin, self._next = self._next, min(until, self._next + min(limit, AT_ONCE))
                numbers = [self._turns.number(place) for place in range(begin, self._next)]
                if numbers[0] == 0 and not self._acked[0]:
                    self._acked[0] = GIVEN
                return [Message(self._messages.record(number), number) for number in numbers]
            if over:
                return []
            self._waiting = self._loop.create_future()
            await self._waiting

    def ack(self, id: Any) -> None:
        self._acked[id] = time.monotonic_ns()

    def close(self) -> None:
        fifo = getattr(self, "_fifo", -1)
        if fifo >= 0:
            self._loop.remove_reader(fifo)
            os.close(fifo)
            self._fifo = -1

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(self._fifo, 65_536):
                self._loop.remove_reader(self._fifo)
                self._alone = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class ArrivalProbe(Bolt):
    """Writes down what arrives: its origin, its identity and the time. It is in the system's pages at once, and stays
    there whatever becomes of this process. Whoever reads it tells what was repeated by the identities."""

    drops_replays: ClassVar[bool] = True

    def __init__(self, run: str) -> None:
        self.run = run

    def open(self, task: Task) -> None:
        self._name = f"{task.component}.{task.index}"
        self._chunk = self._at = 0
        self._map: mmap.mmap | None = None
        self._map = self._more()  # where there is no room for it, the run ends before anything is measured

    def execute(self, tup: Tuple[Any], out: Collector[Never]) -> None:
        if self._map is None or self._at == CHUNK:
            self._map = self._more()
        begin, self._at = self._at, self._at + ARRIVED.size
        self._map[begin : self._at] = ARRIVED.pack(tup.origin, tup.identity, time.monotonic_ns())
        out.ack(tup)

    def close(self) -> None:
        if getattr(self, "_map", None) is not None:
            self._map.close()  # type: ignore[union-attr]  # it was just looked at
            self._map = None

    def _more(self) -> mmap.mmap:
        """A new file, of no life of this task before."""
        if self._map is not None:
            self._map.close()
        folder = Path(self.run) / PROBES
        while True:
            path = folder / f"{self._name}.{self._chunk:06}"
            self._chunk += 1
            with contextlib.suppress(FileExistsError), open(path, "x+b") as file:
                file.write(bytes(CHUNK))  # its room: a page that finds none later would be a SIGBUS
                file.flush()
                self._at = 0
                return mmap.mmap(file.fileno(), CHUNK)


def acks(run: Path, *, writes: bool = False) -> "memoryview[int]":
    """When each message was acked."""
    with open(run / ACKED, "r+b") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if writes else mmap.ACCESS_READ)
    return memoryview(content).cast("q")


def topology(job: str) -> Graph:
    """What a job's file says: `where`, `attribute`, `file`, `values` of the user's topology; `script` and `run`, its
    folders; `sources` by name. This process ends with the comparison. Raises as loading does."""
    told: Mapping[str, Any] = json.loads(Path(job).read_bytes())
    end_with(Path(told["run"]).parent)
    file = Path(told["file"]) if told["file"] else None
    made = load(LoadTarget(told["where"], told["attribute"], file), told["values"])
    return replaced(made, told["script"], told["run"])


def replaced(made: Graph, script: str, run: str) -> Graph:
    """The same topology with both of its ends replaced; changes it."""
    sources = sources_of(made)
    probe = ArrivalProbe(run)
    read = {(one.component, one.cls) for declared in made.components for one in declared.inputs if not one.dead}
    read |= {(one.component, None) for declared in made.components for one in declared.inputs if one.cls is None}
    for number, name in enumerate([one.name for one in sources]):
        spout = next(one for one in made.components if one.name == name)
        spout.prototype, spout.tasks = Scripted(script, run, number, sources), 1
    unread = [
        (one, cls)
        for one in made.components
        if one.kind == "bolt"
        for cls in one.streams
        if not {(one.name, cls), (one.name, None)} & read
    ]
    for one in made.components:
        if one.kind == "bolt" and not one.streams:
            one.prototype, one.shape, one.takes = probe, "execute", ()
            one.waits, one.concurrency, one.every = False, 1, None
    for number, (one, cls) in enumerate(unread):
        made.components.append(_probed(made, f"unread-{number}", one, cls, probe, one.place))
    return made


def sources_of(made: Graph) -> tuple[ScriptSource, ...]:
    """The spouts of a topology, in its order."""
    spouts = [one for one in made.components if one.kind == "spout"]
    return tuple(ScriptSource(one.name, one.known_as, tuple(one.streams)) for one in spouts)


def _probed(made: Graph, name: str, one: Declared, cls: type[Record], probe: ArrivalProbe, place: Place) -> Declared:
    taken = {declared.name for declared in made.components}
    while name in taken:
        name += "-"
    input: Input[Any] = Input(made, one.name, cls, Global(), place)
    return Declared(name, probe, 1, place, (), "bolt", inputs=(input,), shape="execute")
