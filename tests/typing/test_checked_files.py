"""Type checkers refuse a bolt the wrong stream: the files beside this one, by mypy --strict and by pyright.

In `good_*.py` nothing may be refused, in `bad_*.py` each line marked `# E`, and no other. What types can't say is found
at declaration: field names, a class that is not emitted, a bolt without inputs, reading a sink.
"""

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from topology.checks.declaration import mistakes

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GOOD = sorted(HERE.glob("good_*.py"))
BAD = sorted(HERE.glob("bad_*.py"))
MARK = re.compile(r"# E$", re.MULTILINE)

Refused = dict[str, dict[int, str]]  # file name → line → the first thing said of it


def tool(name: str) -> str:
    """The checker that is installed beside this Python; skips where there is none."""
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        pytest.skip(f"{name} is not installed beside {sys.executable}; pip install -e '.[dev]'")
    return str(path)


def output(*command: str) -> str:
    """What a checker prints. It may refuse (status 1), and nothing else may go wrong with it."""
    env = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def by_mypy() -> Refused:
    refused: Refused = {}
    mypy = (tool("mypy"), "--strict", "--no-error-summary", "--python-executable", sys.executable)
    for line in output(*mypy, *map(str, [*GOOD, *BAD])).splitlines():
        if found := re.match(r"(.+?):(\d+): error: (.*)", line):
            refused.setdefault(Path(found[1]).name, {}).setdefault(int(found[2]), found[3])
    return refused


def by_pyright() -> Refused:
    refused: Refused = {}
    said = output(tool("pyright"), "--pythonpath", sys.executable, "--outputjson", *map(str, [*GOOD, *BAD]))
    for one in json.loads(said[said.index("{") :])["generalDiagnostics"]:
        if one["severity"] == "error":
            line = one["range"]["start"]["line"] + 1
            refused.setdefault(Path(one["file"]).name, {}).setdefault(line, one["message"])
    return refused


@pytest.mark.parametrize("check", [by_mypy, by_pyright])
def test_just_the_marked_lines_are_refused(check: Callable[[], Refused]) -> None:
    assert GOOD
    assert BAD
    refused = check()
    for path in [*GOOD, *BAD]:
        marked = {number for number, line in enumerate(path.read_text("utf-8").splitlines(), 1) if MARK.search(line)}
        assert bool(marked) == (path in BAD)
        said = refused.get(path.name, {})
        missed = sorted(marked - said.keys())
        too_many = {line: text for line, text in said.items() if line not in marked}
        assert (missed, too_many) == ([], {}), f"{path.name} by {check.__name__}"


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.name)
def test_what_type_checkers_let_pass_here_has_no_mistakes_either(path: Path) -> None:
    assert [str(mistake) for mistake in mistakes(runpy.run_path(str(path))["topology"])] == []
