"""Examples, unchanged, on Spark: the rows that they leave in one process of Kedge's and on two, under the same keys,
which are made of identities. For the SSH alerts, these are the oracle's."""

import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from example_kit import DATA, EXAMPLES, kedge
from ssh_oracle import expected_of_file
from test_ssh_alerts import stored

from bridge.spark.java import missing as no_java

pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")
pytestmark = [pytest.mark.skipif(bool(no_java()), reason=no_java()), pytest.mark.timeout(300)]
dear = pytest.mark.slow

WAYS: dict[str, tuple[str, ...]] = {
    "in one process": (),
    "on two workers": ("--workers", "2"),
    "on Spark": ("--engine", "spark"),
}
RUN = [
    pytest.param("ssh_alerts.py", "loghub/OpenSSH_2k.log", ["brute_force"], id="ssh", marks=dear),
    pytest.param("apache_errors.py", "loghub/Apache_2k.log", ["burst", "burst_over"], id="apache", marks=dear),
    pytest.param(
        "machine_temperature.py",
        "nab/machine_temperature_system_failure.csv",
        ["page", "cleared"],
        id="temperature",
        marks=dear,
    ),
]


@pytest.mark.parametrize(("example", "data", "tables"), RUN)
def test_the_output_is_the_same_in_one_process_on_two_workers_and_on_spark(
    tmp_path: Path, example: str, data: str, tables: list[str]
) -> None:
    if not (DATA / data).exists():
        pytest.skip(f"{data}, ../shared/data, is not here")
    source = tmp_path / Path(data).name
    shutil.copy2(DATA / data, source)
    said = {way: ran(tmp_path / way.replace(" ", "-"), example, source, options) for way, options in WAYS.items()}
    kept = {way: tmp_path / way.replace(" ", "-") / "store.db" for way in WAYS}
    one, two, spark = ({table: rows_and_keys(store, table) for table in tables} for store in kept.values())
    assert spark == two == one
    assert all(spark.values())
    if example == "ssh_alerts.py":
        reference = datetime.fromtimestamp(source.stat().st_mtime, UTC)
        assert stored(kept["on Spark"]) == sorted(expected_of_file(source.read_bytes(), reference).alerts)
        assert "failures: 2,000 in, 520 out" in said["on Spark"]
        assert "store: 13 stored, 0 known already" in said["on Spark"]


def ran(folder: Path, example: str, source: Path, options: tuple[str, ...]) -> str:
    """What a run in this folder has said at its end."""
    folder.mkdir()
    settings = ("--set", f"path={source}", "--set", "store=store.db", "--state-dir", "state")
    done = kedge("run", str(EXAMPLES / example), *options, *settings, cwd=folder, timeout_s=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_and_keys(store: Path, table: str) -> list[Any]:
    with closing(sqlite3.connect(store)) as database:
        return sorted(database.execute(f"SELECT * FROM {table}"))
