"""Runs of the command whose Spark is not theirs: a standalone cluster, and a Spark Connect server, started from the pip
package.
"""

import contextlib
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from cluster_kit import connect_server, for_executors, standalone
from runs_kit import REFUSED_S, Run
from spark_kit import needs_spark
from spark_topology import numbered
from test_batch_runs import expected as matched

from bridge.spark.session import python
from topology.codes.startup import STATE_DIR_NOT_SHARED

pytestmark = [needs_spark, pytest.mark.cluster, pytest.mark.timeout(420)]

TOPOLOGY = Path(__file__).with_name("everywhere_topology.py")
HOST = socket.gethostname()
RECORDS = 5_000


@dataclass(frozen=True)
class Cluster:
    """`blind`: a folder for a run whose state its Workers do not see; None where processes can't have folders of their
    own."""

    master: str
    folder: Path
    blind: Path | None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all runs here."""
    folder = tmp_path_factory.mktemp("cluster")
    unshare = shutil.which("unshare")
    blind = unshare is not None and not subprocess.run([unshare, "-rm", "true"], check=False).returncode
    (folder / "blind").mkdir()
    (folder / "blind" / "state").mkdir(mode=0o700)
    with standalone(folder, folder / "blind" / "state" if blind else None) as master:
        yield Cluster(master, folder, folder / "blind" if blind else None)


@pytest.fixture
def run_in() -> Iterator[Callable[..., Run]]:
    """Begins a run in a folder."""
    runs: list[Run] = []

    def run_in(folder: Path, master: str, *settings: str, environment: dict[str, str] | None = None) -> Run:
        given = [f"records={RECORDS}", f"--spark {master}", *settings]
        runs.append(Run(TOPOLOGY, folder, *given, environment=environment))
        return runs[-1]

    yield run_in
    for one in runs:
        one.kill()


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


def is_exact(folder: Path, ready: bool = True) -> None:
    assert stored(folder / "counted.db", "counted") == expected()
    if ready:
        assert stored(folder / "counted.db-windowed", "windowed") == expected()


@pytest.mark.slow
def test_a_run_on_a_standalone_cluster_counts_exactly_and_ends_with_its_sources(
    cluster: Cluster, run_in: Callable[..., Run], tmp_path: Path
) -> None:
    """D16: a Master and two Workers, whose executors read the segments where the run has written them: for windows, and
    for a join of all that has come, which is a job at the end."""
    one = run_in(tmp_path, cluster.master, *for_executors(), "batch=true", "--workers 2")
    assert one.end() == 0, one.text()
    is_exact(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "counted.db-matched")) as database:
        assert sorted(database.execute("select job, number, owner from matched")) == matched(RECORDS, 0)
    assert f"matched: job 1 is complete, {RECORDS:,} results in " in one.text()
    listening = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # an executor ends a while after its run
            there = process.net_connections("inet") if process.name() == "java" else []
            listening |= {each.laddr.ip for each in there if each.status == "LISTEN"}
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    logs = [path.read_text() for path in cluster.folder.glob("worker-*.log")]
    assert ["Asked to launch executor" in log for log in logs] == [True, True]


@pytest.mark.slow  # what is looked at and what is said is in test_seen
@pytest.mark.parametrize(("ours", "why"), [(False, "is not there"), (True, "is not there or is another folder")])
def test_a_run_whose_executors_have_another_folder_in_its_place_ends_with_a_sentence(
    cluster: Cluster, run_in: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, ours: bool, why: str
) -> None:
    """In time: state that is kept on a machine's own disk would be missing at the next start. `ours`: with the Python
    that is made for this machine, which is in that other folder, as nobody has set another."""
    if cluster.blind is None:
        pytest.skip("this system gives a process no mounts of its own")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    given = {} if ours else {"PYSPARK_PYTHON": python(cluster.folder)}
    one = run_in(cluster.blind, cluster.master, *for_executors(), environment=given)
    assert one.end(REFUSED_S) == 1, one.text()
    spark = cluster.blind / "state" / "kept" / "spark"
    said = f"{spark} {why} on {HOST}, where Spark works; {STATE_DIR_NOT_SHARED.next.rstrip('.')} (K457)"
    assert said in one.text().replace(". (K457)", " (K457)")
    assert len(one.starts()) == 1, "it is not tried again"
    assert [one.batches("query"), one.batches("windowed")] == [-1, -1]


@pytest.mark.slow  # a cluster of its own for one setting
def test_a_run_on_a_local_cluster_counts_exactly_though_spark_draws_no_secret_there(
    run_in: Callable[..., Run], tmp_path: Path
) -> None:
    one = run_in(tmp_path, "local-cluster[1,1,1024]")
    assert one.end() == 0, one.text()
    is_exact(tmp_path)


@pytest.mark.slow  # a server of its own; what a client says and is told is in test_connect_telling
@pytest.mark.parametrize("ready", [False, True])
def test_a_run_over_spark_connect_counts_exactly_closes_its_windows_and_ends_with_its_sources(
    ready: bool, run_in: Callable[..., Run], tmp_path: Path
) -> None:
    """D16: the driver is a client, and has no JVM: the windows that are open at the end are closed all the same. Those
    of a query of the test's own, and with `ready` those of `windowed` too, which takes as long again."""
    pytest.importorskip("grpc_status", reason="needs pip install 'kedge-streams[spark-connect]'")
    with connect_server(tmp_path) as master:
        one = run_in(tmp_path, master, f"ready={str(ready).lower()}")
        assert one.end() == 0, one.text()
    is_exact(tmp_path, ready=ready)
