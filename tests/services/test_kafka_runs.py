"""From Kafka through state to Kafka, and to a file: each message counts exactly once, whatever is killed."""

import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka_kit import KafkaCluster, KafkaSourceSubject, NoMock, all_messages, committed, seen_once
from live_run import FEW, MANY, SLOW, cases, live, patience, until

from topology.testing import Crash, run_processes

pytestmark = pytest.mark.service("kafka")

FILE = Path(__file__).with_name("kafka_topology.py")
PARTITIONS = 8


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    try:
        made = KafkaCluster()
    except NoMock as error:
        pytest.skip(f"no Kafka to test with: {error}")
    with made:
        yield made


@pytest.fixture
def subject(cluster: KafkaCluster) -> KafkaSourceSubject:
    topic = cluster.make_topic(f"kedge-{secrets.token_hex(6)}", PARTITIONS)
    return KafkaSourceSubject(cluster.brokers, topic, cluster)


def high(brokers: str, topic: str) -> int:
    return len(all_messages(brokers, topic))


@pytest.mark.parametrize(("count", "killed"), cases("nothing", "a worker", "the whole run"))
def test_each_message_counts_once_whatever_is_killed(
    cluster: KafkaCluster, subject: KafkaSourceSubject, tmp_path: Path, count: int, killed: str
) -> None:
    target = cluster.make_topic(f"{subject.topic}-to", PARTITIONS)
    subject.put(range(1, count // 2 + 1))
    settings = {"brokers": cluster.brokers, "topic": subject.topic, "target": target}

    def stored() -> int:
        return len(seen_once(all_messages(cluster.brokers, target)))

    with live(FILE, tmp_path, **settings) as run:
        until(lambda: stored() >= count // 10, "the first messages", patience(count))
        if killed == "a worker":
            run.kill_worker()
        if killed == "the whole run":
            run.kill_all()
        subject.put(range(count // 2 + 1, count + 1))
        if killed != "the whole run":
            until(lambda: stored() >= count, "all messages", patience(count))
            run.stop()
    if killed == "the whole run":
        with live(FILE, tmp_path, **settings) as again:
            until(lambda: stored() >= count, "all messages", patience(count))
            again.stop()
    print((tmp_path / "run.log").read_text())
    found = Counter(
        (row["number"], row["times"])
        for row in (json.loads(message.value()) for message in seen_once(all_messages(cluster.brokers, target)))
    )
    assert found == Counter(dict.fromkeys(((number, 1) for number in range(1, count + 1)), 1))
    ends = Counter(message.partition() for message in all_messages(cluster.brokers, subject.topic))
    all_committed = committed(cluster.brokers, "kedge-kafka-runs-items", subject.topic, PARTITIONS)
    assert all_committed == [ends[number] for number in range(PARTITIONS)], "all are committed at the end"


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=SLOW)])
def test_a_bounded_run_stores_each_message_once_although_workers_die(
    subject: KafkaSourceSubject, tmp_path: Path, count: int
) -> None:
    subject.put(range(1, count + 1))
    store = tmp_path / "counted.db"
    settings: dict[str, object] = {"brokers": subject.brokers, "topic": subject.topic, "store": store, "follow": False}
    report = run_processes(
        FILE,
        set=settings | {"rate": count // 5},
        crashes=[Crash(0, acked=count // 10), Crash(1, acked=count // 3)],
        state_dir=tmp_path / "state",
        within_s=patience(count),
    )
    assert report.exit_status == 0, report.told
    assert len(report.killed) == 2
    assert report.restarts == 2
    with closing(sqlite3.connect(store)) as rows:
        found = rows.execute("SELECT number, times FROM kafka_counted ORDER BY number").fetchall()
    assert found == [(number, 1) for number in range(1, count + 1)]
