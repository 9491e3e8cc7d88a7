"""Topics of a real MQTT server, for tests: filled and listened to, each by a client of its own.

Also a server of a test's own, which the test stops, kills and starts again.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from answers_proxy import AnswersProxy
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions
from tcp_proxy import TcpProxy

from bolts.sinks.servers.mqtt import MqttSink
from spouts.payload.formats import Json
from spouts.servers.mqtt import MqttSource
from topology.testing.sinks import SinkSubject
from topology.testing.sources import SourceItem, SourceSubject

PORT = int(os.environ.get("KEDGE_TEST_MQTT", "1883"))
WAIT_S = 30.0


def at(port: int) -> str:
    return f"mqtt://127.0.0.1:{port}"


def reached(port: int = PORT) -> None:
    """Raises what keeps a client from connecting."""
    with connected(port):
        pass


@contextmanager
def connected(
    port: int = PORT, client_id: str = "", clean: bool = True, expiry_s: int = 0, user: str = "", password: str = ""
) -> Iterator[paho.Client]:
    """A client of a test's own, which another thread drives."""
    made = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
    made.max_inflight_messages_set(20)  # what Mosquitto takes
    if user:
        made.username_pw_set(user, password)
    begun = threading.Event()
    made.on_connect = lambda *_: begun.set()
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = expiry_s
    made.connect("127.0.0.1", port, 30, clean_start=clean, properties=properties)
    made.loop_start()
    try:
        assert begun.wait(WAIT_S), "no answer"
        yield made
    finally:
        made.disconnect()
        made.loop_stop()


def publish(
    topic: str,
    bodies: Sequence[bytes],
    port: int = PORT,
    *,
    qos: int = 1,
    retain: bool = False,
    facts: Sequence[tuple[str, str]] = (),
) -> None:
    """Sends these, and waits until the server has them all."""
    properties = Properties(PacketTypes.PUBLISH)
    if facts:
        properties.UserProperty = [*facts]
    with connected(port) as made:
        for info in [made.publish(topic, body, qos, retain, properties) for body in bodies]:
            info.wait_for_publish(WAIT_S)
            assert info.is_published()


def forget(client_id: str, port: int = PORT) -> None:
    """Ends a session."""
    with connected(port, client_id):
        pass


class Listener:
    """Keeps all that comes under a topic, or what is below it, in its order."""

    def __init__(self, topic: str, port: int = PORT) -> None:
        self.topic, self.port = topic, port
        self._messages: list[Any] = []
        self._barriers: set[bytes] = set()
        self._news = threading.Condition()

    @contextmanager
    def there(self) -> Iterator["Listener"]:
        with connected(self.port) as made:
            subscribed = threading.Event()
            made.on_subscribe = lambda *_: subscribed.set()
            made.on_message = self._came
            filters = (f"{self.topic}/#", f"{self.topic}-barrier")  # the first one has the topic itself too
            made.subscribe([(one, SubscribeOptions(qos=1)) for one in filters])
            assert subscribed.wait(WAIT_S)
            yield self

    def _came(self, _client: Any, _data: Any, message: Any) -> None:
        with self._news:
            if message.topic.endswith("-barrier"):
                self._barriers.add(message.payload)
            else:
                self._messages.append(message)
            self._news.notify_all()

    def messages(self) -> list[Any]:
        """All that the server had when this was called."""
        mark = secrets.token_hex(8).encode()
        publish(f"{self.topic}-barrier", [mark], self.port)
        with self._news:
            assert self._news.wait_for(lambda: mark in self._barriers, WAIT_S)
            return [*self._messages]


def fact(message: Any, name: str) -> str:
    """A user property of a message."""
    found: str = dict(message.properties.UserProperty)[name]
    return found


class MqttSourceSubject(SourceSubject):
    """`names`: "field", or "nothing" for messages without ids. `begin` makes the session, so that it has what is sent
    before the source is there."""

    tasks = 2

    def __init__(self, name: str, names: str = "field", port: int = PORT) -> None:
        self.topic, self.names, self.port = name, names, port
        self.proxy: TcpProxy | None = None

    @contextmanager
    def there(self) -> Iterator["MqttSourceSubject"]:
        with connected(self.port, self.topic, expiry_s=600) as made:
            subscribed = threading.Event()
            made.on_subscribe = lambda *_: subscribed.set()
            made.subscribe(self.topic, options=SubscribeOptions(qos=1))
            assert subscribed.wait(WAIT_S)
        try:
            yield self
        finally:
            for session in (self.topic, f"{self.topic}-0", f"{self.topic}-1"):
                forget(session, self.port)

    def make(self) -> MqttSource[SourceItem]:
        port = self.proxy.port if self.proxy is not None else self.port
        value: Any = Json(SourceItem, id="number") if self.names == "field" else SourceItem
        return MqttSource(at(port), self.topic, value=value, client_id=self.topic, session_expiry_s=600)

    def put(self, numbers: Sequence[int]) -> None:
        publish(self.topic, [self.payload(number) for number in numbers], self.port)

    def put_bad(self) -> bytes:
        publish(self.topic, [b'{"number": "one"}'], self.port)
        return b'{"number": "one"}'

    @contextmanager
    def away(self) -> Iterator[None]:
        assert self.proxy is not None
        with self.proxy.away():
            yield

    def missing(self) -> MqttSource[SourceItem]:
        return MqttSource(at(9), self.topic, value=SourceItem, client_id=self.topic)

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "mqtt_kit:MqttSourceSubject", [self.topic, self.names]


class MqttSinkSubject(SinkSubject):
    """`by_key`: the reader passes over a message whose key it has seen."""

    tasks = 2

    def __init__(self, topic: str, by_key: bool = False) -> None:
        self.topic, self.by_key = topic, by_key
        self.proxy: AnswersProxy | None = None
        self.listener: Listener | None = None

    def make(self) -> MqttSink:
        port = self.proxy.port if self.proxy is not None else PORT
        return MqttSink(at(port), self.topic, batch=50)

    def rows(self) -> list[tuple[int, int]]:
        assert self.listener is not None
        found = self.listener.messages()
        if self.by_key:
            found = [*{fact(message, "kedge-key"): message for message in reversed(found)}.values()]
            found.reverse()
        rows = [json.loads(message.payload) for message in found]
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
        return "mqtt_kit:MqttSinkSubject", [self.topic, self.by_key]


class MosquittoServer:
    """A Mosquitto on a free port, whose sessions are in a folder, so that they outlive the process."""

    def __init__(self, folder: Path, settings: Sequence[str]) -> None:
        self.folder, self.settings = folder, settings
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        lines = (
            f"listener {self.port} 127.0.0.1",
            *(["allow_anonymous true"] * (not any(line.startswith("allow_anonymous") for line in self.settings))),
            "user root",
            "persistence true",
            f"persistence_location {self.folder}/",
            "autosave_interval 1",  # seconds
            "max_queued_messages 0",
            *self.settings,
        )
        (self.folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program(), "-c", str(self.folder / "mosquitto.conf")], stdout=log, stderr=log
            )
        until(self._answers, (self.folder / "server.log").read_text)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def tell(self, number: int) -> None:
        assert self._process is not None, "start"
        self._process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ends the server; with SIGTERM it saves its sessions."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(30)
            self._process = None


def program() -> str:
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if found is None:
        pytest.skip("no mosquitto to start: apt install mosquitto")
    return found


def until(condition: Callable[[], bool], said: Callable[[], str] = lambda: "") -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, said()
        time.sleep(0.02)


@contextmanager
def own_server(folder: Path, *settings: str) -> Iterator[MosquittoServer]:
    server = MosquittoServer(folder, settings)
    server.start()
    try:
        yield server
    finally:
        server.stop(signal.SIGKILL)


def subscribe(session: str, topic: str, port: int = PORT) -> None:
    """Makes a session at the server that keeps what comes under the topic; `forget` ends it."""
    with connected(port, session, clean=False, expiry_s=600) as made:
        subscribed = threading.Event()
        made.on_subscribe = lambda *_: subscribed.set()
        made.subscribe(topic, options=SubscribeOptions(qos=1))
        assert subscribed.wait(WAIT_S)


def kept(session: str, count: int, port: int = PORT, quiet_s: float = 0.5) -> list[Any]:
    """What a session has kept: at least so many messages, and all that come until it is quiet. They are gone then."""
    found: list[Any] = []
    came = threading.Event()

    def took(_client: Any, _data: Any, message: Any) -> None:
        found.append(message)
        came.set()

    made = paho.Client(CallbackAPIVersion.VERSION2, client_id=session, protocol=paho.MQTTv5)
    made.on_message = took
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 600
    made.connect("127.0.0.1", port, 30, clean_start=False, properties=properties)
    made.loop_start()
    try:
        while came.wait(WAIT_S if len(found) < count else quiet_s) and len(found) < 3 * count:
            came.clear()
    finally:
        made.disconnect()
        made.loop_stop()
    return found
