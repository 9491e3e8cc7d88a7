"""A worker through checkpoints and lives: what its store has to have, in memory, beside the store itself.

Input n sets key n % KEYS to n, and emits one record. It may come in any number of lives.
"""

from dataclasses import dataclass, field
from pathlib import Path

from topology.filesystem.files import Files
from topology.storage.encoding import state
from topology.storage.encoding.entries import KnownEntry, NamedEntry, OutputClass, named, packed_named
from topology.storage.encoding.fired_timers import HaveFired, have_fired
from topology.storage.encoding.log_records import pack
from topology.storage.store import Store
from topology.storage.values import Changes, EntryRow, Mark, StateChange, StateRow
from topology.storage.worker_store import open_store

KEYS = 5
SLOT = 7
OUT = OutputClass("Alert", 3)


def record_of(number: int) -> bytes:
    outputs = [(0, b"out %d" % number)]
    fields = (*key_of(number), 9, number, number, outputs, -1, SLOT, False, (0, number, 0))
    return pack("count", [OUT], [fields])


def key_of(number: int) -> tuple[bytes, bytes]:
    """The key that an input changes, and its content then."""
    return b"key %d" % (number % KEYS), state.packed(b"%d" % number, {})


def row_of(number: int) -> StateRow:
    key, content = key_of(number)
    return StateRow(SLOT, key, state.body_of(state.seed_of("count", SLOT), key, content))


def entry_of(number: int) -> NamedEntry:
    return NamedEntry(KnownEntry(SLOT, 9, number, (number,)), ((OUT, b"out %d" % number),))


@dataclass
class Worker:
    """One life of a worker. `done`: how many inputs its memory has taken; `known`: of them those that are open."""

    store: Store
    done: int = 0
    first: int = 1  # the first input that is known
    gathered: dict[bytes, StateRow] = field(default_factory=dict)  # the rows that checkpoints have had

    @classmethod
    def opened(
        cls, files: Files, path: Path, life: int, decided: int, *, logged: bool = True, number: int = 0
    ) -> "Worker":
        """Opens the store, and takes what it has; asserts that this is the state after some input."""
        store = open_store(files, path, owner=(number, life), decided=decided, logged=logged)
        try:
            worker = cls(store)
            worker.done, worker.first = content_of(store)
            worker.gathered = {row.key: row for row in store.states().rows.get("count", ())}
        except BaseException:
            store.close()
            raise
        return worker

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def take(self, count: int = 1) -> None:
        """Takes the next inputs, as one group of the log."""
        numbers = range(self.done + 1, self.done + count + 1)
        self.store.append([record_of(number) for number in numbers])
        self.done += count

    def changes(self, forget: int = 0) -> Changes:
        """What a checkpoint has. `forget`: so many of the known inputs are done and decided."""
        now = {row.key: row for row in map(row_of, range(max(1, self.done - KEYS + 1), self.done + 1))}
        rows = [row for key, row in now.items() if self.gathered.get(key) != row]
        digest = 0
        for row in rows:
            digest ^= state.sum_of(row.body)
            if (before := self.gathered.get(row.key)) is not None:
                digest ^= state.sum_of(before.body)
        self.first += forget
        entries = packed_named(map(entry_of, range(self.first, self.done + 1)))
        marks = [Mark("lines", 0, "p", "e", self.done, (), self.done)]
        return Changes(
            marks=marks,
            states=[StateChange("count", rows, digest)] if rows else [],
            entries=[EntryRow("count", data) for data in entries],
        )

    def is_decided(self, changes: Changes) -> None:
        """The rows of these changes are those that later ones replace."""
        self.gathered |= {row.key: row for change in changes.states for row in change.rows}


def content_of(store: Store) -> tuple[int, int]:
    """Return after how many inputs this is the content of a store, and the first input that it knows. Asserts that it
    is that as a whole."""
    states = store.states()
    rows = {row.key: row for row in states.rows.get("count", ())}
    known = [one for row in states.entries for one in named(row.entries)]
    fired = have_fired(store.loaded.marks, "count")
    done = max((int(row.body[state.SUM_BYTES + 1 :]) for row in rows.values()), default=0)
    assert rows == {row.key: row for row in map(row_of, range(max(1, done - KEYS + 1), done + 1))}
    first = min((one.entry.identity for one in known), default=done + 1)
    assert [one.entry._replace(outputs=()) for one in known] == [
        entry_of(number).entry for number in range(first, done + 1)
    ]
    assert [one.outputs for one in known] == [entry_of(number).outputs for number in range(first, done + 1)]
    assert fired <= HaveFired(done, 0)
    return done, first
