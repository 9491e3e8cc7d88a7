"""FileTail: the lines of a log file, each with an id that names it for ever, through rotations and restarts.

Decides which file is read next, and when. How lines are read is in `tailed_file`, how files are named in `known_files`.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from acker.identity import MessageId
from spouts.checks import alone
from spouts.file_tail.identity import FileGeneration, KnownFiles, digest, head_digest
from spouts.file_tail.open_file import WINDOW_BYTES, ReadResult, TailedFile, open_regular, unreadable
from spouts.file_tail.resume import copy_of, current_of, left_behind, offset_in, passed_by
from spouts.lines import Line
from topology.codes.settings import INVALID_FILE_TAIL
from topology.codes.startup import DAMAGED_FILE_TIME
from topology.components import Message, Notes, Positions, Spout, Task
from topology.errors import ConfigurationError, NotesAway, StartError

OPEN_FILES_MAX: Final = 16  # rotated files that still have lines, and the newest
SHORTEST_WAIT_S: Final = 0.001  # after a line; doubles up to `poll_interval_s`, so a busy file's next line is seen soon
NOTED_BYTES: Final = 4 * WINDOW_BYTES  # of a file's beginning that are noted as they are read
EPOCHS_MAX: Final = 32  # partitions that `partitions()` names: the latest read, so that late acks find theirs
NOTE_AGAIN_S: Final = 0.5  # before a note that could not be kept is tried again

log = logging.getLogger("kedge.spouts")


class FileTail(Spout):
    """The lines of one file, as `Line` records without their line ends (LF or CRLF), in order.

    `follow=False`: the source ends where the file ends; a last line without a newline is a line. `follow=True`: it
    waits there for more, and a half line until its newline has come.

    **Identity.** A message's id is the byte offset of its line's start. The partition is a hash of the file's first
    1,024 bytes; a file that is shorter when first seen gets a random one, which it keeps as it grows. Generations of
    content with one hash are numbered, and each is a partition of its own. Names are kept in the task's notes, so that
    a later run gives the same bytes the same names, under whatever path. Without notes, a file that was first seen
    shorter than 1,024 bytes has new names in each run.

    **Rotation** (`follow=True`). When the path names another file (rename, delete and create, a symlink turned), that
    one is read from zero; the one before is read to its end, and for as long as it grows and `rotated_wait_s` after,
    since its writer may not have let go of it. Truncation (copytruncate) is noticed by the size, or by the content,
    where the file has grown back since: then it is read from zero, as a new generation. So each line comes once, but:
    - what is written between a copy and its truncation is in no file to be read, nor is what was truncated before it
      was read where the copy is not found beside it;
    - a file that an editor or `sed -i` has written anew is another file: all of its lines come again;
    - content that was replaced in place is not noticed where size, first 1,024 bytes and the last 1,024 before the next
      line are all as they were; a file that was cut in its middle is read again from zero;
    - files that are deleted between two polls, or while no run is under way, were not seen; a warning says so where
      they were known;
    - with `follow=False`, a last line that is only half written is emitted as it is, under the id of the whole line.

    **Resuming.** A later run goes on at its positions: in the file that the path names, and before it in the rotated
    files beside it that were not read to their ends, by whatever number or date they are called now (`auth.log.1`,
    `auth.log-20261121`, `auth.log.2.gz`), and in those that came and went meanwhile. Their content tells which they
    are, and their inodes where it is the same. So what was read and is not done comes again, unless
    - its file was deleted meanwhile, or truncated without a copy beside it;
    - it was a file of less than 1,024 bytes, and was copied elsewhere, or compressed: that proves too little. A copy
      beside a file that was truncated in place will do;
    - other files begin as this one does, the run was killed before it had read more of it than that (or twice as much,
      where they have more than 4,096 bytes in common), and it was compressed, or copied and truncated, meanwhile.

    The last 32 files are known. One that begins with the same 1,024 bytes as an older one is taken for that.
    `open` blocks while it unpacks compressed files that it has to read on in.

    **Lines.** `Line.raw` holds the bytes where they were not UTF-8. A line of more than `max_line_bytes` (+ 1) comes in
    pieces of `max_line_bytes`, cut between characters, each a `Line` with its own offset as id, and is warned of once a
    file: nothing is lost, and memory stays bounded. Ids of pieces depend on `max_line_bytes`.

    One task reads one file. Only regular files are read, a symlink's target too: a FIFO, device or directory is refused
    by `open`, as is an unreadable or a missing file. A missing file to follow is waited for up to `start_timeout_s`, as
    is its folder. What is refused and takes the path later is warned of, and the file before is followed on. Raises
    ConfigurationError, and NotYet for a file that is waited for. `block_bytes` is what one read takes from the disk,
    and `poll` blocks the loop for that long. `poll_interval_s` is how often a file without news is looked at, and so
    the longest that a line waits to be seen; after each line the interval begins at a millisecond and doubles.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        follow: bool = False,
        max_line_bytes: int = 1 << 20,
        block_bytes: int = 1 << 16,
        poll_interval_s: float = 0.05,
        rotated_wait_s: float = 5.0,
    ) -> None:
        self.path = os.fspath(path)
        self.follow = follow
        self.max_line_bytes = max_line_bytes
        self.block_bytes = block_bytes
        self.poll_interval_s = poll_interval_s
        self.rotated_wait_s = rotated_wait_s
        for name in ("max_line_bytes", "block_bytes", "poll_interval_s", "rotated_wait_s"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(
                    f"FileTail's {name} is above 0, not {getattr(self, name)!r}", code=INVALID_FILE_TAIL
                )
        self._files: list[_Named] = []  # rotated ones first, the newest last
        self._epochs: dict[str, str] = {}
        self.away = ""  # why it is not read on now
        self._refused = ""  # why the file that the path names now is not read

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Opens the file, and rotated ones with lines that an earlier run has left; `positions` has the offsets of the
        lines to resume at."""
        alone(task, "reads one file")
        self._clock = task.clock
        at = positions if isinstance(positions, Positions) else Positions(positions)
        descriptor = open_regular(self.path, awaited=self.follow)
        try:
            self._known = KnownFiles(task.notes, task.known_as or task.component, task.random)
            known = current_of(self.path, self._known, descriptor)
            for unread in left_behind(self.path, self._known, at, descriptor, known):
                self._add(unread.descriptor, unread.known, unread.offset, unread.whole)
            offset = offset_in(known, at) if known else 0
            if known is None or offset > os.fstat(descriptor).st_size:
                known, offset = self._known.new(descriptor, known.partition if known else None), 0
        except BaseException:
            os.close(descriptor)
            self._close_all()
            raise
        status = os.fstat(descriptor)
        self._add(descriptor, replace(known, ended=False, device=status.st_dev, inode=status.st_ino), offset)
        self._epochs = {file.known.partition_name: file.known.epoch for file in reversed(self._files)}

    async def poll(self, limit: int) -> list[Message[Line]]:
        """Up to `limit` lines of one file; waits for the first. All state changes between waits: cancelling it loses
        nothing. Raises OSError where the disk does."""
        wait_s = min(SHORTEST_WAIT_S, self.poll_interval_s)
        while True:
            file = next((one for one in self._files if one.lines.has_lines), None) or self._with_news()
            if file is not None and self._is_noted(file):
                return self._batch(file, limit)
            before = len(self._files)
            if file is None and (self._let_go() or len(self._files) < before):
                continue
            if not self.follow and not self.away:
                return []
            await asyncio.sleep(NOTE_AGAIN_S if self.away else wait_s)
            wait_s = min(wait_s * 2, self.poll_interval_s)

    def partitions(self) -> Mapping[str, str]:
        """The files read last, by name: partition → generation."""
        return self._epochs

    def close(self) -> None:
        """Notes how far each file has been read, and closes them."""
        try:
            for file in self._files:
                self._note(file)
        finally:
            self._close_all()

    def _close_all(self) -> None:
        for file in self._files:
            file.lines.close()
        self._files = []

    # -- one file

    def _add(self, descriptor: int, known: FileGeneration, offset: int, whole: bool = False) -> None:
        lines = TailedFile(descriptor, offset, self.block_bytes, self.max_line_bytes)
        self._files.append(_Named(lines, known, whole or not self.follow))

    def _with_news(self) -> "_Named | None":
        """The first file that has new lines now; None where none has."""
        if self.follow:
            self._look_at_path()
        # A list: a copy may be put before one that was truncated.
        return next((file for file in [*self._files] if self._read(file)), None)

    def _is_noted(self, file: "_Named") -> bool:
        """Whether its lines may leave: what has to be noted before is. While notes can't be written, nothing leaves,
        and nothing is lost (F71)."""
        if not file.to_note:
            return True
        try:
            self._note(file)
        except NotesAway as error:
            self._is_away(error)
            return False
        file.to_note = False
        if self.away:
            self.away = ""
            log.info("%s is read on: notes can be kept again", self.path)
        return True

    def _is_away(self, error: NotesAway) -> None:
        if not self.away:
            log.warning("%s is not read on until a note of how far it was can be kept: %s", self.path, error)
        self.away = f"a note can't be kept: {error}"

    def _read(self, file: "_Named") -> bool:
        """Reads a file's next lines; whether there are any. Afterwards its content is noted well enough (C2)."""
        lines = file.lines
        found = lines.read()
        if found is ReadResult.OTHER_CONTENT:
            log.info(
                "%s was truncated, or written anew, after %d bytes; it is read from its start", self.path, lines.offset
            )
            copied = self._take_copy(file)
            file.known = self._known.new(lines.descriptor, file.known.partition)
            lines.restart()
            if copied:
                return False  # the copy comes first
            found = lines.read()
        if found is not ReadResult.LINES and not self.follow:
            found = lines.finish()
        if found is not ReadResult.LINES:
            if file.quiet_since is None:
                file.quiet_since = self._clock.monotonic()
            return False
        file.quiet_since = None
        # Before its lines leave: what was not noted could be taken for another file's beginning by the next run. Each
        # read of the first bytes, as many as files may well have in common, then whenever it has doubled: some dozens
        # of fsyncs for any length.
        if file.known.offset < NOTED_BYTES or lines.offset >= 2 * file.known.offset:
            file.to_note = True
        if lines.pieces and not file.warned:
            file.warned = True
            log.warning(
                "%s has a line of more than %d bytes; such lines come in pieces", self.path, self.max_line_bytes
            )
        return True

    def _take_copy(self, file: "_Named") -> bool:
        """Reads on in the copy that was made of a file before it was truncated, where there is one with more lines."""
        lines = file.lines
        if self.follow and (descriptor := copy_of(self.path, lines.seen, lines.offset)) is not None:
            copy = TailedFile(descriptor, lines.offset, self.block_bytes, self.max_line_bytes)
            known = replace(file.known, device=copy.key[0], inode=copy.key[1])
            self._files.insert(self._files.index(file), _Named(copy, known, whole=True))
            return True
        return False

    def _batch(self, file: "_Named", limit: int) -> list[Message[Line]]:
        partition, epoch = file.known.partition_name, file.known.epoch
        if self._epochs.get(partition) != epoch:
            others = [(name, old) for name, old in self._epochs.items() if name != partition]
            self._epochs = dict([*others[1 - EPOCHS_MAX :], (partition, epoch)])
        return file.lines.take(limit, partition)

    def _note(self, file: "_Named") -> None:
        if file.known.offset < file.lines.offset:
            seen = file.lines.seen
            noted = replace(file.known, offset=file.lines.offset, digest=digest(seen))
            noted = replace(noted, head=noted.head and head_digest(seen[0]))
            self._known.keep(noted)
            file.known = noted

    # -- which files

    def _look_at_path(self) -> None:
        """Opens the file that the path names now, where it is not the newest one. None at the moment: it will come."""
        newest = self._files[-1]
        try:
            status = os.stat(self.path)
            key = (status.st_dev, status.st_ino)
            for file in self._files:
                if file.lines.key == key and not file.lines.done:
                    if file is not newest:  # renamed away and back
                        newest.quiet_since = None
                        self._files.remove(file)
                        self._files.append(file)
                    return
            if len(self._files) >= OPEN_FILES_MAX:
                return
            descriptor = open_regular(self.path)
            status = os.fstat(descriptor)  # the path may name another file by now
            key = (status.st_dev, status.st_ino)
            if any(file.lines.key == key and not file.lines.done for file in self._files):
                os.close(descriptor)
                return
        except FileNotFoundError:
            return
        except (OSError, ConfigurationError) as error:
            self._refuse(error)
            return
        self._refused = ""
        newest.quiet_since = None
        keys = {*(file.lines.key for file in self._files), key}
        open_ones = {file.lines.descriptor: file.known.generation_of for file in self._files}
        try:
            for unread in passed_by(self.path, self._known, keys, open_ones):
                self._add(unread.descriptor, unread.known, unread.offset)
            known = self._known.new(descriptor)
        except NotesAway as error:
            os.close(descriptor)
            self._is_away(error)
            return
        except OSError as error:  # the disk does not give it any more
            os.close(descriptor)
            self._refuse(error)
            return
        self.away = ""
        log.info("%s was rotated; the new file is read from its start", self.path)
        self._add(descriptor, known, 0)

    def _refuse(self, error: Exception) -> None:
        if str(error) != self._refused:
            self._refused = str(error)
            log.warning("what has taken the place of %s can't be read: %s", self.path, error)

    def _let_go(self) -> bool:
        """Closes rotated files that have been quiet for long enough; whether one had a half line, which is a line then.

        Called when all files have just been read to their ends, so that nothing can have been added since.
        """
        now, found_lines = self._clock.monotonic(), False
        for file in self._files[:-1]:
            if file.quiet_since is None or (not file.whole and now - file.quiet_since < self.rotated_wait_s):
                continue
            if file.lines.finish() is ReadResult.LINES:
                found_lines = True
            else:
                try:
                    self._note(file)
                    self._known.keep(replace(file.known, ended=True))
                except NotesAway as error:
                    self._is_away(error)
                    return found_lines
                self.away = ""
                self._files.remove(file)
                file.lines.close()
        return found_lines


class _Named:
    """An open file and its name. `quiet_since` is when it was first found to have no more lines, in loop time; `whole`
    says that nobody writes to it any more."""

    def __init__(self, lines: TailedFile, known: FileGeneration, whole: bool) -> None:
        self.lines = lines
        self.known = known
        self.whole = whole
        self.quiet_since: float | None = None
        self.warned = False
        self.to_note = False  # before its lines leave


def first_mtime(path: str | os.PathLike[str], notes: Notes, *, follow: bool = False) -> datetime:
    """When the file at `path` had last been changed (UTC) when this was first asked of it, by this run or an earlier
    one: noted under the file's real path, so that later changes make no difference. Blocks for the note's fsync.

    For times without a year: a replay, or a second run, must read them as the first one did. Raises ConfigurationError
    where the file is missing; NotYet where it is to be followed.
    """
    name = f"first mtime of {os.path.realpath(path)}"
    if noted := notes.get(name):
        try:
            return datetime.fromisoformat(noted)
        except ValueError as error:
            text = f"the note {name!r} in the state directory is damaged: {noted!r:.80}"
            raise StartError(text, code=DAMAGED_FILE_TIME) from error
    try:
        microseconds = os.stat(path).st_mtime_ns // 1_000
    except (OSError, ValueError) as error:
        raise unreadable(os.fspath(path), error, awaited=follow) from error
    mtime = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    notes.set(name, mtime.isoformat())
    return mtime
