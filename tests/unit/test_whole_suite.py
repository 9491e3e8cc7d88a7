"""`make test` runs each file of tests, once: it names them, so as to begin with those that take longest."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from topology.core.choice import INPUTS

ROOT = Path(__file__).parents[2]
PATHS = re.compile(r"tests/\S+")


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_test_runs_each_file_of_tests_in_one_of_its_parts() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "JOBS"))}
    told = subprocess.run(
        ["make", "--no-print-directory", "-n", "test"], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    named = [ROOT / path for path in PATHS.findall(told.stdout)]
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    assert len(files) > 100
    parts = {str(file.relative_to(ROOT)): sum(one == file or one in file.parents for one in named) for file in files}
    assert {path: count for path, count in parts.items() if count != 1} == {}


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_test_all_runs_each_file_that_has_slow_tests() -> None:
    told = subprocess.run(
        ["make", "--no-print-directory", "-n", "test-all"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    plain, _, rest = told.stdout.partition("-m slow")  # first come those that are not slow, on the Python core
    assert "KEDGE_CORE=python" in plain
    named = set(PATHS.findall(rest))
    slow = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if "pytest.mark.slow" in path.read_text("utf-8") and path != Path(__file__)
    }
    assert slow == named


def test_make_builds_the_compiled_core_again_for_the_files_that_make_it_stale() -> None:
    told = subprocess.run(["make", "-pnq", "help"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    (line,) = [line for line in told.splitlines() if line.startswith("CORE := ")]
    named = line.removeprefix("CORE := ").replace("$(wildcard", "").replace(")", "").split()
    files = {path for pattern in named for path in ROOT.glob(pattern)}
    assert files == {path for pattern in INPUTS for path in ROOT.glob(pattern)}
