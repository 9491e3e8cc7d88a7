"""How commands reach a run that is under way: a socket in its state directory, for its user only (S16, S17).

Here is what they say to each other, where the socket is, and the run's end of it. Each message is one msgpack object of
a known type behind its length: nothing is unpickled, and whoever says anything else is hung up on. Every connection,
message and wait has a bound, so that no client holds up the run. Must not know what draining or a dead letter is.
"""

import asyncio
import contextlib
import logging
import os
import socket
import stat
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from topology.codes.startup import COMMAND_SOCKET_UNAVAILABLE, RUN_COMMAND_RAISED
from topology.errors import StartError
from topology.runtime.run.report import Report
from topology.runtime.run.run_dir import RunDir
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.user_frames import described

SOCKET: Final = "socket"  # its name in the state directory,
ELSEWHERE: Final = "socket.at"  # and that of a file with its path, where it can't be there
PATH_MAX: Final = 103  # bytes of a socket's path, on every system
SOCKET_IN_RUNDIR: Final = "0-0-00000000.sock"  # a name that a sweep of run directories knows
CLIENTS_MAX: Final = 16  # at once; others are told so, and hung up on
ACCEPTED_MAX: Final = 8  # in one turn of the loop
REQUEST_BYTES_MAX: Final = 1024 * 1024
ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024
ASK_S: Final = 10.0  # how long a client may take to ask,
READ_S: Final = 10.0  # and to read an answer
GOING_S: Final = 0.5  # between two accounts of a run that is about to end
LAST_S: Final = 2.0  # how long clients may take to hear how it ended
AGAIN_S: Final = 1.0  # until connections are taken again, once there was no descriptor for one
LETTERS_MAX: Final = 1_000  # that one answer lists

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
    """End the run: drain for its drain_timeout_s, drain however long that takes, or at once. Answered by Going, again
    and again, and then by Ended."""

    how: How


class Going(_Said, frozen=True):
    """The run is about to end: what is under way, in a sentence."""

    text: str


class Ended(_Said, frozen=True):
    """The run has ended and has given its state directory back. As in its Report; `problem` is why it failed."""

    ended: str
    aborted: int
    dead: int
    status: int
    seconds: float
    drained: bool  # everything that was read is done,
    problem: str = ""
    clean: bool = True  # and a changed topology may follow


class Trouble(_Said, frozen=True):
    """What was asked can't be done."""

    text: str


Request: TypeAlias = Stop | DeadAsk
Answer: TypeAlias = Going | Ended | DeadAnswer | Trouble

_encoder: Final = msgspec.msgpack.Encoder()
_requests: Final = msgspec.msgpack.Decoder(Request)
_answers: Final = msgspec.msgpack.Decoder(Answer)


def packed(message: Request | Answer) -> bytes:
    """The byte form, its length in front."""
    data = _encoder.encode(message)
    return len(data).to_bytes(4, "little") + data


def answer_of(data: bytes) -> Answer:
    """What a run has said, without the length. Raises ValueError."""
    answer: Answer = _answers.decode(data)
    return answer


def ended(report: Report) -> Ended:
    """How a run has ended, for who has asked it to."""
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
    """Whose process is at the other end. Raises OSError."""
    if hasattr(socket, "SO_PEERCRED"):
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    else:  # macOS: LOCAL_PEERCRED of SOL_LOCAL gives a version and then the user
        _, uid = struct.unpack_from("=II", connection.getsockopt(0, 1, 76))
    return int(uid)


def may_command(uid: int) -> bool:
    """Whether this user's processes may: those of the run's own user, and root's, who may do so anyway."""
    return uid in (os.geteuid(), 0)


class Commanded(Protocol):
    """A run, as commands see it."""

    def drain(self, *, patient: bool = False) -> None: ...
    def abort(self) -> None: ...
    def in_flight(self) -> str: ...
    async def dead(self, ask: DeadAsk) -> DeadAnswer: ...


class CommandSocket:
    """The run's end. `listening` while the state directory is locked; `over` once it is given back. `told` is given a
    line when a command stops the run.

    What a client does wrong is its own trouble: nothing here raises because of it.
    """

    def __init__(self, run: Commanded, *, told: Callable[[str], None] = logger.info) -> None:
        self._run = run
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[Ended] = self._loop.create_future()
        self._clients: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None

    @contextlib.contextmanager
    def listening(self, directory: Path) -> Iterator[None]:
        """Takes connections until its end. Whoever calls this has the directory locked, so a socket that is there is
        one that a killed run has left. Where none can be made, that is logged, and the run goes on without."""
        with contextlib.ExitStack() as closing:
            try:
                self._socket = _bound(directory, closing)
                closing.callback(self._closed, self._socket)
                self._take(self._socket)
            except (OSError, StartError) as error:
                logger.warning("no command can reach this run: %s (%s)", error, COMMAND_SOCKET_UNAVAILABLE)
            yield

    async def over(self, how: Ended) -> None:
        """Tells who waits for it how the run has ended. Returns once they know, or after LAST_S."""
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
        """A bounded number of connections, so that who makes thousands holds up nothing."""
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
                    connection.send(packed(Trouble(f"{CLIENTS_MAX} commands ask this run already")))
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
        """One client: one question, and its answers."""
        try:
            reader, writer = await asyncio.open_connection(sock=connection, limit=REQUEST_BYTES_MAX)
        except OSError:
            connection.close()
            return
        try:
            async with asyncio.timeout(ASK_S):
                request = await _request(reader)
            await self._answer(request, writer)
        except (OSError, EOFError):  # it is gone, or reads nothing; TimeoutError is one of these
            pass
        except ValueError as error:
            with contextlib.suppress(OSError):
                await _say(writer, Trouble(f"this run does not understand what it was asked: {error}"))
        finally:
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if isinstance(request, Stop):
            await self._stop(request.how, writer)
            return
        if not 1 <= request.limit <= LETTERS_MAX:
            raise ValueError(f"limit is 1 to {LETTERS_MAX:,}")
        asked: asyncio.Future[DeadAnswer] = asyncio.ensure_future(self._run.dead(request))
        either: set[asyncio.Future[Any]] = {asked, self._end}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            answer: Answer = asked.result() if asked.done() else Trouble("the run has ended meanwhile")
        except Exception as error:
            logger.exception("a command could not be done, and the run goes on (%s)", RUN_COMMAND_RAISED)
            answer = Trouble(f"the run could not do it: {type(error).__name__}: {error}")
        finally:
            asked.cancel()
        await _say(writer, answer)

    async def _stop(self, how: How, writer: asyncio.StreamWriter) -> None:
        """Stops the run, whether or not the client stays to hear of it."""
        self._told(TOLD[how])
        if how == "now":
            self._run.abort()
        else:
            self._run.drain(patient=how == "drain all")
        while not self._end.done():
            await _say(writer, Going(self._run.in_flight()))
            await asyncio.wait({self._end}, timeout=GOING_S)
        await _say(writer, self._end.result())


async def _request(reader: asyncio.StreamReader) -> Request:
    """Raises ValueError for what is none, EOFError where it ends early."""
    length = int.from_bytes(await reader.readexactly(4), "little")
    if length > REQUEST_BYTES_MAX:
        raise ValueError(f"a request of {length:,} bytes")
    request: Request = _requests.decode(await reader.readexactly(length))
    return request


async def _say(writer: asyncio.StreamWriter, answer: Answer) -> None:
    """Returns once the client has read nearly all of it. Raises OSError, TimeoutError among them."""
    data = packed(answer)
    if len(data) > ANSWER_BYTES_MAX:
        data = packed(Trouble("the answer is too long; ask for less at once"))
    writer.write(data)
    async with asyncio.timeout(READ_S):
        await writer.drain()


def _bound(directory: Path, closing: contextlib.ExitStack) -> socket.socket:
    """A listening socket in this directory; where its path would be too long, or the file system has no sockets, in a
    run directory, with its path in a file here. What was made is removed by `closing`."""
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
    """Removes it, if it is there."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def short(path: Path) -> str | None:
    """The path as a socket's can be: as it is, or from the current directory; None where it is too long either way."""
    ways: list[Any] = [os.fspath(path)]
    with contextlib.suppress(OSError, ValueError):
        ways.append(os.path.relpath(path))
    return next((one for one in ways if len(os.fsencode(one)) <= PATH_MAX), None)
