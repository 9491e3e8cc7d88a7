"""`SqliteStore`: what one worker keeps, in one file, `worker-N.db`. One transaction and one fsync a commit.

The file says which one it is: an id that the manifest has too, the worker's number, and how many commits it has seen
(D12). Everything in it is checked as it is opened; what is damaged is refused by name and left as it is (F22).
Must not know who writes what, or when. The layout is a format of its own: docs/explanation/state-format.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn, TypedDict

import msgspec
from xxhash import xxh3_128_digest

from topology.codes.starting import K430, K435, K436, K438
from topology.durable import packing, tables
from topology.durable.database import APPLICATION, Damaged, Database, InUse, Unusable
from topology.durable.files import Files
from topology.durable.store import StoreBroken, StoreFull
from topology.durable.values import Begun, Changes, Letter, Loaded, Mark, Trial
from topology.errors import StartError

FORMAT: Final = 1  # of worker-N.db
ID_BYTES: Final = 16
LISTED_BYTES_MAX: Final = 4 * 1024 * 1024  # of letters that are listed at once; more come with the next page

_TABLES: Final = ("marks", "begun", "trials", "letters", "contents")  # contents: letters' records and tracebacks


class _Own(msgspec.Struct, array_like=True):
    """What the file says of itself."""

    id: bytes
    number: int  # of the worker that it was made for: the first part of its letters' names
    commits: int = 0
    next_row: int = 1
    next_letter: int = 1
    lives: int = 0  # that began since one has ended in order
    digest: bytes = bytes(tables.SUM_BYTES)  # of all rows


class _Positions(TypedDict):
    """What is read anew between two changes of a file: all but the letters."""

    marks: tuple[Mark, ...]
    begun: tuple[Begun, ...]
    trials: tuple[Trial, ...]


_encode: Final = msgspec.msgpack.Encoder().encode
_own_of: Final = msgspec.msgpack.Decoder(_Own).decode


def create_store(files: Files, path: Path, *, id: bytes, number: int, first_letter: int = 1) -> None:
    """A new, empty file, durable when this returns. What an earlier try has left at `path` is replaced: whoever calls
    knows that nothing was ever kept in it. Raises StartError."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-journal"):
        with contextlib.suppress(FileNotFoundError):
            files.remove(path.with_name(name))
    files.create(path, b"")
    try:
        database = Database(files, path, new=True)
        try:
            with database.transaction():
                database.run(f"PRAGMA application_id = {APPLICATION}")
                database.run(f"PRAGMA user_version = {FORMAT}")
                database.run("CREATE TABLE own (one INTEGER PRIMARY KEY, body BLOB NOT NULL, sum BLOB NOT NULL) STRICT")
                for name in _TABLES:
                    tables.create(database, name)
                _write_own(database, _Own(id, number, commits=1, next_letter=first_letter))
            database.checkpoint()
        finally:
            database.close()
        files.sync_directory(path.parent)
    except (Damaged, Unusable, StoreFull, StoreBroken) as error:
        _can_not_open(path, str(error))


class SqliteStore:
    """A `Store` over one file that is there, opened and checked as a whole. Raises StartError, in one sentence, where
    it is damaged, of a newer format, or can't be used.

    `lives`: this is a worker's life, which ends in order or not; what only looks, or moves things between two lives,
    says False, and changes nothing by being opened.
    """

    def __init__(self, files: Files, path: Path, *, lives: bool = True) -> None:
        self.path = path
        self._loaded = Loaded()
        self._next_letter = 1
        _check_plain(files, path)
        try:
            self._database = Database(files, path)
        except Damaged as error:
            _is_damaged(path, str(error))
        except Unusable as error:
            _can_not_open(path, str(error), _IN_USE if isinstance(error, InUse) else "")
        try:
            self._load()
            if lives:
                self._keep_own(lives=self._own.lives + 1)
                files.sync_directory(path.parent)
        except Damaged as error:
            self.close()
            _is_damaged(path, str(error))
        except (Unusable, StoreFull, StoreBroken, OSError) as error:
            self.close()
            _can_not_open(path, str(error))
        except BaseException:
            self.close()
            raise

    @property
    def loaded(self) -> Loaded:
        return self._loaded

    @property
    def commits(self) -> int:
        return self._own.commits

    @property
    def id(self) -> bytes:
        """Given to the file when it was made; the manifest has it too."""
        return self._own.id

    @property
    def number(self) -> int:
        """Of the worker that the file was made for; letters that are first kept here are named after it."""
        return self._own.number

    def commit(self, changes: Changes) -> None:
        """As `Store` says. Raises ValueError for a letter that is too long to be stored, and for one without a name."""
        if changes:
            self.replace(changes)

    def replace(
        self,
        changes: Changes,
        *,
        marks: Sequence[Mark] = (),
        begun: Sequence[Begun] = (),
        trials: Sequence[Trial] = (),
    ) -> None:
        """As `commit`, in place of these marks, begun tasks and trials, which are not kept any more."""
        for letter in changes.letters:
            packing.letter_order(letter.name)
        with self._writing() as writing:
            for key in map(packing.mark_key, (*marks, *changes.over)):
                writing.remove(self._marks, key)
            for key in map(packing.begun_key, begun):
                writing.remove(self._begun, key)
            for mark in changes.marks:
                writing.put(self._marks, packing.mark_key(mark), packing.packed_mark(mark))
            for one in changes.begun:
                writing.put(self._begun, packing.begun_key(one), packing.packed_begun(one))
            for trial in changes.trials:
                writing.put(self._trials, packing.trial_key(trial), packing.packed_trial(trial))
            for trial in (*trials, *changes.acquitted):
                writing.remove(self._trials, packing.trial_key(trial))
            for letter in changes.letters:
                self._put_letter(writing, letter)
            for name in changes.gone:
                writing.remove(self._letters, name.encode())
                writing.remove(self._contents, name.encode())

    def reread(self) -> Loaded:
        """What it holds now; of letters, which may be many and long, no more than the next one's number. Raises
        StoreBroken."""
        try:
            positions = self._load_positions()
            self._loaded = dataclasses.replace(self._loaded, **positions, next_letter=self._own.next_letter)
        except (Damaged, ValueError) as error:
            raise StoreBroken(f"{self.path} is damaged: {error}") from None
        return self._loaded

    def letters(self, names: Sequence[str] | None = None, after: str = "", limit: int = 1_000) -> list[Letter]:
        """As `Store` says; ordered by the store that they were first kept in, then by age."""
        if names is not None:
            return [self._letter(name.encode(), whole=True) for name in names if name.encode() in self._letters.rows]
        return [self._letter(key, whole=True) for key in self._keys_after(after)[:limit]]

    def listed(self, after: str = "", limit: int = 1_000) -> list[Letter]:
        """As `letters`, without records and tracebacks, and perhaps fewer than `limit` where they are long, though at
        least one where there is one. Raises StoreBroken."""
        found: list[Letter] = []
        total = 0
        for key in self._keys_after(after)[:limit]:
            found.append(self._letter(key, whole=False))
            total += len(found[-1].text) + len(found[-1].problem)
            if total > LISTED_BYTES_MAX:
                break
        return found

    def names(self) -> list[str]:
        """Of all letters, in their order."""
        return [key.decode() for key in self._keys_after("")]

    def ended_in_order(self) -> None:
        self._keep_own(lives=0)
        self._database.checkpoint()

    def close(self) -> None:
        self._database.close()

    # -- reading

    def _load(self) -> None:
        database = self._database
        version = database.number("user_version")
        if version > FORMAT:
            text = f"{self.path} has format {version}; this Kedge reads formats up to {FORMAT}"
            raise StartError(text, code=K435)
        try:
            rows = database.rows("SELECT body, sum FROM own")
            if version != FORMAT or len(rows) != 1 or xxh3_128_digest(rows[0][0]) != rows[0][1]:
                raise Damaged("what it says of itself is not what was written")
            self._own = _own_of(rows[0][0])
            self._loaded = self._load_tables()
        except (ValueError, msgspec.MsgspecError) as error:
            raise Damaged(str(error)) from None
        except StoreBroken as error:  # a query that fails: nothing was written yet
            raise database.while_opening(error) from None

    def _load_tables(self) -> Loaded:
        positions = self._load_positions()
        self._letters, self._contents = tables.Table("letters"), tables.Table("contents")
        size, unserved, replaying = 0, list[str](), list[str]()
        for key, body in tables.loaded(self._database, self._letters):
            letter = packing.letter_of(body)
            if letter.name.encode() != key:
                raise Damaged("a letter has another name than its row")
            size += len(letter.text) + len(letter.problem)
            if not letter.served:
                unserved.append(letter.name)
            if letter.replaying:
                replaying.append(letter.name)
        for _, body in tables.loaded(self._database, self._contents):
            size += sum(len(part) for part in _contents_of(body))
        if self._letters.rows.keys() != self._contents.rows.keys():
            raise Damaged("letters without content, or content without letters")
        digest = 0
        for table in (self._marks, self._begun, self._trials, self._letters, self._contents):
            for row in table.rows.values():
                digest ^= row.sum
        if digest.to_bytes(tables.SUM_BYTES, "little") != self._own.digest:
            raise Damaged("rows are missing, or are older than others")
        return Loaded(
            **positions,
            letters=len(self._letters.rows),
            letter_bytes=size,
            next_letter=self._own.next_letter,
            unserved=tuple(sorted(unserved, key=packing.letter_order)),
            replaying=tuple(sorted(replaying, key=packing.letter_order)),
            deaths=self._own.lives,
        )

    def _load_positions(self) -> _Positions:
        self._marks, self._begun, self._trials = map(tables.Table, ("marks", "begun", "trials"))
        return {
            "marks": tuple(packing.mark_of(body) for _, body in tables.loaded(self._database, self._marks)),
            "begun": tuple(packing.begun_of(body) for _, body in tables.loaded(self._database, self._begun)),
            "trials": tuple(packing.trial_of(body) for _, body in tables.loaded(self._database, self._trials)),
        }

    def _keys_after(self, after: str) -> list[bytes]:
        keys = sorted(self._letters.rows, key=lambda key: packing.letter_order(key.decode()))
        if not after:
            return keys
        order = packing.letter_order(after)
        return [key for key in keys if packing.letter_order(key.decode()) > order]

    def _letter(self, key: bytes, *, whole: bool) -> Letter:
        try:
            letter = packing.letter_of(tables.read(self._database, self._letters, key))
            if whole:
                record, traceback = _contents_of(tables.read(self._database, self._contents, key))
                letter = msgspec.structs.replace(letter, record=record, traceback=traceback.decode(*_TEXT))
        except (Damaged, ValueError) as error:
            raise StoreBroken(f"{self.path} is damaged: {error}") from None
        return letter

    # -- writing

    def _put_letter(self, writing: tables.Writing, letter: Letter) -> None:
        key = letter.name.encode()
        short = msgspec.structs.replace(letter, record=b"", traceback="")
        writing.put(self._letters, key, packing.packed_letter(short))
        writing.put(self._contents, key, _encode([letter.record, letter.traceback.encode(*_TEXT)]))
        store, number = packing.letter_order(letter.name)
        if store == self._own.number:
            self._next_letter = max(self._next_letter, number + 1)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[tables.Writing]:
        """One transaction, after which the file has seen one commit more."""
        own = self._own
        self._next_letter = own.next_letter
        with self._database.transaction():
            writing = tables.Writing(self._database, int.from_bytes(own.digest, "little"), own.next_row)
            yield writing
            after = msgspec.structs.replace(
                own,
                commits=own.commits + 1,
                next_row=writing.next_number,
                next_letter=self._next_letter,
                digest=writing.digest.to_bytes(tables.SUM_BYTES, "little"),
            )
            _write_own(self._database, after)
        writing.done()
        self._own = after

    def _keep_own(self, *, lives: int) -> None:
        after = msgspec.structs.replace(self._own, commits=self._own.commits + 1, lives=lives)
        with self._database.transaction():
            _write_own(self._database, after)
        self._own = after


_IN_USE: Final = "run again in a few seconds: workers of a run that was just killed end within 3 s; or see who has it"
_TEXT: Final = ("utf-8", "surrogatepass")


def _contents_of(body: bytes) -> tuple[bytes, bytes]:
    record, traceback = msgspec.msgpack.decode(body, type=tuple[bytes, bytes])
    return record, traceback


def _write_own(database: Database, own: _Own) -> None:
    body = _encode(own)
    database.run("INSERT OR REPLACE INTO own (one, body, sum) VALUES (1, ?, ?)", (body, xxh3_128_digest(body)))


def _check_plain(files: Files, path: Path) -> None:
    """S5: what is opened is a file of this user's with one name, and no link to another."""
    for one in (path, path.with_name(f"{path.name}-wal")):
        try:
            found = files.look(one)
        except OSError as error:
            _can_not_open(one, error.strerror or str(error))
        if found is None and one is not path:
            continue
        if found is None:
            _can_not_open(path, "there is no such file")
        if found.kind != "file" or not found.ours or found.links != 1:
            what = "belongs to another user" if not found.ours else "is a link, or no plain file"
            raise StartError(f"the state file {one} {what}", code=K438)


def _is_damaged(path: Path, what: str) -> NoReturn:
    raise StartError(
        f"the state file {path} is damaged: {what}",
        code=K430,
        next=f"restore all of {path.parent} from one copy, or move {path.name} away and run again with --accept-loss",
    )


def _can_not_open(path: Path, why: str, advice: str = "") -> NoReturn:
    raise StartError(f"the state file {path} can't be used: {why}", code=K436, next=advice)
