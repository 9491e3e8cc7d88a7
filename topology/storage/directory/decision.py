"""The decision file of a state directory, `decided`: the last decided checkpoint of a run with several workers.

Two slots, of one sector each, are written in turn, so a write that is cut short leaves the one before. A slot has the
same record many times, so one flipped bit leaves others. A checkpoint that a record names was prepared by all workers:
it is decided, whether the write of its record was reported or not. Must not know who decides.

Docs: explanation/state-format.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from typing import Final

from xxhash import xxh3_64_intdigest

from topology.codes.runtime import STATE_DURABILITY_UNKNOWN
from topology.codes.startup import (
    DECISION_FILE_DAMAGED,
    DECISION_FILE_MISSING,
    STATE_FILE_UNTRUSTED,
    STATE_FILE_UNUSABLE,
)
from topology.errors import StartError
from topology.filesystem.files import AWAY, Files, WritableFile, replace
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken, StoreFull

NAME: Final = "decided"
SLOT: Final = 512  # bytes: a sector
SLOTS: Final = 2
_MAGIC: Final = b"KEDGEDEC"
_FORMAT: Final = 1
_record: Final = Struct("<8sIIQ")  # magic, format, 0, checkpoint
_sum: Final = Struct("<Q")
_RECORD_BYTES: Final = _record.size + _sum.size


class DecisionFile:
    """The open file; it is made, durably, with the number `begins` if it is not there, and has that one if it has less.
    What is read is durable, too: after a failed sync, the system may return bytes that are not on the disk (F18).
    All methods block; call them in sequence. Raises StartError if the file is damaged, a link or unusable.

    The directory must be locked. Numbers only grow, over all runs of a directory.
    """

    def __init__(self, files: Files, path: Path, *, begins: int = 0) -> None:
        self.path = path
        self._broken = ""
        try:
            if not _is_there(files, path):
                replace(files, path, _slot(begins) * SLOTS)
            self._file: WritableFile = files.open_to_write(path)
            try:
                self._slots = _slots_of(path, self._file.read(0, SLOT * SLOTS + 1))
            except BaseException:
                self._file.close()
                raise
        except OSError as error:
            raise _unusable(path, error.strerror or str(error)) from error
        try:
            if self.checkpoint < begins:  # of a run with one worker, which decides without it
                self.decide(begins)
            else:
                self._write(self._slots.index(self.checkpoint), self.checkpoint)
        except (StoreFull, StoreBroken) as error:
            self.close()
            raise _unusable(path, str(error)) from error

    @property
    def checkpoint(self) -> int:
        """The last decided checkpoint that the file knows of."""
        return max(self._slots)

    def decide(self, checkpoint: int) -> None:
        """Make it durable that this checkpoint is decided. Raises ValueError for one that does not come after the last;
        StoreFull: then it is not decided, and may be given up or tried again; StoreBroken."""
        if self._broken:
            raise StoreBroken(self._broken)
        if checkpoint <= self.checkpoint:
            raise ValueError(f"checkpoint {checkpoint} comes after {self.checkpoint}, which is decided")
        slot = self._slots.index(min(self._slots))
        self._write(slot, checkpoint)
        self._slots[slot] = checkpoint

    def close(self) -> None:
        """Close the file. Does not raise. May be called twice."""
        self._broken = self._broken or f"{self.path} is closed"
        self._file.close()

    def _write(self, slot: int, checkpoint: int) -> None:
        """Write a slot, durably. Raises StoreFull: then the slot is as before; StoreBroken."""
        try:
            self._file.write(slot * SLOT, (_slot(checkpoint),))
        except OSError as error:
            if error.errno in AWAY:
                self._restore(slot)
                raise StoreFull(f"{self.path} can't be written: {os.strerror(error.errno or 0)}") from error
            raise self._break(error) from error
        self._sync()

    def _restore(self, slot: int) -> None:
        """Take back what a failed write has left: the checkpoint may be given up."""
        before = _slot(self._slots[slot])
        try:
            if self._file.read(slot * SLOT, SLOT) == before:
                return
            self._file.write(slot * SLOT, (before,))
        except OSError as error:
            raise self._break(error) from error
        self._sync()

    def _sync(self) -> None:
        try:
            self._file.sync()
        except OSError as error:
            raise self._break(error) from error

    def _break(self, error: OSError) -> StoreBroken:
        self._broken = f"the content of {self.path} on the disk is unknown: {error} ({STATE_DURABILITY_UNKNOWN})"
        return StoreBroken(self._broken)


def decided_in(files: Files, directory: Path, stores: Iterable[SqliteStore], *, accept_loss: bool = False) -> int:
    """Return the last decided checkpoint of a directory that no run uses: that of the decision file, or a later one
    that a store has.

    Raises StartError if a store has prepared a checkpoint and nothing tells whether it is decided, because the file is
    not there, or is an older copy: a run that prepares one has the decided one in it. With `accept_loss` it is not.
    """
    stores = [*stores]
    most = max((store.checkpoint for store in stores), default=0)
    known = known_in(files, directory)
    unknown = max((store.prepared for store in stores), default=0)
    if not accept_loss and unknown > most and known < most:
        what = "is missing, which says" if known < 0 else f"is an older copy, of checkpoint {known}, and does not say"
        raise StartError(
            f"{directory / NAME} {what} whether checkpoint {unknown} is decided", code=DECISION_FILE_MISSING
        )
    return max(most, known)


def known_in(files: Files, directory: Path) -> int:
    """Return the decided checkpoint that the file of a directory knows of; -1 if there is none. Raises StartError."""
    path = directory / NAME
    try:
        return max(_slots_of(path, files.read(path, SLOT * SLOTS + 1))) if _is_there(files, path) else -1
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error


def _is_there(files: Files, path: Path) -> bool:
    found = files.look(path)
    if found is not None and (found.kind != "file" or not found.ours or found.links != 1):
        what = "belongs to another user" if not found.ours else "is a link, or no plain file"
        raise StartError(f"the file {path} {what}", code=STATE_FILE_UNTRUSTED)
    return found is not None


def _slot(checkpoint: int) -> bytes:
    record = _record.pack(_MAGIC, _FORMAT, 0, checkpoint)
    return (record + _sum.pack(xxh3_64_intdigest(record))) * (SLOT // _RECORD_BYTES)


def _slots_of(path: Path, content: bytes) -> list[int]:
    """Return the checkpoint in each slot: the latest of its sound records."""
    found = [-1] * SLOTS
    for start in range(0, SLOT * SLOTS, _RECORD_BYTES):
        raw = content[start : start + _RECORD_BYTES]
        if len(raw) == _RECORD_BYTES and _sum.unpack_from(raw, _record.size)[0] == xxh3_64_intdigest(
            raw[: _record.size]
        ):
            magic, format, _, checkpoint = _record.unpack_from(raw)
            if (magic, format) == (_MAGIC, _FORMAT):
                found[start // SLOT] = max(found[start // SLOT], checkpoint)
    if len(content) != SLOT * SLOTS or min(found) < 0:
        raise StartError(f"{path} is not what was written", code=DECISION_FILE_DAMAGED)
    return found


def _unusable(path: Path, why: str) -> StartError:
    return StartError(f"the file {path} can't be used: {why}", code=STATE_FILE_UNUSABLE)
