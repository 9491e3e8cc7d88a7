"""`run_processes`: a topology on real workers, killed by SIGKILL; nothing of it is left, whatever happens."""

import contextlib
import os
import sys
from pathlib import Path

import pytest

from topology import ConfigurationError
from topology.testing import Crash, CrashMissed, ProcessReport, RunProcesses, run_processes

WORDS = Path(__file__).with_name("words.py")
WITHIN_S = 100.0  # on a loaded machine


def stored(path: Path) -> list[int]:
    """The numbers in the store, as they came."""
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_worker_costs_a_restart_and_no_number(run_processes: RunProcesses, tmp_path: Path) -> None:
    path = tmp_path / "stored"
    report = run_processes(
        WORDS,
        set={"path": path, "count": 1_500},
        crashes=[Crash(1)],
        when=lambda: len(stored(path)) >= 50,
        within_s=WITHIN_S,
    )
    assert (report.exit_status, report.ended, report.restarts) == (0, "ended", 1), report
    assert set(stored(path)) == set(range(1_500))
    assert report.snapshot.total("acked") == 1_500
    assert "worker 1 (pid" in report.told[0]
    assert "was killed by SIGKILL" in report.told[0]
    assert "the store is open" in report.output
    assert (tmp_path / "kedge-state" / "state.json").exists(), "the fixture keeps state beside the test's own files"
    assert not any(map(lives, report.killed))


@pytest.mark.slow
def test_the_worker_of_a_component_is_killed_once_so_many_messages_are_acked(tmp_path: Path) -> None:
    path = tmp_path / "stored"
    report = run_processes(
        WORDS, set={"path": path, "count": 1_500}, crashes=[Crash("stored", acked=100)], within_s=WITHIN_S
    )
    assert (report.exit_status, report.restarts, len(report.killed)) == (0, 1, 1)
    assert set(stored(path)) == set(range(1_500))
    assert report.output.count("the store is open") == 2, "it was that worker which died"


def test_a_run_that_takes_too_long_is_ended_and_says_what_was_in_flight(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match=r"not done within 1.5 s; .*messages are pending"):
        run_processes(WORDS, set={"path": tmp_path / "stored"}, within_s=1.5)
    assert children() == []


def test_what_the_caller_raises_ends_the_run(tmp_path: Path) -> None:
    def raises() -> bool:
        raise AssertionError("as the test says")

    with pytest.raises(AssertionError, match="as the test says"):
        run_processes(WORDS, set={"path": tmp_path / "stored"}, crashes=[Crash(0)], when=raises, within_s=WITHIN_S)
    assert children() == []


def test_a_run_that_is_over_before_its_crash_fails_the_test(tmp_path: Path) -> None:
    with pytest.raises(CrashMissed, match="let it come earlier"):
        run_processes(WORDS, set={"path": tmp_path / "stored", "count": 10}, crashes=[Crash(1, at_s=500)])


def test_what_can_not_run_is_refused_as_the_command_does_and_leaves_the_import_path_alone(tmp_path: Path) -> None:
    before, modules = [*sys.path], {*sys.modules}
    with pytest.raises(ConfigurationError, match="there is no file"):
        run_processes(tmp_path / "nothing.py")
    with pytest.raises(ConfigurationError, match="needs a value for 'path'"):
        run_processes(WORDS)
    with pytest.raises(ConfigurationError, match="there is no setting 'tree_timeout'"):
        run_processes(WORDS, set={"path": "x"}, config={"tree_timeout": 1})
    with pytest.raises(ValueError, match=r"the plan has workers \[0, 1\] for numbers, same, stored"):
        run_processes(WORDS, set={"path": "x"}, crashes=[Crash(7)])
    assert sys.path == before
    assert not {name for name in {*sys.modules} - modules if name.endswith("words")}


def test_its_report_is_a_report_and_more(tmp_path: Path) -> None:
    report = run_processes(WORDS, set={"path": tmp_path / "stored", "count": 10}, within_s=WITHIN_S)
    assert isinstance(report, ProcessReport)
    assert report.snapshot.as_json()["spouts"]["numbers"]["acked"] == 10
    assert (report.restarts, report.killed) == (0, [])


def children() -> list[int]:
    """The processes that this one has started and that live."""
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):  # a thread that has ended meanwhile
            found += map(int, task.read_text().split())
    return [pid for pid in found if "spawning" in Path(f"/proc/{pid}/cmdline").read_text()]
