"""The folder of a comparison: nobody's is removed but that of a comparison that is gone, and its processes end with
it, however it went."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.compare import folder as folders
from bridge.compare.folder import ALIVE, PREFIX, ComparisonFolder, sweep
from topology.errors import StartError

WITHIN_S = 20.0
HOLDS = (
    "import sys, time; from bridge.compare.folder import ComparisonFolder; "
    "print(ComparisonFolder().path, flush=True); time.sleep(600)"
)
WAITS = (
    "import sys, time; from pathlib import Path; from bridge.compare.folder import end_with; "
    "end_with(Path(sys.argv[1])); print('waits', flush=True); time.sleep(600)"
)


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[str]"]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def start(started: list["subprocess.Popen[str]"], code: str, *arguments: str) -> tuple["subprocess.Popen[str]", str]:
    """A process, and its first line."""
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    started.append(process)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_it_is_this_users_alone_and_gone_once_it_is_closed(temporary: Path) -> None:
    made = ComparisonFolder()
    assert made.path.parent == temporary
    assert made.path.stat().st_mode & 0o777 == 0o700
    (made.path / "run-1").mkdir()
    (made.path / "run-1" / "arrived").write_bytes(b"x")
    made.close()
    made.close()
    assert not list(temporary.iterdir())


def test_a_comparison_that_was_killed_leaves_a_folder_that_the_next_one_removes(
    temporary: Path, started: list["subprocess.Popen[str]"]
) -> None:
    killed, path = start(started, HOLDS)
    living, other = start(started, HOLDS)
    (Path(path) / "script").mkdir()
    assert sweep() == 0, "both live"
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert sweep() == 1
    assert [str(one) for one in temporary.iterdir()] == [other]
    assert living.poll() is None


def test_what_is_no_folder_of_ours_stays(temporary: Path) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir(0o700)
    (elsewhere / ALIVE).touch()
    (temporary / f"{PREFIX}link").symlink_to(elsewhere)
    (temporary / f"{PREFIX}file").write_text("a report of somebody's")
    without = temporary / f"{PREFIX}without"
    without.mkdir(0o700)
    others = temporary / f"{PREFIX}others"
    others.mkdir(0o755)
    (others / ALIVE).touch()
    before = sorted(path.name for path in temporary.iterdir())
    assert sweep() == 0
    assert sorted(path.name for path in temporary.iterdir()) == before
    assert (elsewhere / ALIVE).exists()


def test_a_sweep_removes_a_bounded_number_and_the_next_one_goes_on(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "SWEPT_MAX", 2)
    for number in range(5):
        path = temporary / f"{PREFIX}{number}"
        path.mkdir(0o700)
        (path / ALIVE).touch()
    assert [sweep(), sweep(), sweep(), sweep()] == [2, 2, 1, 0]


def test_a_temporary_directory_that_can_not_be_written_is_one_sentence(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "gone"))
    with pytest.raises(StartError, match="the comparison could not create its files and processes: No such file"):
        ComparisonFolder()


def test_a_process_of_a_comparison_that_is_killed_ends_too(
    temporary: Path, started: list["subprocess.Popen[str]"]
) -> None:
    comparison, path = start(started, HOLDS)
    process, said = start(started, WAITS, path)
    assert said == "waits"
    assert process.poll() is None
    comparison.kill()
    assert process.wait(WITHIN_S) == -signal.SIGKILL


def test_a_process_that_begins_when_its_comparison_has_gone_ends_too(
    temporary: Path, started: list["subprocess.Popen[str]"]
) -> None:
    made = ComparisonFolder()
    path = made.path
    made.close()
    process, _ = start(started, WAITS, str(path))
    assert process.wait(WITHIN_S) == -signal.SIGKILL


def test_in_a_folder_that_is_none_of_a_comparisons_a_process_lives_on(
    temporary: Path, started: list["subprocess.Popen[str]"]
) -> None:
    process, said = start(started, WAITS, str(temporary))
    assert said == "waits"
    time.sleep(0.3)  # nothing is to happen, and nothing tells of that
    assert process.poll() is None


def test_two_that_begin_and_sweep_at_once_keep_their_own(temporary: Path) -> None:
    code = (
        "from bridge.compare.folder import ComparisonFolder, sweep\n"
        "for _ in range(200):\n    made = ComparisonFolder(); sweep()\n"
        "    assert made.path.joinpath('alive').exists(); made.close()"
    )
    several = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [one.wait(60) for one in several] == [0, 0, 0]
    assert not [name for name in os.listdir(temporary) if name.startswith(PREFIX)]
