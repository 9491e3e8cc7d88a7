"""MQTT by aiomqtt: a session that the client reads, and publishes whose PUBACKs are awaited together.

The server is a Mosquitto of the benchmark's own: by default it keeps 1,000 messages of a session, and drops the rest.
"""

import asyncio
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from benchmarks.servers.kinds import DECODER, Reading
from benchmarks.servers.processes import beside, listening
from bolts.sinks.servers.mqtt import MqttSink
from spouts.payload.formats import Json
from spouts.servers.mqtt import MqttSource

HOST: Final = "127.0.0.1"
TOPIC: Final = "kedge-bench"
SESSION: Final = "kedge-bench"
BATCH: Final = 1_000
AT_ONCE: Final = 10_000
SETTINGS: Final = "allow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n"


class Mqtt:
    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind((HOST, 0))
            self._port = int(free.getsockname()[1])
        self._url = f"mqtt://{HOST}:{self._port}"

    @asynccontextmanager
    async def there(self) -> AsyncIterator[None]:
        program = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
        if program is None:
            raise RuntimeError("there is no mosquitto to measure with: apt install mosquitto")
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "mosquitto.conf"
            config.write_text(f"listener {self._port} {HOST}\n{SETTINGS}")
            with beside(program, "-c", str(config)):
                await listening(self._port)
                yield

    def _client(self, session: str | None = None) -> aiomqtt.Client:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 3_600
        properties.ReceiveMaximum = AT_ONCE
        given: dict[str, Any] = {"identifier": session, "clean_start": False} if session else {}
        made = aiomqtt.Client(
            *(HOST, self._port),
            protocol=aiomqtt.ProtocolVersion.V5,
            properties=properties,
            max_inflight_messages=AT_ONCE,
            **given,
        )
        made.pending_calls_threshold = AT_ONCE
        return made

    async def fill(self, bodies: Sequence[bytes]) -> None:
        async with self._client(SESSION) as client:
            await client.subscribe(TOPIC, qos=1)
        await self.write(bodies)

    async def receive(self) -> None:
        """Do nothing: the server keeps what comes."""

    async def read(self, count: int) -> AsyncIterator[int]:
        async with self._client(SESSION) as client:
            async for message in client.messages:
                assert isinstance(message.payload, bytes)
                DECODER.decode(message.payload)
                yield 1
                count -= 1
                if not count:
                    return

    async def write(self, bodies: Sequence[bytes]) -> None:
        async with self._client() as client:
            for first in range(0, len(bodies), BATCH):
                some = bodies[first : first + BATCH]
                await asyncio.gather(*(client.publish(TOPIC, body, qos=1) for body in some))

    def source(self) -> MqttSource[Reading]:
        return MqttSource(self._url, TOPIC, value=Json(Reading, id="id"), client_id=SESSION)

    def sink(self) -> MqttSink:
        return MqttSink(self._url, TOPIC)
