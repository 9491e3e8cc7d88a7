"""Queues of a real RabbitMQ, for tests: made, filled, looked at and deleted, each by a connection of its own.

Also a server of a test's own, which the test stops, kills and starts again.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiormq
import pytest
from aiormq.abc import ChannelFrame
from answers_proxy import AnswersProxy
from pamqp.body import ContentBody
from pamqp.header import ContentHeader
from tcp_proxy import TcpProxy

from bolts.sinks.servers.amqp import AmqpSink
from spouts.payload.formats import Json
from spouts.servers.amqp import AmqpSource
from topology.testing.sinks import SinkSubject
from topology.testing.sources import SourceItem, SourceSubject

URL = os.environ.get("KEDGE_TEST_AMQP", "amqp://guest:guest@127.0.0.1:5672")
PORT = int(URL.rpartition(":")[2].split("/")[0])
BEGINS_S = 60.0


def asked(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns, in a loop of another thread: checks call it on their own loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def at(port: int) -> str:
    return f"amqp://guest:guest@127.0.0.1:{port}"


@asynccontextmanager
async def channel(url: str = URL, confirms: bool = True) -> AsyncIterator[Any]:
    connection = await aiormq.connect(url)
    try:
        yield await connection.channel()
    finally:
        await connection.close()


async def reached() -> None:
    """Raises what keeps a client from connecting."""
    async with channel():
        pass


class Queue:
    """A queue of a test's own."""

    def __init__(self, name: str, url: str = URL) -> None:
        self.name, self.url = name, url

    @contextmanager
    def there(self, **options: Any) -> Iterator["Queue"]:
        asked(self.make(**options))
        try:
            yield self
        finally:
            asked(self.delete())

    async def make(self, **options: Any) -> None:
        async with channel(self.url) as one:
            await one.queue_declare(self.name, durable=True, **options)

    async def delete(self) -> None:
        async with channel(self.url) as one:
            await one.queue_delete(self.name)

    async def publish(self, bodies: Sequence[bytes], ids: Sequence[str | None] = (), **properties: Any) -> None:
        """Sends these; `ids` are their message-ids. Without, each has one of its own content."""
        if None in ids:
            return await self._publish_by_hand(bodies, ids, properties)
        async with channel(self.url) as one:
            names = ids or [f"id-{body.hex()}"[:200] for body in bodies]
            sending = [
                one.basic_publish(
                    body,
                    routing_key=self.name,
                    wait=False,
                    properties=aiormq.spec.Basic.Properties(delivery_mode=2, message_id=name, **properties),
                )
                for body, name in zip(bodies, names, strict=True)
            ]
            await asyncio.gather(*sending)

    async def _publish_by_hand(
        self, bodies: Sequence[bytes], ids: Sequence[str | None], properties: dict[str, Any]
    ) -> None:
        """Sends these as other clients do: aiormq gives a message without an id one of its own."""
        async with channel(self.url, confirms=False) as one:
            for body, name in zip(bodies, ids, strict=True):
                named = aiormq.spec.Basic.Properties(delivery_mode=2, message_id=name, **properties)
                frames = [
                    aiormq.spec.Basic.Publish(routing_key=self.name),
                    ContentHeader(properties=named, body_size=len(body)),
                    ContentBody(body),
                ]
                await one.write_queue.put(ChannelFrame.marshall(frames=frames, channel_number=one.number))
            await one.queue_declare(self.name, passive=True)  # a call on the channel comes after what was sent there

    async def waiting(self) -> int:
        """Messages that are ready to be given."""
        async with channel(self.url) as one:
            return int((await one.queue_declare(self.name, passive=True)).message_count)

    async def messages(self) -> list[Any]:
        """All messages that are ready, in their order. They stay."""
        async with channel(self.url) as one:
            count = (await one.queue_declare(self.name, passive=True)).message_count
            return [await one.basic_get(self.name) for _ in range(count)]

    async def take_all(self) -> list[Any]:
        """All messages that are ready, in their order, by one consumer. They are gone then."""
        found: list[Any] = []
        async with channel(self.url) as one:
            count = (await one.queue_declare(self.name, passive=True)).message_count
            come = asyncio.Event()

            def took(message: Any) -> None:
                found.append(message)
                if len(found) >= count:
                    come.set()

            if count:
                await one.basic_consume(self.name, took)
                await asyncio.wait_for(come.wait(), 60)
                await one.basic_ack(found[count - 1].delivery.delivery_tag, multiple=True)
        return found[:count]


class AmqpSourceSubject(SourceSubject):
    """`field` instead of `message-id` names the messages, or nothing does: `nameless`."""

    tasks = 2
    again_s = 3.0

    def __init__(self, name: str, names: str = "message-id") -> None:
        self.queue, self.names = Queue(name), names
        self.proxy: TcpProxy | None = None

    def make(self) -> AmqpSource[SourceItem]:
        port = self.proxy.port if self.proxy is not None else PORT
        if self.names == "field":
            return AmqpSource(at(port), self.queue.name, value=Json(SourceItem, id="number"))
        return AmqpSource(at(port), self.queue.name, value=SourceItem, requires_ids=self.names == "message-id")

    def put(self, numbers: Sequence[int]) -> None:
        bodies = [self.payload(number) for number in numbers]
        asked(self.queue.publish(bodies, () if self.names == "message-id" else [None] * len(bodies)))

    def put_bad(self) -> bytes:
        asked(self.queue.publish([b'{"number": "one"}']))
        return b'{"number": "one"}'

    @contextmanager
    def away(self) -> Iterator[None]:
        assert self.proxy is not None
        with self.proxy.away():
            yield

    def missing(self) -> AmqpSource[SourceItem]:
        return AmqpSource(at(9), self.queue.name, value=SourceItem)

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "amqp_kit:AmqpSourceSubject", [self.queue.name, self.names]


class AmqpSinkSubject(SinkSubject):
    """`by_id`: the reader passes over a message whose message-id it has seen, as `AmqpSource` does."""

    tasks = 2

    def __init__(self, name: str, by_id: bool = False) -> None:
        self.queue, self.by_id = Queue(name), by_id
        self.proxy: AnswersProxy | None = None

    def make(self) -> AmqpSink:
        port = self.proxy.port if self.proxy is not None else PORT
        return AmqpSink(at(port), routing_key=self.queue.name, batch=50)

    def rows(self) -> list[tuple[int, int]]:
        found = asked(self.queue.messages())
        if self.by_id:
            found = [*{message.header.properties.message_id: message for message in reversed(found)}.values()]
            found.reverse()
        rows = [json.loads(message.body) for message in found]
        return [(row["number"], row["revision"]) for row in rows]

    @contextmanager
    def away(self) -> Iterator[None]:
        assert self.proxy is not None
        with self.proxy.away():
            yield

    @contextmanager
    def lost_answer(self) -> Iterator[None]:
        assert self.proxy is not None
        with self.proxy.answers_lost():
            yield

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "amqp_kit:AmqpSinkSubject", [self.queue.name, self.by_id]


class RabbitServer:
    """A node of RabbitMQ's on free ports, whose files are in a folder, so that its queues outlive the process."""

    def __init__(self, folder: Path, name: str, settings: Sequence[str]) -> None:
        self.folder, self.name = folder, name
        with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as other:
            self.port, self._distribution = int(free.getsockname()[1]), int(other.getsockname()[1])
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.tls_port = int(free.getsockname()[1])
        lines = [f"listeners.tcp.local = 127.0.0.1:{self.port}", *settings]
        lines = [line.replace("TLS_PORT", str(self.tls_port)) for line in lines]
        (folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (folder / "plugins").write_text("[].\n")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return at(self.port)

    def _environment(self) -> dict[str, str]:
        folder = self.folder
        return {
            **os.environ,
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"{self.name}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
        }

    def start(self) -> None:
        program = "/usr/lib/rabbitmq/bin/rabbitmq-server"
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program], env=self._environment(), stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + BEGINS_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                asked(self._reached())
                return
            except OSError:
                assert time.monotonic() < deadline, (self.folder / "server.log").read_text()
                time.sleep(0.1)

    async def _reached(self) -> None:
        async with channel(self.url):
            pass

    def control(self, *command: str) -> None:
        """Runs rabbitmqctl on the node."""
        program = "/usr/lib/rabbitmq/bin/rabbitmqctl"
        done = subprocess.run(
            [program, "-q", "-n", f"{self.name}@localhost", *command],
            env=self._environment(),
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def keep(self) -> None:
        """Has the node write which queues it has: one that was just made is else lost with a killed process."""
        self.control("eval", "mnesia:sync_log().")

    def tell(self, number: int) -> None:
        """Sends a signal to all processes of the node."""
        assert self._process is not None, "start"
        os.killpg(self._process.pid, number)

    def stop(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self.tell(number)
            self._process.wait(30)
            self._process = None


@contextmanager
def own_server(folder: Path, name: str, *settings: str) -> Iterator[RabbitServer]:
    if not shutil.which("/usr/lib/rabbitmq/bin/rabbitmq-server"):
        pytest.skip("no rabbitmq-server to start: apt install rabbitmq-server")
    server = RabbitServer(folder, name, settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()


async def publish_changed(
    queue: Queue, body: bytes, changes: Mapping[bytes, bytes], *, exchange: str = "", key: str = "", **properties: Any
) -> None:
    """Sends a message as aiormq would, but for some bytes of its frames: other clients send what aiormq cannot."""
    frames: list[Any] = [
        aiormq.spec.Basic.Publish(exchange=exchange, routing_key=key or queue.name),
        ContentHeader(properties=aiormq.spec.Basic.Properties(delivery_mode=2, **properties), body_size=len(body)),
        ContentBody(body),
    ]
    async with channel(queue.url, confirms=False) as sending:
        frame = ChannelFrame.marshall(frames=frames, channel_number=sending.number)
        for old, new in changes.items():
            assert frame.payload.count(old) == 1
            assert len(old) == len(new)
            frame = replace(frame, payload=frame.payload.replace(old, new))
        await sending.write_queue.put(frame)
        await sending.queue_declare(queue.name, passive=True)  # a call on the channel comes after what was sent there
