"""Avro messages through a run whose worker is killed and whose registry goes away: each counts exactly once."""

import secrets
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kafka_kit import KafkaCluster, NoMock, all_messages, put, seen_once
from live_run import live, until
from registry_kit import RegistryServer, avro_bytes, avro_value, record_schema

pytestmark = pytest.mark.service("kafka")

FILE = Path(__file__).with_name("registry_topology.py")
COUNT = 4_000
OLD = record_schema("Item", number="long", text="string")
NEW = record_schema("Item", number="long", text="string", more=("int", 3))


def test_each_avro_message_counts_once_although_a_worker_dies_and_the_registry_goes_away(tmp_path: Path) -> None:
    try:
        cluster = KafkaCluster()
    except NoMock as error:
        pytest.skip(f"no Kafka to test with: {error}")
    with cluster, RegistryServer("ann", "geheim") as server:
        topic = cluster.make_topic(f"kedge-{secrets.token_hex(6)}", 4)
        target = cluster.make_topic(f"{topic}-to", 4)
        old = server.add(f"{topic}-value", "AVRO", OLD)
        (tmp_path / "password").write_text("geheim\n")

        def send(schema_id: int, text: str, begin: int, end: int) -> None:
            put(
                cluster.brokers,
                topic,
                [avro_bytes(schema_id, text, {"number": n, "text": f"item {n}"}) for n in range(begin, end + 1)],
            )

        def stored() -> int:
            return len(seen_once(all_messages(cluster.brokers, target)))

        send(old, OLD, 1, COUNT // 2)
        settings = {"brokers": cluster.brokers, "topic": topic, "target": target, "url": server.url}
        with live(FILE, tmp_path, **settings, password=f"file:{tmp_path / 'password'}") as run:
            until(lambda: stored() >= COUNT // 10, "the first messages")
            new = server.add(f"{topic}-value", "AVRO", NEW)
            with server.away():
                send(new, NEW, COUNT // 2 + 1, COUNT)
                run.kill_worker()
                until(lambda: "can't be used" in run.log.read_text(), "a line of the log")
                time.sleep(1.0)
            until(lambda: stored() >= COUNT, "all messages")
            said = run.stop()
        print(said)
        (counted,) = server.schemas(f"{target}-value")
        found = [avro_value(counted["schema"], message.value()) for message in all_messages_once(cluster, target)]
        rows = Counter((row["number"], row["times"]) for row in found)
        assert rows == Counter(dict.fromkeys(((number, 1) for number in range(1, COUNT + 1)), 1))
        assert "geheim" not in said
        assert "HTTP Request" not in said


def all_messages_once(cluster: KafkaCluster, topic: str) -> list[Any]:
    return seen_once(all_messages(cluster.brokers, topic))
