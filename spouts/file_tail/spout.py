"""FileTail: the lines of a log file, each with an id that names it forever, through rotations and restarts.

Decides which file is read next, and when. `open_file` reads lines, and `identity` names files.
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

OPEN_FILES_MAX: Final = 16  # rotated files that still have lines, and the newest file
# seconds after a line; the wait doubles up to `poll_interval_s`, so a busy file's next line is seen soon
SHORTEST_WAIT_S: Final = 0.001
NOTED_BYTES: Final = 4 * WINDOW_BYTES  # bytes of a file's beginning that are noted as they are read
EPOCHS_MAX: Final = 32  # partitions that `partitions()` names: the last ones read, so that late acks find theirs
NOTE_AGAIN_S: Final = 0.5  # seconds before a note that could not be stored is tried again

log = logging.getLogger("kedge.spouts")


class FileTail(Spout):
    """The lines of one file, as `Line` records without their line ends (LF or CRLF), in order.

        lines = topology.spout("lines", FileTail("/var/log/auth.log", follow=True))

    `follow=False`: the source ends at the end of the file; a last line without a newline is a line. `follow=True`: it
    waits there for more, and it waits for the newline of a half line.

    **Identity.** A message's id is the byte offset of its line's start. The partition is a hash of the file's first
    1,024 bytes. A file that is shorter when first seen gets a random partition, which it keeps as it grows. Generations
    of content with one hash are numbered, and each is a partition of its own. Names are kept in the task's notes, so
    that a later run gives the same bytes the same names, under any path. Without notes, a file that was first seen
    shorter than 1,024 bytes has new names in each run.

    **Rotation** (`follow=True`). When the path names another file (rename, delete and create, a changed symlink), that
    file is read from zero. The file before is read to its end, for as long as it grows and `rotated_wait_s` after,
    because its writer may still have it open. Truncation (copytruncate) is detected by the size, or by the content if
    the file has grown back since. Then the file is read from zero, as a new generation. So each line comes once, with
    these exceptions:
    - Lines written between a copy and its truncation are in no file, so they cannot be read. Lines truncated before
      they were read are lost if there is no copy next to the file.
    - A file that an editor or `sed -i` has rewritten is another file: all of its lines come again.
    - Content that was replaced in place is not detected if the size, the first 1,024 bytes and the last 1,024 before
      the next line are all unchanged. A file that was cut in its middle is read again from zero.
    - Files that are deleted between two polls, or while no run is active, were not seen. A warning reports it if they
      were known.
    - With `follow=False`, a last line that is only half written is emitted as it is, under the id of the whole line.

    **Resuming.** A later run resumes at its positions in the file that the path names. Before that it reads the rotated
    files next to it that were not read to their ends, and files that came and went meanwhile. Any number or date in
    their names will do (`auth.log.1`, `auth.log-20261121`, `auth.log.2.gz`). The run recognizes files by their content,
    and by their inodes if the content is the same. So lines that were read and are not done come again, unless
    - their file was deleted meanwhile, or truncated without a copy next to it;
    - their file had less than 1,024 bytes, and was copied elsewhere, or compressed: that content proves too little. A
      copy next to a file that was truncated in place is enough;
    - other files begin as their file does, and two more things happened. The run was killed before it had read more of
      the file than the common bytes, or twice as many if these are more than 4,096. And the file was compressed, or
      copied and truncated, meanwhile.

    The last 32 files are known. A file that begins with the same 1,024 bytes as an older one is taken for that one.
    `open` blocks while it unpacks compressed files in which it resumes.

    **Lines.** `Line.raw` holds the bytes if they were not UTF-8. A line of more than `max_line_bytes` (+ 1) comes in
    pieces of `max_line_bytes`, cut between characters, each a `Line` with its own offset as id. A warning reports it
    once per file. Nothing is lost, and memory stays bounded. Ids of pieces depend on `max_line_bytes`.

    One task reads one file. Only regular files are read, also as the target of a symlink: `open` refuses a FIFO, device
    or directory, and an unreadable or missing file. A missing file that is to be followed, or its missing folder, is
    waited for up to `start_timeout_s`. If an unreadable file takes the path later, a warning reports it, and the file
    before is followed further. Raises ConfigurationError, and NotYet for a file that is waited for.

    block_bytes      Bytes that one read takes from the disk; `poll` blocks the loop for that long.
    poll_interval_s  Seconds between two looks at a file without news, and so the longest that a line waits to be seen.
                     After each line the interval begins at a millisecond and doubles.
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
        self.away = ""  # the reason for which reading is paused now
        self._refused = ""  # the reason for which the file that the path names now is not read

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Open the file, and rotated ones with lines that an earlier run has left. `positions` has the offsets of the
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
        """Return up to `limit` lines of one file; waits for the first. All state changes between waits, so cancelling
        it loses nothing. Raises OSError if the disk does."""
        wait_s = min(SHORTEST_WAIT_S, self.poll_interval_s)
        while True:
            file = next((named for named in self._files if named.lines.has_lines), None) or self._with_news()
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
        """Return the files read last, by name: partition → generation."""
        return self._epochs

    def close(self) -> None:
        """Note how far each file has been read, and close all files."""
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
        """Return the first file that has new lines now; None if none has."""
        if self.follow:
            self._look_at_path()
        # A list: a copy may be put before one that was truncated.
        return next((file for file in [*self._files] if self._read(file)), None)

    def _is_noted(self, file: "_Named") -> bool:
        """Return True if its lines may be emitted, because the notes that they need are stored. While notes cannot be
        written, nothing is emitted, and nothing is lost (F71)."""
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
            log.info("reading of %s resumes: notes can be stored again", self.path)
        return True

    def _is_away(self, error: NotesAway) -> None:
        if not self.away:
            log.warning("reading of %s waits until a note of its position can be stored: %s", self.path, error)
        self.away = f"a note can't be stored: {error}"

    def _read(self, file: "_Named") -> bool:
        """Read a file's next lines; return True if there are any. Marks the file to be noted if its content is not
        noted well enough (C2)."""
        lines = file.lines
        found = lines.read()
        if found is ReadResult.OTHER_CONTENT:
            log.info("%s was truncated or rewritten after %d bytes; it is read from its start", self.path, lines.offset)
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
        # Noted before its lines are emitted: otherwise the next run could mistake content that was not noted for the
        # beginning of another file. Each read of the first bytes is noted, as far as files may well be alike, and then
        # each doubling: some dozens of fsyncs for any length.
        if file.known.offset < NOTED_BYTES or lines.offset >= 2 * file.known.offset:
            file.to_note = True
        if lines.pieces and not file.warned:
            file.warned = True
            log.warning(
                "%s has a line of more than %d bytes; such lines come in pieces", self.path, self.max_line_bytes
            )
        return True

    def _take_copy(self, file: "_Named") -> bool:
        """Continue in the copy that was made of a file before it was truncated, if there is one with more lines."""
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
        """Open the file that the path names now, if it is not the newest one. A path that names no file at the moment
        is tried again later."""
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
        except OSError as error:  # the disk refuses to read it
            os.close(descriptor)
            self._refuse(error)
            return
        self.away = ""
        log.info("%s was rotated; the new file is read from its start", self.path)
        self._add(descriptor, known, 0)

    def _refuse(self, error: Exception) -> None:
        if str(error) != self._refused:
            self._refused = str(error)
            log.warning("the file that replaced %s can't be read: %s", self.path, error)

    def _let_go(self) -> bool:
        """Close rotated files that have been quiet for long enough. Return True if one had a half line, which then
        counts as a line.

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
    """An open file and its name. `quiet_since` is the loop time at which it was first found to have no more lines.
    `whole` is True if no process writes to it any more."""

    def __init__(self, lines: TailedFile, known: FileGeneration, whole: bool) -> None:
        self.lines = lines
        self.known = known
        self.whole = whole
        self.quiet_since: float | None = None
        self.warned = False
        self.to_note = False  # True if it must be noted before its lines are emitted


def first_mtime(path: str | os.PathLike[str], notes: Notes, *, follow: bool = False) -> datetime:
    """Return the time of the last change (UTC) of the file at `path`, as of the first call by this run or an earlier
    one.

    The time is noted under the file's real path, so that later changes make no difference. Blocks for the note's fsync.

    For times without a year: a replay, or a second run, must read them as the first one did. Raises ConfigurationError
    if the file is missing; NotYet if it is to be followed.
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
