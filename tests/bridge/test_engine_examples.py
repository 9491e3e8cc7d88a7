"""Each example, unchanged, in one process of Kedge's, on two workers and on Spark: the same output; of tables, the same
rows under the same keys, which are made of identities. What Spark can't run is refused, with its reason.

Messages come from the examples' own sources, and are worked on in the Spark session of this process, as its driver does
it. As people run them, each with a driver of its own: `tests/examples/test_examples_on_spark.py`, over real logs.
"""

import asyncio
import os
import re
import secrets
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from spark_kit import needs_spark

from bridge.engine.engine import ENGINE
from bridge.engine.python_process import PythonProcess
from bridge.queries.options import trigger_of
from examples.auth_log import auth_log
from examples.auth_log import write as write_log
from examples.cards import cards
from examples.cards import write as write_cards
from topology.cli.engines import check
from topology.errors import ConfigurationError
from topology.loading.load import again, load, recipe, target_of

pytestmark = [needs_spark, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).parents[2] / "examples"
KEDGE = str(Path(sys.executable).with_name("kedge"))
WITHIN_S = 120.0

Output = dict[str, list[Any]]
Settings = dict[str, str]


@dataclass(frozen=True)
class Way:
    """One run of an example: in `folder`, with its source there, and what it has printed by now."""

    folder: Path
    printed: Callable[[], str]

    @property
    def store(self) -> Path:
        return self.folder / "store.db"

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Its rows, with their keys; none where it is not there yet."""
        if not self.store.exists():
            return []
        with closing(sqlite3.connect(self.store)) as database:
            there = database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
            return sorted(database.execute(f"SELECT * FROM {table}")) if there else []


def tables(*names: str) -> Callable[[Way], Output]:
    return lambda way: {name: way.rows(name) for name in names}


def leaders(way: Way) -> Output:
    """The last line is the result; those before it depend on the order."""
    printed = [line for line in way.printed().splitlines() if re.fullmatch(r"\w+ \d+  \w+ \d+  \w+ \d+", line)]
    return {"leaders": printed[-1:]}


def hosts(way: Way) -> Output:
    """Who was silent, who came back: when is the clock's."""
    return {table: [row[0] for row in way.rows(table)] for table in ("silent", "back")}


def over(way: Way) -> Output:
    """What of this machine is over its limit: by how much is the machine's."""
    return {"over": sorted(re.findall(r"UTC  (\w+) has been over its limit", way.printed()))}


# -- their sources


def ssh(folder: Path) -> Settings:
    write_log(auth_log(seed=3, count=3_000), folder / "auth.log")
    return {"path": "auth.log", "store": "store.db"}


def apache(folder: Path) -> Settings:
    """Three clients, each with errors a minute apart, and bursts of six in some seconds."""
    at, lines = datetime(2026, 3, 2, tzinfo=UTC), []
    for burst in range(8):
        for client in range(3):
            for _ in range(6 if (burst + client) % 3 else 1):
                at += timedelta(seconds=2)
                lines.append(f"[{at:%a %b %d %H:%M:%S %Y}] [error] [client 192.0.2.{client}] File does not exist")
        at += timedelta(seconds=90)
    (folder / "error.log").write_text("".join(f"{line}\n" for line in lines))
    return {"path": "error.log", "store": "store.db"}


def temperature(folder: Path) -> Settings:
    at, values = datetime(2026, 3, 2, tzinfo=UTC), [80.0] * 20 + [20.0] * 20 + [80.0] * 20 + [120.0] * 13
    rows = [f"{at + n * timedelta(minutes=5):%Y-%m-%d %H:%M:%S},{value}\n" for n, value in enumerate(values)]
    (folder / "readings.csv").write_text("".join(["timestamp,value\n", *rows]))
    return {"path": "readings.csv", "store": "store.db"}


def fraud(folder: Path) -> Settings:
    write_cards(cards(seed=7, count=5_000), folder)
    return {"path": "transactions.csv", "store": "store.db", "spark": "false"}


def silent(folder: Path) -> Settings:
    log(folder, "web1", "web2", "db1")
    return {"path": "syslog", "store": "store.db", "follow": "true", "minutes": "0.01"}


def log(folder: Path, *hosts: str) -> None:
    with open(folder / "syslog", "a") as file:
        file.writelines(f"Mar  2 06:55:46 {host} sshd[1]: hello\n" for host in hosts)


def back(way: Way) -> bool:
    """Once all are silent, one is back, and silent again."""
    found = hosts(way)
    if len(found["silent"]) == 3 and not (way.folder / "again").exists():
        (way.folder / "again").touch()
        log(way.folder, "web1")
    return len(found["silent"]) == 4 and len(found["back"]) == 1


@dataclass(frozen=True)
class Example:
    """How an example is run, and what is to be the same. `done`: where its source never ends, when it has done all."""

    trigger: str
    output: Callable[[Way], Output]
    source: Callable[[Path], Settings] = field(default=lambda folder: {})
    done: Callable[[Way], bool] | None = None


LIMITS = {"memory": "0", "disk": "0", "cpu": "1000", "load": "1000000"}
SLOW = ("apache_errors.py", "fraud.py", "silent_hosts.py", "host_watch.py")
RUN = {
    "word_count.py": Example("default", leaders),
    "ssh_alerts.py": Example("100ms", tables("brute_force"), ssh),
    "apache_errors.py": Example("1s", tables("burst", "burst_over"), apache),
    "machine_temperature.py": Example("available-now", tables("page", "cleared"), temperature),
    "fraud.py": Example("default", tables("alert"), fraud),
    "silent_hosts.py": Example("default", hosts, silent, back),
    "host_watch.py": Example("100ms", over, lambda folder: dict(LIMITS), lambda way: len(over(way)["over"]) == 2),
}
ON_SERVERS = {"http_to_slack.py", "kafka_fraud.py", "mqtt_temperature.py"}  # tests/services has one with a server
REFUSED = {"fraud.py", "ssh_spark.py"}  # unless they are told to do without queries of their own


def test_each_example_is_among_them() -> None:
    declaring = {one.name for one in EXAMPLES.glob("*.py") if re.search(r"^def topology\(", one.read_text(), re.M)}
    assert {*RUN} | REFUSED | ON_SERVERS == declaring
    assert {one.trigger for one in RUN.values()} == {"default", "100ms", "1s", "available-now"}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_an_example_with_queries_of_its_own_is_refused_at_their_lines(name: str) -> None:
    with pytest.raises(ConfigurationError, match="can't run on spark") as caught:
        check(load(target_of(str(EXAMPLES / name)), {}), ENGINE.name)
    said = str(caught.value).splitlines()[1:]
    place = rf"  {re.escape(str(EXAMPLES / name))}:\d+: "
    assert all(re.match(place, line) and "run this topology without --engine" in line for line in said), said
    assert re.match(f"{place}this adds a Spark query beside the topology", said[0])


@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.slow) if one in SLOW else one for one in RUN])
def test_the_output_is_the_same_in_one_process_on_two_workers_and_on_spark(
    name: str, session: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """B1, C4."""
    one, printed = RUN[name], [""]

    def so_far() -> str:
        printed[0] += capsys.readouterr().out
        return printed[0]

    kedges = [begun(name, one, tmp_path / f"workers-{workers}", workers) for workers in (1, 2)]
    found = []
    try:
        spark = Way(tmp_path / "spark", so_far)
        spark.folder.mkdir()
        on_spark(session, spark.folder, name, one, lambda: one.done is not None and one.done(spark))
        for process, way in kedges:
            ended(process, way, one)
            found.append(one.output(way))
    finally:
        for process, _ in kedges:
            process.kill()
            process.wait()
    alone, workers = found
    assert all(alone.values()), "there is something to compare"
    assert one.output(spark) == workers == alone


# -- in Kedge's own processes


def begun(name: str, one: Example, folder: Path, workers: int) -> tuple["subprocess.Popen[bytes]", Way]:
    folder.mkdir()
    settings = [f"{key}={value}" for key, value in one.source(folder).items()]
    command = [KEDGE, "run", str(EXAMPLES / name), "--state-dir", "state", "--workers", str(workers)]
    command += [word for setting in settings for word in ("--set", setting)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KEDGE_")}
    with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err, env=environment)
    return process, Way(folder, (folder / "out").read_text)


def ended(process: "subprocess.Popen[bytes]", way: Way, one: Example) -> None:
    """Waits until it has done all, and has ended well."""
    done, pause = one.done, threading.Event()
    if done is not None:
        while not done(way):
            assert process.poll() is None, (way.folder / "err").read_text()
            pause.wait(0.02)
        process.send_signal(signal.SIGINT)
    assert process.wait(WITHIN_S) == 0, (way.folder / "err").read_text()


# -- on Spark


def on_spark(session: Any, folder: Path, name: str, one: Example, done: Callable[[], bool]) -> None:
    """A run with `--engine spark`, until its source has ended; or it is done, and has drained. Sources and hand-over
    are in a thread of this process, and the driver's part in this one."""
    from bridge.engine.run import EngineRunning, Settings

    given = one.source(folder)
    given |= {key: str(folder / value) for key, value in given.items() if key in ("path", "store")}
    target = target_of(str(EXAMPLES / name))
    how = recipe(target, given, load(target, given).config)
    kedges = again(**how, engine=ENGINE.name)
    kedges.companions.clear()  # that is the driver, as a process of its own
    kedges.companion_places.clear()
    loop, stop, pause = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    seat = PythonProcess(how, str(folder / "state" / "kept"), secrets.token_hex(4), 2)
    with closing(loop), ThreadPoolExecutor(1) as elsewhere:
        serving = kedges.serve(state_dir=folder / "state", stop=stop.wait())
        served = elsewhere.submit(loop.run_until_complete, serving)
        try:
            while not served.done() and not seat.query.exists():
                pause.wait(0.02)  # a driver begins after its run
            running = EngineRunning(session, seat, Settings(trigger_of(one.trigger, "--trigger"), 2), print)
            running.begin()
            while not served.done():
                running.look()
                if done():
                    loop.call_soon_threadsafe(stop.set)
                pause.wait(0.02)
            running.close()
        finally:
            loop.call_soon_threadsafe(stop.set)
        assert served.result().exit_status == 0
