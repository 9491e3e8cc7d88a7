"""The hand-over in runs of real workers that are killed: each record is there once, and what is over and read goes."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from handover_kit import input_folder, numbers_stored, segments_of, task_folders

from bridge.files.segments import Segments
from topology.testing import Crash, RunProcesses

TOPOLOGY = Path(__file__).with_name("handover_topology.py")
WITHIN_S = 100.0  # on a loaded machine
KEDGE = str(Path(sys.executable).with_name("kedge"))


def test_each_record_is_there_once_and_its_end_is_said_though_both_workers_are_killed_F1(
    run_processes: RunProcesses, tmp_path: Path
) -> None:
    folder = tmp_path / "state" / "kept"
    report = run_processes(
        TOPOLOGY,
        crashes=[Crash(1), Crash(0)],
        when=lambda: len(segments_of(folder)) >= 10,
        state_dir=tmp_path / "state",
        within_s=WITHIN_S,
    )
    assert (report.exit_status, len(report.killed)) == (0, 2), report
    assert sorted(numbers_stored(folder)) == list(range(3_000))
    assert (input_folder(folder) / "tasks").read_text() == "3"
    logs = [Segments(task) for task in task_folders(folder)]
    assert len(logs) == 3
    assert all(log.has_ended(log.following(min(log.numbers(), default=0))) for log in logs)


def test_what_is_over_and_read_goes_while_the_run_is_under_way_and_a_killed_worker_doubles_nothing_D4(
    run_processes: RunProcesses, tmp_path: Path
) -> None:
    folder, seen, numbers = tmp_path / "state" / "kept", dict[Path, int](), list[int]()

    def read() -> bool:
        """A reader: looks at all that is new, and says that it has."""
        for task in task_folders(folder):
            log, at = Segments(task), seen.get(task, 0)
            while log.has(at):
                numbers.extend(log.read(at).column("number").to_pylist())
                at += 1
            seen[task] = at
            (task / "done").write_text(str(at))
        return len(numbers) >= 2_000 and sum(seen.values()) > len(segments_of(folder))

    report = run_processes(
        TOPOLOGY,
        set={"count": 12_000},  # so many that the run does not end before the second kill
        crashes=[Crash(1), Crash(0)],
        when=read,
        state_dir=tmp_path / "state",
        within_s=WITHIN_S,
    )
    assert (report.exit_status, len(report.killed)) == (0, 2)
    read()
    assert sorted(numbers) == list(range(12_000))


def test_a_folder_that_has_gone_between_two_runs_is_told_by_the_second_and_begun_anew_with_fresh(
    tmp_path: Path,
) -> None:
    """One of a task, and then all of them. The note is not in the folder; with --fresh both go."""
    kept = tmp_path / "state" / "kept"

    def ran(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [KEDGE, "run", str(TOPOLOGY), "--state-dir", str(tmp_path / "state"), "--set", "count=60"]
        return subprocess.run([*command, *words], capture_output=True, text=True, timeout=WITHIN_S, check=False)

    def is_refused(task: str, *words: str) -> None:
        second = ran(*words)
        assert second.returncode in (2, 3), second.stderr
        assert re.search(rf"{input_folder(kept)}/{task} is missing, but query 'q' has already used it", second.stderr)
        assert "K456" in second.stderr
        assert "Traceback" not in second.stderr

    first = ran("--workers", "2")
    assert first.returncode == 0, first.stderr
    shutil.rmtree(kept / "spark/q/stream/items/1")
    is_refused("1", "--workers", "2")
    shutil.rmtree(kept)
    is_refused("[012]")
    third = ran("--fresh")
    assert third.returncode == 0, third.stderr
    assert sorted(numbers_stored(kept)) == [*range(60)]
