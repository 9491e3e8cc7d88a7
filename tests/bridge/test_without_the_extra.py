"""Without `kedge-streams[spark]`, who asks for something of `bridge` is told in a sentence which extra has it: in a
process of a user's, where nothing of that is installed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

KEDGE = str(Path(sys.executable).with_name("kedge"))
HIDDEN = "import sys\nfor name in ('numpy', 'pandas', 'pyarrow', 'pyspark'):\n    sys.modules[name] = None\n"
ADVICE = re.compile(
    r"next: \S+/python[\d.]* -m pip install 'kedge-streams\[spark\]'   \(K377: `kedge explain K377`\)\n"
)
AT_THE_TOP = "from bridge import windowed\n"
WITHIN = """
from topology import Topology


def topology() -> Topology:
    from bridge import Table
    return Topology("never")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(HIDDEN)
    return tmp_path


def ran(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(folder / "hidden"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("source", "name"), [(AT_THE_TOP, "windowed"), (WITHIN, "Table")], ids=["at the top", "in the function"]
)
def test_a_topology_that_imports_from_bridge_is_told_which_extra_has_it(folder: Path, source: str, name: str) -> None:
    (folder / "one.py").write_text(source)
    result = ran(folder, KEDGE, "check", "one.py")
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert f"kedge: bridge.{name} needs Spark, which can't be imported: " in result.stderr
    assert ADVICE.search(result.stderr)


def test_a_program_of_the_users_ends_in_the_same_words(folder: Path) -> None:
    (folder / "own.py").write_text(AT_THE_TOP)
    result = ran(folder, sys.executable, "own.py")
    assert result.returncode == 1
    assert "topology.errors.ConfigurationError: bridge.windowed needs Spark, which can't be imported: " in result.stderr
    assert ADVICE.fullmatch(result.stderr.splitlines(keepends=True)[-1].lstrip())
    assert result.stderr.count("Traceback") == 1


def test_what_is_no_name_of_bridge_s_is_no_matter_of_an_extra(folder: Path) -> None:
    (folder / "own.py").write_text("from bridge import windows_of\n")
    assert "ImportError: cannot import name 'windows_of'" in ran(folder, sys.executable, "own.py").stderr
