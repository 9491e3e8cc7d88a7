"""What one batch job gives, from Spark's tasks to the files of `batches`: all of a job or nothing, and the first one
that is whole counts.

    staged/<drawn>/<drawn>.arrow    rows that a task of Spark's has written; the driver draws a folder for each try
    staged/whole                    JSON: which files are a cut's result, in which order, from when that is settled

The tasks write, so that a result of any size passes no driver's memory; those of a task that Spark runs again are files
of other names, and nobody names the earlier ones. A repeated job may give other rows, as a table at rest may have
changed: what is settled is what is published, by renaming, file by file, and a repeated renaming goes on where it was.

Knows Arrow and files; what runs in Spark's Python processes is the call of `ResultWriter` alone.
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
from topology.filesystem.sync import sync_folder

ROWS_MAX: Final = 50_000  # of one file: who reads it has all of its rows in memory
BYTES_MAX: Final = 32 * 2**20  # of one file, about
TELLS: Final = "name string, rows bigint, misfit string, room string"  # what a task tells of each file, or of none
_TOLD: Final = pa.schema([("name", pa.string()), ("rows", pa.int64()), ("misfit", pa.string()), ("room", pa.string())])


@dataclass
class ResultWriter:
    """In Spark's tasks: rows into files of `folder`, and what is wrong with them into words, as an error that is raised
    there would be one of Spark's. `revision` names a column that has `number`; none where empty."""

    folder: str
    wanted: pa.Schema  # the query's columns
    declared: list[str]  # those of the output, in order
    revision: str
    number: int
    rows_max: int = ROWS_MAX

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for table in _gathered(batches, self.rows_max):
                yield _told(self._write(table), table.num_rows)
        except ValueError as error:
            yield _told(misfit=str(error))
        except OSError as error:
            if not (words := no_room(error)):
                raise
            yield _told(room=words)

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
        """A folder for the files of one try; those of earlier ones go."""
        self.clear()
        folder = self.folder / secrets.token_hex(6)
        folder.mkdir(parents=True)
        return folder

    def settle(self, cut: int, parts: list[str]) -> None:
        """From here on the result of this cut is these files; their names begin with that of their folder."""
        place(self.folder / "whole", json.dumps({"cut": cut, "parts": parts}).encode())

    def settled(self, cut: int) -> list[str] | None:
        """The files of a cut; None while none are settled."""
        try:
            told = json.loads((self.folder / "whole").read_bytes())
        except FileNotFoundError:
            return None
        parts: list[str] = told["parts"]
        return parts if told["cut"] == cut else None

    def publish(self, base: int, parts: list[str]) -> None:
        """Makes them the batches from number `base` on; those that were published before stay as they are, or gone."""
        self._results.results.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(parts, start=base):
            with contextlib.suppress(FileNotFoundError):
                (self.folder / name).rename(self._results.batch(number))
        sync_folder(self._results.results)

    def clear(self) -> None:
        """Nothing of what is staged is wanted any more."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _gathered(batches: Iterable[pa.RecordBatch], rows_max: int) -> Iterator[pa.Table]:
    """The same rows in tables of at most about so many, none of them empty."""
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


def _told(name: str = "", rows: int = 0, *, misfit: str = "", room: str = "") -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"name": name, "rows": rows, "misfit": misfit, "room": room}], _TOLD)
