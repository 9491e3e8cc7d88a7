"""Opens the log of a worker: locks it, checks whose it is and what is in it, and makes all that is read durable.

After a killed process, or a failed fsync, the system may return bytes that are not on the disk, and a sync alone need
not write them. So what the log does not know to be durable is written again before it is synced (F18). Must not know
how a log is appended to.
"""

from pathlib import Path
from typing import Final

from topology.filesystem.files import AWAY, Files, Lock
from topology.storage.log.errors import can_not_open, in_use, is_damaged
from topology.storage.log.layout import GROUPS_AT, FileHeader
from topology.storage.log.log import BLOCK_BYTES, LogSizes, WorkerLog
from topology.storage.log.reading import first_place
from topology.storage.log.recovery import LogFile, RecoveredLog, header_of, recovered
from topology.storage.store import StoreBroken, StoreFull

COPY_BYTES: Final = 1 << 20  # that are written again at once
FIX_IT: Final = "fix what the system reports, and run again"
LATER: Final = "do nothing if a run is active; else restore all of the state directory from one copy"


def log_paths(path: Path) -> tuple[Path, Path]:
    """Return the paths of the two files of the log at `path`."""
    return path.with_name(f"{path.name}.0"), path.with_name(f"{path.name}.1")


def open_log(
    files: Files,
    path: Path,
    *,
    owner: tuple[int, int],
    decided: int,
    create: bool = False,
    is_marked: bool = False,
    sizes: LogSizes | None = None,
) -> WorkerLog:
    """Open the log at `path`, which is two files, `path` with .0 and .1 behind it. Blocks.

    owner    Worker and incarnation of the life that appends. A log of another worker is refused, and so is an owner
             with a lower incarnation than the last one's (D6).
    decided  The last decided checkpoint, 0 if there is none. `redo` yields the records behind its mark.
    create   True: make the log if it is not there, as when nothing durable names it yet. A creation that was cut short
             is completed.
    is_marked  True: the mark of `decided` was durable before that was decided. A log without it is an older copy, and
             is refused.

    What `redo` yields is durable when this returns. Records that were not synced before a loss of power may be missing
    from the end; the rest is a prefix of what was appended. Raises StartError, in one sentence, for damage, and for an
    unusable log.
    """
    both = log_paths(path)
    lock: Lock | None = None
    opened: list[LogFile] = []
    try:
        _check_plain(files, both, create)
        lock = files.lock(both[0])
        worker, incarnation = owner
        for name in both:
            if files.look(name) is None:
                files.create(name, b"")
            opened.append(LogFile(name, files.open_to_write(name), None))
            _look_into(opened[-1], worker, create=create)
        pair = opened[0], opened[1]
        fresh = all(file.header is None for file in pair)
        if fresh and not create:
            is_damaged(both[0], "it is empty, at byte 0")
        sizes = sizes or LogSizes()
        content = _begun(pair[0], owner, decided, sizes) if fresh else recovered(pair, decided, is_marked=is_marked)
        if incarnation < content.incarnation:
            can_not_open(both[0], f"it belongs to start {content.incarnation} of the worker, after this one", LATER)
        _settle(pair, content)
        log = WorkerLog(lock, pair, content, owner=owner, decided=decided, sizes=sizes)
        log.begin()
        if create:
            files.sync_directory(path.parent)
        return log
    except BlockingIOError:
        in_use(both[0])
    except BaseException as error:
        for file in opened:
            file.file.close()
        if lock is not None:
            lock.release()
        if isinstance(error, StoreFull | StoreBroken | OSError):
            why = error.__cause__ or error
            can_not_open(path, getattr(why, "strerror", "") or str(error), FIX_IT)
        raise


def _check_plain(files: Files, both: tuple[Path, Path], create: bool) -> None:
    """Check (S5) that each file is a plain file of this user with one name, and not a link."""
    for path in both:
        found = files.look(path)
        if found is None and not create:
            is_damaged(path, "there is no such file")
        if found is not None and (found.kind != "file" or not found.ours or found.links != 1):
            what = "belongs to another user" if not found.ours else "is a link, or no plain file"
            can_not_open(path, f"it {what}", "remove it if you did not put it there, and find out who did")


def _look_into(one: LogFile, worker: int, *, create: bool) -> None:
    """Read the header of a file. A new file gets its first block, durably, so a shorter one was cut. A loss of power
    may take what is behind that block. Raises StartError, OSError."""
    if create and one.file.size() < BLOCK_BYTES:
        one.file.allocate(BLOCK_BYTES)
        one.file.sync()
    one.header = header_of(one.path, one.file, worker)
    if (size := one.file.size()) < BLOCK_BYTES:
        is_damaged(one.path, f"it has {size:,} bytes, and not {BLOCK_BYTES:,} or more: it was cut")


def _begun(first: LogFile, owner: tuple[int, int], decided: int, sizes: LogSizes) -> RecoveredLog:
    """A log in which nothing is yet. Raises OSError."""
    first.header = FileHeader(*owner, sequence=1, first=0, mark=decided, previous=0, synced=0)
    try:
        first.file.allocate(sizes.step)
    except OSError as error:
        if error.errno not in AWAY:  # it has a block, and grows once there is room
            raise
    first.file.write(0, (first.header.packed(),))
    return RecoveredLog(0, first_place(first.header), None, False, owner[1], [])


def _settle(both: tuple[LogFile, LogFile], content: RecoveredLog) -> None:
    """Make what was read durable; and that the other file is no part of the log any more, if it is stale, before
    anything is written behind what it goes on from. Raises OSError."""
    if content.stale:
        other = both[1 - content.current]
        other.file.write(0, (bytes(GROUPS_AT),))
        other.file.sync()
    for index, start, end in content.unsure:
        file, header = both[index].file, both[index].header
        if start == 0 and header is not None:
            file.write(0, (header.packed(),))
        for offset in range(max(start, GROUPS_AT), end, COPY_BYTES):
            file.write(offset, (file.read(offset, min(COPY_BYTES, end - offset)),))
        file.sync()
