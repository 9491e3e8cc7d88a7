"""Files of the user's that have the name of a package of ours, `topology.py` above all; and `from kedge import …`."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from cli_kit import PATIENCE_S, environment, kedge, told

import bolts
import kedge as whole
import spouts
import topology

OURS = ("acker", "bolts", "bridge", "spouts", "topology")
COUNTS = """
from kedge import Bolt, Items, JsonLinesSink, Record, Topology


class Number(Record):
    value: int


topology = Topology("numbers")
numbers = topology.spout("numbers", Items([Number(value) for value in range(5)]))
topology.bolt("kept", JsonLinesSink("kept.jsonl"), numbers.shuffle())
"""


def python(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, *words]
    env = environment()
    return subprocess.run(line, cwd=cwd, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_kedge_has_all_public_names_of_topology_spouts_and_bolts_and_they_are_the_same_things() -> None:
    every = {name: getattr(package, name) for package in (topology, spouts, bolts) for name in package.__all__}
    files = {name: module for name, module in whole._WHERE.items() if module not in OURS}
    assert not every.keys() & files.keys()
    every |= {name: getattr(import_module(module), name) for name, module in files.items()}
    assert sorted(every) == whole.__all__
    assert {name: getattr(whole, name) for name in whole.__all__} == every
    assert set(dir(whole)) >= {*every, "__version__", "main"}
    with pytest.raises(AttributeError, match="has no attribute 'Topolgy'"):
        _ = whole.Topolgy  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["--workers", "2"]])
@pytest.mark.parametrize("command", [(), (sys.executable, "-m", "kedge")])
def test_a_topology_in_a_file_called_topology_runs(
    tmp_path: Path, workers: list[str], command: tuple[str, ...]
) -> None:
    (tmp_path / "topology.py").write_text(COUNTS)
    result = kedge("run", "topology.py", *workers, cwd=tmp_path, **({"command": command} if command else {}))
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "kept.jsonl").read_text().count("\n") == 5


def test_files_and_folders_with_the_names_of_all_our_packages_do_not_disturb_a_topology_beside_them(
    tmp_path: Path,
) -> None:
    for name in OURS[::2]:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one was imported')")
    for name in OURS[1::2]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong one was imported')")
    (tmp_path / "counted.py").write_text(COUNTS)
    result = kedge("run", "counted.py", "--workers", "2", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (tmp_path / "script.py").write_text("from counted_too import topology\nprint(topology.run())\n")
    (tmp_path / "counted.py").rename(tmp_path / "counted_too.py")
    result = python("script.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "wanting",
    ["from bolts import Mine", "import bolts.mine", "import bolts\nbolts.Mine()", "from bolts.mine import Mine"],
)
@pytest.mark.parametrize("within", [False, True])
def test_who_imports_a_file_of_theirs_that_has_the_name_of_ours_is_told_which_to_rename(
    tmp_path: Path, wanting: str, within: bool
) -> None:
    (tmp_path / "bolts").mkdir()
    (tmp_path / "bolts/__init__.py").write_text("class Mine: ...")
    (tmp_path / "bolts/mine.py").write_text("class Mine: ...")
    indented = "\n".join(f"    {line}" for line in wanting.splitlines())
    text = f"def topology():\n{indented}\n" if within else f"{wanting}\n"
    (tmp_path / "counted.py").write_text(f"from kedge import Items\n{text}")
    result = kedge("check", "counted.py", cwd=tmp_path)
    said = told(result.stderr)
    assert (result.returncode, said.code) == (2, "K130")
    assert (
        f"'bolts' is one of Kedge's own packages, so {tmp_path / 'bolts'} can't be imported under that name"
        in said.sentence
    )
    assert said.next.startswith("rename your bolts")


def test_a_name_that_ours_does_not_have_is_told_as_before_where_nothing_of_the_users_is_called_so(
    tmp_path: Path,
) -> None:
    (tmp_path / "counted.py").write_text("from bolts import SqliteSnik\n")
    assert told(kedge("check", "counted.py", cwd=tmp_path).stderr).code == "K119"


def test_a_file_called_kedge_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "kedge.py").write_text(COUNTS)
    said = told(kedge("run", "kedge.py", cwd=tmp_path).stderr)
    assert said.code == "K130"
    assert said.sentence.startswith(f"{tmp_path / 'kedge.py'} hides Kedge's own package 'kedge'")


def test_a_module_of_the_users_that_was_imported_as_topology_before_kedge_is_named(tmp_path: Path) -> None:
    (tmp_path / "topology.py").write_text("")
    (tmp_path / "script.py").write_text("import topology\nfrom kedge import Bolt\n")
    result = python("script.py", cwd=tmp_path)
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: {tmp_path / 'topology.py'} has been imported as 'topology'"), result.stderr
    assert "rename your topology.py" in last


def test_folders_that_an_uninstalled_kedge_has_left_hide_nothing(tmp_path: Path) -> None:
    """As pytest leaves them: `topology/cli/__pycache__/main.cpython-311-pytest-8.4.0.pyc`, and no file beside it."""
    for folder in ("topology", "topology/cli", "bolts", "spouts"):
        (tmp_path / folder / "__pycache__").mkdir(parents=True)
        (tmp_path / folder / "__pycache__/__init__.cpython-311-pytest-8.4.0.pyc").touch()
    (tmp_path / "counted.py").write_text(COUNTS)
    result = kedge("run", "counted.py", "--workers", "2", cwd=tmp_path, command=(sys.executable, "-m", "kedge"))
    assert result.returncode == 0, result.stderr


def test_fixtures_of_pytest_take_ours_where_the_topology_is_in_a_file_called_topology(tmp_path: Path) -> None:
    (tmp_path / "topology.py").write_text(COUNTS)
    (tmp_path / "test_it.py").write_text(
        "from kedge import Bolt, Line\n\n\nclass Same(Bolt):\n    def process(self, line: Line) -> list[Line]:\n"
        "        return [line]\n\n\ndef test_it(run_bolt):\n"
        "    assert run_bolt(Same(), [Line('a')]).well().outputs == [Line('a')]\n"
    )
    result = python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert result.returncode == 0, result.stdout
