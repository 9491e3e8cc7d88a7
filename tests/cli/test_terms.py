"""On what terms a run takes over what earlier ones have left: resuming, --fresh, --run-id, and the two --accept-…."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from cli_kit import kedge, kedge_here, one_sentence, started, told
from dead_kit import BAD

from topology.cli.run_session import again


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `used` is a copy of."""
    folder = tmp_path_factory.mktemp("left")
    (folder / "bad.py").write_text(BAD)
    assert kedge("run", "bad.py", cwd=folder).returncode == 0
    return folder


@pytest.fixture
def used(left: Path, tmp_path: Path) -> Path:
    """A folder in which a run has read 100 numbers and ended."""
    return shutil.copytree(left, tmp_path / "used")


def rows(folder: Path) -> int:
    with sqlite3.connect(folder / "out.db") as database:
        (count,) = database.execute("SELECT count(*) FROM number").fetchone()
    database.close()
    return int(count)


def killed(folder: Path) -> None:
    """A run is killed in the middle."""
    with started("run", "bad.py", "--set", "count=1000000", "--set", "pause_s=0.05", cwd=folder) as run:
        run.until_said("records/s")
        run.process.kill()


@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_a_second_run_resumes_and_says_where_and_that_there_was_nothing_new(
    used: Path, workers: tuple[str, ...]
) -> None:
    result = kedge("run", "bad.py", *workers, cwd=used)
    assert result.returncode == 0
    assert "\nresuming at 'numbers' 99\n" in result.stderr
    assert "\nno new input since the last run\n" in result.stderr
    result = kedge("run", "bad.py", "--set", "count=150", *workers, cwd=used)
    assert "nothing new" not in result.stderr
    assert rows(used) == 150


def test_fresh_reads_all_again_and_sinks_drop_what_they_hold(used: Path) -> None:
    result = kedge("run", "bad.py", "--fresh", cwd=used)
    assert "--fresh: positions and state are forgotten, and everything is read again" in result.stderr
    assert "0 stored, 100 known already" in result.stdout
    assert rows(used) == 100


def test_a_new_run_id_has_all_stored_again_and_is_kept(used: Path) -> None:
    result = kedge("run", "bad.py", "--run-id", "new", cwd=used)
    assert "from now on: everything is read, processed and stored again" in result.stderr
    assert rows(used) == 200
    result = kedge("run", "bad.py", "--fresh", "--workers", "2", cwd=used)
    assert "as an earlier run chose" in result.stderr
    assert rows(used) == 200
    for _ in range(2):  # the second time the id is the one that is kept
        assert kedge("run", "bad.py", "--run-id", "b", cwd=used).returncode == 0
    assert rows(used) == 300


@pytest.mark.parametrize("run_id", ["", "a/b", "x" * 65, "é"])
def test_a_run_id_is_a_name(used: Path, run_id: str) -> None:
    result = kedge_here("run", "bad.py", "--run-id", run_id, cwd=used)
    assert result.returncode == 2
    assert told(result.stderr).code == "K174"


def test_a_changed_topology_follows_a_run_that_was_done_with_all(used: Path) -> None:
    """B11, F53: what is in flight would be stored twice, and after such a run nothing is."""
    result = kedge("run", "bad.py", "--set", "name=parse", cwd=used)
    assert result.returncode == 0
    assert "which had done all that it read: bolt 'check' is gone; " in result.stderr


@pytest.mark.slow
def test_a_changed_topology_is_refused_after_one_that_was_killed_until_that_is_accepted(used: Path) -> None:
    """B11, F53."""
    killed(used)
    refused = kedge("run", "bad.py", "--set", "name=parse", cwd=used)
    assert refused.returncode == 3
    assert "bolt 'check' is gone" in one_sentence(refused)
    assert told(refused.stderr).code == "K440"
    result = kedge("run", "bad.py", cwd=used)  # the old one goes on, and ends
    assert "; the last run was interrupted, so its messages in flight are re-read" in result.stderr
    killed(used)
    result = kedge("run", "bad.py", "--set", "name=parse", "--accept-duplicates", cwd=used)
    assert result.returncode == 0
    assert "may be stored twice (--accept-duplicates): bolt 'check' is gone" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_after_stop_drain_a_changed_topology_may_follow(used: Path, workers: tuple[str, ...]) -> None:
    with started("run", "bad.py", "--set", "count=1000000", "--set", "pause_s=0.05", *workers, cwd=used) as run:
        run.until_said("records/s")
        assert kedge_here("stop", "--drain", cwd=used).returncode == 0
        assert run.ended() == 0
    assert kedge("run", "bad.py", "--set", "name=parse", *workers, cwd=used).returncode == 0


@pytest.mark.slow
def test_a_file_that_is_missing_is_refused_until_that_is_accepted(used: Path) -> None:
    """D12, F23."""
    (used / ".kedge" / "bad" / "worker-0.db").unlink()
    refused = kedge("run", "bad.py", cwd=used)
    assert refused.returncode == 3
    assert "worker-0.db" in one_sentence(refused)
    assert "--accept-loss" in told(refused.stderr).next
    result = kedge("run", "bad.py", "--accept-loss", cwd=used)
    assert result.returncode == 0
    assert "worker-0.db" in result.stderr
    assert "0 stored, 100 known already" in result.stdout  # read from the beginning, and dropped by the sink
    again_ = kedge("run", "bad.py", "--accept-loss", cwd=used)
    assert "--accept-loss: no file is missing or behind" in again_.stderr


def test_what_is_meant_for_one_run_is_not_in_the_command_to_try_next() -> None:
    once = ["--fresh", "--run-id", "new", "--accept-loss", "--accept-duplicates", "--run-id=new"]
    assert again(["kedge", "run", "a.py", *once, "--workers", "2"]).endswith(" run a.py --workers 2")
    assert again(["kedge", "run", "a.py", "--run-id", "b"]).endswith(" run a.py --run-id b")
