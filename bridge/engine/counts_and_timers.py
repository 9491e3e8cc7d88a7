"""The counts of a run, the timers of all keys, and the last batch that both include. The driver of a topology on Spark
stores them beside Spark's checkpoint.

One SQLite file, with one transaction per batch. A batch that Spark repeats is counted once in each run that computes
it. Knows numbers, names and bytes; must not know Spark or bolts. Every call blocks, and may come from any thread.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bridge.engine.rows import DueNow, KeyTimers
from bridge.files.segments import damaged

FILE: Final = "book.sqlite"  # name in the query's folder
TABLES: Final = """
create table if not exists kept (batch integer not null);
create table if not exists run (name text not null, counted integer not null, closed integer not null);
create table if not exists counts (component text, what text, count integer not null, primary key (component, what));
create table if not exists timers (
    component text, key blob, name text, due integer not null, primary key (component, key, name)
) without rowid;
create index if not exists timers_due on timers (due);
create table if not exists ending (inputs text not null);
create table if not exists at_end (
    component text, key blob, name text, due integer not null, primary key (component, key, name)
) without rowid;
"""
AT_ONCE: Final = 10_000  # maximum number of timers that one call returns
WAITING: Final = """
select exists (select 1 from timers where due <= ?) and not exists (select 1 from run where name = ? and closed != ?)
"""


class CountsAndTimers:
    """The file of one topology."""

    def __init__(self, path: Path) -> None:
        """Make the file if there is none. Raises ConfigurationError for a damaged file, and sqlite3.Error."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            self._database.execute("pragma journal_mode = wal")
            self._database.execute("pragma synchronous = full")
            self._database.execute("pragma fullfsync = 1")  # on macOS: also flushes the disk's cache
            self._database.execute("pragma checkpoint_fullfsync = 1")
            self._database.executescript(TABLES)
            if self._database.execute("select count(*) from kept").fetchone()[0] == 0:
                self._database.execute("insert into kept values (-1)")
            if self._database.execute("select count(*) from run").fetchone()[0] == 0:
                self._database.execute("insert into run values ('', -1, -1)")
        except sqlite3.DatabaseError as error:
            self._database.close()
            if isinstance(error, sqlite3.OperationalError):
                raise
            raise damaged(path, f"can't be read ({error})") from error

    @property
    def is_new(self) -> bool:
        """Return True if no batch has been kept yet."""
        with self._lock:
            return bool(self._database.execute("select batch from kept").fetchone()[0] < 0)

    def close(self) -> None:
        """Close the file. No other method may be called afterwards."""
        with self._lock:
            self._database.close()

    def begin(self, run: str, closed: int) -> int:
        """Start one more life of the driver in this run, durably. The counts start with the run's first life. `closed`:
        the epoch whose end is settled now, or -1. Return what `closed` was in the run's first life."""
        with self._lock, self._database:
            self._database.execute("begin immediate")
            found = self._database.execute("select closed from run where name = ?", (run,)).fetchone()
            if found is None:
                self._database.execute("update run set name = ?, counted = -1, closed = ?", (run, closed))
                self._database.execute("delete from counts")
        return closed if found is None else int(found[0])

    def keep(self, batch: int, counts: Mapping[tuple[str, str], int], timers: Iterable[KeyTimers]) -> None:
        """Keep the counts and timers of a batch, which are durable when this returns. A batch that this run has kept
        before is not counted again. Its timers are replaced, because Spark commits the state of the repeat, and a timer
        that was set for a past time is due at another moment there."""
        with self._lock, self._database:
            self._database.execute("begin immediate")
            (last,) = self._database.execute("select batch from kept").fetchone()
            if batch < last:
                return
            (counted,) = self._database.execute("select counted from run").fetchone()
            if batch > counted:
                self._database.executemany(
                    "insert into counts values (?, ?, ?) on conflict do update set count = count + excluded.count",
                    [(component, what, count) for (component, what), count in counts.items()],
                )
                self._database.execute("update run set counted = ?", (batch,))
            for change in timers:
                self._database.executemany(
                    "delete from timers where component = ? and key = ? and name = ?",
                    [(change.component, change.key, name) for name in change.gone],
                )
                self._database.executemany(
                    "insert or replace into timers values (?, ?, ?, ?)",
                    [(change.component, change.key, name, due) for name, due in change.due],
                )
            self._database.execute("update kept set batch = ?", (batch,))

    def counts(self) -> dict[tuple[str, str], int]:
        """Return the counts since this run began."""
        with self._lock:
            rows = self._database.execute("select component, what, count from counts").fetchall()
        return {(component, what): count for component, what, count in rows}

    def due(self, until: int) -> list[DueNow]:
        """Return the timers that are due at `until`, the earliest first, at most AT_ONCE of them."""
        return self._asked("where due <= ? order by due limit ?", (until, AT_ONCE))

    def begin_end(self, inputs: str, components: Sequence[str]) -> None:
        """Mark the present timers of these bolts to fire at the end of the run, which ends where its `inputs` do;
        durable when this returns. This happens once per end: a timer that is set while these fire belongs to the next
        run."""
        marks = ", ".join("?" * len(components))
        with self._lock, self._database:
            self._database.execute("begin immediate")
            if self._database.execute("select inputs from ending").fetchone() == (inputs,):
                return
            self._database.execute("delete from ending")
            self._database.execute("insert into ending values (?)", (inputs,))
            self._database.execute("delete from at_end")
            self._database.execute(f"insert into at_end select * from timers where component in ({marks})", components)

    def at_end(self) -> list[DueNow]:
        """Return the marked timers that have not been sent, the earliest first, at most AT_ONCE of them."""
        found = self._asked("order by due limit ?", (AT_ONCE,), "at_end")
        return [DueNow(timer.component, timer.key, timer.name, timer.due, at_end=True) for timer in found]

    def fired(self, timers: Iterable[DueNow]) -> None:
        """Note durably that these timers are sent. A timer that was moved since stays."""
        with self._lock, self._database:
            self._database.execute("begin immediate")
            gone = [(timer.component, timer.key, timer.name, timer.due) for timer in timers]
            for table in ("timers", "at_end"):
                self._database.executemany(
                    f"delete from {table} where component = ? and key = ? and name = ? and due = ?", gone
                )

    def _asked(self, where: str, values: tuple[object, ...], table: str = "timers") -> list[DueNow]:
        with self._lock:
            rows = self._database.execute(f"select component, key, name, due from {table} {where}", values).fetchall()
        return [DueNow(*row) for row in rows]


def timers_wait(path: Path, until: int, run: str, ended: int) -> bool:
    """Return True if timers that are due at `until` wait for the driver of this run, in which no epoch follows the one
    that has `ended`. For a process without a `CountsAndTimers`. Also returns True if the file is unreadable; the driver
    then reports why, or repairs it."""
    if not path.exists():
        return False
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            return bool(database.execute(WAITING, (until, run, ended)).fetchone()[0])
    except sqlite3.DatabaseError:
        return True
