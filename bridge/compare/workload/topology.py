"""The topology that a comparison runs: the user's own, with scripted messages at one end and probes at the other.

    kedge run bridge.compare.workload.topology:topology --set job=FILE [--workers 2 | --engine spark …]

`Scripted` replaces each spout, and gives the messages that the feeder has released. `ArrivalProbe` replaces each sink,
and writes down each arrival and its time. It also takes emissions that no bolt reads. All bolts in between are the
user's own, on the same streams and groupings, so results have the same identities as anywhere. The user's sinks do not
run.
"""

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
from topology.components import Bolt, Collector, Message, Positions, Spout, Task
from topology.core.tuples import Tuple
from topology.graph import Declared, Graph, Input, Place
from topology.groupings import Global
from topology.loading.load import LoadTarget, load
from topology.records import Record

# the file: 8 bytes per message with the time of its ack, in ns of the monotonic clock; 0: not acked
ACKED: Final = "acked"
GIVEN: Final = -1  # in that file, for the first message: it was given, and is not acked yet
PROBES: Final = "probes"  # the folder of the arrivals
# origin, identity, time; the time is written last, and is not 0 once the entry is complete
ARRIVED: Final = Struct("=QQq")
CHUNK: Final = ARRIVED.size * 2**16  # bytes of one file of a probe, which are reserved before it is written
AT_ONCE: Final = 128  # messages of one poll


class Scripted(Spout):
    """Gives the messages of one source as they are released, each under its number, from its position on."""

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
        self._alone = False  # True if the feeder is gone
        self._loop = asyncio.get_running_loop()
        self._fifo = os.open(run / f"{FIFO}{self.source}", os.O_RDONLY | os.O_NONBLOCK)
        self._loop.add_reader(self._fifo, self._woken)
        self._woken()  # a feeder that ended before this wakes no reader

    async def poll(self, limit: int) -> Sequence[Message[Record]]:
        """Wait until a message is released; end with the feeder, or when it has marked the end."""
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
    """Writes down each arrival: its origin, its identity and the time.

    An entry is in the system's pages at once, and stays there if this process dies. Readers find repeated results by
    their identities.
    """

    drops_replays: ClassVar[bool] = True

    def __init__(self, run: str) -> None:
        self.run = run

    def open(self, task: Task) -> None:
        self._name = f"{task.component}.{task.index}"
        self._chunk = self._at = 0
        self._map: mmap.mmap | None = None
        self._map = self._more()  # if there is no room for it, the run ends before anything is measured

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
        """Return a new file, not one of an earlier life of this task."""
        if self._map is not None:
            self._map.close()
        folder = Path(self.run) / PROBES
        while True:
            path = folder / f"{self._name}.{self._chunk:06}"
            self._chunk += 1
            with contextlib.suppress(FileExistsError), open(path, "x+b") as file:
                file.write(bytes(CHUNK))  # reserves the file's room: a page without room would later be a SIGBUS
                file.flush()
                self._at = 0
                return mmap.mmap(file.fileno(), CHUNK)


def acks(run: Path, *, writes: bool = False) -> "memoryview[int]":
    """Return the time of each message's ack."""
    with open(run / ACKED, "r+b") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if writes else mmap.ACCESS_READ)
    return memoryview(content).cast("q")


def topology(job: str) -> Graph:
    """Load the topology of a job's file, and replace its ends.

    The file has `where`, `attribute`, `file`, `values` of the user's topology; `script` and `run`, its folders;
    `sources` by name. This process ends with the comparison. Raises the exceptions of loading.
    """
    description: Mapping[str, Any] = json.loads(Path(job).read_bytes())
    end_with(Path(description["run"]).parent)
    file = Path(description["file"]) if description["file"] else None
    made = load(LoadTarget(description["where"], description["attribute"], file), description["values"])
    return replaced(made, description["script"], description["run"])


def replaced(made: Graph, script: str, run: str) -> Graph:
    """Replace both ends of the topology, in place, and return it."""
    sources = sources_of(made)
    probe = ArrivalProbe(run)
    read = {(entry.component, entry.cls) for declared in made.components for entry in declared.inputs if not entry.dead}
    read |= {(entry.component, None) for declared in made.components for entry in declared.inputs if entry.cls is None}
    for number, name in enumerate([entry.name for entry in sources]):
        spout = next(entry for entry in made.components if entry.name == name)
        spout.prototype, spout.tasks = Scripted(script, run, number, sources), 1
    unread = [
        (entry, cls)
        for entry in made.components
        if entry.kind == "bolt"
        for cls in entry.streams
        if not {(entry.name, cls), (entry.name, None)} & read
    ]
    for entry in made.components:
        entry.by_count = False  # a result is timed from its message, and judged by the name that all modes give it
        if entry.kind == "bolt" and not entry.streams:
            entry.prototype, entry.shape, entry.takes = probe, "execute", ()
            entry.waits, entry.concurrency, entry.every = False, 1, None
    for number, (entry, cls) in enumerate(unread):
        made.components.append(_probed(made, f"unread-{number}", entry, cls, probe, entry.place))
    return made


def sources_of(made: Graph) -> tuple[ScriptSource, ...]:
    """Return the spouts of a topology, in its order."""
    spouts = [spout for spout in made.components if spout.kind == "spout"]
    return tuple(ScriptSource(spout.name, spout.known_as, tuple(spout.streams)) for spout in spouts)


def _probed(made: Graph, name: str, one: Declared, cls: type[Record], probe: ArrivalProbe, place: Place) -> Declared:
    taken = {declared.name for declared in made.components}
    while name in taken:
        name += "-"
    input: Input[Any] = Input(made, one.name, cls, Global(), place)
    return Declared(name, probe, 1, place, (), "bolt", inputs=(input,), shape="execute")
