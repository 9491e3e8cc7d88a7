"""What the driver of a topology on Spark keeps beside Spark's checkpoint: the counts of a run, the timers of all keys,
and the batch up to which both are right. One SQLite file, one transaction a batch; a batch that Spark repeats is
counted once in each run that computes it.

Knows numbers, names and bytes; no Spark, no bolts. Every call blocks, from any thread.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bridge.engine.rows import DueNow, KeyTimers
from bridge.files.segments import damaged

FILE: Final = "book.sqlite"  # in the query's folder
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
AT_ONCE: Final = 10_000  # timers that are given at a time
WAITING: Final = """
select exists (select 1 from timers where due <= ?) and not exists (select 1 from run where name = ? and closed != ?)
"""


class CountsAndTimers:
    """The file of one topology."""

    def __init__(self, path: Path) -> None:
        """Makes the file where there is none. Raises ConfigurationError for one that is damaged, and sqlite3.Error."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            self._database.execute("pragma journal_mode = wal")
            self._database.execute("pragma synchronous = full")
            self._database.execute("pragma fullfsync = 1")  # macOS: through the disk's cache
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
        """Whether it has kept no batch yet."""
        with self._lock:
            return bool(self._database.execute("select batch from kept").fetchone()[0] < 0)

    def close(self) -> None:
        """After it nothing else is called."""
        with self._lock:
            self._database.close()

    def begin(self, run: str, closed: int) -> int:
        """One more life of the driver in this run, whose counts begin with its first life; durable when it returns.
        `closed`: the epoch that has a settled end now, -1 where it has none; what that was in the run's first life."""
        with self._lock, self._database:
            self._database.execute("begin immediate")
            found = self._database.execute("select closed from run where name = ?", (run,)).fetchone()
            if found is None:
                self._database.execute("update run set name = ?, counted = -1, closed = ?", (run, closed))
                self._database.execute("delete from counts")
        return closed if found is None else int(found[0])

    def keep(self, batch: int, counts: Mapping[tuple[str, str], int], timers: Iterable[KeyTimers]) -> None:
        """What a batch has come to; durable when it returns. One that this run has kept before is not counted again,
        but its timers are those of the repeat, as the state is that Spark commits: what was set for a time that was
        past is due at another moment then."""
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
            for one in timers:
                self._database.executemany(
                    "delete from timers where component = ? and key = ? and name = ?",
                    [(one.component, one.key, name) for name in one.gone],
                )
                self._database.executemany(
                    "insert or replace into timers values (?, ?, ?, ?)",
                    [(one.component, one.key, name, due) for name, due in one.due],
                )
            self._database.execute("update kept set batch = ?", (batch,))

    def counts(self) -> dict[tuple[str, str], int]:
        """Since this run began."""
        with self._lock:
            rows = self._database.execute("select component, what, count from counts").fetchall()
        return {(component, what): count for component, what, count in rows}

    def due(self, until: int) -> list[DueNow]:
        """Timers that are due by then, the earliest first; so many at most."""
        return self._asked("where due <= ? order by due limit ?", (until, AT_ONCE))

    def begin_end(self, inputs: str, components: Sequence[str]) -> None:
        """The timers that these bolts have now are to fire, as the run ends where its `inputs` do; durable when it
        returns. Once for each end: what is set by one that has fired there is for the next."""
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
        """Those of them that are not on their way yet, the earliest first; so many at most."""
        found = self._asked("order by due limit ?", (AT_ONCE,), "at_end")
        return [DueNow(one.component, one.key, one.name, one.due, at_end=True) for one in found]

    def fired(self, timers: Iterable[DueNow]) -> None:
        """These are on their way; durable when it returns. One that was moved since stays."""
        with self._lock, self._database:
            self._database.execute("begin immediate")
            gone = [(one.component, one.key, one.name, one.due) for one in timers]
            for table in ("timers", "at_end"):
                self._database.executemany(
                    f"delete from {table} where component = ? and key = ? and name = ? and due = ?", gone
                )

    def _asked(self, where: str, values: tuple[object, ...], table: str = "timers") -> list[DueNow]:
        with self._lock:
            rows = self._database.execute(f"select component, key, name, due from {table} {where}", values).fetchall()
        return [DueNow(*row) for row in rows]


def timers_wait(path: Path, until: int, run: str, ended: int) -> bool:
    """For whoever has no book of its own: whether timers that are due by then are for the driver of this run, in which
    no epoch has come after the one that has `ended`. So they are, too, where the file can't be read: its driver says
    why, or makes it readable."""
    if not path.exists():
        return False
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            return bool(database.execute(WAITING, (until, run, ended)).fetchone()[0])
    except sqlite3.DatabaseError:
        return True
