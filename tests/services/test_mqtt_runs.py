"""From MQTT through state to MQTT and to a file: each message counts exactly once, whatever is killed.

The server is the test's own: another one keeps 1,000 messages for a run that is away, and drops the others.
"""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from live_run import cases, live, patience, until
from mqtt_kit import MosquittoServer, MqttSourceSubject, at, fact, kept, own_server, subscribe

pytestmark = pytest.mark.service("mqtt")

FILE = Path(__file__).with_name("mqtt_topology.py")
SESSION = "kedge-mqtt-runs-items"


@pytest.mark.parametrize(("count", "killed"), cases("nothing", "a worker", "the whole run", "the server"))
def test_each_message_counts_once_whatever_is_killed(tmp_path: Path, count: int, killed: str) -> None:
    (tmp_path / "server").mkdir()
    with own_server(tmp_path / "server") as server:
        run_and_kill(server, tmp_path, count, killed)


def run_and_kill(server: MosquittoServer, folder: Path, count: int, killed: str) -> None:
    store = folder / "counted.db"
    subject = MqttSourceSubject("items", port=server.port)
    subscribe(SESSION, "items", server.port)  # as an earlier run has left it
    subscribe("reader", "counted", server.port)
    subject.put(range(1, count // 2 + 1))
    settings: dict[str, object] = {"url": at(server.port), "topic": "items", "target": "counted", "store": store}

    def stored() -> int:
        if not store.exists():
            return 0
        with closing(sqlite3.connect(store)) as rows:
            try:
                return int(rows.execute("select count(*) from mqtt_counted").fetchone()[0])
            except sqlite3.OperationalError:  # there is no table yet
                return 0

    with live(FILE, folder, **settings) as run:
        until(lambda: stored() >= count // 10, "the first messages", patience(count))
        if killed == "a worker":
            run.kill_worker()
        if killed == "the whole run":
            run.kill_all()
        if killed == "the server":
            server.stop()
            server.start()
        subject.put(range(count // 2 + 1, count + 1))
        if killed != "the whole run":
            until(lambda: stored() >= count, "all messages", patience(count))
            run.stop()
    if killed == "the whole run":
        with live(FILE, folder, **settings) as again:
            until(lambda: stored() >= count, "all messages", patience(count))
            again.stop()
    once = dict.fromkeys(((number, 1) for number in range(1, count + 1)), 1)
    with closing(sqlite3.connect(store)) as rows:
        assert Counter(rows.execute("select number, times from mqtt_counted")) == Counter(once)
    by_key = {fact(one, "kedge-key"): json.loads(one.payload) for one in kept("reader", count, server.port)}
    assert Counter((row["number"], row["times"]) for row in by_key.values()) == Counter(once)
    assert kept(SESSION, 0, server.port) == [], "all are acknowledged at the end"
