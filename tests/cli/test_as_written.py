"""The first commands just as README and help have them: nothing is set besides, and nothing is there yet."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_kit import environment, kedge, told

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_run_alone_reads_at_the_rate_that_its_help_tells(tmp_path: Path) -> None:
    env = {name: value for name, value in environment().items() if name != "RATE"}
    venv = sys.prefix

    def make(*words: str) -> "subprocess.CompletedProcess[str]":
        line = ["make", "-o", f"{venv}/.installed", f"VENV={venv}", f"RUNS={tmp_path}", *words]
        return subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, timeout=100, check=False)

    assert "at RATE=1200 lines a second" in make("help").stdout
    result = make("run", "ARGS=--for 0.5")
    assert result.returncode == 0, result.stderr
    assert " --set rate=1200 " in result.stderr.splitlines()[0]


def test_a_topology_that_is_saved_in_the_clone_is_told_where_to_go(folder: Path) -> None:
    for package in ("acker", "topology/cli"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    (folder / "topology" / "cli" / "hidden.py").touch()
    (folder / "kedge.py").touch()
    said = told(kedge("check", "counting.py", cwd=folder).stderr)
    assert said.code == "K130"
    assert said.next.startswith("keep the topology in a folder outside of that clone of Kedge")
