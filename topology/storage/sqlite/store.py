"""`SqliteStore`: the data of one worker, in one file, `worker-N.db`. A commit is one transaction and one fsync. A
commit that need not last has no fsync, until all earlier ones are synced at once.

The file identifies itself: an id that the manifest has too, the worker's number, its number of commits (D12), and its
owner (D6). Everything in it is checked when it is opened; state and the journal are checked when they are read. Damage
is reported by name and left as it is (F22).

SQLite's exclusive lock keeps a second owner out on one machine. It is held as long as the store is open and goes with
the process. So a worker that is stopped and wakes up later has held it all the time, and no other process could open
the file. The file also knows its last owner, so a late owner of an earlier incarnation is refused (K445). Each commit
also checks, in its transaction, that the file is as this process has left it, for disks where locks do not work (K446).

Must not know who writes what, or when. The layout is a format of its own: docs/explanation/state-format.
"""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypedDict

import msgspec

from topology.codes.startup import NEWER_STATE_FILE_FORMAT, STALE_WORKER_INCARNATION, STATE_FILE_CHANGED_EXTERNALLY
from topology.errors import StartError
from topology.filesystem.files import Files
from topology.storage.encoding import packing
from topology.storage.sqlite import state_table, tables
from topology.storage.sqlite.database import Damaged, Database, InUse, Unusable
from topology.storage.sqlite.errors import can_not_open, check_plain, in_use, is_damaged
from topology.storage.sqlite.header import Own, Owner, durable_by, read_own, too_late, write_own
from topology.storage.sqlite.letter_rows import LetterRows
from topology.storage.sqlite.schema import FORMAT, SINCE_2, add_tables
from topology.storage.sqlite.state_rows import StateComponent, StateRows
from topology.storage.sqlite.wal import commits_passed_over
from topology.storage.store import StoreBroken, StoreFull
from topology.storage.values import (
    Begun,
    Changes,
    JournalRow,
    KeptFloor,
    Letter,
    Loaded,
    LoadedStates,
    Mark,
    StateRow,
    Trial,
)


class _Positions(TypedDict):
    """The data that is read again between two changes of a file: all but the letters, and state with its journal."""

    marks: tuple[Mark, ...]
    begun: tuple[Begun, ...]
    trials: tuple[Trial, ...]
    floors: tuple[KeptFloor, ...]


@dataclasses.dataclass
class _Draft:
    """The changes of one transaction: rows, and the later header and components of the file."""

    rows: tables.Writing
    own: Own
    known: dict[str, StateComponent]


class SqliteStore:
    """A `Store` over one existing file, opened and checked as a whole. Raises StartError, in one sentence, if the file
    is damaged, of a newer format, or unusable.

    lives    True: this is a worker's life, which ends in order or not. False for code that only reads, or moves data
             between two lives; then opening changes nothing.
    owner    The life's owner. An earlier owner than the last one is refused (D6).
    checked  True: this start has opened the file before and found it sound, and no other process has had it since. Then
             the pages, and long content of letters, are not checked again.

    A file of format 1 is read as it is, and becomes one of this format in the transaction of its first commit.
    """

    def __init__(
        self, files: Files, path: Path, *, lives: bool = True, owner: Owner | None = None, checked: bool = False
    ) -> None:
        self.path = path
        self._loaded = Loaded()
        self._durable = 0  # commits that survive a power failure
        check_plain(files, path)
        try:
            self._database = Database(files, path, checked=checked)
        except Damaged as error:
            is_damaged(path, str(error))
        except InUse:
            in_use(path)
        except Unusable as error:
            can_not_open(path, str(error))
        try:
            self._load(checked)
            if lives:
                self._begin_life(owner)
                self._database.open_log()
                files.sync_directory(path.parent)
        except Damaged as error:
            self.close()
            is_damaged(path, str(error))
        except (Unusable, StoreFull, StoreBroken, OSError) as error:
            self.close()
            can_not_open(path, str(error))
        except BaseException:
            self.close()
            raise

    @property
    def loaded(self) -> Loaded:
        return self._loaded

    @property
    def commits(self) -> int:
        """As in `Store`. For a file that was only opened, the number of commits that `settle` makes durable."""
        return self._durable

    @property
    def id(self) -> bytes:
        """The id given to the file when it was made; the manifest has it too."""
        return self._own.id

    @property
    def number(self) -> int:
        """The number of the worker that the file was made for; letters that are first kept here are named after it."""
        return self._own.number

    @property
    def is_short(self) -> bool:
        return self._database.is_short and self._format == FORMAT

    @property
    def is_long(self) -> bool:
        return self._database.is_long

    def commit(self, changes: Changes) -> None:
        """Commit as in `Store`. Raises ValueError for a letter that is too long to be stored, and for one without a
        name."""
        if changes:
            self.replace(changes)

    def sync(self) -> None:
        commits = self._own.commits
        self._database.sync()
        self._durable = max(self._durable, commits)

    def shorten(self) -> None:
        self._database.shorten()

    def replace(
        self,
        changes: Changes,
        *,
        marks: Sequence[Mark] = (),
        begun: Sequence[Begun] = (),
        trials: Sequence[Trial] = (),
        floors: Sequence[KeptFloor] = (),
        filed: Mapping[str, bytes | None] = MappingProxyType({}),
    ) -> None:
        """Commit changes, and remove the given rows. `filed`: the placements for which rows of these components are
        filed now; None: the component is no longer known here, and has no rows."""
        for letter in changes.letters:
            packing.letter_order(letter.name)
        with self._writing(lasting=changes.lasting) as draft:
            rows = draft.rows
            rows.remove_all(self._marks, map(packing.mark_key, (*marks, *changes.over)))
            rows.remove_all(self._begun, map(packing.begun_key, begun))
            for mark in changes.marks:
                rows.put(self._marks, packing.mark_key(mark), packing.packed_mark(mark))
            for entry in changes.begun:
                rows.put(self._begun, packing.begun_key(entry), packing.packed_begun(entry))
            for trial in changes.trials:
                rows.put(self._trials, packing.trial_key(trial), packing.packed_trial(trial))
            rows.remove_all(self._trials, map(packing.trial_key, (*trials, *changes.acquitted)))
            for letter in changes.letters:
                self._put_letter(draft, letter)
            self._letters.remove(rows, changes.gone)
            for change in changes.states:
                self._kept.put_states(rows, draft.known, change)
                draft.own.states ^= change.digest
            for row in changes.journal:
                self._kept.put_journal(rows, self._own.next_journal, row)
                draft.own.next_journal = max(draft.own.next_journal, row.number + 1)
            rows.remove_all(self._kept.journal, map(packing.journal_key, changes.forgotten))
            self._kept.put_filed(rows, draft.known, filed)
            rows.remove_all(self._floors, [packing.floor_key(floor.worker) for floor in floors])
            for floor in changes.floors:
                rows.put(self._floors, packing.floor_key(floor.worker), floor.progress)

    def forget(self) -> None:
        """Delete all positions, all state, and all that is remembered with it, as --fresh does; dead letters stay. One
        commit. Raises StoreFull, StoreBroken."""
        with self._writing() as draft:
            kept = self._kept.components, self._kept.journal, self._floors
            for table in (self._marks, self._begun, self._trials, *kept):
                draft.rows.remove_all(table, list(table.rows))
            state_table.clear(self._database)
            draft.own.states = 0
            draft.known.clear()

    def put_in_place(self, components: Iterable[str], filed: bytes) -> None:
        """Make the components' staged rows their own, and their own rows REPLACED, in one commit. Raises StoreFull,
        StoreBroken."""
        with self._writing() as draft:
            for component in components:
                self._kept.put_in_place(draft.rows, draft.known, component, filed)

    def settle(self) -> None:
        """Make the data that was read durable; a killed process may have left it unsynced. Raises StoreFull,
        StoreBroken."""
        self._database.settle()

    def reread(self) -> Loaded:
        """Return the present content; of letters, which may be many and long, only the next number. Raises
        StoreBroken."""
        with self._reading():
            positions = self._load_positions()
        own = self._own
        self._loaded = dataclasses.replace(
            self._loaded, **positions, next_letter=own.next_letter, next_journal=own.next_journal
        )
        return self._loaded

    def states(self) -> LoadedStates:
        """Return all state as in `Store`; one pass over all rows. `errors.start_error` translates its exceptions at a
        start."""
        with self._reading():
            return self._kept.all(self._own.states) if self._format >= 2 else LoadedStates({}, [])

    @property
    def known(self) -> Mapping[str, StateComponent]:
        """The data about each component that has rows here, or had some."""
        return self._kept.known

    def page(self, component: str, slots: range, after: StateRow | None = None) -> list[StateRow]:
        """Return some rows of state in these slots, or those after `after`, by slot and key; empty if there are no
        more. Raises StoreBroken."""
        with self._reading():
            return self._kept.page(component, slots, after, self._own.states)

    def there(self, component: str, rows: Iterable[StateRow]) -> set[tuple[int, bytes]]:
        """Return (slot, key) of each given row that the store has. Raises StoreBroken."""
        with self._reading():
            return self._kept.there(component, rows)

    def row(self, component: str, slot: int, key: bytes) -> StateRow | None:
        """Return the row of one key; None if it has no data. Raises StoreBroken."""
        with self._reading():
            return self._kept.row(component, slot, key, self._own.states)

    def journal(self) -> Iterator[JournalRow]:
        """Yield the present rows of the journal, oldest first, read one by one. Raises StoreBroken."""
        with self._reading():
            yield from self._kept.journal_rows()

    def letters(self, names: Sequence[str] | None = None, after: str = "", limit: int = 1_000) -> list[Letter]:
        """Return letters as in `Store`, ordered by the store that they were first kept in, then by age."""
        with self._reading():
            return self._letters.of(names) if names is not None else self._letters.after(after, limit)

    def listed(self, after: str = "", limit: int = 1_000) -> list[Letter]:
        """Return letters as in `Store`."""
        with self._reading():
            return self._letters.listed(after, limit)

    def names(self) -> list[str]:
        return self._letters.names()

    def ended_in_order(self) -> None:
        with self._writing() as draft:
            draft.own.lives = 0
        self._database.checkpoint()

    def close(self) -> None:
        self._database.close()

    # -- reading

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (Damaged, ValueError, msgspec.MsgspecError) as error:
            raise StoreBroken(f"{self.path} is damaged: {error}", self.path) from error

    def _load(self, checked: bool) -> None:
        database = self._database
        self._format = database.number("user_version")
        if self._format > FORMAT:
            text = f"{self.path} has format {self._format}; this Kedge reads formats up to {FORMAT}"
            raise StartError(text, code=NEWER_STATE_FILE_FORMAT)
        try:
            self._own, self._own_sum = read_own(database)
            self._durable = self._own.commits  # all of the log is synced before the first commit
            self._look_behind(database.log)
            database.log = b""
            self._loaded = self._load_tables(checked)
        except (ValueError, msgspec.MsgspecError) as error:
            raise Damaged(str(error)) from None
        except StoreBroken as error:  # a query failed: nothing was written yet
            raise database.while_opening(error) from None

    def _look_behind(self, log: bytes) -> None:
        """Raise Damaged if durable commits are behind the readable part of the log. SQLite reads a log as far as its
        checksums are valid, and silently ignores the rest. That is right for unsynced data, but for synced data it is
        damage (F22)."""
        if self._format < 1:
            raise Damaged("it has no format")
        lost = durable_by(log, self._own.id) - self._own.commits
        if self._format == 1 and (passed := commits_passed_over(log)) > 1:
            lost = passed
        if lost > 0:
            raise Damaged(f"the last {lost} commits in {self.path.name}-wal can't be read")

    def _load_tables(self, checked: bool) -> Loaded:
        positions = self._load_positions()
        self._letters = LetterRows(self._database)
        held = self._letters.load(checked=checked)
        self._kept = StateRows(self._database)
        if self._format >= 2:
            self._kept.load()
        memory = self._floors, self._kept.components, self._kept.journal
        digest = tables.digest((self._marks, self._begun, self._trials, *self._letters.tables, *memory))
        if digest.to_bytes(tables.SUM_BYTES, "little") != self._own.digest:
            raise Damaged("rows are missing, or are older than others")
        return Loaded(
            **positions,
            letters=held.count,
            letter_bytes=held.size,
            next_letter=self._own.next_letter,
            unserved=tuple(held.unserved),
            replaying=tuple(held.replaying),
            deaths=self._own.lives,
            dead_origins=tuple(held.origins),
            next_journal=self._own.next_journal,
        )

    def _load_positions(self) -> _Positions:
        names = ("marks", "begun", "trials", "floors")
        self._marks, self._begun, self._trials, self._floors = map(tables.RowTable, names)
        floors = tables.loaded(self._database, self._floors) if self._format >= 2 else ()
        return {
            "marks": tuple(packing.mark_of(body) for _, body in tables.loaded(self._database, self._marks)),
            "begun": tuple(packing.begun_of(body) for _, body in tables.loaded(self._database, self._begun)),
            "trials": tuple(packing.trial_of(body) for _, body in tables.loaded(self._database, self._trials)),
            "floors": tuple(packing.floor_of(key, body) for key, body in floors),
        }

    # -- writing

    def _put_letter(self, draft: _Draft, letter: Letter) -> None:
        self._letters.put(draft.rows, letter)
        store, number = packing.letter_order(letter.name)
        if store == draft.own.number:
            draft.own.next_letter = max(draft.own.next_letter, number + 1)

    def _begin_life(self, owner: Owner | None) -> None:
        """Begin a worker's life. Raises StartError if another owner came after this one (D6)."""
        if too_late(owner, self._own.owner):
            text = f"the state file {self.path} belongs to a later start than this one, which came to it too late"
            raise StartError(text, code=STALE_WORKER_INCARNATION)
        with self._writing() as draft:
            draft.own.lives += 1
            draft.own.owner = self._own.owner if owner is None else owner

    @contextlib.contextmanager
    def _writing(self, *, lasting: bool = True) -> Iterator[_Draft]:
        """Run one transaction; afterwards the file has one commit more."""
        before = self._own
        with self._database.transaction(lasting=lasting):
            rows = tables.Writing(self._database, int.from_bytes(before.digest, "little"), before.next_row)
            draft = _Draft(rows, msgspec.structs.replace(before, durable=self._durable), {**self._kept.known})
            if self._format < FORMAT:
                add_tables(self._database, SINCE_2)
            yield draft
            draft.own.commits += 1
            draft.own.next_row = rows.next_number
            draft.own.digest = rows.digest.to_bytes(tables.SUM_BYTES, "little")
            if (sum := write_own(self._database, self._own_sum, draft.own)) is None:
                self._database.broken = f"another process has written to {self.path} ({STATE_FILE_CHANGED_EXTERNALLY})"
                raise StoreBroken(self._database.broken)
        rows.done()
        self._own, self._own_sum, self._kept.known, self._format = draft.own, sum, draft.known, FORMAT
        if lasting:
            self._durable = draft.own.commits
