"""The log of one task of a hand-over: a folder of Arrow files, numbered without gaps, each durable before it has its
name.

    seg-000000000007.arrow  an Arrow IPC file of one batch, with its checksum in the schema's metadata
    end-000000000008        what was handed over ends before this number; holds while there is no such segment
    done                    all readers have committed past what is below this number: the readers write it
    kept                    what was forgotten here, by which floors, and up to where segments may be missing
    lock                    held by the writer; the number of its next segment, not synced, so at times an earlier one

A segment is written beside, synced, renamed, and its folder synced: so one that is there is whole, and one that is not
whole was damaged later. Readers look whether the next number is there, and list nothing.

Knows files and Arrow; must not know records, tuples, identities or the loop. All calls block.
"""

import contextlib
import errno
import mmap
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Never

import pyarrow as pa
from xxhash import xxh3_64, xxh3_64_hexdigest

from bolts.sinks.contract import SinkStoreBroken, StoreAway
from bolts.sinks.files import lock
from topology.codes.settings import DAMAGED_SPARK_HANDOVER, SPARK_DIR_UNUSABLE
from topology.errors import ConfigurationError
from topology.filesystem.safe_files import open_anew, open_lock
from topology.filesystem.sync import sync_file, sync_folder

DIGITS: Final = 12
_SEGMENT: Final = re.compile(rf"seg-([0-9]{{{DIGITS}}})\.arrow")
_END: Final = re.compile(rf"end-([0-9]{{{DIGITS}}})")
_TEMPORARY: Final = ".tmp-"
_MARK: Final = b"kedge-hand-over-xxh3-64:"  # stands before the checksum: first in the schema, last in the footer
_ZEROS: Final = b"0" * 16  # in the checksum's place while it is computed
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
PARENTS: Final = 5  # folders above a task's that may be new with it: they are synced too


@dataclass(frozen=True)
class SegmentBounds:
    """What is below `over` is remembered no more; below `read` segments may be missing. `floors`: as bytes, what was
    known of all messages when that was forgotten (D5)."""

    over: int = 0
    read: int = 0
    floors: tuple[bytes, ...] = ()


class Segments:
    """One task's folder. Readers may have one without `open`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: int | None = None

    def path(self, number: int) -> Path:
        return self.folder / f"seg-{number:0{DIGITS}}.arrow"

    # -- the writer's

    def open(self) -> None:
        """Makes the folder, and becomes its one writer. Raises ConfigurationError, and StoreAway without room."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = open_lock(self.folder / "lock")
            lock(self._lock, self.folder)
            for entry in os.listdir(self.folder):
                if entry.startswith(_TEMPORARY):
                    (self.folder / entry).unlink()
            for folder in (self.folder, *self.folder.parents[:PARENTS]):
                sync_folder(folder)  # what is there is believed from here on, and who renamed it may have died
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise StoreAway(f"{self.folder} can't be written: {error.strerror}") from error
            raise _unusable(self.folder, "written", error) from error

    def close(self) -> None:
        fd, self._lock = self._lock, None
        if fd is not None:
            os.close(fd)

    def write(self, number: int, batch: pa.RecordBatch) -> None:
        """Makes the next segment, durable when it returns. Raises StoreAway, and then there is none; StoreBroken."""
        target, temporary = self.path(number), self.folder / f"{_TEMPORARY}{number}"
        data = sealed(batch)
        try:
            _write_synced(temporary, data, self._not_synced)
            if target.exists():
                raise SinkStoreBroken(f"{target} was there already: another process writes this folder")
            temporary.rename(target)
        except OSError as error:
            with contextlib.suppress(OSError):  # of a disk that is read-only now
                temporary.unlink(missing_ok=True)
            raise StoreAway(f"{self.folder} can't be written: {error.strerror}") from error
        try:
            sync_folder(self.folder)
        except OSError as error:
            raise SinkStoreBroken(f"{self.folder} could not be synced: {error.strerror}") from error
        if self._lock is not None:  # never before the segment is durable: who reads it takes that one for lost
            with contextlib.suppress(OSError):  # no room: then it says less
                os.lseek(self._lock, 0, os.SEEK_SET)
                os.write(self._lock, f"{number + 1:0{DIGITS}}".encode())

    def _not_synced(self, error: OSError) -> Never:
        if error.errno in _NO_ROOM:  # some file systems find it out only then; nothing was believed of the file yet
            raise error
        raise SinkStoreBroken(f"{self.folder} could not be synced: {error.strerror}") from error

    def put(self, name: str, content: bytes) -> None:
        """Makes a small file, or replaces it. Nothing is acked on one: all trouble is StoreAway, to be asked again."""
        put(self.folder / name, content)

    def end(self, number: int) -> None:
        """Says that there is nothing from this number on. Raises StoreAway."""
        self.put(f"end-{number:0{DIGITS}}", b"")

    def goes_on(self) -> None:
        """Takes that back. Raises StoreAway."""
        ends = [entry for entry in self._entries() if _END.fullmatch(entry)]
        try:
            for entry in ends:
                (self.folder / entry).unlink(missing_ok=True)
            if ends:
                sync_folder(self.folder)
        except OSError as error:
            raise StoreAway(f"{self.folder} can't be written: {error.strerror}") from error

    def remove(self, numbers: Iterable[int]) -> None:
        """Removes segments. After a power loss they may be there again. Raises StoreAway."""
        try:
            for number in numbers:
                self.path(number).unlink(missing_ok=True)
        except OSError as error:
            raise StoreAway(f"{self.folder} can't be written: {error.strerror}") from error

    def keep(self, kept: SegmentBounds) -> None:
        """Notes it, durably. Raises StoreAway."""
        floors = "".join(f"floor {one.hex()}\n" for one in kept.floors)
        self.put("kept", f"over {kept.over}\nread {kept.read}\n{floors}".encode())

    # -- what is there

    def numbers(self) -> list[int]:
        """Of all segments, in their order."""
        return sorted(int(found[1]) for entry in self._entries() if (found := _SEGMENT.fullmatch(entry)))

    def checked_numbers(self, kept: SegmentBounds) -> tuple[list[int], int]:
        """The same, and the number of the next segment. Raises ConfigurationError where one is missing that a reader
        may want: what is below `done` may be away, and that is not durable, while `kept` is. Called before `goes_on`,
        as the end that was said names the last one."""
        numbers, first = self.numbers(), max(kept.read, self.done())
        after = max(numbers[-1] + 1 if numbers else 0, first)
        missing = {*range(first, after)} - {*numbers}
        if missing:
            raise damaged(self.path(min(missing)), "is missing, and later ones were there")
        if any(int(found[1]) > after for entry in self._entries() if (found := _END.fullmatch(entry))):
            raise damaged(self.path(after), "is missing, and the run before had ended after it")
        if self._written() > after:
            raise damaged(self.path(after), "is missing, and it was written")
        return numbers, after

    def _written(self) -> int:
        """The number after the last one that is known to have been written."""
        try:
            return int((self.folder / "lock").read_bytes())
        except (OSError, ValueError):
            return 0

    def has(self, number: int) -> bool:
        return self.path(number).exists()

    def following(self, number: int) -> int:
        """The number after the last segment, from `number` on."""
        while self.has(number):
            number += 1
        return number

    def has_ended(self, number: int) -> bool:
        """Whether nothing more comes after what is below `number`. Only until the task goes on, in another run."""
        return (self.folder / f"end-{number:0{DIGITS}}").exists() and not self.has(number)

    def read(self, number: int) -> pa.RecordBatch:
        """A segment, mapped into memory. Raises ConfigurationError for a damaged one, and FileNotFoundError."""
        return read_segment(self.path(number))

    def done(self) -> int:
        """All readers have committed past what is below."""
        try:
            return int((self.folder / "done").read_bytes())
        except (OSError, ValueError):
            return 0

    def kept(self) -> SegmentBounds:
        """What was noted. Raises ConfigurationError where that is no note."""
        path = self.folder / "kept"
        try:
            words = [line.split(" ") for line in path.read_text("ascii").splitlines()]
            (_, over), (_, read), *floors = words
            return SegmentBounds(int(over), int(read), tuple(bytes.fromhex(floor) for _, floor in floors))
        except FileNotFoundError:
            return SegmentBounds()
        except (OSError, ValueError) as error:
            raise damaged(path, f"can't be read ({error})") from error

    def _entries(self) -> list[str]:
        try:
            return os.listdir(self.folder)
        except FileNotFoundError:
            return []


def put(path: Path, content: bytes) -> None:
    """Makes a small file whole and durable, or replaces one. Raises StoreAway."""
    temporary = path.with_name(_TEMPORARY + path.name)
    try:
        _write_synced(temporary, content)
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise StoreAway(f"{path} can't be written: {error.strerror}") from error


def _write_synced(path: Path, data: bytes | bytearray, not_synced: Callable[[OSError], Never] | None = None) -> None:
    fd = open_anew(path)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        try:
            sync_file(fd)
        except OSError as error:
            if not_synced is None:
                raise
            not_synced(error)
    finally:
        os.close(fd)


# -- the form of a segment


class Changed(ValueError):
    """A file is not as it was written. The text goes on from its name."""


def sealed(rows: "pa.RecordBatch | pa.Table") -> bytearray:
    """The bytes of a segment: Arrow has no checksums, so one is put into the metadata, which stand there twice."""
    rows = rows.replace_schema_metadata({b"kedge": _MARK + _ZEROS})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write(rows)
    data = bytearray(sink.getvalue())
    digest = xxh3_64_hexdigest(data).encode()
    for place in (data.find(_MARK), data.rfind(_MARK)):
        data[place + len(_MARK) : place + len(_MARK) + len(digest)] = digest
    return data


def read_segment(path: Path) -> pa.RecordBatch:
    """One segment, mapped into memory and checked. Raises ConfigurationError for one that is not as it was written, or
    may not be read, and FileNotFoundError."""
    try:
        return opened(path).get_batch(0).replace_schema_metadata(None)
    except Changed as error:
        raise damaged(path, str(error)) from error
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise _unusable(path, "read", error) from error
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, f"can't be read ({error})") from error


def opened(path: Path, *, plain: bool = False) -> Any:
    """Arrow's reader of what `sealed` has made, mapped into memory and checked. `plain`: a file without a checksum will
    do. Raises Changed, and OSError."""
    with open(path, "rb") as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise Changed("is empty") from None
    first, last = mapped.find(_MARK), mapped.rfind(_MARK)
    if first < 0 and not plain:
        raise Changed("was written by something else")
    if 0 <= first == last:
        raise Changed("is cut")
    if first >= 0 and not _is_whole(memoryview(mapped), first + len(_MARK), last + len(_MARK)):
        raise Changed("does not match its checksum: it was changed")
    try:
        return pa.ipc.open_file(pa.py_buffer(mapped))
    except (pa.ArrowException, ValueError) as error:
        raise Changed(f"can't be read ({error})") from error


def read_schema(path: Path) -> pa.Schema:
    """The columns of a segment; nothing else of it is read. Raises ConfigurationError, and FileNotFoundError."""
    try:
        with pa.OSFile(str(path), "rb") as file:
            return pa.ipc.open_file(file).schema.remove_metadata()
    except pa.ArrowException as error:
        raise damaged(path, f"can't be read ({error})") from error


def _is_whole(data: memoryview, first: int, last: int) -> bool:
    """`first` and `last`: where the checksum stands."""
    width = len(_ZEROS)
    if data[first : first + width] != data[last : last + width]:
        return False
    state = xxh3_64()
    for part in (data[:first], _ZEROS, data[first + width : last], _ZEROS, data[last + width :]):
        state.update(part)
    return state.hexdigest().encode() == data[first : first + width]


def damaged(path: Path, why: str) -> ConfigurationError:
    """The error of a hand-over that people have to mend."""
    return ConfigurationError(f"{path} {why}", code=DAMAGED_SPARK_HANDOVER)


def _unusable(path: Path, what: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"{path} can't be {what}: {error.strerror}", code=SPARK_DIR_UNUSABLE)
