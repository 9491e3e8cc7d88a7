"""Files of a query beside its segments: what it has given, batch by batch, how far it is, and when it is over.

The driver writes them, `SparkResults` reads them. Knows folders, files and Arrow tables; neither Spark nor tuples.

    results/batch-<12 digits>.arrow   rows of one batch of the query; batches without rows have no file
    results/name                      drawn once for these results: numbers of batches mean nothing in others
    epoch                             JSON: how often the query has begun anew, where its segments and numbers begin
    closing                           JSON: the end that all tasks have said, from before the watermark moves there
    results/end                       JSON: the same, once everything up to there is among the results
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from bridge.files.segments import damaged, opened, sealed
from topology.filesystem.safe_files import open_anew
from topology.filesystem.sync import sync_file, sync_folder

DIGITS: Final = 12
PREFIX: Final = "batch-"
SUFFIX: Final = ".arrow"
TEMPORARY: Final = ".tmp-"  # before the name of a file that is being written

Ends: TypeAlias = dict[str, dict[str, int]]  # input → task → the number of its next segment


@dataclass(frozen=True)
class Epoch:
    """One life of a query's checkpoint: a bounded run's end moves the watermark to the end of time, so what comes
    after that is for the next one. `base`: what is added to Spark's numbers of batches, so that results' never step
    back. `begin`: the segments that are the first."""

    number: int = 0
    base: int = 0
    begin: Ends = field(default_factory=dict)


class QueryFolder:
    """The folder of one query. Does I/O, all of it short but for `read` and `write`. What says where an epoch begins or
    ends raises ConfigurationError where its file is damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results"
        self._epoch = folder / "epoch"
        self._closing = folder / "closing"
        self._end = self.results / "end"

    @property
    def has_begun(self) -> bool:
        """Whether an epoch has ever begun here, as far as its own files tell."""
        return self._epoch.exists()

    # -- the stream

    def input(self, name: str) -> Path:
        """Where the segments of one input are."""
        return self.folder / "stream" / name

    def history(self, name: str) -> Path:
        """Where what a batch job keeps of one input is."""
        return self.folder / "history" / name

    def checkpoint(self, epoch: Epoch) -> Path:
        """Spark's checkpoint of this epoch."""
        return self.folder / "checkpoint" / str(epoch.number)

    # -- epochs and their ends

    def epoch(self) -> Epoch | None:
        """The present one; None before the query has begun at all."""
        kept = _read(self._epoch)
        return None if kept is None else Epoch(**kept)

    def begin(self, epoch: Epoch) -> None:
        """Begins this one: from now on the end of the one before is no end."""
        put(self._epoch, asdict(epoch))
        self._closing.unlink(missing_ok=True)
        self._end.unlink(missing_ok=True)

    def clear(self, epoch: Epoch) -> None:
        """Removes the checkpoints of epochs before this one: nothing reads them any more."""
        for path in (self.folder / "checkpoint").glob("*"):
            if path.name.isdecimal() and int(path.name) < epoch.number:
                shutil.rmtree(path, ignore_errors=True)  # what is left goes with the next one

    def closing(self) -> Ends | None:
        """Where this epoch ends, from when that is settled on; it survives the driver."""
        return self._told(self._closing)

    def close(self, epoch: Epoch, ends: Ends) -> None:
        """Settles where this epoch ends."""
        put(self._closing, {"epoch": epoch.number, "ends": ends})

    def end(self, epoch: Epoch, ends: Ends) -> None:
        """Says that the results are complete, up to these segments."""
        put(self._end, {"epoch": epoch.number, "ends": ends})

    def ended(self) -> Ends | None:
        """Up to where the results are complete; None while this epoch goes on."""
        return self._told(self._end)

    def _told(self, path: Path) -> Ends | None:
        told, epoch = _read(path), self.epoch()
        if told is None or epoch is None or told["epoch"] != epoch.number:
            return None  # of an epoch before: whoever began this one had no time to remove it
        ends: Ends = told["ends"]
        return ends

    # -- results

    @property
    def named(self) -> Path:
        """The file of their name."""
        return self.results / "name"

    def name(self, drawn: str) -> str:
        """The name of these results; `drawn` where they had none yet."""
        self.results.mkdir(parents=True, exist_ok=True)
        if not self.named.exists():
            place(self.named, drawn.encode())
        return self.named.read_text()

    def batch(self, number: int) -> Path:
        """The file of one batch."""
        return self.results / f"{PREFIX}{number:0{DIGITS}}{SUFFIX}"

    def batches(self) -> list[int]:
        """Numbers of the batches that there are, in order."""
        try:
            names = os.listdir(self.results)
        except FileNotFoundError:
            return []
        digits = (name[len(PREFIX) : -len(SUFFIX)] for name in names if name.startswith(PREFIX))
        return sorted(int(one) for one in digits if one.isdecimal())

    def write(self, number: int, table: pa.Table) -> None:
        """Keeps a batch's rows; durable when it returns. One that was kept before stays as it is, in its order."""
        if table.num_rows and not any(one >= number for one in self.batches()):
            place(self.batch(number), sealed(table))

    def read(self, number: int) -> pa.Table:
        """A batch's rows. Raises FileNotFoundError where it is gone, and `segments.Changed` for a damaged one. Those of
        earlier releases have no checksum."""
        return opened(self.batch(number), plain=True).read_all().replace_schema_metadata(None)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        read: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise damaged(path, f"can't be read ({error})") from error
    return read


def put(path: Path, value: Mapping[str, object]) -> None:
    """Keeps a value as JSON; durable when it returns."""
    place(path, json.dumps(value).encode())


def place(path: Path, content: Any, *, durable: bool = True, writer: str = "") -> None:
    """Writes beside and renames: who reads finds the whole file or none. Bytes, or a buffer of Arrow's. Where several
    write the same file at once, each has a name as its `writer`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f"{TEMPORARY}{path.name}{writer}"
    with open(open_anew(beside), "wb") as file:
        file.write(content)
        if durable:
            file.flush()
            sync_file(file.fileno())
    os.replace(beside, path)
    if durable:
        sync_folder(path.parent)


def lowest(offsets: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """How far all readers of one input are, task by task; nothing of a task that one of them has not seen."""
    first, *others = offsets
    seen = [task for task in first if all(task in one for one in others)]
    return {task: min([first[task], *(one[task] for one in others)]) for task in seen}
