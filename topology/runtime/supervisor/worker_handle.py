"""One worker process, as its supervisor sees it: how it is started, told things, heard, killed and reaped.

Nothing here waits for the process: what it does not read is kept, within a bound. Must not know what the words mean,
nor what is done about a death.
"""

import asyncio
import contextlib
import enum
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from acker.roots import owner
from topology.codes.catalogue import CODES
from topology.errors import ConfigurationError, KedgeError, StartError
from topology.runtime.control.messages import OUTSIDE, Begin, CannotStart, Order, Unpacker, Word, packed
from topology.runtime.os_process.output import Output, OutputLines
from topology.runtime.os_process.reap import UNKNOWN, how_it_ended, until_dead
from topology.runtime.os_process.worker_command import command

OUT_BYTES_MAX: Final = 64 * 1024 * 1024  # orders that may wait for a worker that does not read
PARTING_S: Final = 2.0  # how long a process may live on without its control socket, and its last lines may take
BIG_BYTES: Final = 1 << 30  # memory worth a word in the account of a death
CANNOT_START: Final[Mapping[str, type[KedgeError]]] = {
    "ConfigurationError": ConfigurationError,
    "DeclarationError": ConfigurationError,  # its list of mistakes is in the text
}
_READ_BYTES: Final = 64 * 1024
_HELD_BACK: Final = (signal.SIGINT, signal.SIGTERM)


class WorkerState(enum.Enum):
    """The steps of a worker process's life."""

    SPAWNED = enum.auto()  # it loads, builds and opens
    READY = enum.auto()  # it is open; others know it, and it is linking with them
    LINKED = enum.auto()  # all workers that it knows have welcomed it
    RUNNING = enum.auto()  # its tasks are started
    CLOSING = enum.auto()  # the order to stop, or to close, was sent
    ENDED = enum.auto()  # it has said its last word, and is gone
    DEAD = enum.auto()  # it is gone without one


MAY_BECOME: Final[Mapping[WorkerState, frozenset[WorkerState]]] = {
    WorkerState.SPAWNED: frozenset({WorkerState.READY, WorkerState.CLOSING, WorkerState.DEAD}),
    WorkerState.READY: frozenset({WorkerState.LINKED, WorkerState.RUNNING, WorkerState.CLOSING, WorkerState.DEAD}),
    WorkerState.LINKED: frozenset(
        {WorkerState.READY, WorkerState.RUNNING, WorkerState.CLOSING, WorkerState.DEAD}
    ),  # READY: there is one more to meet
    WorkerState.RUNNING: frozenset({WorkerState.CLOSING, WorkerState.DEAD}),
    WorkerState.CLOSING: frozenset({WorkerState.ENDED, WorkerState.DEAD}),
    WorkerState.ENDED: frozenset(),
    WorkerState.DEAD: frozenset(),
}
PRESENT: Final = frozenset(
    {WorkerState.READY, WorkerState.LINKED, WorkerState.RUNNING}
)  # those that other workers know


class ProcessEnd:
    """The end of one process: what it has said of it, what it was killed for, and the account of both.

    why      How it ended, once it has: "was killed by SIGKILL".
    killed   It was ended from outside: by SIGKILL, from whatever process, or by a disk that is broken.
    outside  It could not start for want of room, or the like.
    """

    def __init__(self) -> None:
        self.why = ""
        self.killed = self.outside = False
        self._killed_for = ""  # the reason for which this supervisor has killed it
        self._last_words = ""  # what it said itself about its end
        self._inherited_bytes = 0

    def is_killed_for(self, reason: str) -> None:
        """Take note of why it is killed. The first reason counts."""
        self._killed_for = self._killed_for or reason

    def is_said(self, words: str, *, outside: bool) -> None:
        """Take note of what it says itself about its end."""
        self._last_words, self.outside = words, outside

    def inherits(self, peak_bytes: int) -> None:
        """Take note of the parent's peak of memory. Linux begins a child's with it (`setmax_mm_hiwater_rss` in exec): a
        peak that is not above it says nothing about the child."""
        self._inherited_bytes = peak_bytes

    def over(self, status: int, peak_bytes: int) -> None:
        """Take note that it has ended with this status, and has used so much memory at most."""
        self.killed = bool(self._killed_for) or status in (-signal.SIGKILL, OUTSIDE)
        if self._killed_for:
            self.why = f"was killed, as {self._killed_for}"
        else:
            self.why = self._last_words or how_it_ended(status)
        if peak_bytes > max(BIG_BYTES, self._inherited_bytes) or (status == -signal.SIGKILL and not self._killed_for):
            self.why += f" (it had used {peak_bytes / 2**20:,.0f} MiB of memory at most)"


class WorkerHandle:
    """One process. Made in a running loop; raises OSError where it can't be started.

    heard   Called with each word, on the loop, in order, and before `ended`.
    ended   Called once it is reaped. Then `why` says how it ended: "was killed by SIGKILL".
    output  Called with the lines of the process; without it, stdout and stderr are ours.
    """

    def __init__(
        self,
        begin: Begin,
        environment: Mapping[str, str],
        *,
        heard: Callable[["WorkerHandle", Word], None],
        ended: Callable[["WorkerHandle"], None],
        output: Output | None = None,
    ) -> None:
        self.worker = begin.worker
        self.keeps = bool(begin.store)  # whether what it does is kept for its successor
        self.owner = owner(begin.worker, begin.incarnations[0])
        self.state = WorkerState.SPAWNED
        self.address = ""
        self.joined: set[int] = set()  # owners that it knows, and that live
        self.asked_at = 0.0  # loop time at which the last of them was sent to it
        self.met = True  # all of them have welcomed it since
        self.sources_ended = False
        self.ran = False  # whether its tasks were ever started
        self.stopped = False  # whether nothing changes there any more, as the supervisor has told it to stop
        self.reaped = asyncio.Event()
        self._heard = heard
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._end = ProcessEnd()
        self._is_reaped = False
        self._reaping = threading.Lock()  # held while the process is reaped, or killed: its number is its own till then
        self._unpacker = Unpacker(orders=False)
        self._out = bytearray(packed(begin))
        self._timer: asyncio.TimerHandle | None = None
        self._control, theirs = socket.socketpair()
        try:
            self._control.setblocking(False)
            self._process = _spawned(theirs.fileno(), environment, piped=output.streams if output is not None else ())
            self._end.inherits(_bytes(resource.getrusage(resource.RUSAGE_SELF)))
            self.pid = self._process.pid
            self._start_reaper()
        except BaseException:
            self._control.close()  # which ends the process, if there is one
            raise
        finally:
            theirs.close()
        self._lines = self._relayed(output) if output is not None else []
        self._loop.add_reader(self._control, self._read)
        self._write()

    @property
    def was_present(self) -> bool:
        """True if others were ever told of it."""
        return bool(self.address)

    @property
    def why(self) -> str:
        """The account of its end: "was killed by SIGKILL". Empty until it has ended."""
        return self._end.why

    @property
    def killed(self) -> bool:
        """True if it was ended from outside: by SIGKILL, from whatever process, or by a disk that is broken."""
        return self._end.killed

    @property
    def outside(self) -> bool:
        """True if it could not start for want of room, or the like."""
        return self._end.outside

    def become(self, state: WorkerState) -> None:
        """The next state of its life. Raises ValueError where it can't follow."""
        if state not in MAY_BECOME[self.state]:
            raise ValueError(f"worker {self.worker} can't become {state.name} as it is {self.state.name}")
        self.state = state
        self.ran |= state is WorkerState.RUNNING

    # -- telling it

    def say(self, order: Order) -> None:
        """Sends an order, or keeps it until there is room. A process that reads nothing is killed at OUT_BYTES_MAX."""
        if self._control.fileno() < 0:
            return
        self._out += packed(order)
        if len(self._out) > OUT_BYTES_MAX:
            self.kill("it does not read what it is told")
        else:
            self._write()

    def _write(self) -> None:
        while self._out:
            try:
                sent = self._control.send(self._out[:_READ_BYTES])
            except (BlockingIOError, InterruptedError):
                self._loop.add_writer(self._control, self._write)
                return
            except OSError:  # it is gone, or about to be
                self._out.clear()
                break
            del self._out[:sent]
        self._loop.remove_writer(self._control)

    def kill(self, reason: str = "") -> None:
        """Ends it at once; `ended` is called later. The first reason counts."""
        with self._reaping:
            if not self._is_reaped:
                self._end.is_killed_for(reason)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)

    def ends_as(self, words: str, *, outside: bool = False) -> None:
        """It has said itself why it is about to end."""
        self._end.is_said(words, outside=outside)

    # -- hearing it

    def _read(self) -> bool:
        """Takes what is there. False once there is no more: nothing at the moment, or for ever."""
        try:
            data = self._control.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._control)
            if not self._is_reaped and self._timer is None:
                self._timer = self._loop.call_later(PARTING_S, self.kill, "it has closed its control socket")
            return False
        try:
            for word in self._unpacker.fed(data):
                self._heard(self, word)  # type: ignore[arg-type]  # made for words
        except ValueError as error:
            self._loop.remove_reader(self._control)
            self.kill(f"it has said what it should not: {error}")
            return False
        return True

    def _start_reaper(self) -> None:
        try:
            threading.Thread(target=self._reap, name=f"kedge reaper {self.pid}", daemon=True).start()
        except RuntimeError as error:  # no more threads
            self._process.kill()
            self._process.wait()
            raise OSError(errno.EAGAIN, str(error)) from error

    def _reap(self) -> None:
        """Waits for the end of the process, in a thread of its own."""
        try:
            until_dead(self.pid)
            with self._reaping:
                self._is_reaped = True
                _, status, usage = os.wait4(self.pid, 0)
            code, peak = os.waitstatus_to_exitcode(status), _bytes(usage)
        except ChildProcessError:  # we were started with SIGCHLD ignored, so the system has reaped it
            code, peak = UNKNOWN, 0
        self._is_reaped = True
        with contextlib.suppress(RuntimeError):  # the loop is closed, and so is the run
            self._loop.call_soon_threadsafe(self._over, code, peak)

    def _over(self, status: int, peak: int) -> None:
        self._process.returncode = status
        while self._read():  # what it said before it died is there, and counts
            pass
        self.close()
        self._end.over(status, peak)
        for lines in self._lines:
            lines.end_soon(PARTING_S)
        self.reaped.set()
        self._ended(self)

    def close(self) -> None:
        """Gives up the control socket: the process ends itself then, if it has not ended. May be called twice."""
        if self._timer is not None:
            self._timer.cancel()
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control)
            self._loop.remove_writer(self._control)
            self._control.close()

    async def quiet(self) -> None:
        """Wait until it is reaped and its last lines are reported."""
        await self.reaped.wait()
        for lines in self._lines:
            await lines.ended.wait()

    def _relayed(self, output: Output) -> list[OutputLines]:
        streams = [("stdout", self._process.stdout), ("stderr", self._process.stderr)]
        return [
            OutputLines(stream, partial(output.on_line, self.worker, name))
            for name, stream in streams
            if stream is not None
        ]


def _bytes(usage: resource.struct_rusage) -> int:
    """Return the most memory that a process has used."""
    return usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024


def as_it_was(word: CannotStart) -> KedgeError:
    """The error that a worker could not start for, as it was there."""
    error = CANNOT_START.get(word.kind, StartError)(word.text, code=CODES.get(word.code), next=word.next)
    error.trace = word.trace
    return error


def _spawned(fd: int, environment: Mapping[str, str], *, piped: Collection[str]) -> "subprocess.Popen[bytes]":
    """Starts the process, with SIGINT and SIGTERM held back: they come to the whole group, and would kill it before it
    can say that it leaves them to us. It lets them in again itself."""
    stdout, stderr = (subprocess.PIPE if name in piped else None for name in ("stdout", "stderr"))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
    try:
        return subprocess.Popen(
            command(fd), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, pass_fds=[fd], env=dict(environment)
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
