"""The socket that commands reach a run by: what it takes, from whom, and that no client disturbs the run (S16, S17)."""

import asyncio
import contextlib
import logging
import os
import random
import socket
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from topology.codes.savepoints import SAVEPOINT_EXISTS
from topology.errors import StartError
from topology.runtime.run import command_socket
from topology.runtime.run.command_socket import (
    CLIENTS_MAX,
    ELSEWHERE,
    PATH_MAX,
    REQUEST_BYTES_MAX,
    SOCKET,
    Answer,
    CommandSocket,
    Ended,
    Going,
    Request,
    Save,
    Saved,
    Stop,
    Trouble,
    answer_of,
    packed,
    peer_uid,
    short,
)
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.directory.manifest import Manifest
from topology.storage.directory.savepoints import Savepoint

DRAINED = Ended("stopped", 0, 0, 0, 1.5, True)
PATIENCE_S = 20.0


class Run:
    """A run as commands see it, which does what it is told to at once."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.wait = asyncio.Event()
        self.wait.set()

    def drain(self, *, patient: bool = False) -> None:
        self.told.append("drain all" if patient else "drain")

    def abort(self) -> None:
        self.told.append("now")

    def in_flight(self) -> str:
        return "3 messages are under way"

    async def dead(self, ask: DeadAsk) -> DeadAnswer:
        self.told.append(ask.act)
        await self.wait.wait()
        if ask.act == "raise":
            raise RuntimeError("a mistake of ours")
        return DeadAnswer(ask.number, (b"x" * ask.limit,), ask.names, 7)

    async def save(self, name: str = "") -> Savepoint:
        self.told.append(f"save {name}")
        await self.wait.wait()
        if name == "there":
            raise StartError("there is one", code=SAVEPOINT_EXISTS)
        return Savepoint(name or "20260314-120501", Path("checkpoints"), Manifest("t", "00"), 77)


class Client:
    """Speaks to the socket as a command does, and as it should not."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def hear(self) -> Answer:
        async with asyncio.timeout(PATIENCE_S):
            length = int.from_bytes(await self.reader.readexactly(4), "little")
            return answer_of(await self.reader.readexactly(length))

    async def ask(self, request: Request) -> Answer:
        self.writer.write(packed(request))
        return await self.hear()

    async def hung_up(self) -> bytes:
        """What came until the other end was closed."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


Connect = Callable[[], "asyncio.Future[Client]"]


@contextlib.asynccontextmanager
async def listening(
    directory: Path,
) -> AsyncIterator[tuple[Run, CommandSocket, Callable[[], "asyncio.Future[Client]"]]]:
    run = Run()
    commands = CommandSocket(run)
    writers: list[asyncio.StreamWriter] = []

    async def connect() -> Client:
        path = short(directory / SOCKET)
        assert path is not None
        reader, writer = await asyncio.open_unix_connection(path)
        writers.append(writer)
        return Client(reader, writer)

    with commands.listening(directory):
        try:
            yield run, commands, lambda: asyncio.ensure_future(connect())
        finally:
            for writer in writers:
                writer.close()
            await commands.over(DRAINED)


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.005)


def left(directory: Path) -> list[str]:
    return os.listdir(directory) if os.path.exists(directory) else []


async def test_who_stops_a_run_hears_how_it_goes_and_how_it_has_ended(tmp_path: Path) -> None:
    async with listening(tmp_path) as (run, commands, connect):
        client = await connect()
        assert await client.ask(Stop("drain all")) == Going("3 messages are under way")
        assert run.told == ["drain all"]
        assert await client.hear() == Going("3 messages are under way")
        over = asyncio.ensure_future(commands.over(DRAINED))
        assert await client.hear() == DRAINED
        await over
        assert await client.hung_up() == b""


@pytest.mark.parametrize("how", ["drain", "drain all", "now"])
async def test_each_way_to_stop_is_told_to_the_run(tmp_path: Path, how: command_socket.How) -> None:
    async with listening(tmp_path) as (run, _, connect):
        await (await connect()).ask(Stop(how))
        assert run.told == [how]


async def test_who_goes_away_changes_nothing_of_the_stop(tmp_path: Path) -> None:
    async with listening(tmp_path) as (run, commands, connect):
        client = await connect()
        await client.ask(Stop("drain"))
        client.writer.close()
        await eventually(lambda: not commands._clients)
        assert run.told == ["drain"]
        assert isinstance(await (await connect()).ask(DeadAsk(1, "list")), DeadAnswer)


async def test_questions_about_dead_letters_are_answered_by_the_run(tmp_path: Path) -> None:
    async with listening(tmp_path) as (run, _, connect):
        answer = await (await connect()).ask(DeadAsk(9, "replay", ("0-1", "0-2"), limit=3))
        assert answer == DeadAnswer(9, (b"xxx",), ("0-1", "0-2"), 7)
        assert run.told == ["replay"]


async def test_a_checkpoint_is_kept_by_the_run_or_it_says_why_not(tmp_path: Path) -> None:
    async with listening(tmp_path) as (run, _, connect):
        assert await (await connect()).ask(Save("friday")) == Saved("friday", "checkpoints", 77)
        assert await (await connect()).ask(Save()) == Saved("20260314-120501", "checkpoints", 77)
        assert await (await connect()).ask(Save("there")) == Saved("there", problem="there is one", code="K802")
        assert run.told == ["save friday", "save ", "save there"]


async def test_a_run_that_ends_meanwhile_says_so(tmp_path: Path) -> None:
    async with listening(tmp_path) as (run, commands, connect):
        run.wait.clear()
        client = await connect()
        client.writer.write(packed(DeadAsk(1, "list")))
        await eventually(lambda: run.told == ["list"])
        await commands.over(DRAINED)
        assert await client.hear() == Trouble("the run has ended meanwhile")


async def test_what_goes_wrong_in_the_run_is_logged_and_told_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(tmp_path) as (_, _, connect):
        answer = await (await connect()).ask(DeadAsk(1, "raise"))
        assert answer == Trouble("the run could not do it: RuntimeError: a mistake of ours")
        assert "K443" in caplog.text
        assert isinstance(await (await connect()).ask(DeadAsk(1, "list")), DeadAnswer)


@pytest.mark.parametrize("limit", [0, -1, 1_001, 10**12])
async def test_a_list_is_bounded(tmp_path: Path, limit: int) -> None:
    async with listening(tmp_path) as (run, _, connect):
        assert isinstance(await (await connect()).ask(DeadAsk(1, "list", limit=limit)), Trouble)
        assert run.told == []


# -- strangers


def garbage(chance: random.Random) -> bytes:
    """Bytes of one of several kinds: noise, a length that lies, a good message that was changed."""
    kind = chance.randrange(5)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 200))
    if kind == 1:
        return chance.randrange(2**32).to_bytes(4, "little") + chance.randbytes(chance.randrange(50))
    if kind == 2:
        body = chance.choice([b"\xdd\xff\xff\xff\xff", b"\x91" * 100_000, b"\xc1", b"\x80", b""])
        return len(body).to_bytes(4, "little") + body
    if kind == 3:
        return b"GET / HTTP/1.1\r\nHost: evil\r\n\r\n"
    data = bytearray(packed(chance.choice([Stop("drain"), DeadAsk(1, "drop", ("0-1",))])))
    for _ in range(chance.randrange(1, 4)):
        data[chance.randrange(4, len(data))] ^= 1 << chance.randrange(8)
    return bytes(data[: chance.randrange(1, len(data))]) if chance.random() < 0.5 else bytes(data)


async def test_garbage_is_hung_up_on_and_the_run_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """S3, S16: nothing of it may raise in the run, be logged as a traceback, or be left open."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    async with listening(tmp_path) as (_, commands, connect):
        for _ in range(300):
            client = await connect()
            client.writer.write(garbage(chance))
            with contextlib.suppress(OSError):
                client.writer.write_eof()
            if chance.random() < 0.3:
                client.writer.close()
            else:
                await asyncio.wait({asyncio.ensure_future(client.hung_up())}, timeout=1.0)
                client.writer.close()
        await eventually(lambda: not commands._clients)
        assert isinstance(await (await connect()).ask(DeadAsk(1, "list")), DeadAnswer)
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


async def test_a_request_of_any_length_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with listening(tmp_path) as (_, _, connect):
        client = await connect()
        client.writer.write((REQUEST_BYTES_MAX + 1).to_bytes(4, "little"))
        answer = await client.hear()
        assert isinstance(answer, Trouble)
        assert "a request of 1,048,577 bytes" in answer.text


async def test_a_client_that_asks_nothing_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_socket, "ASK_S", 0.1)
    async with listening(tmp_path) as (_, _, connect):
        client = await connect()
        assert await client.hung_up() == b""


async def test_a_client_that_reads_nothing_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_socket, "READ_S", 0.1)
    monkeypatch.setattr(Run, "dead", _long)
    async with listening(tmp_path) as (_, commands, _):
        deaf = socket.socket(socket.AF_UNIX)
        path = short(tmp_path / SOCKET)
        assert path is not None
        deaf.connect(path)
        deaf.sendall(packed(DeadAsk(1, "list")))
        await eventually(lambda: len(commands._clients) == 1)
        await eventually(lambda: not commands._clients)
        deaf.close()


async def _long(run: Run, ask: DeadAsk) -> DeadAnswer:
    return DeadAnswer(1, (b"x" * 4 * 1024 * 1024,))


async def test_there_are_only_so_many_clients_at_once(tmp_path: Path) -> None:
    async with listening(tmp_path) as (run, commands, connect):
        run.wait.clear()
        clients = [await connect() for _ in range(CLIENTS_MAX)]
        for client in clients:
            client.writer.write(packed(DeadAsk(1, "list")))
        await eventually(lambda: len(commands._clients) == CLIENTS_MAX)
        refused = await connect()
        assert await refused.hear() == Trouble("16 commands are connected to this run already")
        assert await refused.hung_up() == b""
        run.wait.set()
        for client in clients:
            assert isinstance(await client.hear(), DeadAnswer)


async def test_another_users_process_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S17; who is at the other end is told by the system."""
    async with listening(tmp_path) as (run, _, connect):
        monkeypatch.setattr(command_socket, "peer_uid", lambda connection: os.geteuid() + 1)
        client = await connect()
        client.writer.write(packed(Stop("now")))
        assert await client.hung_up() == b""
        assert run.told == []


def test_the_system_says_whose_process_a_peer_is() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert peer_uid(one) == os.geteuid()


# -- where the socket is


async def test_the_socket_is_the_users_alone_and_gone_with_the_run(tmp_path: Path) -> None:
    async with listening(tmp_path):
        found = (tmp_path / SOCKET).lstat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
    assert not (tmp_path / SOCKET).exists()


async def test_a_socket_that_a_killed_run_has_left_is_taken_over(tmp_path: Path) -> None:
    """F25."""
    stale = socket.socket(socket.AF_UNIX)
    path = short(tmp_path / SOCKET)
    assert path is not None
    stale.bind(path)
    stale.close()
    (tmp_path / ELSEWHERE).write_text("/nowhere")
    async with listening(tmp_path) as (_, _, connect):
        assert isinstance(await (await connect()).ask(DeadAsk(1, "list")), DeadAnswer)
        assert not (tmp_path / ELSEWHERE).exists()


async def test_where_the_path_is_too_long_the_socket_is_in_a_run_directory(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    async with listening(deep):
        path = (deep / ELSEWHERE).read_text()
        assert len(path) <= PATH_MAX
        assert stat.S_IMODE((deep / ELSEWHERE).stat().st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
        reader, writer = await asyncio.open_unix_connection(path)
        assert isinstance(await Client(reader, writer).ask(DeadAsk(1, "list")), DeadAnswer)
        writer.close()
    assert left(deep) == left(Path(path).parent) == []


async def test_a_run_without_a_socket_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(command_socket, "PATH_MAX", 3)
    commands = CommandSocket(Run())
    with commands.listening(tmp_path):
        assert "no command can reach this run" in caplog.text
        assert "K442" in caplog.text
    await commands.over(DRAINED)
    assert left(tmp_path) == []
