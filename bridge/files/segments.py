"""The log of one task of a hand-over: a folder of Arrow files, numbered without gaps. Each is durable before it gets
its name.

    seg-000000000007.arrow  an Arrow IPC file of one batch, with its checksum in the schema's metadata
    end-000000000008        the stream ends before this number; valid while there is no such segment
    done                    written by the readers: all have committed past the segments below this number
    kept                    up to where nothing is remembered, and up to where segments may be missing
    lock                    held by the writer; holds the next segment's number, unsynced, so it may be too low

A segment is written beside its target, synced and renamed, and then its folder is synced. A segment that exists is
therefore whole; one that is not whole was damaged later. Readers check if the next number exists, and list no folder.

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
from topology.filesystem.safe_files import open_anew, open_lock, rename_over
from topology.filesystem.sync import sync_file, sync_folder

DIGITS: Final = 12
_SEGMENT: Final = re.compile(rf"seg-([0-9]{{{DIGITS}}})\.arrow")
_END: Final = re.compile(rf"end-([0-9]{{{DIGITS}}})")
_TEMPORARY: Final = ".tmp-"
_MARK: Final = b"kedge-hand-over-xxh3-64:"  # precedes the checksum: first in the schema, last in the footer
_ZEROS: Final = b"0" * 16  # stands in the checksum's place while it is computed
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
PARENTS: Final = 5  # folders above a task's folder that may be new too, so they are synced with it


@dataclass(frozen=True)
class SegmentBounds:
    """The limits of what is kept. Below `over` nothing is remembered, and below `read` segments may be missing."""

    over: int = 0
    read: int = 0


class Segments:
    """The folder of one task. A reader may use it without `open`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: int | None = None

    def path(self, number: int) -> Path:
        return self.folder / f"seg-{number:0{DIGITS}}.arrow"

    # -- the writer's

    def open(self) -> None:
        """Make the folder and become its only writer. Raises ConfigurationError, or StoreAway if there is no room."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = open_lock(self.folder / "lock")
            lock(self._lock, self.folder)
            for entry in os.listdir(self.folder):
                if entry.startswith(_TEMPORARY):
                    (self.folder / entry).unlink()
            for folder in (self.folder, *self.folder.parents[:PARENTS]):
                sync_folder(folder)  # a process that died may have renamed a file without this sync
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise StoreAway(f"{self.folder} can't be written: {error.strerror}") from error
            raise _unusable(self.folder, "written", error) from error

    def close(self) -> None:
        fd, self._lock = self._lock, None
        if fd is not None:
            os.close(fd)

    def write(self, number: int, batch: pa.RecordBatch) -> None:
        """Write the next segment, which is durable when this returns. Raises StoreAway, and then there is no segment,
        or SinkStoreBroken."""
        target, temporary = self.path(number), self.folder / f"{_TEMPORARY}{number}"
        data = sealed(batch)
        try:
            _write_synced(temporary, data, self._not_synced)
            if target.exists():
                raise SinkStoreBroken(f"{target} already exists: another process writes this folder")
            rename_over(temporary, target)
        except OSError as error:
            with contextlib.suppress(OSError):  # the disk may be read-only now
                temporary.unlink(missing_ok=True)
            raise StoreAway(f"{self.folder} can't be written: {error.strerror}") from error
        try:
            sync_folder(self.folder)
        except OSError as error:
            raise SinkStoreBroken(f"{self.folder} could not be synced: {error.strerror}") from error
        if self._lock is not None:  # only once the segment is durable: otherwise readers take it for lost
            with contextlib.suppress(OSError):  # no room: the number stays too low
                os.lseek(self._lock, 0, os.SEEK_SET)
                os.write(self._lock, f"{number + 1:0{DIGITS}}".encode())

    def _not_synced(self, error: OSError) -> Never:
        if error.errno in _NO_ROOM:  # some file systems report this only at the sync; nothing relies on the file yet
            raise error
        raise SinkStoreBroken(f"{self.folder} could not be synced: {error.strerror}") from error

    def put(self, name: str, content: bytes) -> None:
        """Make or replace a small file. No ack depends on one, so every error is StoreAway and can be tried again."""
        put(self.folder / name, content)

    def end(self, number: int) -> None:
        """Note that no segment follows from this number on. Raises StoreAway."""
        self.put(f"end-{number:0{DIGITS}}", b"")

    def goes_on(self) -> None:
        """Remove the note that the stream has ended. Raises StoreAway."""
        ends = [entry for entry in self._entries() if _END.fullmatch(entry)]
        try:
            for entry in ends:
                (self.folder / entry).unlink(missing_ok=True)
            if ends:
                sync_folder(self.folder)
        except OSError as error:
            raise StoreAway(f"{self.folder} can't be written: {error.strerror}") from error

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove segments. After a power loss they may exist again. Raises StoreAway."""
        try:
            for number in numbers:
                self.path(number).unlink(missing_ok=True)
        except OSError as error:
            raise StoreAway(f"{self.folder} can't be written: {error.strerror}") from error

    def keep(self, kept: SegmentBounds) -> None:
        """Note these bounds durably. Raises StoreAway."""
        self.put("kept", f"over {kept.over}\nread {kept.read}\n".encode())

    # -- reading

    def numbers(self) -> list[int]:
        """Return the numbers of all segments, in order."""
        return sorted(int(found[1]) for entry in self._entries() if (found := _SEGMENT.fullmatch(entry)))

    def checked_numbers(self, kept: SegmentBounds) -> tuple[list[int], int]:
        """Return the numbers of all segments, and that of the next one. Raises ConfigurationError if a segment is
        missing that a reader may want. Segments below `done` may be missing; `done` is not durable, but `kept` is. Call
        this before `goes_on`, because the note of the end names the last segment."""
        numbers, first = self.numbers(), max(kept.read, self.done())
        after = max(numbers[-1] + 1 if numbers else 0, first)
        missing = {*range(first, after)} - {*numbers}
        if missing:
            raise damaged(self.path(min(missing)), "is missing, but later ones exist")
        if any(int(found[1]) > after for entry in self._entries() if (found := _END.fullmatch(entry))):
            raise damaged(self.path(after), "is missing, but the previous run had ended after it")
        if self._written() > after:
            raise damaged(self.path(after), "is missing, but it was written")
        return numbers, after

    def _written(self) -> int:
        """Return the number after the last segment that is known to have been written."""
        try:
            return int((self.folder / "lock").read_bytes())
        except (FileNotFoundError, ValueError):
            return 0

    def has(self, number: int) -> bool:
        return self.path(number).exists()

    def following(self, number: int) -> int:
        """Return the number after the last segment, counted from `number` on."""
        while self.has(number):
            number += 1
        return number

    def has_ended(self, number: int) -> bool:
        """Return True if nothing follows the segments below `number`. Holds until the task resumes in another run."""
        return (self.folder / f"end-{number:0{DIGITS}}").exists() and not self.has(number)

    def read(self, number: int) -> pa.RecordBatch:
        """Return a segment, mapped into memory. Raises ConfigurationError for a damaged one, and FileNotFoundError."""
        return read_segment(self.path(number))

    def done(self) -> int:
        """Return the number below which all readers have committed past all segments."""
        try:
            return int((self.folder / "done").read_bytes())
        except (OSError, ValueError):
            return 0

    def kept(self) -> SegmentBounds:
        """Return the noted bounds. Raises ConfigurationError if the note is damaged."""
        path = self.folder / "kept"
        try:
            words = [line.split(" ") for line in path.read_text("ascii").splitlines()]
            (_, over), (_, read), *_ = words  # lines `floor`, which earlier versions wrote, mean nothing any more
            return SegmentBounds(int(over), int(read))
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
    """Make or replace a small file, whole and durable. Raises StoreAway."""
    temporary = path.with_name(_TEMPORARY + path.name)
    try:
        _write_synced(temporary, content)
        rename_over(temporary, path, synced=True)
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
    """Raised if a file is not as it was written. The message continues a sentence that starts with the file's name."""


def sealed(rows: "pa.RecordBatch | pa.Table") -> bytearray:
    """Return the bytes of a segment. Arrow has no checksums, so one is put into the metadata, which the file holds
    twice."""
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
    """Return a segment, mapped into memory and checked. Raises ConfigurationError if it is not as it was written or may
    not be read, and FileNotFoundError."""
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
    """Return Arrow's reader of what `sealed` made, mapped into memory and checked. `plain`: also accept a file without
    a checksum. Raises Changed, and OSError."""
    with open(path, "rb") as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise Changed("is empty") from None
    first, last = mapped.find(_MARK), mapped.rfind(_MARK)
    if first < 0 and not plain:
        raise Changed("was not written by Kedge")
    if 0 <= first == last:
        raise Changed("is truncated")
    if first >= 0 and not _is_whole(memoryview(mapped), first + len(_MARK), last + len(_MARK)):
        raise Changed("does not match its checksum: it was changed")
    try:
        return pa.ipc.open_file(pa.py_buffer(mapped))
    except (pa.ArrowException, ValueError) as error:
        raise Changed(f"can't be read ({error})") from error


def read_schema(path: Path) -> pa.Schema:
    """Return the columns of a segment. Reads nothing else of it. Raises ConfigurationError, and FileNotFoundError."""
    try:
        with pa.OSFile(str(path), "rb") as file:
            return pa.ipc.open_file(file).schema.remove_metadata()
    except pa.ArrowException as error:
        raise damaged(path, f"can't be read ({error})") from error


def _is_whole(data: memoryview, first: int, last: int) -> bool:
    """Return True if the checksum is right. It stands at `first` and at `last`."""
    width = len(_ZEROS)
    if data[first : first + width] != data[last : last + width]:
        return False
    state = xxh3_64()
    for part in (data[:first], _ZEROS, data[first + width : last], _ZEROS, data[last + width :]):
        state.update(part)
    return state.hexdigest().encode() == data[first : first + width]


def damaged(path: Path, why: str) -> ConfigurationError:
    """Return the error of a hand-over that a user has to fix."""
    return ConfigurationError(f"{path} {why}", code=DAMAGED_SPARK_HANDOVER)


def _unusable(path: Path, what: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"{path} can't be {what}: {error.strerror}", code=SPARK_DIR_UNUSABLE)
