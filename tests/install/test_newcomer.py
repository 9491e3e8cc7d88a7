"""The first ten minutes of somebody who has the wheel and nothing else, line by line as they would type them."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from install_kit import PATIENCE_S, ROOT, Stranger, done, ran
from test_wheel import told

COMMAND = re.compile(r"`((?:kedge|pip|pytest)\b[^`]*)`")  # in the project's README

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # the first test builds and installs


@pytest.fixture(scope="session")
def made(newcomer: Stranger) -> Path:
    """What `kedge new` has made. Not to be changed."""
    result = newcomer.types("kedge new 'first alerts'")
    assert result.returncode == 0, result.stderr
    assert "  cd 'first alerts'\n  kedge run alerts.py\n  pip install pytest && pytest" in result.stdout
    return newcomer.home / "first alerts"


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "project"))


@pytest.fixture(scope="session")
def tester(newcomer: Stranger) -> Stranger:
    """Has installed pytest besides."""
    result = newcomer.types("pip install --quiet pytest")
    assert result.returncode == 0, result.stderr
    return newcomer


@pytest.mark.parametrize("command", ["kedge", "python -m kedge"])
def test_the_command_is_there_and_tells_its_version(newcomer: Stranger, wheel: Path, command: str) -> None:
    result = newcomer.types(f"{command} --version")
    assert (result.returncode, result.stderr) == (0, "")
    version = re.search(r"^Version: (.+)$", told(wheel, "METADATA"), re.MULTILINE)
    assert version
    assert result.stdout.startswith(f"kedge {version[1]} ")


def test_every_command_has_its_help(newcomer: Stranger) -> None:
    for command in ("demo", "new", "run", "check", "graph"):
        result = newcomer.types(f"kedge {command} --help")
        assert result.returncode == 0, result.stderr
        assert f"Usage: kedge {command} " in result.stdout


def test_the_demo_finds_the_attacks_and_leaves_nothing_behind(newcomer: Stranger) -> None:
    result = newcomer.types("kedge demo --rate 10000")
    assert result.returncode == 0, result.stderr
    assert "Ctrl-C ends it sooner" in result.stderr
    assert "store: 24 stored, 0 known already" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("try next: kedge new my-alerts ")
    assert list(newcomer.tmp.glob("kedge*")) == []


def test_a_worker_of_the_demo_that_is_killed_as_it_advises_comes_back_and_nothing_is_lost(newcomer: Stranger) -> None:
    """The hint's own command is run. What counts in the dead worker's memory begins anew, so alerts may be fewer."""
    stderr = newcomer.home / "stderr.txt"
    with stderr.open("wb") as file:
        line = "exec kedge demo --rate 4000 --keep killed > stdout.txt"
        run = subprocess.Popen(["/bin/sh", "-c", line], cwd=newcomer.home, env=newcomer.env, stderr=file)
        try:
            until(lambda: "try: kill -9 " in stderr.read_text() or run.poll() is not None)
            hint = re.search(r"try: (kill -9 \d+)   \(worker 1\)", stderr.read_text())
            assert hint, stderr.read_text()
            assert newcomer.types(hint[1]).returncode == 0
            assert run.wait(PATIENCE_S) == 0, stderr.read_text()
        finally:
            if run.poll() is None:
                run.send_signal(signal.SIGTERM)
            run.wait(PATIENCE_S)
    summary = (newcomer.home / "stdout.txt").read_text()
    assert re.search(r"workers +2, restarted once", summary), summary
    assert re.search(r"lines +20,000\b.* 20,000 ", summary), summary
    store = sqlite3.connect(newcomer.home / "killed/alerts.db")
    try:
        (rows,) = store.execute("SELECT COUNT(*) FROM brute_force").fetchone()
        (different,) = store.execute(
            "SELECT COUNT(*) FROM (SELECT DISTINCT source_ip, last_at FROM brute_force)"
        ).fetchone()
    finally:
        store.close()
    assert 20 <= rows == different <= 24


def test_the_projects_readme_has_ten_lines_and_its_commands_work_word_for_word_in_order(
    newcomer: Stranger, project: Path
) -> None:
    readme = (project / "README.md").read_text()
    assert readme.count("\n") == 10
    commands = COMMAND.findall(readme)
    assert [command.split()[0] for command in commands] == ["kedge", "kedge", "kedge", "pip", "pytest"]
    said = []
    for command in commands:
        result = newcomer.types(command, cwd=project)
        assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
        said.append(result.stdout)
    first, on_two, graph, _, tests = said
    assert "store: 2 stored, 0 known already" in first
    assert re.search(r"2026-03-01T12:06:00Z +oven +86\.0\n", first)
    assert re.search(r"2026-03-01T12:12:00Z +boiler +92\.5\n", first)
    assert "store: 0 stored, 2 known already" in on_two
    assert all(name in graph for name in ("lines", "readings", "alerts", "store", "fields sensor"))
    assert " passed in " in tests


def test_the_projects_tests_take_milliseconds(tester: Stranger, project: Path) -> None:
    result = tester.types("pytest --durations=0 --durations-min=0.0 -vv", cwd=project)
    assert result.returncode == 0, result.stdout
    times = [float(seconds) for seconds in re.findall(r"^([\d.]+)s call ", result.stdout, re.MULTILINE)]
    assert len(times) >= 4
    assert sorted(times)[len(times) // 2] < 0.1, result.stdout  # a busy machine may hold up some


def test_one_line_that_is_edited_changes_what_a_run_finds_and_the_test_says_what_it_breaks(
    tester: Stranger, project: Path
) -> None:
    file = project / "alerts.py"
    text = file.read_text()
    assert text.count("80.0") == 1
    file.write_text(text.replace("80.0", "90.0"))
    run = tester.types("kedge run alerts.py", cwd=project)
    assert run.returncode == 0, run.stderr
    assert "store: 1 stored, 0 known already" in run.stdout
    assert "oven" not in run.stdout
    tests = tester.types("pytest", cwd=project)
    assert tests.returncode == 1
    failed = re.findall(r"^FAILED (\S+)", tests.stdout, re.MULTILINE)
    assert failed[0] == "test_alerts.py::test_the_third_reading_in_a_row_above_the_limit_alerts_once"
    assert "assert [] == [TooHot(" in tests.stdout


def test_the_project_runs_from_another_folder_too(newcomer: Stranger, project: Path) -> None:
    result = newcomer.types(f"kedge run {project.name}/alerts.py", cwd=project.parent)
    assert result.returncode == 0, result.stderr
    assert "store: 2 stored, 0 known already" in result.stdout


def test_the_projects_picture_is_drawn_without_a_network_or_another_program(newcomer: Stranger, project: Path) -> None:
    result = newcomer.types("kedge graph alerts.py --output alerts.svg", cwd=project)
    assert result.returncode == 0, result.stderr
    picture = (project / "alerts.svg").read_text()
    assert picture.lstrip().startswith(("<?xml", "<svg"))
    assert "alerts" in picture


def test_a_line_that_is_no_reading_is_told_and_nothing_else_is_lost(newcomer: Stranger, project: Path) -> None:
    with (project / "readings.csv").open("a") as file:
        file.write("nonsense\n")
    result = newcomer.types("kedge run alerts.py", cwd=project)
    assert result.returncode == 1
    assert "not a reading: 'nonsense'" in result.stderr
    assert "store: 2 stored" in result.stdout


def test_what_was_made_is_clean_under_the_checkers_that_check_ourselves(newcomer: Stranger, project: Path) -> None:
    """mypy with the project's own settings, which say strict; imports are those of the installed wheel."""
    here, python = Path(sys.executable).parent, newcomer.environment / "bin/python"
    style = ("--no-cache", "--config", ROOT / "pyproject.toml")
    imports = ("--config", "lint.isort.known-third-party=['kedge', 'topology']")
    done(here / "ruff", "check", *style, *imports, ".", cwd=project)
    done(here / "ruff", "format", "--check", *style, ".", cwd=project)
    done(here / "mypy", "--python-executable", python, ".", cwd=project)
    result = ran(here / "pyright", "--pythonpath", python, ".", cwd=project, env=dict(os.environ))
    assert result.returncode == 0, result.stdout


def test_pip_installs_from_a_copy_of_the_source_that_has_no_git(
    newcomer: Stranger, source: Path, tmp_path: Path
) -> None:
    pip = newcomer.environment / "bin/pip"
    assert not (source / ".git").exists()
    done(pip, "install", "--quiet", "--no-deps", "--target", tmp_path / "to", ".", cwd=source, env=newcomer.env)
    env = {**newcomer.env, "PYTHONPATH": str(tmp_path / "to")}
    where = done(
        newcomer.environment / "bin/python", "-c", "import kedge; print(kedge.__file__)", cwd=tmp_path, env=env
    )
    assert Path(where.strip()) == tmp_path / "to/kedge.py"


def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds, or for a time in which it always should."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
