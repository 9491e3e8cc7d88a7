"""`kedge run --engine spark` on a standalone cluster, of which executors are killed in the middle, and then the driver:
the output is that of Kedge's own run, by sinks in the driver, and by sinks in the executors.

In `make test-all`, as each run takes a minute or two.
"""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from cluster_kit import standalone
from engine_topology import topology
from runs_kit import Run, runs_of
from spark_kit import needs_spark
from test_engine_runs import stored
from test_killed_in_the_middle import executors

pytestmark = [
    needs_spark,
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

BEGIN, COUNT, RATE = 20, 12_000, 200


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    yield from runs_of(Path(__file__).with_name("engine_topology.py"), tmp_path)


def killed(run: Callable[..., Run], folder: Path, settings: list[str], rows: Callable[[], int]) -> None:
    """A run whose executors, and then its driver, are killed while rows come."""
    with standalone(folder) as master:
        spark = [f"--spark {master}", "--spark-conf spark.executor.memory=512m"]
        one = run("--engine spark", f"begin={BEGIN}", f"count={COUNT}", f"rate={RATE}", *spark, *settings)
        for victim in ("executor", "executor", "driver"):
            one.until(lambda: 0 < len(one.starts()) <= one.text().count("spark: it is ready"))
            before, lives = rows(), len(one.starts())
            one.until(lambda before=before: rows() > before and bool(executors()))  # type: ignore[misc]
            dies = executors()[0] if victim == "executor" else psutil.Process(one.starts()[-1])
            dies.send_signal(signal.SIGKILL)
            psutil.wait_procs([dies], timeout=30)
            print(f"killed: {victim}, with {rows():,} rows stored")
            one.until(lambda lives=lives, victim=victim: victim == "executor" or len(one.starts()) > lives)  # type: ignore[misc]
        half = rows()
        one.hurry()
        assert one.end() == 0, one.text()
    assert 0 < half < rows(), "they were killed in the middle"


def kedges(folder: Path, **settings: str) -> None:
    """The same in one process of Kedge's."""
    folder.mkdir()
    assert topology(str(folder / "counted.db"), COUNT, begin=BEGIN, **settings).run().exit_status == 0


def test_the_output_of_sinks_in_the_driver_is_exact(run: Callable[..., Run], tmp_path: Path) -> None:
    """C4, C7."""
    killed(run, tmp_path, [], lambda: len(stored(tmp_path / "counted.db")["counted"]))
    kedges(tmp_path / "kedge")
    assert stored(tmp_path / "counted.db") == stored(tmp_path / "kedge" / "counted.db")


@pytest.mark.service("postgres")
def test_the_output_of_sinks_in_the_executors_is_exact(run: Callable[..., Run], tmp_path: Path) -> None:
    """C4, C7, C10."""
    pytest.importorskip("psycopg", reason="needs pip install 'kedge-streams[postgres]'")
    from engine_postgres_kit import a_database, held

    with a_database() as spark, a_database() as kedge:
        where = [f"dsn={spark.dsn}", f"schema={spark.schema}"]
        killed(run, tmp_path, where, lambda: len(held(spark)["counted"]))
        kedges(tmp_path / "kedge", dsn=kedge.dsn, schema=kedge.schema)
        assert held(spark) == held(kedge)
    assert stored(tmp_path / "counted.db")["odd"] == stored(tmp_path / "kedge" / "counted.db")["odd"]
