"""`kedge run --engine spark` whose JVM is killed when the state of a batch is in the checkpoint, and the batch is not
committed; then a stop and a start, which load what the checkpoint has: all timers fire, once."""

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from engine_windows_topology import EACH
from runs_kit import KEDGE, Run, java_of, runs_of
from spark_kit import needs_spark

from bridge.files.query import Epoch, QueryFolder

pytestmark = [
    needs_spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

COUNT, RATE = 10_000, 100


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    yield from runs_of(Path(__file__).with_name("engine_windows_topology.py"), tmp_path)


class Checkpoint:
    """How far Spark is."""

    def __init__(self, folder: Path) -> None:
        self.folder = QueryFolder(folder / "state" / "kept" / "spark" / "engine").checkpoint(Epoch())

    def committed(self) -> int:
        """The newest batch."""
        return max((int(one.name) for one in self.folder.glob("commits/[0-9]*")), default=-1)

    def computed(self) -> int:
        """The newest batch of which some state is written."""
        names = [one.name.split(".")[0] for one in self.folder.glob("state/0/*/[0-9]*.changelog")]
        return max(map(int, names), default=0) - 1


def kill_amid_a_batch(one: Run, checkpoint: Checkpoint) -> int:
    """The batch."""
    java, before = java_of(psutil.Process(one.starts()[-1])), checkpoint.committed()
    one.until(lambda: checkpoint.committed() > before)
    one.until(lambda: checkpoint.computed() > checkpoint.committed())
    batch = checkpoint.computed()
    java.kill()
    psutil.wait_procs([java], timeout=30)
    return batch


def test_all_timers_fire_once_where_the_jvm_died_with_the_state_of_a_batch_written(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    """B10, B19, D9."""
    checkpoint, given = Checkpoint(tmp_path), ("--engine spark", f"count={COUNT}")
    one = run(*given, f"rate={RATE}")
    one.until(lambda: checkpoint.committed() >= 0)
    batch, tries = kill_amid_a_batch(one, checkpoint), 3
    while checkpoint.committed() >= batch and tries:  # it was faster than the kill
        lives, tries = len(one.starts()), tries - 1
        one.until(lambda lives=lives: len(one.starts()) > lives)  # type: ignore[misc]
        batch = kill_amid_a_batch(one, checkpoint)
    assert checkpoint.committed() < batch
    one.until(lambda: checkpoint.committed() > batch)
    subprocess.run([KEDGE, "stop", "--state-dir", str(tmp_path / "state")], check=True, capture_output=True)
    assert one.end() == 0, one.text()
    assert run(*given).end() == 0
    with closing(sqlite3.connect(tmp_path / "counted.db")) as database:
        found = database.execute("select key, count, total from closed order by key").fetchall()
    keys = range(COUNT // EACH)
    assert found == [(f"k{key:05}", EACH, sum(range(key * EACH, key * EACH + EACH))) for key in keys]
