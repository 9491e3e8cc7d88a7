"""What a determined user did to `kedge run`, and what it says to that."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = """
from collections.abc import Iterator
from spouts import FileTail, Items, Line
from topology import Bolt, Record, Topology
class N(Record):
    n: int
class Null(Bolt):
    def process(self, n: N) -> None:
        return None
topology = Topology("t")
topology.bolt("null", Null(), topology.spout("items", Items([N(1), N(2)])).shuffle())
"""


def kedge(folder: Path, source: str, *options: str, command: str = "run") -> subprocess.CompletedProcess[str]:
    (folder / "m.py").write_text(source)
    words = [sys.executable, "-m", "kedge", command, "m.py", *options]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_when_the_run_is_over_does_not_change_its_exit_status_F55(tmp_path: Path, name: str) -> None:
    late = f"import atexit, os, signal\natexit.register(lambda: os.kill(os.getpid(), signal.{name}))\n"
    ran = kedge(tmp_path, late + GOOD)
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"^ +items +2 +2 +0 +0 +0 ", ran.stdout, re.M), ran.stdout


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_before_there_is_a_run_is_one_sentence_F55(tmp_path: Path, name: str) -> None:
    ran = kedge(tmp_path, f"import os, signal\nos.kill(os.getpid(), signal.{name})\n" + GOOD)
    assert ran.returncode == 1
    assert "interrupted before anything ran" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_sources_own_warnings_leave_stdout_to_the_json_line(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x" * 3_000_000 + b"\n")
    source = GOOD.replace("Items([N(1), N(2)])", 'FileTail("a.log")').replace("n: N) -> None", "n: Line) -> None")
    ran = kedge(tmp_path, source, "--json")
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 1
    assert json.loads(ran.stdout)["spouts"]["items"]["acked"] == 3
    assert "such lines come in pieces" in ran.stderr


@pytest.mark.parametrize("make", ["file", "below-a-file"])
def test_a_state_directory_that_can_not_be_made_is_one_sentence_without_frames_of_the_library(
    tmp_path: Path, make: str
) -> None:
    (tmp_path / "file").write_text("")
    ran = kedge(tmp_path, GOOD, "--state-dir", "file" if make == "file" else "file/state")
    assert ran.returncode == 3
    assert "Traceback" not in ran.stderr
    assert "can't be used" in ran.stderr or "not a directory" in ran.stderr


@pytest.mark.parametrize("state_dir", ["", "."])
def test_the_current_directory_is_refused_as_a_state_directory(tmp_path: Path, state_dir: str) -> None:
    ran = kedge(tmp_path, GOOD, "--state-dir", state_dir)
    assert ran.returncode == 2
    assert "a directory of its own" in ran.stderr
    assert not (tmp_path / "lock").exists()


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_bolt_that_can_not_be_copied_is_a_mistake_with_its_line(tmp_path: Path, command: str) -> None:
    source = "import threading\n" + GOOD.replace(
        "class Null(Bolt):", "class Null(Bolt):\n    def __init__(self) -> None:\n        self.lock = threading.Lock()"
    )
    ran = kedge(tmp_path, source, command=command)
    assert ran.returncode == 2
    assert "its attribute 'lock' can't be copied for each task" in ran.stderr
    assert "m.py:" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_list_of_too_many_records_is_refused_as_a_generators_are_and_without_our_frames(tmp_path: Path) -> None:
    source = GOOD.replace("-> None:\n        return None", "-> list[N]:\n        return [n] * 100_001")
    ran = kedge(tmp_path, source, "--config", "max_replays=0")
    assert ran.returncode == 1
    assert "more than 100000 records for one input" in ran.stderr
    assert "Traceback" not in ran.stderr
