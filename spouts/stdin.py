"""`Stdin`: the lines of standard input, as in `… | kedge run f.py`.

A thread reads, because standard input may be a terminal, a pipe or a file, and no other way waits for all of them. Must
not know what a line means.
"""

import asyncio
import contextlib
import logging
import os
import selectors
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic

from typing_extensions import TypeVar

from acker.identity import MessageId
from spouts.checks import alone
from spouts.incoming.inbox import PREFETCH, Inbox, Incoming
from spouts.incoming.line_payloads import NOTHING, LinePayloads
from spouts.incoming.lives import new_life
from spouts.lines import Line
from spouts.payload.formats import Value
from topology.clients.errors import invalid
from topology.components import ONE_PARTITION, Message, Spout, Task
from topology.records import Record
from topology.runtime.os_process.worker_command import supervisor_of

R = TypeVar("R", bound=Record, default=Line)

DESCRIPTOR: Final = 0  # of standard input
BLOCK_BYTES: Final = 1 << 16  # that one read takes, at most
BLOCKS_MAX: Final = 2  # that are read and not cut into lines yet
STOP_S: Final = 1.0  # seconds that `close` waits for the thread, which is at most in a read that returns at once

log = logging.getLogger("kedge.spouts")


class Stdin(Spout, Generic[R]):
    """The lines of standard input, in order, until its end.

        lines = topology.spout("lines", Stdin())

        journalctl -f -o json | kedge run alerts.py

    It reads pipes, files and terminals. A last line without a newline is a line. A message's id is the number of its
    line; the epoch is the life of the source, so the lines of two runs are never taken for each other.

    Nothing can be read again: if the process is killed, the lines that it has read and not finished are lost. When a
    run drains, by Ctrl-C for example, the lines that it has read are finished, and the rest stays in the pipe. If bolts
    are slow, it stops reading, and the program before the pipe waits.

    value    The record class of lines that are JSON objects; `Json` or a function for other ones. `Line`: the text.
    max_line_bytes  A longer line comes in pieces, each a `Line`; with any other `value` it is malformed.

    One task, and one `Stdin` per run. With `--workers`, standard input belongs to the supervisor, and no worker has it:
    `open` raises ConfigurationError, as it does if standard input is closed or a folder.
    """

    given_again = "never"

    def __init__(
        self,
        *,
        value: Value[R] = Line,  # type: ignore[assignment]
        max_line_bytes: int = 1 << 20,
    ) -> None:
        self._payloads = LinePayloads("Stdin", value, max_line_bytes)
        self._epochs: Mapping[str, str] = ONE_PARTITION
        self._inbox: Inbox | None = None
        self._reader: _Reader | None = None
        self._lines = 0

    def emits(self) -> tuple[type[Record], ...]:
        """Return the record class, and `Malformed`."""
        return self._payloads.emits()

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Begin to read. Blocks for a note's fsync."""
        alone(task, "reads standard input")
        _check_input()
        self._epochs = {"": new_life(task, "Stdin")}
        self._cutter = self._payloads.cutter()
        self._lines = 0
        reader = self._reader = _Reader(self._came)
        self._inbox = Inbox(PREFETCH, reader.hold, stops=reader.stop)
        self._inbox.to_come = reader.over
        reader.start()

    async def poll(self, limit: int) -> list[Message[R]]:
        """Wait for a line; return up to `limit`. Cancelling it loses nothing."""
        assert self._inbox is not None, "open"
        made: list[Message[Any]] = []
        for line in await self._inbox.take(limit):
            decoded = self._payloads.decoded(line.data, line.problem)
            made.append(Message(decoded.record, line.id, at=decoded.at))
        return made

    def partitions(self) -> Mapping[str, str]:
        """Return one partition; its epoch is the life of the source."""
        return self._epochs

    @property
    def polling_within(self) -> Inbox | None:
        """The lines that have been read: they are emitted before a drain ends."""
        return self._inbox

    def close(self) -> None:
        """Stop reading. What has been read and not emitted is lost."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.stop()
            reader.join()
            if self._cutter.held:
                log.warning("the first %d bytes of a line came before the end, and are lost", self._cutter.held)

    def summary(self) -> Iterable[str]:
        """Yield the counts."""
        if self._reader is not None:
            malformed = self._payloads.malformed
            lines = f"{self._lines:,} line{'s' * (self._lines != 1)} of standard input"
            yield lines + f", {malformed:,} malformed" * bool(malformed)

    def _came(self, block: bytes | OSError) -> None:
        """Take what the thread has read: a block; nothing at the end; an error."""
        assert self._inbox is not None, "open"
        if isinstance(block, OSError):
            self._inbox.end(block)
            return
        cuts = self._cutter.feed(block) if block else self._cutter.end()
        numbered, wants = enumerate(cuts, self._lines + 1), self._payloads.wants
        self._lines += len(cuts)
        self._inbox.put([Incoming(n, cut.data, cut.problem, NOTHING, None) for n, cut in numbered if wants(cut.data)])
        if not block:
            self._inbox.end()


def _check_input() -> None:
    """Raise ConfigurationError if this process has no standard input of the run's."""
    if supervisor_of(sys.orig_argv) is not None:
        raise invalid(
            "Stdin: standard input belongs to the supervisor, and workers do not have it; leave out --workers"
        )
    try:
        mode = os.fstat(DESCRIPTOR).st_mode
    except OSError:
        mode = 0
    if sys.__stdin__ is None or not mode:  # if it was closed at the start, the descriptor may be that of another file
        raise invalid("Stdin: standard input is closed; give the run one, as by `… | kedge run`")
    if stat.S_ISDIR(mode):
        raise invalid("Stdin: standard input is a folder; give it a file, or the output of a program")


class _Reader:
    """The thread that reads. `came` is called on the loop with each block, with nothing at the end, or with an error;
    not after `stop`. `over` is set when the thread has ended."""

    reading: "_Reader | None" = None  # the one of this process

    def __init__(self, came: Callable[[bytes | OSError], None]) -> None:
        if _Reader.reading is not None:
            raise invalid("Stdin: another Stdin of this process reads standard input; a run has one")
        self.over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._came = came
        self._may_read = threading.Semaphore(BLOCKS_MAX)
        self._held = 0  # blocks that may be read once there is room
        self._holds = self._stopping = False
        self._woken, self._waker = os.pipe()  # the thread waits for standard input, and for this
        self._thread = threading.Thread(target=self._run, name="kedge stdin", daemon=True)

    def start(self) -> None:
        _Reader.reading = self
        self._thread.start()

    def hold(self, held: bool) -> None:
        """Read nothing more while this holds, but for what is being read."""
        self._holds = held
        while self._held and not held:
            self._held -= 1
            self._may_read.release()

    def stop(self) -> None:
        """End the thread, soon. Its last block may still come."""
        if not self._stopping:
            self._stopping = True
            self._may_read.release()
            with contextlib.suppress(BrokenPipeError):  # the thread has ended
                os.write(self._waker, b"x")

    def join(self) -> None:
        """Wait for the end of the thread, after `stop`; waits a second at most. A terminal may have taken back a line
        that it had announced: then the thread waits for the next one, and is left behind."""
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            log.warning("a thread is left behind that reads standard input; a line that is typed now is lost")
        else:
            os.close(self._waker)
            _Reader.reading = None

    # -- in the thread

    def _run(self) -> None:
        try:
            with selectors.PollSelector() if sys.platform == "linux" else selectors.SelectSelector() as selector:
                selector.register(self._woken, selectors.EVENT_READ)
                selector.register(DESCRIPTOR, selectors.EVENT_READ)
                block: bytes | OSError | None = b""
                while self._may_read.acquire() and not self._stopping:
                    block = self._next(selector)
                    if block is None or not self._tell(self._take, block):
                        return
                    if not block or isinstance(block, OSError):
                        return
        finally:
            os.close(self._woken)
            self._tell(self.over.set)

    def _next(self, selector: selectors.BaseSelector) -> bytes | OSError | None:
        """Wait for the next block. None: the reading is to stop."""
        while True:
            ready = selector.select()
            if self._stopping or any(key.fd == self._woken for key, _ in ready):
                return None
            try:
                return os.read(DESCRIPTOR, BLOCK_BYTES)
            except BlockingIOError:  # another program has made the pipe one that does not wait, and was faster
                continue
            except OSError as error:
                return error

    def _tell(self, call: Callable[..., None], *given: Any) -> bool:
        try:
            self._loop.call_soon_threadsafe(call, *given)
        except RuntimeError:  # the loop is closed
            return False
        return True

    # -- on the loop

    def _take(self, block: bytes | OSError) -> None:
        self._came(block)
        if self._holds:
            self._held += 1
        else:
            self._may_read.release()
