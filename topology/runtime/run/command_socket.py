"""Commands to a run in progress, over a socket in its state directory, for its user only (S16, S17).

This module has the messages, the place of the socket, and the run's end of it. Each message is one msgpack object of a
known type after its length. Nothing is unpickled, and a client that sends anything else is disconnected. Every
connection, message and wait has a bound, so that no client holds up the run. Must not know what draining or a dead
letter is.
"""

import asyncio
import contextlib
import logging
import os
import socket
import stat
import struct
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from topology.codes.startup import COMMAND_SOCKET_UNAVAILABLE, RUN_COMMAND_RAISED
from topology.errors import KedgeError, StartError
from topology.runtime.run.report import Report
from topology.runtime.run.run_dir import RunDir
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.directory.savepoints import Savepoint
from topology.user_frames import described

SOCKET: Final = "socket"  # its name in the state directory
# the name of a file with the socket's path, if the socket can't be in the state directory
ELSEWHERE: Final = "socket.at"
PATH_MAX: Final = 103  # bytes of a socket's path that every system accepts
SOCKET_IN_RUNDIR: Final = "0-0-00000000.sock"  # a name that a sweep of run directories knows
CLIENTS_MAX: Final = 16  # at once; further clients get an error and are disconnected
ACCEPTED_MAX: Final = 8  # connections accepted in one turn of the loop
REQUEST_BYTES_MAX: Final = 1024 * 1024
ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024
ASK_S: Final = 10.0  # seconds that a client may take to send its request
READ_S: Final = 10.0  # seconds that a client may take to read an answer
GOING_S: Final = 0.5  # seconds between two reports of a run that is about to end
LAST_S: Final = 2.0  # seconds that clients may take to read how the run ended
AGAIN_S: Final = 1.0  # seconds until connections are accepted again, after there was no descriptor for one
LETTERS_MAX: Final = 1_000  # letters that one answer lists

logger = logging.getLogger("kedge")

How: TypeAlias = Literal["drain", "drain all", "now"]

TOLD: Final[Mapping[How, str]] = {
    "drain": "kedge stop: draining",
    "drain all": "kedge stop --drain: draining, however long it takes",
    "now": "kedge stop --now: ending now",
}


class _Said(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class Stop(_Said, frozen=True):
    """End the run: drain for its drain_timeout_s, drain for as long as it takes, or end at once. Answered by Going,
    repeatedly, and then by Ended."""

    how: How


class Going(_Said, frozen=True):
    """The run is about to end: what is in flight, in a sentence."""

    text: str


class Ended(_Said, frozen=True):
    """The run has ended and has released its state directory. The fields are as in its Report; `problem` is why it
    failed."""

    ended: str
    aborted: int
    dead: int
    status: int
    seconds: float
    drained: bool  # True if everything that was read is done
    problem: str = ""
    clean: bool = True  # True if a changed topology may follow


class Save(_Said, frozen=True):
    """Keep a decided checkpoint under this name; empty: the run gives one. Answered by Saved."""

    name: str = ""


class Saved(_Said, frozen=True):
    """The checkpoint is kept, in this folder, with so many bytes. Or `problem` says why not, with its code."""

    name: str
    path: str = ""
    size: int = 0
    problem: str = ""
    code: str = ""


class Trouble(_Said, frozen=True):
    """The request can't be done."""

    text: str


Request: TypeAlias = Stop | DeadAsk | Save
Answer: TypeAlias = Going | Ended | DeadAnswer | Saved | Trouble

_encoder: Final = msgspec.msgpack.Encoder()
_requests: Final = msgspec.msgpack.Decoder(Request)
_answers: Final = msgspec.msgpack.Decoder(Answer)


def packed(message: Request | Answer) -> bytes:
    """Return the byte form, with its length in front."""
    data = _encoder.encode(message)
    return len(data).to_bytes(4, "little") + data


def answer_of(data: bytes) -> Answer:
    """Return the answer of a run from its bytes, without the length. Raises ValueError."""
    answer: Answer = _answers.decode(data)
    return answer


def ended(report: Report) -> Ended:
    """Return how a run has ended, for the client that asked for it."""
    snapshot = report.snapshot
    return Ended(
        report.ended,
        report.aborted,
        snapshot.total("dead"),
        report.exit_status,
        snapshot.seconds,
        report.drained,
        described(report.error) if report.error is not None else "",
        report.clean,
    )


def peer_uid(connection: socket.socket) -> int:
    """Return the user of the process at the other end. Raises OSError."""
    if hasattr(socket, "SO_PEERCRED"):
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    else:  # macOS: LOCAL_PEERCRED of SOL_LOCAL gives a version and then the user
        _, uid = struct.unpack_from("=II", connection.getsockopt(0, 1, 76))
    return int(uid)


def may_command(uid: int) -> bool:
    """Return True if this user may send commands: the run's own user, or root, who could do all of it anyway."""
    return uid in (os.geteuid(), 0)


class Commanded(Protocol):
    """A run, as commands see it."""

    def drain(self, *, patient: bool = False) -> None: ...
    def abort(self) -> None: ...
    def in_flight(self) -> str: ...
    def dead(self, ask: DeadAsk) -> Coroutine[Any, Any, DeadAnswer]: ...
    def save(self, name: str = "") -> Coroutine[Any, Any, Savepoint]: ...


class CommandSocket:
    """The run's end of the socket. `listening` while the state directory is locked; `over` once it is released.
    `report` gets a line when a command stops the run.

    An error of a client affects only that client: nothing here raises because of it.
    """

    def __init__(self, run: Commanded, *, report: Callable[[str], None] = logger.info) -> None:
        self._run = run
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[Ended] = self._loop.create_future()
        self._clients: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None

    @contextlib.contextmanager
    def listening(self, directory: Path) -> Iterator[None]:
        """Accept connections until the end of the block. The caller has locked the directory, so an existing socket is
        left from a killed run. If no socket can be made, that is logged, and the run continues without one."""
        with contextlib.ExitStack() as closing:
            try:
                self._socket = _bound(directory, closing)
                closing.callback(self._closed, self._socket)
                self._take(self._socket)
            except (OSError, StartError) as error:
                logger.warning("no command can reach this run: %s (%s)", error, COMMAND_SOCKET_UNAVAILABLE)
            yield

    async def over(self, how: Ended) -> None:
        """Report how the run has ended to all clients that wait. Return once they have read it, or after LAST_S."""
        if not self._end.done():
            self._end.set_result(how)
        if self._clients:
            await asyncio.wait(self._clients, timeout=LAST_S)
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def _closed(self, listening: socket.socket) -> None:
        self._loop.remove_reader(listening)
        listening.close()
        self._socket = None

    def _take(self, listening: socket.socket) -> None:
        if self._socket is listening:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept a bounded number of connections, so that thousands of them hold up nothing."""
        for _ in range(ACCEPTED_MAX):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no descriptor is left (F15)
                self._loop.remove_reader(listening)
                self._loop.call_later(AGAIN_S, self._take, listening)
                return
            try:
                connection.setblocking(False)
                welcome = may_command(peer_uid(connection))
                if welcome and len(self._clients) >= CLIENTS_MAX:
                    connection.send(packed(Trouble(f"{CLIENTS_MAX} commands are connected to this run already")))
                    welcome = False
            except OSError:
                welcome = False
            if not welcome:
                connection.close()
                continue
            client = self._loop.create_task(self._serve(connection), name="command")
            self._clients.add(client)
            client.add_done_callback(self._clients.discard)

    async def _serve(self, connection: socket.socket) -> None:
        """Serve one client: one request, and its answers."""
        try:
            reader, writer = await asyncio.open_connection(sock=connection, limit=REQUEST_BYTES_MAX)
        except OSError:
            connection.close()
            return
        try:
            async with asyncio.timeout(ASK_S):
                request = await _request(reader)
            await self._answer(request, writer)
        except (OSError, EOFError):  # the client is gone, or reads nothing; TimeoutError is one of these
            pass
        except ValueError as error:
            with contextlib.suppress(OSError):
                await _say(writer, Trouble(f"this run does not understand the request: {error}"))
        finally:
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if isinstance(request, Stop):
            await self._stop(request.how, writer)
            return
        work: Coroutine[Any, Any, DeadAnswer | Saved]
        if isinstance(request, Save):
            work = self._saved(request.name)
        elif 1 <= request.limit <= LETTERS_MAX:
            work = self._run.dead(request)
        else:
            raise ValueError(f"limit is 1 to {LETTERS_MAX:,}")
        asked: asyncio.Future[DeadAnswer | Saved] = asyncio.ensure_future(work)
        either: set[asyncio.Future[Any]] = {asked, self._end}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            answer: Answer = asked.result() if asked.done() else Trouble("the run has ended meanwhile")
        except Exception as error:
            logger.exception("a command failed, and the run continues (%s)", RUN_COMMAND_RAISED)
            answer = Trouble(f"the run could not do it: {type(error).__name__}: {error}")
        finally:
            asked.cancel()
        await _say(writer, answer)

    async def _saved(self, name: str) -> Saved:
        try:
            one = await self._run.save(name)
        except KedgeError as error:
            return Saved(name, problem=str(error), code=str(error.code or ""))
        return Saved(one.name, str(one.path), one.size)

    async def _stop(self, how: How, writer: asyncio.StreamWriter) -> None:
        """Stop the run, even if the client does not wait for the result."""
        self._report(TOLD[how])
        if how == "now":
            self._run.abort()
        else:
            self._run.drain(patient=how == "drain all")
        while not self._end.done():
            await _say(writer, Going(self._run.in_flight()))
            await asyncio.wait({self._end}, timeout=GOING_S)
        await _say(writer, self._end.result())


async def _request(reader: asyncio.StreamReader) -> Request:
    """Read a request. Raises ValueError for an invalid one, EOFError if it ends early."""
    length = int.from_bytes(await reader.readexactly(4), "little")
    if length > REQUEST_BYTES_MAX:
        raise ValueError(f"a request of {length:,} bytes")
    request: Request = _requests.decode(await reader.readexactly(length))
    return request


async def _say(writer: asyncio.StreamWriter, answer: Answer) -> None:
    """Send an answer. Return once the client has read nearly all of it. Raises OSError, including TimeoutError."""
    data = packed(answer)
    if len(data) > ANSWER_BYTES_MAX:
        data = packed(Trouble("the answer is too long; ask for less at once"))
    writer.write(data)
    async with asyncio.timeout(READ_S):
        await writer.drain()


def _bound(directory: Path, closing: contextlib.ExitStack) -> socket.socket:
    """Return a listening socket in this directory. If its path is too long, or the file system has no sockets, the
    socket is in a run directory, and a file here has its path. `closing` removes what was made."""
    for name in (SOCKET, ELSEWHERE):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(directory / name)
    here = short(directory / SOCKET)
    if here is not None:
        with contextlib.suppress(OSError):
            return _listening(here, closing)
    run = RunDir()
    closing.callback(run.close)
    path = run.path / SOCKET_IN_RUNDIR
    if short(path) is None:
        raise OSError(f"the path {path} is too long for a socket")
    made = _listening(str(path), closing)
    descriptor = os.open(directory / ELSEWHERE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    closing.callback(_unlinked, directory / ELSEWHERE)
    with open(descriptor, "wb") as file:
        file.write(os.fsencode(path))
    return made


def _listening(path: str, closing: contextlib.ExitStack) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.bind(path)
        closing.callback(_unlinked, Path(path).absolute())
        os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)
        made.listen(CLIENTS_MAX)
    except BaseException:
        made.close()
        raise
    return made


def _unlinked(path: Path) -> None:
    """Remove the file if it exists."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def short(path: Path) -> str | None:
    """Return the path in a form that fits a socket: as it is, or relative to the current directory; None if both are
    too long."""
    ways: list[Any] = [os.fspath(path)]
    with contextlib.suppress(OSError, ValueError):
        ways.append(os.path.relpath(path))
    return next((way for way in ways if len(os.fsencode(way)) <= PATH_MAX), None)
