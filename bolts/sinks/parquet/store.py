"""Writes tuples as Parquet files: each row once, one file for each partition of a batch.

Knows rows, keys and places; must not know the loop, collectors or acks. Every call blocks; one thread makes them.

Each row has its key beside it, so files and keys cannot disagree (C7). `open` reads the keys of the files that are not
older than `remembers_s`. A file has the hash of its rows' keys in its name. So a write without a known outcome, which
is repeated with the same rows, replaces its own file.
"""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from xxhash import xxh3_64

from bolts.sinks.contract import SinkStoreBroken, StoreAway, Written
from bolts.sinks.keys import WriteCounts, split_keys
from bolts.sinks.parquet.partitions import Partitions
from bolts.sinks.parquet.places import FilePlace, line_of
from bolts.sinks.parquet.remembered import RememberedKeys
from bolts.sinks.parquet.table import ParquetTable, is_key_column
from bolts.sinks.rows import SinkRow, entries_of, refuse, tell_refused
from bolts.sinks.values import BadValue
from topology.clients.errors import invalid, refused
from topology.components import Clock
from topology.core.tuples import Tuple
from topology.errors import ConfigurationError
from topology.records import Record

READ_AT_ONCE: Final = 65_536  # keys of a file that are in memory as it is read
_NAME: Final = re.compile(r"(?:.*/)?(\d{8}T\d{6}\.\d{6})Z-[0-9a-f]{16}\.parquet")
_TIME: Final = "%Y%m%dT%H%M%S.%f"


class ParquetStore:
    """The store of `ParquetSink`; see `contract.SinkStore`. `arrow` is the module pyarrow."""

    def __init__(
        self,
        arrow: Any,
        place: FilePlace,
        partitions: Partitions,
        *,
        compression: str,
        remembers_s: float | None,
        clock: Clock,
    ) -> None:
        self.place = place
        self.files = 0  # written since `open`
        self._arrow, self._partitions, self._compression = arrow, partitions, compression
        self._remembers_s, self._clock = remembers_s, clock
        self._known = RememberedKeys(remembers_s)
        self._table: ParquetTable | None = None
        self._stored: Any = None  # the schema of the newest file that was there
        self._unsure: dict[tuple[str, str], str] = {}  # partition and hash → the name of a file that may be there

    def open(self) -> None:
        try:
            self.place.open()
            self._read_all()
        except BaseException:
            self.close()  # so that it can be opened again
            raise

    def _read_all(self) -> None:
        oldest = ""
        if self._remembers_s is not None:
            oldest = (self._clock.utc() - timedelta(seconds=self._remembers_s)).strftime(_TIME)
        found = sorted((match[1], match[0]) for name in self.place.names() if (match := _NAME.fullmatch(name)))
        for at, name in found:
            if at >= oldest or name == found[-1][1]:  # the newest one in any case, for its columns
                self._read(name, at >= oldest)

    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        written = Written(WriteCounts())
        self._make_room()
        entries = [entry for group in entries_of(tuples, self._table_of, written) for entry in group]
        fresh = {*self._known.unknown([entry.key for entry in entries])}
        folders: dict[str, list[SinkRow[ParquetTable]]] = {}
        for entry in entries:
            if entry.key not in fresh:
                written.tally.duplicates += len(entry.places)
                continue
            try:
                folder = self._partitions.folder(tuples[entry.places[0]].record)
            except BadValue as error:
                refuse(entry, f"{entry.table.cls.__name__}: {error}")
            else:
                folders.setdefault(folder, []).append(entry)
        for folder, rows in folders.items():
            try:
                self._put(folder, rows)
            except BadValue as error:  # the path of the sink's folder is long too
                for row in rows:
                    refuse(row, f"{row.table.cls.__name__}: {error}")
                continue
            written.tally.divergent += [key.hex() for key in self._known.add([row.key for row in rows])]
            written.tally.stored += len(rows)
            written.tally.duplicates += sum(len(row.places) - 1 for row in rows)
        self._unsure.clear()
        tell_refused(entries, written)
        return written

    def close(self) -> None:
        self._known.clear()
        self.place.close()

    # -- files

    def _put(self, folder: str, rows: Sequence[SinkRow[ParquetTable]]) -> None:
        table = rows[0].table
        digest = xxh3_64(b"".join([row.key for row in rows])).hexdigest()
        name = self._unsure.setdefault((folder, digest), f"{self._clock.utc():{_TIME}}Z-{digest}.parquet")
        leaves = table.leaves()
        sink = self._arrow.BufferOutputStream()
        self._arrow.parquet.write_table(
            table.batch([row.row for row in rows]),
            sink,
            compression={**dict.fromkeys(leaves, self._compression), table.key_column: "none"},
            use_dictionary=leaves,  # keys are all different, and like noise
            write_statistics=leaves,
            write_page_checksum=True,
        )
        self.place.put(f"{folder}/{name}" if folder else name, sink.getvalue())
        self.files += 1

    def _read(self, name: str, with_keys: bool) -> None:
        """Take note of the columns and keys of a file. Raises StoreAway, and ConfigurationError for one that is damaged
        or not ours."""
        try:
            with self.place.read(name) as file:
                parquet = self._arrow.parquet.ParquetFile(file, page_checksum_verification=True)
                schema = parquet.schema_arrow
                key = schema.names[-1]
                if not is_key_column(key):
                    raise refused(f"ParquetSink: {name} in {self.place.where} has no column of keys: move it elsewhere")
                self._stored = schema
                for batch in parquet.iter_batches(READ_AT_ONCE, columns=[key]) if with_keys else ():
                    joined = b"".join(batch.column(0).to_pylist())
                    self._known.add([*split_keys(joined)])
                    self._make_room()
        except (ConfigurationError, StoreAway, SinkStoreBroken):
            raise
        except (self._arrow.ArrowInvalid, *self.place.faults) as error:
            if not isinstance(error, self._arrow.ArrowInvalid) and not self.place.is_damage(error):
                raise StoreAway(f"{name} in {self.place.where} can't be read: {line_of(error)}") from error
            raise refused(f"ParquetSink: {name} in {self.place.where} is damaged: {line_of(error)}") from error

    def _make_room(self) -> None:
        self._known.make_room(self.place.scratch, self._clock.monotonic())

    def _table_of(self, cls: type[Record]) -> ParquetTable:
        """Return the table of a class. Raises BadValue and ConfigurationError, whose texts become the rows' reasons."""
        table = self._table
        if table is None:
            self._partitions.check(cls)
            table = ParquetTable(self._arrow, cls, self._partitions.fields)
            if self._stored is not None and (clashes := [*table.clashes(self._stored)]):
                raise invalid(f"ParquetSink: {self.place.where} has files of another kind: {'; '.join(clashes)}")
            self._table = table
        if table.cls is not cls:
            text = f"ParquetSink: it stores {table.cls.__name__}, and can't store {cls.__name__} too; give each a sink"
            raise invalid(text)
        return table
