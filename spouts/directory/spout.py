"""`Directory`: the files of a glob as a source, in the order of their names.

Decides which file is read next, and when it is looked for more. `listing` finds files, and `content` reads them.
"""

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Generic, NamedTuple

from typing_extensions import TypeVar

from acker.identity import MessageId
from spouts.checks import no_position
from spouts.directory.complete import CompleteFiles
from spouts.directory.content import DirectoryFile, ReadBlock
from spouts.directory.finished import FinishedFiles
from spouts.directory.keeper import Keeper
from spouts.directory.listing import FoundFile, FoundFiles, Listing
from spouts.directory.progress import FileProgress, FilesUnderWay
from spouts.directory.tidying import tidying_of
from spouts.incoming.cutter import LineCut
from spouts.incoming.line_payloads import LinePayloads
from spouts.lines import Line
from spouts.payload.formats import Value
from topology.clients.errors import invalid, not_yet
from topology.codes.settings import UNREADABLE_SOURCE_FILE
from topology.components import ONE_PARTITION, Message, Spout, Task
from topology.errors import ConfigurationError
from topology.records import Record

R = TypeVar("R", bound=Record, default=Line)

FAILED_MAX: Final = 1_000  # files that could not be read, of which the time of the next try is remembered
RETRY_S: Final = 30.0  # seconds until a file that could not be read is tried again
# Without `follow`: the tries of a file, and seconds until the second one; doubled each time
TRIES_MAX: Final = 6
AGAIN_FIRST_S: Final = 0.5
SHARE: Final = 10  # the next look comes after at least so many times as long as the last one took

log = logging.getLogger("kedge.spouts")


class Directory(Spout, Generic[R]):
    """The lines of all files that a glob pattern matches, file by file in the order of their names, each file once.

        orders = topology.spout("orders", Directory("/data/inbox/**/*.jsonl", value=Order, follow=True), tasks=4)

    `follow=False`: the source ends with the last file. `follow=True`: it waits for more files. Files whose names end
    with `.gz` are unpacked. A last line without a newline is a line.

    **Complete files.** A file is read once it is complete, and its writer does not touch it again. Best, the writer
    makes it under a name that does not match, such as one that begins with a dot, and renames it. Otherwise `quiet_s`
    says for how long a file must not have changed. With `follow=False`, all files count as complete. A file that
    changes after that is another file: all of its lines come again, and a warning says so.

    **Identity.** A message's id is the byte offset of its line's start, in the unpacked content. The partition is the
    file's path below the pattern's first folder, with a hash of its inode, its size, the time of its last change, and
    its first and last 1,024 bytes. So a later run gives the same lines the same names, and a file that was replaced is
    another one. Files that were copied elsewhere, or restored, are other files too.

    **Resuming.** A later run resumes at its positions, so lines that were read and are not done come again, unless
    their file was deleted or has changed meanwhile. Files that are done are remembered: up to 900 in the notes of the
    run, and more in a file of the state directory, after which no checkpoint of it can be kept under a name (K806).
    Each takes about 70 bytes of memory and 8 on the disk. `after` keeps them few.

    **Tasks.** Each file belongs to one task, by a hash of its name. A task has one file open at a time.

    pattern  As for Python's glob: `*`, `?`, `[a-z]`, and `**` for folders of any depth. Names that begin with a dot
             match only a pattern that has the dot.
    value    The record class of lines that are JSON objects; `Json` or a function for other ones. `Line`: the text.
    quiet_s  Seconds for which a file must not have changed before it is read, with `follow=True`. 0: files are renamed
             into place.
    after    What becomes of a file once a decided checkpoint has all of its messages: None, "delete", or "move:FOLDER".
             The folder is on the same file system, and keeps the paths below the pattern's first folder. A message that
             is dead is kept as a dead letter, and counts as done. Both need guarantee="at-least-once".
    poll_interval_s  Seconds between two looks for more files.
    max_line_bytes  A longer line comes in pieces, each a `Line`; with any other `value` it is malformed.

    Beside the payload there is `file`, its path below the pattern's first folder.

    A file that cannot be read is reported by a warning, and tried again every 30 seconds, or by the next run if its
    content is damaged. With `follow=False`, it is tried six times within 16 seconds; then `poll` raises
    ConfigurationError, so that the run fails. Raises ConfigurationError for a folder that is missing, and NotYet if it
    is to be followed.
    """

    shared_ids = True
    offers: ClassVar[frozenset[str]] = frozenset({"file"})

    def __init__(
        self,
        pattern: str | os.PathLike[str],
        *,
        value: Value[R] = Line,  # type: ignore[assignment]
        follow: bool = False,
        quiet_s: float = 2.0,
        after: str | None = None,
        poll_interval_s: float = 1.0,
        max_line_bytes: int = 1 << 20,
    ) -> None:
        self.pattern, self.follow, self.quiet_s = os.fspath(pattern), follow, quiet_s
        self.poll_interval_s, self.after = poll_interval_s, after
        if not 0 <= quiet_s < float("inf"):
            raise invalid(f"Directory: quiet_s is a number of seconds of at least 0, not {quiet_s!r:.80}")
        if not 0 < poll_interval_s < float("inf"):
            raise invalid(f"Directory: poll_interval_s is a number of seconds above 0, not {poll_interval_s!r:.80}")
        if not self.pattern or "\0" in self.pattern:
            raise invalid(f"Directory: pattern is a glob such as '/data/*.log', not {self.pattern!r:.80}")
        self._payloads = LinePayloads("Directory", value, max_line_bytes, self.offers)
        self._tidying = tidying_of(after)
        self.away = ""  # the reason for which nothing comes now: the first of `_reasons`
        self._reasons: dict[str, str] = {}
        self._keeper: Keeper | None = None
        self._under_way: FilesUnderWay | None = None
        self._reading: _Reading | None = None
        self._beginning: DirectoryFile | None = None  # the file that a job opens
        self._job: tuple[asyncio.Future[Any], Callable[[Any], None]] | None = None
        self._files = self._lines = 0

    def emits(self) -> tuple[type[Record], ...]:
        """Return the record class, and `Malformed`."""
        return self._payloads.emits()

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Begin. Blocks while it reads the list of files that are done. Raises StartError if that is damaged."""
        folder = self._tidying.folder if self._tidying is not None else ""
        self._listing = Listing(self.pattern, index=task.index, tasks=task.tasks, but=folder or None)
        self._check_folders(folder)
        self._clock, self._positions = task.clock, dict(positions)
        self._finished = FinishedFiles(task)
        self._under_way = FilesUnderWay()
        self._complete = CompleteFiles(self.quiet_s if self.follow else 0.0)
        self._wanted: deque[FoundFile] = deque()  # files to be read, by name
        self._failed: dict[int, _FailedFile] = {}  # by mark
        self._next_look, self._found_none = float("-inf"), False
        self._keeper = Keeper(
            self._listing.root, self._under_way, self._finished, self._tidying, partial(self._set_away, "list")
        )
        self._keeper.start(f"{task.component} keeps files")

    def _check_folders(self, folder: str) -> None:
        root = self._listing.root
        if os.path.isdir(self.pattern):
            raise invalid(f"Directory: {self.pattern!r} is a folder; name its files, as by {self.pattern + '/*'!r}")
        try:
            with os.scandir(root):
                pass
        except OSError as error:
            text = f"Directory: the folder {root!r} can't be read: {error.strerror or error}"
            raise not_yet(text) if self.follow else invalid(text) from error
        if folder:
            try:
                os.makedirs(folder, exist_ok=True)
                if os.stat(folder).st_dev != os.stat(root).st_dev:
                    raise invalid(f"Directory: {folder!r} is on another file system than {root!r}; move: renames files")
            except OSError as error:
                raise invalid(f"Directory: the folder {folder!r} can't be used: {error.strerror or error}") from error

    async def poll(self, limit: int) -> list[Message[R]]:
        """Return up to `limit` lines of one file; waits for the first. Cancelling it loses nothing. Raises
        ConfigurationError for a file that cannot be read, unless the folder is followed."""
        assert self._keeper is not None, "open"
        while True:
            if (failure := self._keeper.failure) is not None:
                raise failure
            if made := self._batch(limit):
                return made
            if self._found_none and not self.follow:
                return []
            self._job = self._job or self._next_job()
            if self._job is None:
                await self._pause()
                continue
            work, apply = self._job
            await asyncio.wait({work})  # cancelled, it is still there for the next poll
            self._job = None
            apply(work.result())

    def partitions(self) -> Mapping[str, str]:
        """Return the files begun last."""
        return self._under_way.partitions if self._under_way is not None else ONE_PARTITION

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        """Take note that a checkpoint has these messages of a file."""
        if self._under_way is not None:
            self._under_way.settled(partition, ids)

    async def close(self) -> None:
        """Keep the files that are done as done: that is, delete or move them, or note them. Close the open file."""
        keeper, job, reading = self._keeper, self._job, self._reading
        beginning, self._beginning = self._beginning, None
        self._keeper = self._job = self._reading = None
        if keeper is not None:
            await keeper.close()
        if job is not None:
            await asyncio.wait({job[0]})
            job[0].exception()
        for file in (beginning, reading.file if reading is not None else None):
            if file is not None:
                file.close()

    def summary(self) -> Iterable[str]:
        """Yield the counts."""
        if self._keeper is not None:
            malformed = self._payloads.malformed
            files = f"{self._files:,} file{'s' * (self._files != 1)}"
            parts = [f"{files} read to the end, {self._lines:,} line{'s' * (self._lines != 1)}, of {self.pattern}"]
            parts += [f"{malformed:,} malformed"] * bool(malformed)
            yield ", ".join(parts)

    # -- messages

    def _batch(self, limit: int) -> list[Message[Any]]:
        """Return the next lines that have been read."""
        reading, made = self._reading, list[Message[Any]]()
        if reading is None:
            return made
        beside, offsets = {"file": reading.progress.found.name}, list[int]()
        while reading.cuts and len(made) < limit:
            cut = reading.cuts.popleft()
            if self._payloads.wants(cut.data):
                decoded = self._payloads.decoded(cut.data, cut.problem, beside)
                made.append(Message(decoded.record, cut.offset, reading.progress.partition, decoded.at))
                offsets.append(cut.offset)
        reading.progress.unsettled.add(offsets)
        self._lines += len(made)
        if not reading.cuts and reading.ended:
            self._files += 1
            self._ended(reading)
        return made

    def _ended(self, reading: "_Reading") -> None:
        assert self._under_way is not None
        self._reading = None
        self._failed.pop(reading.progress.found.mark, None)
        self._under_way.read(reading.progress)

    # -- what is done in a thread, one after the other

    def _next_job(self) -> tuple[asyncio.Future[Any], Callable[[Any], None]] | None:
        """Begin what has to be done next; None if nothing is to be done now."""
        assert self._under_way is not None
        if (reading := self._reading) is not None:
            return self._in_thread(reading.file.read), lambda block: self._read(reading, block)
        self._set_away("room", self._under_way.why_full)
        if not self._under_way.has_room:
            return None
        if self._wanted:
            return self._begun(DirectoryFile(self._wanted.popleft()))
        if self._clock.monotonic() < self._next_look:
            return None
        now, known = self._clock.monotonic(), self._finished.own()
        but = self._under_way.read_marks() | {mark for mark, failed in self._failed.items() if now < failed.again_at}
        look = self._in_thread(self._looked, self._finished.__contains__, lambda mark: mark not in but)
        return look, lambda found: self._found(found, now, known)

    def _in_thread(self, call: Callable[..., Any], *given: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(None, call, *given)

    def _looked(self, is_done: Callable[[int], bool], is_wanted: Callable[[int], bool]) -> FoundFiles | OSError:
        try:
            return self._listing.look(is_done, is_wanted)
        except OSError as error:
            return error

    def _found(self, found: FoundFiles | OSError, asked_at: float, known: frozenset[int]) -> None:
        now = self._clock.monotonic()
        self._next_look = now + max(self.poll_interval_s, SHARE * (now - asked_at))
        if isinstance(found, OSError):
            if not self.follow:
                raise found
            self._set_away("look", f"the folder {self._listing.root!r} can't be read: {found.strerror or found}")
            return
        assert self._keeper is not None
        self._set_away("look", "")
        self._keeper.gone = known - found.done
        self._keeper.found_left(found.left)
        self._wanted.extend(self._complete.of(found.files, now, self._clock.utc()))
        self._next_look = min(self._next_look, self._complete.next_at)
        self._found_none = not self._wanted
        if not self.follow:
            again = [each.again_at for each in self._failed.values() if asked_at < each.again_at < float("inf")]
            self._found_none = self._found_none and not again
            self._next_look = min(again) if again and not self._wanted else float("-inf")

    def _begun(self, file: DirectoryFile) -> tuple[asyncio.Future[Any], Callable[[Any], None]]:
        under_way = self._under_way
        assert under_way is not None

        def offset_of(epoch: str) -> int:
            partition = f"{file.found.name}@{epoch}"
            if (progress := under_way.get(partition)) is not None:
                return progress.offset
            position = self._positions.get(partition, 0)
            if type(position) is not int or position < 0:
                raise no_position(position, "a position in a file is a byte offset")
            return position

        def begun(block: ReadBlock) -> None:
            self._beginning = None
            if not file.epoch:
                self._failed_to_read(file, block)
                return
            reading = _Reading(file, under_way.begin(file.found, f"{file.found.name}@{file.epoch}"))
            self._reading = reading
            self._read(reading, block)

        self._beginning = file
        return self._in_thread(file.begin, offset_of, self._payloads.cutter), begun

    def _read(self, reading: "_Reading", block: ReadBlock) -> None:
        """Take what was read of a file."""
        reading.cuts.extend(block.cuts)
        reading.progress.offset = reading.file.offset
        reading.ended = block.ended
        if block.ended:
            reading.file.close()
            if block.trouble:
                log.warning("%s: %s, and is read again from its start", reading.file.found.path, block.trouble)
            if not reading.cuts:
                self._files += 1
                self._ended(reading)
        elif block.trouble:
            self._reading = None
            self._failed_to_read(reading.file, block)

    def _failed_to_read(self, file: DirectoryFile, block: ReadBlock) -> None:
        """Leave a file for a while, or until the next run. Raises ConfigurationError if it was tried often enough."""
        file.close()
        if block.has_changed:
            return  # the next look finds it
        before = self._failed.pop(file.found.mark, None)
        tries = before.tries + 1 if before is not None else 1
        wait_s = RETRY_S if self.follow else AGAIN_FIRST_S * 2 ** (tries - 1)
        again_at = float("inf") if block.lasting else self._clock.monotonic() + wait_s
        self._failed[file.found.mark] = _FailedFile(tries, again_at)
        is_there = os.path.lexists(file.found.path)
        if not self.follow and not block.lasting and tries >= TRIES_MAX and is_there:
            text = f"Directory: {block.trouble}; it was tried {tries} times, and a run without it would miss its lines"
            raise ConfigurationError(text, code=UNREADABLE_SOURCE_FILE)
        if not self.follow and len(self._failed) > FAILED_MAX:
            text = f"Directory: more than {FAILED_MAX:,} files can't be read, the last one: {block.trouble}"
            raise ConfigurationError(text, code=UNREADABLE_SOURCE_FILE)
        for mark in [*self._failed][:-FAILED_MAX]:
            del self._failed[mark]
        if before is None and is_there:
            log.warning("%s; %s", block.trouble, LATER if block.lasting else SOON)

    # -- waiting

    async def _pause(self) -> None:
        """Wait until it is time to look again, or a file is kept as done."""
        assert self._under_way is not None
        room = self._under_way.room
        room.clear()
        wait_s = self._next_look - self._clock.monotonic() if self._under_way.has_room else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s if wait_s is None else max(0.0, wait_s)):
                await room.wait()

    def _set_away(self, what: str, why: str) -> None:
        self._reasons[what] = why
        self.away = next(filter(None, self._reasons.values()), "")


SOON: Final = "it is tried again"
LATER: Final = "the next run tries it again"


class _FailedFile(NamedTuple):
    """A file that could not be read: how often it was tried, and the monotonic time of the next try."""

    tries: int
    again_at: float


class _Reading:
    """The file that is read now. `cuts`: its lines that are read and not emitted."""

    def __init__(self, file: DirectoryFile, progress: FileProgress) -> None:
        self.file, self.progress = file, progress
        self.cuts: deque[LineCut] = deque()
        self.ended = False
