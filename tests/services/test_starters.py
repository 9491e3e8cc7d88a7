"""Starters of `kedge new --from SOURCE --to SINK`: the commands of the README send one alert, through real servers."""

import asyncio
import contextlib
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiomqtt
import aiormq
import psycopg
import pyarrow.dataset
import pytest
from amqp_kit import URL as AMQP_URL
from http_kit import free_port
from kafka_kit import KafkaCluster, NoMock, all_messages
from live_run import WAIT_S, until
from mqtt_kit import forget
from nats_kit import connected
from redis_kit import client as redis_client

from topology.cli.starter.parts import DSN, SINKS, SOURCES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


class Starter:
    """One starter in a folder. Ports of its own listeners are free ones, and Kafka's brokers are the test's."""

    def __init__(self, folder: Path, source: str, sink: str, cluster: KafkaCluster) -> None:
        self.folder, self.source, self.sink, self.cluster = folder / "starter", source, sink, cluster
        new = (sys.executable, "-m", "kedge", "new", "starter", "--from", source, "--to", sink)
        subprocess.run(new, cwd=folder, check=True, capture_output=True)
        ports = {port: str(free_port()) for port in ("8080", "5140", "8473")}
        for name in ("alerts.py", "feed.py"):
            text = (self.folder / name).read_text()
            for port, free in ports.items():
                text = text.replace(port, free)
            (self.folder / name).write_text(text.replace("127.0.0.1:9092", cluster.brokers))
        self.readme = (self.folder / "README.md").read_text()
        self._begun: list[subprocess.Popen[bytes]] = []

    def feed(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run((sys.executable, "feed.py", *arguments), cwd=self.folder, timeout=WAIT_S, check=False)

    def begin(self, command: str, log: str) -> "subprocess.Popen[bytes]":
        """Begins a command of the shell, whose outputs go to a file."""
        with (self.folder / log).open("wb") as file:
            process = subprocess.Popen(
                ("bash", "-c", f"exec {command}"), cwd=self.folder, stdout=file, stderr=subprocess.STDOUT
            )
        self._begun.append(process)
        return process

    def end(self) -> None:
        for process in self._begun:
            if process.poll() is None:
                process.kill()
            process.wait()

    def run(self) -> str:
        """Does what the README says, until there is an alert. Returns what the run has said."""
        kedge = f"{sys.executable} -m kedge run alerts.py"
        if "kafka" in (self.source, self.sink):  # the mock brokers make no topics for a client
            self.cluster.make_topic("readings" if self.source == "kafka" else "alerts")
        elif "feed.py prepare" in self.readme:
            assert self.feed("prepare").returncode == 0
        if "feed.py receive" in self.readme:
            self.begin(f"{sys.executable} -u feed.py receive", "received")
        if SOURCES[self.source].is_piped:
            fed = subprocess.run(
                f"{sys.executable} feed.py | {kedge}",
                shell=True,
                cwd=self.folder,
                check=False,
                capture_output=True,
                text=True,
                timeout=WAIT_S,
            )
            (self.folder / "log").write_text(fed.stdout + fed.stderr)
            assert fed.returncode == 0, fed.stderr
        else:
            if not SOURCES[self.source].runs_first:
                assert self.feed().returncode == 0
            run = self.begin(kedge, "log")
            at = time.monotonic()
            while not self.alerts():
                assert run.poll() is None, self.log()
                assert time.monotonic() < at + WAIT_S, self.log()
                if SOURCES[self.source].runs_first:
                    self.feed()  # which fails until the run listens; a new subscriber gets what comes later
                time.sleep(0.2)
            run.send_signal(signal.SIGINT)
            assert run.wait(WAIT_S) == 0, self.log()
        until(lambda: bool(self.alerts()), "an alert")
        return self.log()

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def alerts(self) -> list[Any]:
        """What the sink's store has."""
        match self.sink:
            case "sqlite":
                with contextlib.closing(sqlite3.connect(self.folder / "alerts.db")) as database:
                    try:
                        return database.execute("select * from too_hot").fetchall()
                    except sqlite3.OperationalError:
                        return []
            case "jsonlines":
                return (self.folder / "alerts.jsonl").read_text().splitlines()
            case "print":
                return re.findall("TooHot.*oven.*88", self.log())
            case "parquet":
                return pyarrow.dataset.dataset(self.folder / "alerts").to_table().to_pylist()
            case "webhook" | "slack":
                return re.findall("{.*oven.*88.*}", (self.folder / "received").read_text())
            case "postgres":
                with psycopg.connect(DSN) as database:
                    return database.execute("select * from too_hot").fetchall()
            case "kafka":
                return all_messages(self.cluster.brokers, "alerts")
            case "redis":
                with redis_client() as redis:
                    return list(redis.xrange("alerts"))
            case "nats":
                return asyncio.run(_in_nats())
            case "amqp":
                return asyncio.run(_in_rabbitmq())
            case "mqtt":
                return asyncio.run(_retained())
        raise AssertionError(self.sink)


async def _in_nats() -> list[Any]:
    client = await connected()
    try:
        return [await client.jetstream().get_msg("ALERTS", 1)]
    finally:
        await client.close()


async def _in_rabbitmq() -> list[Any]:
    connection = await aiormq.connect(AMQP_URL)
    try:
        got = await (await connection.channel()).basic_get("alerts")
        return [got.body] if got.body else []
    finally:
        await connection.close()


async def _retained() -> list[Any]:
    async with aiomqtt.Client("127.0.0.1") as client:
        await client.subscribe("alerts")
        async with asyncio.timeout(WAIT_S):
            return [await anext(aiter(client.messages))]
    raise AssertionError


def cleared() -> None:
    """Removes from the standard servers what starters have left there."""

    async def streams() -> None:
        client = await connected()
        for name in ("READINGS", "ALERTS"):
            with contextlib.suppress(Exception):
                await client.jetstream().delete_stream(name)
        await client.close()

    async def queues() -> None:
        connection = await aiormq.connect(AMQP_URL)
        channel = await connection.channel()
        for name in ("readings", "alerts"):
            await channel.queue_delete(name)
        await connection.close()

    async def unretained() -> None:
        async with aiomqtt.Client("127.0.0.1") as client:
            await client.publish("alerts", b"", retain=True)

    asyncio.run(streams())
    asyncio.run(queues())
    asyncio.run(unretained())
    forget("kedge-starter-readings")
    with redis_client() as redis:
        redis.delete("readings", "alerts")
    with psycopg.connect(DSN) as database:
        database.execute("drop table if exists readings, too_hot cascade")


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    try:
        with KafkaCluster() as one:
            yield one
    except NoMock as error:
        pytest.skip(str(error))


@contextmanager
def starter(folder: Path, source: str, sink: str, cluster: KafkaCluster) -> Iterator[Starter]:
    cleared()
    one = Starter(folder, source, sink, cluster)
    try:
        yield one
    finally:
        one.end()
        cleared()


@pytest.fixture(autouse=True)
def servers() -> None:
    """All servers on their standard ports, or no test."""
    needed: list[tuple[str, Callable[[], object]]] = [
        ("NATS", lambda: asyncio.run(_closed(connected()))),
        ("RabbitMQ", lambda: asyncio.run(_closed(aiormq.connect(AMQP_URL)))),
        ("MQTT", lambda: forget("kedge-starter-readings")),
        ("Redis", lambda: redis_client().__enter__().ping()),
        ("PostgreSQL", lambda: psycopg.connect(DSN, connect_timeout=3).close()),
    ]
    for name, reach in needed:
        try:
            reach()
        except Exception as error:
            pytest.skip(f"no {name} to test with ({error}); CONTRIBUTING.md says how to start one")


async def _closed(connecting: Any) -> None:
    await (await connecting).close()


@pytest.mark.parametrize("source", SOURCES)
def test_readings_of_each_source_become_an_alert(tmp_path: Path, cluster: KafkaCluster, source: str) -> None:
    with starter(tmp_path, source, "sqlite", cluster) as one:
        one.run()
        assert one.alerts()


@pytest.mark.parametrize("sink", [sink for sink in SINKS if sink != "sqlite"])
def test_an_alert_reaches_each_sink(tmp_path: Path, cluster: KafkaCluster, sink: str) -> None:
    with starter(tmp_path, "stdin", sink, cluster) as one:
        one.run()
        assert len(one.alerts()) == 1
