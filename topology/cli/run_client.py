"""A command's end of the socket by which it reaches a run: one question, and what the run answers.

Blocks; for programs without a loop. Must not know what is asked. What a run says is decoded by type, and is not yet
safe for a terminal.
"""

import contextlib
import fcntl
import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

from topology.cli.output import terminal
from topology.codes.command_line import RUN_CONNECTION_LOST, RUN_NOT_ANSWERING, RUN_UNREACHABLE, UNKNOWN_RUN_PROTOCOL
from topology.errors import WorkerError
from topology.runtime.run.command_socket import (
    ANSWER_BYTES_MAX,
    ELSEWHERE,
    PATH_MAX,
    SOCKET,
    Answer,
    Request,
    answer_of,
    may_command,
    packed,
    peer_uid,
    short,
)
from topology.text import printable

CONNECT_S: Final = 5.0  # how long a run may take to accept,
WORD_S: Final = 1.0  # and to say something, until it is told that nothing comes
STARTING_S: Final = 10  # how long a run which has just been started may take until it can be reached
CHUNK_BYTES: Final = 64 * 1024
ANSWER_S: Final = 60.0  # how long one answer may take from its first byte to its last,
SILENT_MAX: Final = 300  # and how many seconds nobody waits on for its first


class RunConnection:
    """A connection to a run. `with` closes it. Raises WorkerError where the run is gone before it has answered."""

    def __init__(self, connection: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self.clock = clock
        self._data = bytearray()
        self._begun: float | None = None  # when the first byte of what is being read came

    def __enter__(self) -> "RunConnection":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._connection.close()

    def ask(self, request: Request) -> None:
        """Sends a question."""
        try:
            self._connection.settimeout(CONNECT_S)
            self._connection.sendall(packed(request))
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has hung up, and perhaps said why
        except OSError as error:
            raise _gone() from error

    def heard(self, silent: Callable[[int], None], patience_s: int = SILENT_MAX) -> Answer:
        """The next thing that the run says. While that is nothing, `silent` is called each second with how many it has
        been; it may end the waiting by raising. Raises WorkerError for what no run says, for an answer that takes more
        than ANSWER_S, and after patience_s without a byte."""
        seconds = 0
        while True:
            try:
                return self._next()
            except TimeoutError:
                seconds += 1
                silent(seconds)
                if seconds >= patience_s:
                    raise WorkerError(
                        f"the run has not answered within {patience_s} s", code=RUN_NOT_ANSWERING
                    ) from None

    def _next(self) -> Answer:
        """The next thing that the run says. Raises TimeoutError after WORD_S without a word."""
        head = self._whole(4)
        length = int.from_bytes(head, "little")
        if length > ANSWER_BYTES_MAX:
            raise no_run(f"it announces {length:,} bytes")
        try:
            answer = answer_of(self._whole(4 + length)[4:])
        except (ValueError, RecursionError) as error:
            raise no_run(printable(str(error))[:200]) from error
        del self._data[: 4 + length]
        self._begun = self.clock() if self._data else None
        return answer

    def _whole(self, length: int) -> bytes:
        """So many bytes from the beginning of what is not yet read, which stay there."""
        self._connection.settimeout(WORD_S)
        while len(self._data) < length:
            if self._begun is not None and self.clock() - self._begun > ANSWER_S:
                raise no_run(f"one answer takes longer than {ANSWER_S:g} s")
            try:
                data = self._connection.recv(CHUNK_BYTES)
            except TimeoutError:
                raise
            except OSError:
                data = b""
            if not data:
                raise _gone()
            self._begun = self.clock() if self._begun is None else self._begun
            self._data += data
        return bytes(self._data[:length])


def no_run(why: str) -> WorkerError:
    """What answers is something else, or of another version."""
    return WorkerError(f"what answers is no run of this version of Kedge: {why}", code=UNKNOWN_RUN_PROTOCOL)


def _gone() -> WorkerError:
    return WorkerError("the run is gone without a last word: it was killed, or has failed", code=RUN_CONNECTION_LOST)


def line_to(directory: Path) -> RunConnection | None:
    """A connection to the run on this state directory; None where there is nobody, or nobody that we may command."""
    for path in _paths(directory):
        with contextlib.ExitStack() as closing:
            connection = closing.enter_context(socket.socket(socket.AF_UNIX))
            connection.settimeout(CONNECT_S)
            try:
                _connect(connection, path)
                if not may_command_us(peer_uid(connection)):
                    continue
            except (OSError, ValueError):
                continue
            closing.pop_all()
            return RunConnection(connection)
    return None


def reached(directory: Path) -> RunConnection | None:
    """A connection to the run there, None where nobody has the directory. A run that has just been started is waited
    for. Raises WorkerError for one that can't be reached."""
    for second in range(STARTING_S + 1):
        line = line_to(directory)
        if line is not None:
            return line
        if not locked(directory):
            return None
        if second == 0:
            terminal.say(f"{printable(str(directory))}: in use, by a run that can't be reached yet or by kedge dead")
        select.select([], [], [], WORD_S)
    raise WorkerError(f"the run on {printable(str(directory))} can't be reached", code=RUN_UNREACHABLE)


def may_command_us(uid: int) -> bool:
    """Whether we believe this user's process to be the run: one of ours, or of anybody for root."""
    return os.geteuid() == 0 or may_command(uid)


def _paths(directory: Path) -> Iterator[Path]:
    yield directory / SOCKET
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(directory / ELSEWHERE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            yield Path(os.fsdecode(file.read(PATH_MAX)))


def _connect(connection: socket.socket, path: Path) -> None:
    """Connects, from within the directory where the path is too long: a command is alone in its process."""
    near = short(path)
    if near is not None:
        connection.connect(near)
        return
    before = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.chdir(path.parent)
        connection.connect(path.name)
    finally:
        os.fchdir(before)
        os.close(before)


def runs(directory: Path) -> bool:
    """Whether somebody can be reached there."""
    line = line_to(directory)
    if line is not None:
        with line:
            return True
    return False


def locked(directory: Path) -> bool:
    """Whether a run has this directory, though it may not be reached, or not yet. Looks for a moment, by a lock that
    others may share."""
    try:
        lock = os.open(directory / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
