"""The results of one batch job, from Spark's tasks to the batches' files: all of a job or nothing. The first complete
result of a cut counts.

    staged/<drawn>/<drawn>.arrow    rows that a task of Spark has written; the driver draws a folder for each try
    staged/whole                    JSON: the files of a cut's result, in order; written when the result is settled

The tasks write the files, so that no result has to fit into the driver's memory. If Spark runs a task again, its files
get other names, and the earlier ones are not referenced. A repeated job may give other rows, because a table at rest
may have changed. The driver therefore publishes what is settled, by renaming file by file. A repeated renaming resumes
where it stopped.

Knows Arrow and files. In Spark's Python processes only `ResultWriter.__call__` runs.
"""

import contextlib
import json
import secrets
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from bridge.arrow.schema import fitted
from bridge.files.query import QueryFolder, place
from bridge.files.segments import sealed
from bridge.spark.errors import no_room
from topology.filesystem.safe_files import rename_over
from topology.filesystem.sync import sync_folder

ROWS_MAX: Final = 50_000  # per file, because a reader holds all rows of a file in memory
BYTES_MAX: Final = 32 * 2**20  # per file, approximately
TELLS: Final = "name string, rows bigint, misfit string, room string"  # a task's report per file, or on an error
_TOLD: Final = pa.schema([("name", pa.string()), ("rows", pa.int64()), ("misfit", pa.string()), ("room", pa.string())])


@dataclass
class ResultWriter:
    """Writes rows into files of `folder`, in Spark's tasks. Problems are returned as texts, because an exception would
    become one of Spark's. `revision` is the column that gets `number`; empty for none."""

    folder: str
    wanted: pa.Schema  # columns of the query
    declared: list[str]  # columns of the output, in order
    revision: str
    number: int
    rows_max: int = ROWS_MAX

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for table in _gathered(batches, self.rows_max):
                yield _report(self._write(table), table.num_rows)
        except ValueError as error:
            yield _report(misfit=str(error))
        except OSError as error:
            if not (words := no_room(error)):
                raise
            yield _report(room=words)

    def _write(self, table: pa.Table) -> str:
        table = fitted(table, self.wanted)
        if self.revision:
            table = table.append_column(self.revision, pa.array([self.number] * table.num_rows, pa.int64()))
        name = f"{secrets.token_hex(12)}.arrow"
        place(Path(self.folder) / name, sealed(table.select(self.declared)))
        return name


class Staged:
    """The files of one query's jobs before they are results."""

    def __init__(self, folder: QueryFolder) -> None:
        self._results = folder
        self.folder = folder.folder / "staged"

    def begin(self) -> Path:
        """Return a new folder for the files of one try. Removes those of earlier tries."""
        self.clear()
        folder = self.folder / secrets.token_hex(6)
        folder.mkdir(parents=True)
        return folder

    def settle(self, cut: int, parts: list[str]) -> None:
        """Settle the files that are the result of this cut. Their names begin with the name of their folder."""
        place(self.folder / "whole", json.dumps({"cut": cut, "parts": parts}).encode())

    def settled(self, cut: int) -> list[str] | None:
        """Return the files of a cut, or None if none are settled."""
        try:
            content = json.loads((self.folder / "whole").read_bytes())
        except FileNotFoundError:
            return None
        parts: list[str] = content["parts"]
        return parts if content["cut"] == cut else None

    def publish(self, base: int, parts: list[str]) -> None:
        """Make the files the batches from number `base` on. A file that was published before stays as it is, also if it
        was removed since."""
        self._results.results.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(parts, start=base):
            with contextlib.suppress(FileNotFoundError):
                rename_over(self.folder / name, self._results.batch(number))
        sync_folder(self._results.results)

    def clear(self) -> None:
        """Remove everything that is staged."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _gathered(batches: Iterable[pa.RecordBatch], rows_max: int) -> Iterator[pa.Table]:
    """Yield the same rows in tables of at most about `rows_max` rows, none of them empty."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for start in range(0, batch.num_rows, rows_max):
            part = batch.slice(start, rows_max)
            if held and (rows + part.num_rows > rows_max or size + part.nbytes > BYTES_MAX):
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
            held.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
    if held:
        yield pa.Table.from_batches(held)


def _report(name: str = "", rows: int = 0, *, misfit: str = "", room: str = "") -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"name": name, "rows": rows, "misfit": misfit, "room": room}], _TOLD)
