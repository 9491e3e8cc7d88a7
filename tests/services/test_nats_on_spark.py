"""A source and a sink on a server where Spark runs the bolts, and where modes are compared."""

import json
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from live_run import live, until
from nats_kit import NatsStream, asked, reached

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark is not installed"),
]

FILE = Path(__file__).with_name("nats_topology.py")
COUNT = 300


@pytest.fixture
def streams() -> Iterator[tuple[NatsStream, NatsStream]]:
    try:
        asked(reached())
    except Exception as error:
        pytest.skip(f"no NATS to test with ({error}); CONTRIBUTING.md says how to start one")
    name = secrets.token_hex(6)
    with NatsStream(f"kedge-spark-{name}").there() as source, NatsStream(f"kedge-spark-to-{name}").there() as target:
        asked(source.publish([json.dumps({"number": number, "text": ""}).encode() for number in range(COUNT)]))
        yield source, target


def test_messages_go_from_a_server_through_spark_to_a_server_each_once(
    streams: tuple[NatsStream, NatsStream], tmp_path: Path
) -> None:
    source, target = streams
    settings = {"stream": source.name, "target": target.name}
    with live(FILE, tmp_path, "--engine", "spark", **settings) as run:
        until(lambda: target.info().state.messages >= COUNT, "all messages", 150.0)
        run.stop()
    found = Counter(body for body in asked(target.bodies()))
    assert {json.loads(body)["number"] for body in found} == {*range(COUNT)}
    assert set(found.values()) == {1}


def test_modes_are_compared_on_the_messages_of_a_server(streams: tuple[NatsStream, NatsStream], tmp_path: Path) -> None:
    source, target = streams
    command = [sys.executable, "-m", "kedge", "compare", str(FILE), "--json", "--modes", "record,embedded"]
    command += ["--set", f"stream={source.name}", "--set", f"target={target.name}"]
    command += ["--rate", "200", "--for", "2", "--warm-up", "1", "--rounds", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    modes = json.loads(done.stdout)["modes"]
    assert [mode["mode"] for mode in modes] == ["record", "embedded"]
    assert all(mode["exact_in_effect"] for mode in modes)
    names = [consumer.name for consumer in source.consumers()]
    assert names == ["kedge-nats-runs-compare-items"], "a run's own consumer is another one"
    assert target.info().state.messages == 0, "and no sink runs"
