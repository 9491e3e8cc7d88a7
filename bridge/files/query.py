"""Files of a query other than its segments: its results per batch, its position, and its end.

The driver writes them, `SparkResults` reads them. Knows folders, files and Arrow tables; must not know Spark or tuples.

    results/batch-<12 digits>.arrow   rows of one batch of the query; batches without rows have no file
    results/name                      drawn once for these results: batch numbers mean nothing in others
    epoch                             JSON: the epoch's number, and where its segments and batch numbers begin
    closing                           JSON: the end that all tasks have reported; written before the watermark moves
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
from topology.filesystem.safe_files import open_anew, rename_over
from topology.filesystem.sync import sync_file

DIGITS: Final = 12
PREFIX: Final = "batch-"
SUFFIX: Final = ".arrow"
TEMPORARY: Final = ".tmp-"  # prefix of the name of a file that is being written

Ends: TypeAlias = dict[str, dict[str, int]]  # input → task → the number of its next segment


@dataclass(frozen=True)
class Epoch:
    """One life of a query's checkpoint. The end of a bounded run moves the watermark to the end of time, so later
    records need a new epoch. `base`: a number added to Spark's batch numbers, so that the numbers of results never
    decrease. `begin`: the numbers of the first segments."""

    number: int = 0
    base: int = 0
    begin: Ends = field(default_factory=dict)


class QueryFolder:
    """The folder of one query. All methods do I/O; only `read` and `write` can take long. Methods that read where an
    epoch begins or ends raise ConfigurationError if the file is damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results"
        self._epoch = folder / "epoch"
        self._closing = folder / "closing"
        self._end = self.results / "end"

    @property
    def has_begun(self) -> bool:
        """Return True if the folder's files show that an epoch has begun here."""
        return self._epoch.exists()

    # -- the stream

    def input(self, name: str) -> Path:
        """Return the folder of one input's segments."""
        return self.folder / "stream" / name

    def history(self, name: str) -> Path:
        """Return the folder of a batch job's history of one input."""
        return self.folder / "history" / name

    def checkpoint(self, epoch: Epoch) -> Path:
        """Return the folder of Spark's checkpoint of this epoch."""
        return self.folder / "checkpoint" / str(epoch.number)

    # -- epochs and their ends

    def epoch(self) -> Epoch | None:
        """Return the present epoch, or None if the query has never begun."""
        kept = _read(self._epoch)
        return None if kept is None else Epoch(**kept)

    def begin(self, epoch: Epoch) -> None:
        """Begin this epoch. From now on the end of the epoch before no longer counts."""
        put(self._epoch, asdict(epoch))
        self._closing.unlink(missing_ok=True)
        self._end.unlink(missing_ok=True)

    def clear(self, epoch: Epoch) -> None:
        """Remove the checkpoints of earlier epochs, which are not read any more."""
        for path in (self.folder / "checkpoint").glob("*"):
            if path.name.isdecimal() and int(path.name) < epoch.number:
                shutil.rmtree(path, ignore_errors=True)  # the next call removes what is left

    def closing(self) -> Ends | None:
        """Return where this epoch ends, or None if that is not decided. The decision survives the driver."""
        return self._ends_in(self._closing)

    def close(self, epoch: Epoch, ends: Ends) -> None:
        """Decide where this epoch ends."""
        put(self._closing, {"epoch": epoch.number, "ends": ends})

    def end(self, epoch: Epoch, ends: Ends) -> None:
        """Note that the results are complete up to these segments."""
        put(self._end, {"epoch": epoch.number, "ends": ends})

    def ended(self) -> Ends | None:
        """Return up to which segments the results are complete, or None while this epoch is running."""
        return self._ends_in(self._end)

    def _ends_in(self, path: Path) -> Ends | None:
        content, epoch = _read(path), self.epoch()
        if content is None or epoch is None or content["epoch"] != epoch.number:
            return None  # from an earlier epoch: a crash came before the file was removed
        ends: Ends = content["ends"]
        return ends

    # -- results

    @property
    def named(self) -> Path:
        """Return the path of the file that holds the results' name."""
        return self.results / "name"

    def name(self, drawn: str) -> str:
        """Return the name of these results. Sets it to `drawn` if they had none."""
        self.results.mkdir(parents=True, exist_ok=True)
        if not self.named.exists():
            place(self.named, drawn.encode())
        return self.named.read_text()

    def batch(self, number: int) -> Path:
        """Return the path of one batch's file."""
        return self.results / f"{PREFIX}{number:0{DIGITS}}{SUFFIX}"

    def batches(self) -> list[int]:
        """Return the numbers of the batches that have files, in order."""
        try:
            names = os.listdir(self.results)
        except FileNotFoundError:
            return []
        digits = (name[len(PREFIX) : -len(SUFFIX)] for name in names if name.startswith(PREFIX))
        return sorted(int(number) for number in digits if number.isdecimal())

    def write(self, number: int, table: pa.Table) -> None:
        """Keep a batch's rows, which are durable when this returns. A batch that was kept before stays unchanged, also
        in its order."""
        if table.num_rows and not any(kept >= number for kept in self.batches()):
            place(self.batch(number), sealed(table))

    def read(self, number: int) -> pa.Table:
        """Return a batch's rows. Raises FileNotFoundError if the file is gone, and `segments.Changed` if it is damaged.
        Files of earlier releases have no checksum."""
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
    """Keep a value as JSON, which is durable when this returns."""
    place(path, json.dumps(value).encode())


def place(path: Path, content: Any, *, durable: bool = True, writer: str = "") -> None:
    """Write a file beside its target, then rename it, so that a reader finds the whole file or none. `content` is bytes
    or an Arrow buffer. If several processes write the same file at once, each passes a different `writer`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f"{TEMPORARY}{path.name}{writer}"
    with open(open_anew(beside), "wb") as file:
        file.write(content)
        if durable:
            file.flush()
            sync_file(file.fileno())
    rename_over(beside, path, synced=durable)


def lowest(offsets: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the position per task that all readers of one input have reached. A task that some reader has not seen is
    left out."""
    first, *others = offsets
    seen = [task for task in first if all(task in offset for offset in others)]
    return {task: min([first[task], *(offset[task] for offset in others)]) for task in seen}
