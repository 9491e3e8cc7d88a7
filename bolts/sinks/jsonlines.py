"""`JsonLinesSink`: appends records to a file as lines of JSON, each once, also after replays.

This is the class that a user declares; `batching` makes the batches, and `JsonLinesStore` writes the file.
"""

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from os import PathLike, fspath
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from xxhash import xxh3_64

from acker.identity import content_hash
from bolts.sinks.batching import BATCH, BatchingSink
from bolts.sinks.contract import LOOK_BYTES_MAX, SinkStore, SinkStoreBroken, StoreAway, Written
from bolts.sinks.files import PASSING, checked_path, identity_of, lock
from bolts.sinks.keys import KEY_BYTES, PAIR_BYTES, WriteCounts, joined_keys, key_name, split_keys
from bolts.sinks.known_keys import KnownKeys
from bolts.sinks.rows import places_by_class
from bolts.sinks.upsert import Mode
from bolts.sinks.values import BadValue, plain, plain_columns
from topology.codes.settings import JSON_LINES_UNUSABLE, LINE_KEY_MISMATCH, UPSERT_INTO_JSON_LINES
from topology.core.tuples import Tuple
from topology.errors import ConfigurationError
from topology.filesystem.safe_files import NO_LINK
from topology.filesystem.sync import sync_file, sync_folder
from topology.records import Record, field_types

_HEAD: Final = re.compile(rb'\{"_*key":"([0-9a-f]{48})",')
_CUT: Final = re.compile(rb'|\{|\{"_*k?|\{"_*ke|\{"_*key"?:?|\{"_*key":"([0-9a-f]{0,48}|[0-9a-f]{48}".*)', re.DOTALL)

LOOKED_AT_ONCE: Final = 1 << 20  # bytes of the file, when it is looked through
KEYS_READ: Final = 1024  # lines of an opened file between two checks of how many keys are in memory


class Lines(NamedTuple):
    """The lines of tuples of one class. A line has the head, its key in hexadecimal digits, and its content."""

    places: Sequence[int]  # in the batch
    head: bytes
    keys: bytes  # all of them, one after the other
    contents: list[bytes]

    def joined(self) -> bytes:
        """Return all lines."""
        parts = [b'",'] * (4 * len(self.contents))
        parts[0::4] = repeat(b"\n" + self.head, len(self.contents))
        parts[1::4] = self.keys.hex("\n", KEY_BYTES).encode().split()  # one call for all keys
        parts[3::4] = self.contents
        parts[0] = self.head
        parts.append(b"\n")
        return b"".join(parts)

    def each(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield place, key and line of each."""
        return zip(self.places, split_keys(self.keys), self.joined().splitlines(keepends=True), strict=True)


Encode: TypeAlias = Callable[[Sequence[int], Sequence[Tuple[Any]]], Lines]

_encode_lines: Final = msgspec.json.Encoder().encode_lines
_PAIRS: Final = Struct(f"{PAIR_BYTES}s{KEY_BYTES - PAIR_BYTES}s")  # of a key: its pair, and the hash of its content

log = logging.getLogger("kedge.bolts")


class JsonLinesStore:
    """The store of `JsonLinesSink`; see `contract.SinkStore`."""

    def __init__(self, path: str) -> None:
        self._given = path
        self._path = Path(path)
        self._fd: int | None = None
        self._file: tuple[int, int] | None = None
        self._end = 0  # durable bytes of the file; anything beyond is cut off before the next write
        self._clean = True  # True if nothing lies beyond `_end`
        self._digest = xxh3_64()  # of the bytes up to there
        self._known = KnownKeys()
        self._encoders: dict[type[Record], Encode] = {}

    # -- the Store

    def open(self) -> None:
        try:
            self._path = checked_path(self._given, "JsonLinesSink")
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_LINK, 0o644)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            self._begin(fd)
        except BaseException:
            os.close(fd)  # the lock goes too, so the next call of `open` can take it
            raise
        self._fd = fd

    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        written = Written(WriteCounts())
        self._known.make_room(self._path.parent)  # before any write, as the call may have to be repeated
        made: list[Lines] = []
        for cls, places in places_by_class(tuples).items():
            made += self._lines(cls, tuples, places, written.refused)
        if len(made) != 1 or not self._write_new(made[0], written.tally):
            self._write_unknown(made, written.tally)
        return written

    def close(self) -> None:
        fd, self._fd = self._fd, None
        self._known.clear()
        if fd is not None:
            try:
                try:
                    if not self._clean:
                        os.ftruncate(fd, self._end)
                finally:
                    os.close(fd)  # and the lock goes
            except OSError as error:
                log.warning("%s was not closed cleanly: %s", self._path, error)

    def look_through(self) -> bool:
        """Check that the file is what was read and written, byte by byte; see `contract.LooksThrough`."""
        fd = self._fd
        assert fd is not None
        try:
            self._check_file(fd)
            if self._end > LOOK_BYTES_MAX:
                return False
            found = xxh3_64()
            with open(fd, "rb", buffering=0, closefd=False) as file:
                file.seek(0)
                while data := file.read(LOOKED_AT_ONCE):
                    found.update(data)
            if found.digest() != self._digest.digest():
                raise SinkStoreBroken(self._damage(fd), damaged=True)
        except OSError as error:
            raise StoreAway(f"{self._path} can't be read: {error.strerror}") from error
        return True

    def _damage(self, fd: int) -> str:
        """Return a sentence on the first line that does not match its key. Raises OSError."""
        with open(fd, "rb", closefd=False) as file:
            file.seek(0)
            for number, line in enumerate(file, start=1):
                if _key_of(line) is None:
                    return f"line {number} of {self._path} does not match its key: it was damaged, or edited"
        return f"{self._path} does not hold the lines that were written: it was damaged, or edited"

    def _write_new(self, made: Lines, tally: WriteCounts) -> bool:
        """Write all of these lines if each is new, which is nearly always so. Return whether they are."""
        pairs = dict(_PAIRS.iter_unpack(made.keys))
        if len(pairs) != len(made.contents) or not self._known.has_none(pairs):
            return False
        self._append(made.joined())
        self._known.add_new(pairs)
        tally.stored = len(pairs)
        return True

    def _write_unknown(self, made: list[Lines], tally: WriteCounts) -> None:
        """Write those of the lines that are not known, each once (C9)."""
        ordered = sorted(chain.from_iterable(lines.each() for lines in made))  # by the tuples' places
        lines = {key: line for _, key, line in ordered}
        fresh = self._known.unknown([*lines])
        if fresh:
            self._append(b"".join([lines[key] for key in fresh]))
        tally.divergent += [key.hex() for key in self._known.add_all(fresh)]
        tally.stored = len(fresh)
        tally.duplicates = len(ordered) - len(fresh)

    # -- the file

    def _begin(self, fd: int) -> None:
        """Lock the file, read it, and make its content durable. Raises ConfigurationError and StoreAway."""
        try:
            lock(fd, self._path)
            self._recover(fd)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            # Lines of an earlier process count from here on, and that process may have died before its sync.
            sync_file(fd)
            sync_folder(self._path.parent)
            status = os.fstat(fd)
            self._file = status.st_dev, status.st_ino
            there = identity_of(self._path)
        except OSError as error:  # not tried again: a second sync would prove nothing (F18)
            raise self._refused(error) from error
        if there != self._file:
            raise StoreAway(f"{self._path} was removed or replaced while it was opened")

    def _unusable(self, error: OSError) -> Exception:
        """Return the exception for an error of the system while the file is opened."""
        if error.errno in PASSING:
            return StoreAway(f"{self._path} can't be opened: {error.strerror}")
        return self._refused(error)

    def _refused(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(f"JsonLinesSink: {self._path} can't be used: {error}", code=JSON_LINES_UNUSABLE)

    def _append(self, data: bytes) -> None:
        """Write and sync. Raises StoreAway or SinkStoreBroken; the file then ends where it did before, now or at the
        next write."""
        fd = self._fd
        assert fd is not None
        try:
            self._check_file(fd)
            self._clean = False
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError as error:
            self._cut_back(fd)
            raise StoreAway(f"{self._path} can't be written: {error.strerror}") from error
        try:
            sync_file(fd)
        except OSError as error:  # the pages count as clean now, so a second sync would prove nothing (F18)
            self._cut_back(fd)
            raise SinkStoreBroken(f"{self._path} could not be synced: {error.strerror}") from error
        self._end += len(data)
        self._digest.update(data)
        self._clean = True

    def _check_file(self, fd: int) -> None:
        """Check that the file is still ours and ends where we left it. Raises StoreAway, OSError."""
        if identity_of(self._path) != self._file:
            raise StoreAway(f"{self._path} was removed or replaced while the sink was writing")
        if not self._clean:
            os.ftruncate(fd, self._end)
            self._clean = True
        if (size := os.fstat(fd).st_size) != self._end:
            raise StoreAway(
                f"{self._path} has {size} bytes and the sink left it with {self._end}: another program changed it; "
                f"restart the run"
            )

    def _cut_back(self, fd: int) -> None:
        """Cut off the remains of a failed write. If that fails, the next write tries again."""
        try:
            os.ftruncate(fd, self._end)
            self._clean = True
        except OSError as error:
            log.debug("%s can't be cut back yet: %s", self._path, error)

    def _recover(self, fd: int) -> None:
        """Read the keys of all lines and cut off the torn tail.

        Raises ConfigurationError for a damaged line, and StoreAway if there is no room for the index of the keys.
        """
        self._known.clear()
        self._digest.reset()
        keys: list[bytes] = []
        offset, torn_at, torn_number = 0, -1, 0
        with open(fd, "rb", closefd=False) as file:
            for number, line in enumerate(file, start=1):
                key = _key_of(line)
                if key is not None and torn_at < 0:
                    self._digest.update(line)
                    keys.append(key)
                    if len(keys) == KEYS_READ:
                        self._known.add_all(keys)
                        self._known.make_room(self._path.parent)
                        keys.clear()
                elif key is not None:
                    raise self._damaged(torn_number)
                elif torn_at < 0:
                    if not _is_torn(line):
                        raise self._damaged(number)
                    torn_at, torn_number = offset, number
                offset += len(line)
        self._known.add_all(keys)
        self._end = offset
        if torn_at >= 0:
            log.warning("%s: cut a torn tail of %d bytes off; it was never acked", self._path, offset - torn_at)
            os.ftruncate(fd, torn_at)
            self._end = torn_at

    def _damaged(self, number: int) -> ConfigurationError:
        return ConfigurationError(
            f"JsonLinesSink: line {number} of {self._path} does not match its key: it was damaged, edited, or written "
            f"by something else",
            code=LINE_KEY_MISMATCH,
        )

    # -- keys and lines

    def _lines(
        self, cls: type[Record], tuples: Sequence[Tuple[Any]], places: list[int], refused: dict[int, str]
    ) -> list[Lines]:
        """Return the lines of the tuples at these places, which are of one class. If one of them is refused, each is
        looked at by itself."""
        chosen = tuples if len(places) == len(tuples) else [tuples[place] for place in places]
        try:
            encode = self._encoders.get(cls)
            if encode is None:
                encode = self._encoders[cls] = _line_encoder(cls)
            return [encode(places, chosen)]
        except BadValue as error:
            if len(places) == 1:
                refused[places[0]] = str(error)
                return []
            return [lines for place in places for lines in self._lines(cls, tuples, [place], refused)]


def _line_encoder(cls: type[Record]) -> Encode:
    """Return the function that makes the lines of tuples of this class. Raises BadValue; so does the function."""
    fields = field_types(cls)
    try:
        converts = {name: plain(annotation) for name, annotation in fields.items()}
    except BadValue as error:
        raise BadValue(f"{cls.__name__}: {error}") from error
    member = "record"
    while member in fields:
        member = "_" + member
    # encoded as an object of the member, which is the class's name, and the fields
    shape = msgspec.defstruct(cls.__name__, list(fields), tag_field=member, tag=cls.__name__, gc=False)
    head = f'{{"{key_name(fields)}":"'.encode()

    def encode(places: Sequence[int], tuples: Sequence[Tuple[Any]]) -> Lines:
        columns = plain_columns(cls, converts, [tup.record for tup in tuples])
        objects = [*map(shape, *columns)] if columns else [shape()] * len(tuples)
        made = _encode_lines(objects).split(b"\n")  # JSON has no line end within a value
        made.pop()  # behind the last line end
        contents = [content[1:] for content in made]
        return Lines(places, head, joined_keys(tuples, contents), contents)

    return encode


def _key_of(line: bytes) -> bytes | None:
    """Return the key of a whole line, None if the line is not whole."""
    head = _HEAD.match(line)
    if head is None or not line.endswith(b"\n"):
        return None
    key = bytes.fromhex(head[1].decode())
    content = content_hash(line[head.end() : -1])
    return key if content == int.from_bytes(key[PAIR_BYTES:], "big") else None


def _is_torn(line: bytes) -> bool:
    """Return True if an incomplete line is what a crash leaves of a line of ours.

    Such a line is the beginning of one, or has zeros in it after a power loss. A whole line that is wrong is not torn,
    and neither is another program's text without a line end.
    """
    content, zero, _ = line.partition(b"\0")
    return (bool(zero) or not line.endswith(b"\n")) and _CUT.fullmatch(content) is not None


class JsonLinesSink(BatchingSink):
    """Append each record as `{"key": "…", "record": "BruteForce", …its fields}`, and ack it when the line is durable.

    The key, 48 hexadecimal digits (see `bolts.sinks.keys`), is inside the line, so file and keys cannot disagree (C7).
    A replay has the key of its line and is dropped, also in any later run on the same file: `open` reads all lines. One
    emission that arrives by two subscriptions is one line (C5). A field called `key` or `record` keeps its name, and
    our member gets an underscore. datetimes are ISO 8601 in UTC, bytes base64, Decimals texts, enums their values,
    records objects, tuples and frozensets lists. Lines are never replaced: there is no upsert mode.

    `open` cuts off a torn last line, as a crash leaves it, and logs a warning. A damaged or edited line is a
    ConfigurationError that names the line. A value that a store would change fails alone, as in `SqliteSink`. If the
    disk is full, or the file was moved or changed, the sink waits and asks again until the file is back, and nothing
    fails. If an fsync fails, the process ends.

    No key is forgotten. The newest are in memory: up to 65,536, about 150 bytes each. Older ones are on the disk, 24
    bytes each and for a moment twice that: in a few files without a name in the same folder or, if no file may be made
    there, in the system's folder for temporary files. These files go when the sink is closed or its process dies. So
    the keys take about 30 MB of memory, and up to 16 MB more beyond ten million lines. If the files have no room, the
    sink waits as for the lines; at `open`, the start waits, up to `start_timeout_s`. `open` takes some microseconds per
    line.

    One task, one sink, one process writes a file, under a lock. `batch` and `within_ms`: as in `SqliteSink`.

        topology.bolt("store", JsonLinesSink("alerts.jsonl"), alerts)
    """

    def __init__(
        self, path: str | PathLike[str], *, mode: Mode = "append", batch: int = BATCH, within_ms: float = 5.0
    ) -> None:
        """Raises ConfigurationError. Does no I/O: `open` does."""
        super().__init__(batch=batch, within_ms=within_ms)
        if mode != "append":
            raise ConfigurationError(
                f"JsonLinesSink: lines are appended, and mode is 'append', not {mode!r}", code=UPSERT_INTO_JSON_LINES
            )
        self.path = fspath(path)

    def summary(self) -> Iterable[str]:
        """Yield the number of stored lines, and the path."""
        yield f"{self.stored:,} lines stored in {self.path}, {self.duplicates:,} known already"

    def _make_store(self) -> SinkStore:
        return JsonLinesStore(self.path)
