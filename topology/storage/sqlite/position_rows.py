"""A store's marks, what has begun, and trials: three tables of short rows. Must not know what they are for."""

from collections.abc import Iterable

from topology.storage.encoding import packing
from topology.storage.sqlite import tables
from topology.storage.sqlite.database import Database
from topology.storage.values import Begun, Changes, Mark, Trial


class PositionRows:
    """The rows of one open file, as of when they were loaded. Raises Damaged, ValueError, StoreBroken."""

    def __init__(self, database: Database) -> None:
        self.tables = [tables.RowTable(name) for name in ("marks", "begun", "trials")]
        marks, begun, trials = ([body for _, body in tables.loaded(database, table)] for table in self.tables)
        self.marks = tuple(map(packing.mark_of, marks))
        self.begun = tuple(map(packing.begun_of, begun))
        self.trials = tuple(map(packing.trial_of, trials))

    def put(self, writing: tables.Writing, changes: Changes) -> None:
        """Write changes, within a transaction."""
        self.remove(writing, marks=changes.over)
        marks, begun, trials = self.tables
        for mark in changes.marks:
            writing.put(marks, packing.mark_key(mark), packing.packed_mark(mark))
        for entry in changes.begun:
            writing.put(begun, packing.begun_key(entry), packing.packed_begun(entry))
        for trial in changes.trials:
            writing.put(trials, packing.trial_key(trial), packing.packed_trial(trial))
        self.remove(writing, trials=changes.acquitted)

    def remove(
        self,
        writing: tables.Writing,
        marks: Iterable[Mark] = (),
        begun: Iterable[Begun] = (),
        trials: Iterable[Trial] = (),
    ) -> None:
        """Remove rows, within a transaction."""
        keys = map(packing.mark_key, marks), map(packing.begun_key, begun), map(packing.trial_key, trials)
        for table, some in zip(self.tables, keys, strict=True):
            writing.remove_all(table, some)
