"""The script of a comparison: the messages that every mode is offered, as files that each process maps.

A folder with three files: `records`, the messages' bytes in sequence; `index`, an entry per message with its place,
spout and stream; `script.json`, the rest. Messages are numbered from 0, all spouts together. A script longer than what
was read repeats it: number k is the (k modulo `held`)-th.
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
    """A spout: its name, the name that its identities are made of, and the classes that it emits."""

    name: str
    known_as: str
    streams: tuple[type[Record], ...]


class NoRoom(OSError):
    """The script's own files cannot be written; it is no error of a spout's."""


class ScriptWriter:
    """Writes `records` and `index`. `close` closes the files."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        self.held = self.size = 0
        self._records: BinaryIO = open(folder / RECORDS, "wb")  # noqa: SIM115 – until `close`
        self._index: BinaryIO = open(folder / INDEX, "wb")  # noqa: SIM115 – so is this one

    def add(self, spout: int, stream: int, record: Record) -> None:
        """Add a message. Raises RecordError for a record that has no bytes, and NoRoom."""
        content = encode(record)
        try:
            self._index.write(ENTRY.pack(self.size, len(content), spout, stream))
            self._records.write(content)
        except OSError as error:
            raise NoRoom(*error.args) from error
        self.held += 1
        self.size += len(content)

    def close(self) -> None:
        """Write everything that was added into the files. Raises OSError."""
        self._records.close()
        self._index.close()


class ScriptedMessages:
    """The records of a folder, for reading. `sources` are in the order of the topology."""

    def __init__(self, folder: Path, sources: Sequence[ScriptSource]) -> None:
        """Map the files. Raises OSError."""
        self.sources = tuple(sources)
        self._index = _mapped(folder / INDEX)
        self._records = memoryview(_mapped(folder / RECORDS))
        self.held = len(self._index) // ENTRY.size
        self._decoders = [[decoder(cls) for cls in source.streams] for source in sources]

    def spout(self, number: int) -> int:
        """Return the number of a message's source."""
        source: int = self._entry(number)[2]
        return source

    def record(self, number: int) -> Record:
        """Return a new record of this message. Raises RecordError for invalid bytes."""
        at, size, spout, stream = self._entry(number)
        # a decoder takes any buffer, without a copy
        record: Record = self._decoders[spout][stream](self._records[at : at + size])
        return record

    def of(self, spout: int) -> list[int]:
        """Return the numbers of all held messages of a source."""
        return [number for number, entry in enumerate(ENTRY.iter_unpack(self._index)) if entry[2] == spout]

    def _entry(self, number: int) -> tuple[Any, ...]:
        return ENTRY.unpack_from(self._index, number % self.held * ENTRY.size)


class SourceTurns:
    """The numbers of one source's messages, if the held messages are repeated."""

    def __init__(self, own: Sequence[int], held: int) -> None:
        """`own`: the numbers of the source's messages among the first `held`, in order; at least one."""
        self._own, self._held = own, held

    def number(self, place: int) -> int:
        """Return the number of its `place`-th message, from 0."""
        rounds, at = divmod(place, len(self._own))
        return rounds * self._held + self._own[at]

    def before(self, number: int) -> int:
        """Return how many of its messages have a lower number."""
        rounds, at = divmod(number, self._held)
        return rounds * len(self._own) + bisect_left(self._own, at)


@dataclass(frozen=True)
class Script:
    """The messages that are offered, and their times.

    count      messages in all; the first `warm` are not measured, and the very first shows that a system is up.
    rate       messages per second, None for all at once; `warm_rate`: that of the warm-up.
    """

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
        """Return a message's record."""
        return self.messages.record(number)

    def text(self, number: int) -> str:
        """Return a message's text as one line: its field `text`, or all of its fields as JSON."""
        record = self.record(number)
        said = getattr(record, "text", None)
        if not isinstance(said, str):
            said = json.dumps({name: getattr(record, name) for name in record.__struct_fields__}, default=str)
        return " ".join(said.splitlines())

    def due_ns(self, number: int, start_ns: int) -> int:
        """Return when a measured message is due if the first one is due at `start_ns`, by the monotonic clock."""
        return start_ns + (round((number - self.warm) / self.rate * 1e9) if self.rate is not None else 0)


def kept(folder: Path) -> dict[str, Any]:
    """Return the content of `script.json`."""
    content: dict[str, Any] = json.loads((folder / SCRIPT).read_bytes())
    return content


def _mapped(path: Path) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


Tell = Callable[[str, float, float], None]  # phase, seconds done, of how many
