"""Runs of the command whose Spark is not theirs: a standalone cluster, and a Spark Connect server, started from the pip
package.
"""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from cluster_kit import connect_server, standalone
from spark_kit import needs_spark
from spark_topology import numbered

pytestmark = [needs_spark, pytest.mark.cluster, pytest.mark.timeout(420)]

TOPOLOGY = Path(__file__).with_name("everywhere_topology.py")
RUN_S = 300.0
RECORDS = 5_000


def run(folder: Path, master: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """A whole `kedge run` with its Spark there."""
    kedge = str(Path(sys.executable).with_name("kedge"))
    command = [kedge, "run", str(TOPOLOGY), "--state-dir", str(folder / "state"), "--set", f"store={folder / 'store'}"]
    command += ["--set", f"records={RECORDS}", "--spark", master, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env={**os.environ})


def stored(path: Path, table: str) -> list[tuple[str, str, int, int]]:
    database = sqlite3.connect(path)
    try:
        return sorted(
            database.execute(f"select start, key, {'count' if table == 'counted' else 'number'}, total from {table}")
        )
    finally:
        database.close()


def expected() -> list[tuple[str, str, int, int]]:
    """The same in plain Python."""
    windows: dict[tuple[str, str], list[int]] = {}
    for one in numbered(RECORDS):
        start = one.at.replace(minute=one.at.minute // 10 * 10, second=0).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        windows.setdefault((start, one.key), []).append(one.number)
    return sorted((start, key, len(found), sum(found)) for (start, key), found in windows.items())


def is_exact(folder: Path) -> None:
    assert stored(folder / "store", "counted") == expected()
    assert stored(folder / "store-windowed", "windowed") == expected()


def test_a_run_on_a_standalone_cluster_counts_exactly_and_ends_with_its_sources(tmp_path: Path) -> None:
    """D16: a Master and two Workers, whose executors read the segments where the run has written them."""
    with standalone(tmp_path) as master:
        result = run(tmp_path, master, "--spark-conf", "spark.executor.memory=512m", "--workers", "2")
        assert result.returncode == 0, result.stderr
        is_exact(tmp_path)
        listening = set()
        for one in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # an executor ends a while after its run
                there = one.net_connections("inet") if one.name() == "java" else []
                listening |= {each.laddr.ip for each in there if each.status == "LISTEN"}
        assert {one.removeprefix("::ffff:") for one in listening} == {"127.0.0.1"}
    logs = [path.read_text() for path in tmp_path.glob("worker-*.log")]
    assert ["Asked to launch executor" in one for one in logs] == [True, True]


def test_a_run_over_spark_connect_counts_exactly_closes_its_windows_and_ends_with_its_sources(tmp_path: Path) -> None:
    """D16: the driver is a client, and has no JVM: the windows that are open at the end are closed all the same."""
    pytest.importorskip("grpc_status", reason="needs pip install 'kedge[spark-connect]'")
    with connect_server(tmp_path) as master:
        result = run(tmp_path, master)
    assert result.returncode == 0, result.stderr
    is_exact(tmp_path)
