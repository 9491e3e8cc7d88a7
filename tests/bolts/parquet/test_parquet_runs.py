"""Into Parquet files by real worker processes that are killed: each number is one row."""

from collections import Counter
from pathlib import Path

import pytest
from parquet_kit import dataset, files_of

from topology.testing import Crash, run_processes, run_topology

FILE = Path(__file__).with_name("parquet_topology.py")
FEW, MANY = 5_000, 100_000
PAUSED_S = 5.0  # seconds that the source rests in all, so that no crash meets the run's end


def assert_exact(folder: Path, count: int) -> None:
    table = dataset(folder, partitioning="hive")
    found = Counter(zip(table["number"].to_pylist(), table["times"].to_pylist(), strict=True))
    assert {number for number, _ in found} == set(range(1, count + 1))
    assert found == Counter(dict.fromkeys(((number, 1) for number in range(1, count + 1)), 1))
    assert all(row["tens"] == row["number"] % 10 for row in table.slice(0, 100).to_pylist())


@pytest.mark.timeout(240)
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
def test_each_number_is_one_row_though_workers_are_killed(tmp_path: Path, count: int, partitioned: bool) -> None:
    folder = tmp_path / "rows"
    report = run_processes(
        FILE,
        set={
            "folder": str(folder),
            "count": count,
            "rows_per_file": count // 25,
            "partitioned": partitioned,
            "pause_s": PAUSED_S / (count // 100),  # a worker that is killed while the run ends has no replacement
        },
        crashes=[Crash("store"), Crash("triple"), Crash("store")],
        when=lambda: len(files_of(folder)) >= 2,
        state_dir=tmp_path / "state",
        within_s=200,
    )
    assert report.exit_status == 0, report.output
    assert len(report.killed) == 3
    assert_exact(folder, count)


def test_a_later_run_that_begins_again_stores_nothing_twice(tmp_path: Path) -> None:
    from parquet_topology import topology

    folder = tmp_path / "rows"
    for _ in range(2):
        report = run_topology(topology(str(folder), count=1_000))
        assert report.exit_status == 0
    assert_exact(folder, 1_000)
