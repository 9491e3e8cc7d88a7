"""From NATS through state to NATS: each message counts exactly once, whatever is killed."""

import json
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_run import cases, live, patience, until
from nats_kit import PORT, NatsSourceSubject, NatsStream, asked, reached

pytestmark = pytest.mark.service("nats")

FILE = Path(__file__).with_name("nats_topology.py")


@pytest.fixture
def streams() -> Iterator[tuple[NatsStream, NatsStream]]:
    try:
        asked(reached())
    except Exception as error:
        pytest.skip(f"no NATS to test with on port {PORT} ({error}); CONTRIBUTING.md says how to start one")
    name = secrets.token_hex(6)
    with NatsStream(f"kedge-from-{name}").there() as source, NatsStream(f"kedge-to-{name}").there() as target:
        yield source, target


def stored(target: NatsStream) -> int:
    return int(target.info().state.messages)


def exactly(target: NatsStream, count: int) -> None:
    """Each number is there once, and was counted once."""
    found = Counter((row["number"], row["times"]) for row in map(json.loads, asked(target.bodies())))
    assert {number for number, _ in found} == set(range(1, count + 1))
    assert found == Counter(dict.fromkeys(((number, 1) for number in range(1, count + 1)), 1))


@pytest.mark.parametrize(("count", "killed"), cases("nothing", "a worker", "the whole run"))
def test_each_message_counts_once_whatever_is_killed(
    streams: tuple[NatsStream, NatsStream], tmp_path: Path, count: int, killed: str
) -> None:
    source, target = streams
    subject = NatsSourceSubject(source.name)
    subject.put(range(1, count // 2 + 1))
    settings = {"stream": source.name, "target": target.name}
    with live(FILE, tmp_path, **settings) as run:
        until(lambda: stored(target) >= count // 10, "the first messages", patience(count))
        if killed == "a worker":
            run.kill_worker()
        if killed == "the whole run":
            run.kill_all()
        subject.put(range(count // 2 + 1, count + 1))
        if killed != "the whole run":
            until(lambda: stored(target) >= count, "all messages", patience(count))
            run.stop()
    if killed == "the whole run":
        with live(FILE, tmp_path, **settings) as again:
            until(lambda: stored(target) >= count, "all messages", patience(count))
            again.stop()
    exactly(target, count)
    (consumer,) = source.consumers()
    assert (consumer.num_pending, consumer.num_ack_pending) == (0, 0), "all are acknowledged at the end"
