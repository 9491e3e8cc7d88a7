"""From Redis through state to Redis: each message counts exactly once, whatever is killed."""

import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_run import cases, live, patience, until
from redis_kit import PORT, RedisSourceSubject, client, deleted, reached

pytestmark = pytest.mark.service("redis")

FILE = Path(__file__).with_name("redis_topology.py")
GROUP = "kedge-redis-runs-items"


@pytest.fixture
def name() -> Iterator[str]:
    try:
        reached()
    except Exception as error:
        pytest.skip(f"no Redis to test with on port {PORT} ({error}); CONTRIBUTING.md says how to start one")
    one = f"kedge-{secrets.token_hex(6)}"
    yield one
    deleted(one)


def sent(target: str) -> int:
    with client() as one:
        return int(one.xlen(target))


def exactly(target: str, store: Path, count: int) -> None:
    """Each number is there once, and was counted once."""
    wanted = Counter(dict.fromkeys(((number, 1) for number in range(1, count + 1)), 1))
    with client() as one:
        entries = [json.loads(fields[b"data"]) for _, fields in one.xrange(target)]
        assert Counter((entry["number"], entry["times"]) for entry in entries) == wanted
        keys = [*one.scan_iter(f"{target}-latest:*", count=10_000)]
        assert len(keys) == len({*keys}) == count
        with one.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.hmget(key, "number", "times")
            assert Counter((int(number), int(times)) for number, times in pipe.execute()) == wanted
    with sqlite3.connect(store) as database:
        rows = database.execute("select number, times from redis_counted").fetchall()
    database.close()
    assert Counter(rows) == wanted


def unacknowledged(stream: str) -> int:
    """How many entries the group has not read, or not acknowledged."""
    with client() as one:
        (group,) = one.xinfo_groups(stream)
    assert group["name"].decode() == GROUP
    return int(group["pending"] + group["lag"])


@pytest.mark.parametrize(("count", "killed"), cases("nothing", "a worker", "the whole run"))
@pytest.mark.parametrize("tasks", [1, 2])
def test_each_message_counts_once_whatever_is_killed(
    name: str, tmp_path: Path, count: int, killed: str, tasks: int
) -> None:
    stream, target, store = f"{name}-from", f"{name}-to", tmp_path / "store.db"
    subject = RedisSourceSubject(stream)
    subject.put(range(1, count // 2 + 1))
    settings = {"url": f"redis://127.0.0.1:{PORT}", "stream": stream, "target": target, "store": store, "tasks": tasks}
    with live(FILE, tmp_path, **settings) as run:
        until(lambda: sent(target) >= count // 10, "the first messages", patience(count))
        if killed == "a worker":
            run.kill_worker()
        if killed == "the whole run":
            run.kill_all()
        subject.put(range(count // 2 + 1, count + 1))
        if killed != "the whole run":
            until(lambda: sent(target) >= count, "all messages", patience(count))
            until(lambda: unacknowledged(stream) == 0, "the acknowledgement of those that were given again")
            run.stop()
    if killed == "the whole run":
        with live(FILE, tmp_path, **settings) as again:
            until(lambda: sent(target) >= count, "all messages", patience(count))
            until(lambda: unacknowledged(stream) == 0, "the acknowledgement of those that were given again")
            again.stop()
    exactly(target, store, count)
