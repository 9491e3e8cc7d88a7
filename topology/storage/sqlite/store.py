"""`SqliteStore`: the data of one worker, in one file, `worker-N.db`, as of the last decided checkpoint. A commit is one
transaction and one fsync.

A checkpoint that is not decided yet is packed in a table of its own, where `decided` finds it: now, or at the next
opening by `resolve`. Deciding is a commit without an fsync: an opening would find the same.

The file identifies itself: an id that the manifest has too, the worker's number, its number of commits (D12), and its
owner (D6). Everything in it is checked when it is opened; state and known inputs are checked when they are read. Damage
is reported by name and left as it is (F22).

SQLite's exclusive lock keeps a second owner out on one machine. It is held as long as the store is open and goes with
the process. So a worker that is stopped and wakes up later has held it all the time, and no other process could open
the file. The file also knows its last owner, so a late owner of an earlier incarnation is refused (K445). Each commit
also checks, in its transaction, that the file is as this process has left it, for disks where locks do not work (K446).

Must not know who writes what, or when, nor the log. The layout is a format of its own: docs/explanation/state-format.
"""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

from topology.codes.startup import (
    NEWER_STATE_FILE_FORMAT,
    STALE_WORKER_INCARNATION,
    STATE_FILE_CHANGED_EXTERNALLY,
)
from topology.errors import StartError
from topology.filesystem.files import Files
from topology.storage.encoding import packing
from topology.storage.sqlite import state_table, tables
from topology.storage.sqlite.database import Damaged, Database, InUse, Unusable
from topology.storage.sqlite.errors import can_not_open, check_plain, in_use, is_damaged
from topology.storage.sqlite.former import FormerRows
from topology.storage.sqlite.header import Own, Owner, lost_commits, read_own, too_late, write_own
from topology.storage.sqlite.letter_rows import LetterRows
from topology.storage.sqlite.position_rows import PositionRows
from topology.storage.sqlite.prepared_rows import PreparedRows
from topology.storage.sqlite.schema import FORMAT, add_tables
from topology.storage.sqlite.state_rows import StateComponent, StateRows
from topology.storage.store import StoreBroken, StoreFull
from topology.storage.values import (
    Begun,
    Changes,
    EntryRow,
    Letter,
    Loaded,
    LoadedStates,
    Mark,
    StateRow,
    Trial,
)


@dataclasses.dataclass
class _Draft:
    """The changes of one transaction: rows, and the later header and components of the file."""

    rows: tables.Writing
    own: Own
    known: dict[str, StateComponent]


class SqliteStore:
    """One existing file, opened and checked as a whole; `worker_store` makes a `Store` of it. Opening changes nothing.
    Raises StartError, in one sentence, if the file is damaged, of a newer format, or unusable.

    `checked`: this start has opened the file before and found it sound, and no other process has had it since. Then the
    pages, and long content of letters, are not checked again.

    A file of format 1 or 2 is read as it is, and becomes one of this format in the transaction of its first commit.
    """

    def __init__(self, files: Files, path: Path, *, checked: bool = False) -> None:
        self.path = path
        self._loaded = Loaded()
        self._durable = 0  # commits that survive a power failure
        self._prepared: tuple[int, Changes] | None = None
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
    def format(self) -> int:
        """The format of the file; an older one until its first commit."""
        return self._format

    @property
    def checkpoint(self) -> int:
        """The number of the decided checkpoint that is the content."""
        return self._own.checkpoint

    @property
    def prepared(self) -> int:
        """The number of the checkpoint that is prepared, and neither decided nor given up; 0 for none."""
        return self._prepared[0] if self._prepared is not None else 0

    @property
    def is_owing(self) -> bool:
        """True if a loss of power could leave a checkpoint that was prepared and is over."""
        return self._prepared is not None or self._durable != self._own.commits

    @property
    def has_log(self) -> bool:
        """True if a log beside the file has what was done since its content."""
        return self._own.has_log

    @property
    def takes_part(self) -> bool:
        """True if a run that has begun decides no checkpoint without this store."""
        return self._own.takes_part

    # -- checkpoints

    def commit(self, changes: Changes) -> None:
        """Commit changes durably; known inputs stay as they are. Raises ValueError for a letter that is too long to be
        stored, and for one without a name; StoreFull, StoreBroken."""
        if changes:
            self.replace(changes)

    def prepare(self, checkpoint: int, changes: Changes) -> None:
        """As in `Store`. Raises ValueError for a number that was decided before."""
        _check_next(self.checkpoint, checkpoint, changes)
        with self._writing() as draft:
            self._parts.put(draft.rows, checkpoint, changes)
        self._prepared = checkpoint, changes

    def decided(self, checkpoint: int) -> None:
        """As in `Store`. Does nothing if it was decided here before. Raises ValueError if it is not prepared."""
        if checkpoint <= self._own.checkpoint:
            return
        if checkpoint != self.prepared:
            raise ValueError(f"checkpoint {checkpoint} is not prepared, and {self.prepared} is")
        assert self._prepared is not None
        self._take_prepared(checkpoint, lasting=self._prepared[1].is_idle)  # an idle run then owes nothing

    def conclude(self, checkpoint: int, changes: Changes) -> None:
        """As in `Store`. Raises ValueError for a number that was decided before."""
        _check_next(self.checkpoint, checkpoint, changes)
        with self._writing() as draft:
            self._put_all(draft, changes, changes.entries)
            self._parts.clear(draft.rows)
            draft.own.checkpoint = checkpoint
        self._prepared = None

    def resolve(self, decided: int) -> None:
        """Make this checkpoint, which is the last decided one of the whole run, the content, durably, whether it is
        prepared or this store had no part in it. One that is prepared and not decided is deleted. Raises StoreFull,
        StoreBroken."""
        if self.prepared or self._own.checkpoint < decided:
            self._take_prepared(decided, lasting=True)
            with self._reading():
                self._loaded = self._load_tables(checked=True)

    def _take_prepared(self, decided: int, *, lasting: bool) -> None:
        with self._writing(lasting=lasting) as draft:
            if self._prepared is not None and self._prepared[0] == decided:
                self._put_all(draft, self._prepared[1], self._prepared[1].entries)
            self._parts.clear(draft.rows)
            draft.own.checkpoint = max(decided, draft.own.checkpoint)
        self._prepared = None

    # -- lives

    def begin_life(self, owner: Owner, *, has_log: bool) -> None:
        """Begin a worker's life, durably, which ends in order or not. `has_log`: a log is there, durably, and all that
        is done from now on may be in it. Raises StartError if another owner came after this one (D6); StoreFull,
        StoreBroken."""
        self.check_owner(owner)
        with self._writing() as draft:
            draft.own.lives += 1
            draft.own.owner = owner
            draft.own.has_log = has_log
            draft.own.takes_part = True
        with contextlib.suppress(StoreFull):
            self._database.checkpoint()  # a copy without the log says that it takes part, and so that it is older

    def end_run(self) -> None:
        """Record durably, if it is not yet, that no run is under way: later ones may go on without this store. Raises
        StoreFull, StoreBroken."""
        if self._own.takes_part:
            with self._writing() as draft:
                draft.own.takes_part = False

    def check_owner(self, owner: Owner) -> None:
        """Raise StartError if another owner came after this one (D6)."""
        if too_late(owner, self._own.owner):
            text = f"the state file {self.path} belongs to a later start than this one, which came to it too late"
            raise StartError(text, code=STALE_WORKER_INCARNATION)

    # -- between two runs

    def replace(
        self,
        changes: Changes,
        *,
        lasting: bool = True,
        marks: Sequence[Mark] = (),
        begun: Sequence[Begun] = (),
        trials: Sequence[Trial] = (),
        entries: Sequence[EntryRow] | None = None,
        filed: Mapping[str, bytes | None] = MappingProxyType({}),
        ends_log: bool = False,
    ) -> None:
        """Commit changes, and remove the given rows.

        lasting   False: it survives a loss of power together with the next commit that is lasting.
        entries   All known inputs from now on; None: they stay as they are.
        filed     The placements for which rows of these components are filed now; None: the component is no longer
                  known here, and has no rows.
        ends_log  The changes are what the log had; there is no log any more.
        """
        _check_names(changes)
        with self._writing(lasting=lasting, former=entries is None) as draft:
            rows = draft.rows
            self._positions.remove(rows, marks, begun, trials)
            self._put_all(draft, changes, entries)
            self._kept.put_filed(rows, draft.known, filed)
            draft.own.has_log &= not ends_log

    def _put_all(self, draft: _Draft, changes: Changes, entries: Sequence[EntryRow] | None) -> None:
        rows = draft.rows
        self._positions.put(rows, changes)
        for letter in changes.letters:
            self._letters.put(rows, letter)
            store, number = packing.letter_order(letter.name)
            if store == draft.own.number:
                draft.own.next_letter = max(draft.own.next_letter, number + 1)
        self._letters.remove(rows, changes.gone)
        for change in changes.states:
            self._kept.put_states(rows, draft.known, change)
            draft.own.states ^= change.digest
        if entries is not None:
            self._kept.put_entries(rows, entries)

    def forget(self) -> None:
        """Delete all positions, all state, and all that is remembered with it, as --fresh does; dead letters stay, and
        so does the number of the checkpoint. What a log has is void. One commit. Raises StoreFull, StoreBroken."""
        with self._writing(former=False) as draft:
            for table in (*self._positions.tables, self._kept.components, self._kept.entries, self._parts.table):
                draft.rows.remove_all(table, list(table.rows))
            state_table.clear(self._database)
            draft.own.states = 0
            draft.own.has_log = False
            draft.known.clear()
        self._prepared = None

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
            self._positions = now = PositionRows(self._database)
        self._loaded = dataclasses.replace(
            self._loaded,
            marks=now.marks,
            begun=now.begun,
            trials=now.trials,
            next_letter=self._own.next_letter,
            checkpoint=self._own.checkpoint,
        )
        return self._loaded

    def states(self) -> LoadedStates:
        """Return all state as in `Store`; one pass over all rows. `errors.start_error` translates its exceptions at a
        start."""
        with self._reading():
            if self._format == FORMAT:
                return self._kept.all(self._own.states)
            found = self._kept.all(self._own.states) if self._format >= 2 else LoadedStates({}, [])
            return LoadedStates(found.rows, self._former.entries)

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

    def rows_of(self, component: str, places: Sequence[tuple[int, bytes]]) -> list[StateRow]:
        """Return the rows of these keys, each (slot, key), that have data. `states` finds a row that is missing by
        damage, no matter what is written meanwhile. Raises StoreBroken."""
        with self._reading():
            return self._kept.of_keys(component, places)

    def entries(self) -> Sequence[EntryRow]:
        """Return all inputs that are known. Raises StoreBroken."""
        with self._reading():
            return self._former.entries if self._format < FORMAT else self._kept.entry_rows()

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

    def copy_to(self, path: Path) -> int:
        """As in `Store`."""
        if self._prepared is not None:
            raise StoreFull(f"{self.path} has not taken checkpoint {self.prepared} in yet")
        self._database.copy_to(path)
        return self._own.commits

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
            if self._format < 1:
                raise Damaged("it has no format")
            self._own, self._own_sum = read_own(database)
            self._durable = self._own.commits  # all of the log is synced before the first commit
            if lost := lost_commits(database.log, self._own, self._format):
                raise Damaged(f"the last {lost} commits in {self.path.name}-wal can't be read")
            database.log = b""
            self._loaded = self._load_tables(checked)
        except (ValueError, msgspec.MsgspecError) as error:
            raise Damaged(str(error)) from None
        except StoreBroken as error:  # a query failed: nothing was written yet
            raise database.while_opening(error) from None

    def _load_tables(self, checked: bool) -> Loaded:
        self._positions = PositionRows(self._database)
        self._letters = LetterRows(self._database)
        held = self._letters.load(checked=checked)
        self._kept = StateRows(self._database)
        if self._format >= 2:
            self._kept.load(entries=self._format == FORMAT)
        self._parts = PreparedRows(self._database, there=self._format == FORMAT)
        self._prepared = self._parts.found
        self._former = FormerRows(self._database, self._format)
        memory = self._kept.components, self._kept.entries, self._parts.table, *self._former.tables
        digest = tables.digest((*self._positions.tables, *self._letters.tables, *memory))
        if digest.to_bytes(tables.SUM_BYTES, "little") != self._own.digest:
            raise Damaged("rows are missing, or are older than others")
        return Loaded(
            marks=self._positions.marks,
            begun=self._positions.begun,
            trials=self._positions.trials,
            letters=held.count,
            letter_bytes=held.size,
            next_letter=self._own.next_letter,
            unserved=tuple(held.unserved),
            replaying=tuple(held.replaying),
            deaths=self._own.lives,
            dead_origins=tuple(held.origins),
            checkpoint=self._own.checkpoint,
        )

    # -- writing

    @contextlib.contextmanager
    def _writing(self, *, lasting: bool = True, former: bool = True) -> Iterator[_Draft]:
        """Run one transaction; afterwards the file has one commit more, and this format. `former`: the known inputs of
        an older format stay."""
        before = self._own
        with self._database.transaction(lasting=lasting):
            rows = tables.Writing(self._database, int.from_bytes(before.digest, "little"), before.next_row)
            draft = _Draft(rows, msgspec.structs.replace(before, durable=self._durable), {**self._kept.known})
            if self._format < FORMAT:
                self._former.remove(rows)
                add_tables(self._database, self._format)
                self._kept.put_entries(rows, self._former.entries if former else ())
            yield draft
            draft.own.commits += 1
            draft.own.next_row = rows.next_number
            draft.own.digest = rows.digest.to_bytes(tables.SUM_BYTES, "little")
            if (sum := write_own(self._database, self._own_sum, draft.own)) is None:
                self._database.broken = f"another process has written to {self.path} ({STATE_FILE_CHANGED_EXTERNALLY})"
                raise StoreBroken(self._database.broken)
        rows.done()
        self._own, self._own_sum, self._kept.known, self._format = draft.own, sum, draft.known, FORMAT
        self._former = FormerRows(self._database, FORMAT)
        if lasting:
            self._durable = draft.own.commits


def _check_names(changes: Changes) -> None:
    for letter in changes.letters:
        packing.letter_order(letter.name)


def _check_next(decided: int, checkpoint: int, changes: Changes) -> None:
    if checkpoint <= decided:
        raise ValueError(f"checkpoint {checkpoint} comes after {decided}, which is decided")
    _check_names(changes)
    _check_sizes(changes)


def _check_sizes(changes: Changes) -> None:
    """Raise ValueError for a row that the store would refuse once the checkpoint is decided."""
    sizes = [len(row.key) + len(row.body) for change in changes.states for row in change.rows]
    if (longest := max(sizes, default=0)) > state_table.ROW_BYTES_MAX:
        most = f"{state_table.ROW_BYTES_MAX:,}"
        raise ValueError(f"the state of a key has {longest:,} bytes, and a store takes {most} of one")
    if (longest := max([len(row.entries) for row in changes.entries], default=0)) > tables.ROW_BYTES_MAX:
        most = f"{tables.ROW_BYTES_MAX:,}"
        raise ValueError(f"what is known of an input, with its outputs, has {longest:,} bytes; a store takes {most}")
