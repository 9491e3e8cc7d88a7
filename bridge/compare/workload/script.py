"""The script of a comparison: the messages that every mode is offered, as files that each process maps.

A folder with three files: `records`, their bytes one after the other; `index`, an entry each of where they are and of
which spout and stream; `script.json`, the rest. Messages are numbered from 0, all spouts together; one that was not
read is one that was, once more: number k is the (k modulo `held`)-th.
"""

import json
import mmap
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, Final

from topology.records import Record, decoder, encode

SCRIPT: Final = "script.json"
INDEX: Final = "index"
RECORDS: Final = "records"
ENTRY: Final = Struct("<QIHH")  # begins at, bytes, spout, stream


@dataclass(frozen=True)
class ScriptSource:
    """A spout: its name, the one that its identities are made of, and the classes that it emits."""

    name: str
    known_as: str
    streams: tuple[type[Record], ...]


class NoRoom(OSError):
    """The script's own files can't be written; no error of a spout's."""


class ScriptWriter:
    """Writes `records` and `index`. `close` gives the files back."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        self.held = self.size = 0
        self._records: BinaryIO = open(folder / RECORDS, "wb")  # noqa: SIM115 – until `close`
        self._index: BinaryIO = open(folder / INDEX, "wb")  # noqa: SIM115 – so is this one

    def add(self, spout: int, stream: int, record: Record) -> None:
        """One more. Raises RecordError for a record that has no bytes, and NoRoom."""
        content = encode(record)
        try:
            self._index.write(ENTRY.pack(self.size, len(content), spout, stream))
            self._records.write(content)
        except OSError as error:
            raise NoRoom(*error.args) from error
        self.held += 1
        self.size += len(content)

    def close(self) -> None:
        """What was added is in the files. Raises OSError."""
        self._records.close()
        self._index.close()


class ScriptedMessages:
    """The records of a folder, for whoever reads them. `sources` in the order of the topology."""

    def __init__(self, folder: Path, sources: Sequence[ScriptSource]) -> None:
        """Maps the files. Raises OSError."""
        self.sources = tuple(sources)
        self._index = _mapped(folder / INDEX)
        self._records = memoryview(_mapped(folder / RECORDS))
        self.held = len(self._index) // ENTRY.size
        self._decoders = [[decoder(cls) for cls in one.streams] for one in sources]

    def spout(self, number: int) -> int:
        """Of which source a message is."""
        source: int = self._entry(number)[2]
        return source

    def record(self, number: int) -> Record:
        """Its record, made anew. Raises RecordError for bytes that are none."""
        at, size, spout, stream = self._entry(number)
        # a decoder takes whatever has bytes, without a copy
        record: Record = self._decoders[spout][stream](self._records[at : at + size])
        return record

    def of(self, spout: int) -> list[int]:
        """The numbers of all messages of a source, of those that are held."""
        return [number for number, entry in enumerate(ENTRY.iter_unpack(self._index)) if entry[2] == spout]

    def _entry(self, number: int) -> tuple[Any, ...]:
        return ENTRY.unpack_from(self._index, number % self.held * ENTRY.size)


class SourceTurns:
    """Which of all messages are one source's, where those that are held come round again and again."""

    def __init__(self, own: Sequence[int], held: int) -> None:
        """`own`: the numbers of the source's among the first `held`, in order; at least one."""
        self._own, self._held = own, held

    def number(self, place: int) -> int:
        """The number of its `place`-th message, from 0."""
        rounds, at = divmod(place, len(self._own))
        return rounds * self._held + self._own[at]

    def before(self, number: int) -> int:
        """How many of its messages have a lower number."""
        rounds, at = divmod(number, self._held)
        return rounds * len(self._own) + bisect_left(self._own, at)


@dataclass(frozen=True)
class Script:
    """What is offered, and when. `count` messages in all; the first `warm` are not measured, and the first of all tells
    that a system is up. `rate`: a second, None for all at once; `warm_rate`: that of the warm-up."""

    folder: Path
    topology: str
    sources: tuple[ScriptSource, ...]
    held: int
    count: int
    warm: int
    rate: float | None
    warm_rate: float
    notes: tuple[str, ...] = ()

    @cached_property
    def messages(self) -> ScriptedMessages:
        """The records, mapped once."""
        return ScriptedMessages(self.folder, self.sources)

    def record(self, number: int) -> Record:
        """A message's record."""
        return self.messages.record(number)

    def text(self, number: int) -> str:
        """What a message says, as one line: its field `text`, or all of its fields as JSON."""
        record = self.record(number)
        said = getattr(record, "text", None)
        if not isinstance(said, str):
            said = json.dumps({name: getattr(record, name) for name in record.__struct_fields__}, default=str)
        return " ".join(said.splitlines())

    def due_ns(self, number: int, start_ns: int) -> int:
        """When a measured message is due, where the first one is at `start_ns`, by the monotonic clock."""
        return start_ns + (round((number - self.warm) / self.rate * 1e9) if self.rate is not None else 0)


def kept(folder: Path) -> dict[str, Any]:
    """What `script.json` says."""
    told: dict[str, Any] = json.loads((folder / SCRIPT).read_bytes())
    return told


def _mapped(path: Path) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


Tell = Callable[[str, float, float], None]  # phase, seconds done, of how many
