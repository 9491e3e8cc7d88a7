"""`BrokerSource` over a server that is a class of the test: what it does when confirmations are refused, when much
comes, and when it is closed."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from spouts.broker.connection import Connection, Received
from spouts.broker.payload_room import WAITING_BYTES_MAX
from spouts.broker.retries import LAST_S
from spouts.broker.source import END_S, BrokerSource
from spouts.lines import Line
from topology.clients.errors import ServerAway
from topology.components import Task
from topology.testing.sources.driver import DrivenSource, Memory
from topology.testing.virtual_time.loop import run_virtual


class StandInServer:
    """Gives each message until it is confirmed, again on each new connection. While `refuses`, it refuses
    confirmations, and ends the connection."""

    where = "queue of the stand-in"

    def __init__(self) -> None:
        self.refuses = False
        self.messages: dict[str, bytes] = {}
        self.opened: list[float] = []  # loop times
        self.limits: list[int] = []
        self._to_give: deque[str] = deque()
        self._news = asyncio.Event()
        self._is_open = False

    def put(self, name: str, data: bytes = b"text") -> None:
        self.messages[name] = data
        self._to_give.append(name)
        self._news.set()

    def cut(self) -> None:
        self._is_open = False
        self._news.set()

    async def open(self) -> None:
        self.opened.append(asyncio.get_running_loop().time())
        self._to_give = deque(self.messages)
        self._is_open = True

    async def receive(self, limit: int) -> Sequence[Received]:
        self.limits.append(limit)
        while True:
            if not self._is_open:
                raise ServerAway("the connection is closed")
            if self._to_give:
                names = [self._to_give.popleft() for _ in range(min(limit, len(self._to_give)))]
                return [Received(name, self.messages[name], handle=name) for name in names]
            self._news.clear()
            await self._news.wait()

    async def confirm(self, handles: Sequence[Any]) -> None:
        if self.refuses:
            self.cut()
            raise ServerAway("the queue is read only")
        for name in handles:
            self.messages.pop(name, None)

    async def give_back(self, handles: Sequence[Any]) -> None:
        """There is nothing to say."""

    async def close(self) -> None:
        self._is_open = False


class StandInSource(BrokerSource[Line]):
    server: Any = None  # set for each test, after the copy that a driver makes

    def _connect(self, task: Task) -> Connection:
        found: Connection = self.server
        return found


async def driven(server: Any) -> DrivenSource:
    source = DrivenSource(StandInSource(Line), Memory())
    source.spout.server = server
    await source.open()
    return source


def on_virtual_time(work: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await work()

    run_virtual(run())


# -- a server that refuses confirmations


async def with_a_refusal(server: StandInServer) -> DrivenSource:
    """A source with a settled message whose confirmation the server refuses."""
    source = await driven(server)
    server.put("first")
    await source.take(1, 5.0)
    server.refuses = True
    await source.settle(source.messages)
    return source


def test_a_refused_confirmation_is_tried_again_at_longer_and_longer_intervals() -> None:
    async def work() -> None:
        server = StandInServer()
        source = await with_a_refusal(server)
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(60.0)
        tries = [at for at in server.opened if at > begun]
        assert 12 <= len(tries) <= 40, f"{len(tries)} connections in a minute"
        assert tries[-1] - tries[-2] >= LAST_S / 2
        await source.close()

    on_virtual_time(work)


def test_the_reason_of_a_refused_confirmation_is_shown_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kedge.spouts")

    async def work() -> None:
        source = await with_a_refusal(StandInServer())
        for _ in range(30):
            await asyncio.sleep(1.0)
            assert "the queue is read only" in source.spout.away
        await source.close()

    on_virtual_time(work)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "the queue is read only, retry" in line


def test_new_messages_do_not_end_the_outage_of_a_server_that_refuses_confirmations() -> None:
    async def work() -> None:
        server = StandInServer()
        source = await with_a_refusal(server)
        polling = asyncio.ensure_future(source.rest(60.0))
        for number in range(100):
            server.put(f"message {number}")
            await asyncio.sleep(0.5)
        assert "the queue is read only" in source.spout.away
        assert len(server.opened) <= 40
        polling.cancel()
        await source.close()

    on_virtual_time(work)


def test_a_confirmation_that_succeeds_ends_the_outage() -> None:
    async def work() -> None:
        server = StandInServer()
        source = await with_a_refusal(server)
        await asyncio.sleep(20.0)
        server.refuses = False
        await asyncio.sleep(LAST_S + 0.5)
        assert not server.messages
        assert not source.spout.away
        server.cut()
        before = len(server.opened)
        await asyncio.sleep(0.1)
        assert len(server.opened) == before + 1, "the wait begins with the shortest one again"
        await source.close()

    on_virtual_time(work)


def test_a_server_that_is_quiet_after_an_outage_counts_as_back() -> None:
    async def work() -> None:
        server = StandInServer()
        source = await with_a_refusal(server)
        await asyncio.sleep(0.01)
        server.messages.clear()  # it has done what it did not confirm
        await asyncio.sleep(20.0)
        assert not source.spout.away
        await source.close()

    on_virtual_time(work)


# -- much that waits


def test_a_source_asks_for_no_more_while_large_payloads_wait() -> None:
    async def work() -> None:
        server = StandInServer()
        size = WAITING_BYTES_MAX // 16
        source = await driven(server)
        for number in range(100):
            server.put(f"message {number}", bytes(size))
        await asyncio.sleep(1.0)
        assert len(source.spout._ready) == 16, "64 MiB"
        await source.take(len(source.spout._ready), 5.0)
        for _ in range(4):
            await asyncio.sleep(1.0)
            waiting = len(source.spout._ready)
            assert 0 < waiting <= 16, "64 MiB"
            await source.take(len(source.messages) + waiting, 5.0)
        await source.close()

    on_virtual_time(work)


def test_a_payload_larger_than_all_the_room_comes_by_itself() -> None:
    async def work() -> None:
        server = StandInServer()
        source = await driven(server)
        server.put("large", bytes(WAITING_BYTES_MAX + 1))
        await asyncio.sleep(1.0)
        server.put("second")
        await asyncio.sleep(1.0)
        assert len(source.spout._ready) == 1
        await source.take(2, 5.0)
        assert len(source.messages) == 2
        await source.close()

    on_virtual_time(work)


# -- the end


class SwallowingServer(StandInServer):
    """As nats-py, it swallows a cancellation now and then."""

    swallows = 1

    async def receive(self, limit: int) -> Sequence[Received]:
        while self.swallows:
            try:
                return await super().receive(limit)
            except asyncio.CancelledError:
                self.swallows -= 1
        return await super().receive(limit)


@pytest.mark.parametrize("swallows", [1, 3, 1_000])
def test_close_returns_though_a_client_library_swallows_cancellations(swallows: int) -> None:
    async def work() -> None:
        server = SwallowingServer()
        server.swallows = swallows
        source = await driven(server)
        await asyncio.sleep(1.0)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        tasks = [*source.spout._tasks]
        async with asyncio.timeout(60.0):
            await source.close()
        assert loop.time() - begun <= END_S + 0.5
        server.swallows = 0
        server.put("last")  # wakes what is left alone
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    on_virtual_time(work)
