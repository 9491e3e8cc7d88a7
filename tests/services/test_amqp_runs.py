"""From RabbitMQ through state to RabbitMQ and to a file: each message counts exactly once, whatever is killed."""

import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from amqp_kit import PORT, URL, AmqpSourceSubject, Queue, asked, reached
from live_run import cases, live, patience, until

pytestmark = pytest.mark.service("amqp")

FILE = Path(__file__).with_name("amqp_topology.py")


@pytest.fixture
def queues() -> Iterator[tuple[Queue, Queue]]:
    try:
        asked(reached())
    except Exception as error:
        pytest.skip(f"no RabbitMQ to test with on port {PORT} ({error}); CONTRIBUTING.md says how to start one")
    name = secrets.token_hex(6)
    with Queue(f"kedge-from-{name}").there() as source, Queue(f"kedge-to-{name}").there() as target:
        yield source, target


@pytest.mark.parametrize(("count", "killed"), cases("nothing", "a worker", "the whole run"))
def test_each_message_counts_once_whatever_is_killed(
    queues: tuple[Queue, Queue], tmp_path: Path, count: int, killed: str
) -> None:
    source, target = queues
    store = tmp_path / "counted.db"
    subject = AmqpSourceSubject(source.name)
    subject.put(range(1, count // 2 + 1))
    settings: dict[str, object] = {"url": URL, "queue": source.name, "target": target.name, "store": store}

    def stored() -> int:
        if not store.exists():
            return 0
        with closing(sqlite3.connect(store)) as rows:
            try:
                return int(rows.execute("select count(*) from amqp_counted").fetchone()[0])
            except sqlite3.OperationalError:  # there is no table yet
                return 0

    def all_sent() -> bool:
        return stored() >= count and int(asked(target.waiting())) >= count

    with live(FILE, tmp_path, **settings) as run:
        until(lambda: stored() >= count // 10, "the first messages", patience(count))
        if killed == "a worker":
            run.kill_worker()
        if killed == "the whole run":
            run.kill_all()
        subject.put(range(count // 2 + 1, count + 1))
        if killed != "the whole run":
            until(all_sent, "all messages", patience(count))
            run.stop()
    if killed == "the whole run":
        with live(FILE, tmp_path, **settings) as again:
            until(all_sent, "all messages", patience(count))
            again.stop()
    once = dict.fromkeys(((number, 1) for number in range(1, count + 1)), 1)
    with closing(sqlite3.connect(store)) as rows:
        assert Counter(rows.execute("select number, times from amqp_counted")) == Counter(once)
    by_id = {message.header.properties.message_id: json.loads(message.body) for message in asked(target.take_all())}
    assert Counter((row["number"], row["times"]) for row in by_id.values()) == Counter(once)
    assert asked(source.waiting()) == 0, "all are acknowledged at the end"


def test_an_at_most_once_run_reads_more_messages_than_it_may_have_unconfirmed(
    queues: tuple[Queue, Queue], tmp_path: Path
) -> None:
    source, target = queues
    AmqpSourceSubject(source.name).put(range(1, 1_001))
    store = tmp_path / "counted.db"
    settings: dict[str, object] = {"url": URL, "queue": source.name, "target": target.name, "store": store}
    with live(FILE, tmp_path, "--config", "guarantee=at-most-once", prefetch=50, **settings) as run:
        until(lambda: int(asked(target.waiting())) >= 1_000, "all messages")
        run.stop()
    assert int(asked(source.waiting())) == 0
