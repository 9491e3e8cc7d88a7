"""The command's side of the socket to a run: send one request, receive the answers.

Blocks; for programs without an event loop. Must not know the meaning of requests. Answers are decoded by type, and are
not yet safe for a terminal.
"""

import contextlib
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
from topology.filesystem.locks import lock_shared
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

CONNECT_S: Final = 5.0  # seconds that a run may take to accept a connection
WORD_S: Final = 1.0  # seconds without data, after which the caller's `silent` is called
STARTING_S: Final = 10  # seconds that a run which was just started may take until it can be reached
CHUNK_BYTES: Final = 64 * 1024
ANSWER_S: Final = 60.0  # seconds that one answer may take from its first byte to its last
SILENT_MAX: Final = 300  # seconds without a byte, after which waiting for an answer ends


class RunConnection:
    """A connection to a run. `with` closes it. Raises WorkerError if the run ends before it has answered."""

    def __init__(self, connection: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self.clock = clock
        self._data = bytearray()
        self._answer_began_at: float | None = None  # time of the first byte of the answer that is being read

    def __enter__(self) -> "RunConnection":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._connection.close()

    def ask(self, request: Request) -> None:
        """Send a request."""
        try:
            self._connection.settimeout(CONNECT_S)
            self._connection.sendall(packed(request))
        except (BrokenPipeError, ConnectionResetError):
            pass  # the run has closed the connection, and may have sent the reason before
        except OSError as error:
            raise _gone() from error

    def heard(self, silent: Callable[[int], None], patience_s: int = SILENT_MAX) -> Answer:
        """Return the next answer of the run. While none arrives, `silent` is called each second with the number of
        seconds so far; it may end the waiting by raising. Raises WorkerError for an invalid answer, for an answer that
        takes more than ANSWER_S, and after patience_s without a byte."""
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
        """Return the next answer of the run. Raise TimeoutError after WORD_S without data."""
        head = self._whole(4)
        length = int.from_bytes(head, "little")
        if length > ANSWER_BYTES_MAX:
            raise no_run(f"it announces {length:,} bytes")
        try:
            answer = answer_of(self._whole(4 + length)[4:])
        except (ValueError, RecursionError) as error:
            raise no_run(printable(str(error))[:200]) from error
        del self._data[: 4 + length]
        self._answer_began_at = self.clock() if self._data else None
        return answer

    def _whole(self, length: int) -> bytes:
        """Return the first `length` bytes that are not yet consumed. They stay in the buffer."""
        self._connection.settimeout(WORD_S)
        while len(self._data) < length:
            if self._answer_began_at is not None and self.clock() - self._answer_began_at > ANSWER_S:
                raise no_run(f"one answer takes longer than {ANSWER_S:g} s")
            try:
                data = self._connection.recv(CHUNK_BYTES)
            except TimeoutError:
                raise
            except OSError:
                data = b""
            if not data:
                raise _gone()
            self._answer_began_at = self.clock() if self._answer_began_at is None else self._answer_began_at
            self._data += data
        return bytes(self._data[:length])


def no_run(why: str) -> WorkerError:
    """Return the error for an answer that no run of this version sends."""
    return WorkerError(f"the answer is not from a run of this version of Kedge: {why}", code=UNKNOWN_RUN_PROTOCOL)


def _gone() -> WorkerError:
    return WorkerError("the run ended without an answer: it was killed, or has failed", code=RUN_CONNECTION_LOST)


def line_to(directory: Path) -> RunConnection | None:
    """Connect to the run on this state directory. Return None if there is no run, or none that we may command."""
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
    """Connect to the run on this state directory, or return None if no process uses it. Waits for a run that was just
    started. Raise WorkerError for an unreachable run."""
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
    """Return True if we accept a process of this user as the run: our own user's, or any user's for root."""
    return os.geteuid() == 0 or may_command(uid)


def _paths(directory: Path) -> Iterator[Path]:
    yield directory / SOCKET
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(directory / ELSEWHERE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            yield Path(os.fsdecode(file.read(PATH_MAX)))


def _connect(connection: socket.socket, path: Path) -> None:
    """Connect to the socket. If its path is too long, change into its directory: a command is alone in its process."""
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
    """Return True if a run can be reached on this state directory."""
    line = line_to(directory)
    if line is not None:
        with line:
            return True
    return False


def locked(directory: Path) -> bool:
    """Return True if a run has locked this directory, even if the run can't be reached, or not yet. Tries a shared lock
    for a moment. Raises PermissionError if this user may not look."""
    try:
        lock = os.open(directory / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except PermissionError:
        raise
    except OSError:
        return False
    try:
        lock_shared(lock)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
