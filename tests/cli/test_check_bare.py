"""`kedge check` where there is next to nothing: no extras, and none of the secrets that a run needs."""

import re
import sys
from pathlib import Path

import pytest
from cli_kit import kedge, told

NEEDS = """
from kedge import Items, PostgresSink, Print, Record, Secret, Topology
class Order(Record):
    number: int
def topology(dsn: Secret) -> Topology:
    topology = Topology("orders")
    topology.bolt("store", PostgresSink(dsn), topology.spout("orders", Items([Order(1)])).shuffle())
    return topology
"""
INSIDE = """
from kedge import Topology
def topology() -> Topology:
    import pyspark
    return Topology("never")
"""
PIP = re.escape(sys.executable) + r" -m pip install 'kedge-streams\[{}\]'"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--set", "dsn=env:SHOP_DSN"), "--set dsn=…: env:SHOP_DSN does not exist; checked without it"),
        (("--set", "dsn=file:no/dsn"), "--set dsn=…: file:no/dsn does not exist; checked without it"),
        ((), "needs.py:topology: there is no value for 'dsn'; checked without it"),
    ],
)
def test_a_topology_is_checked_without_its_secret(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    (tmp_path / "needs.py").write_text(NEEDS)
    checked = kedge("check", "needs.py", *options, cwd=tmp_path)
    assert (checked.returncode, checked.stderr) == (0, f"{said}\n")
    assert "no mistakes" in checked.stdout


def test_a_run_needs_the_secret_that_a_check_does_without(tmp_path: Path) -> None:
    (tmp_path / "needs.py").write_text(NEEDS)
    ran = kedge("run", "needs.py", "--set", "dsn=env:SHOP_DSN", cwd=tmp_path)
    assert (ran.returncode, told(ran.stderr).code) == (2, "K350")
    ran = kedge("run", "needs.py", cwd=tmp_path)
    assert (ran.returncode, told(ran.stderr).code) == (2, "K127")


def test_a_topology_is_drawn_without_its_secret(tmp_path: Path) -> None:
    (tmp_path / "needs.py").write_text(NEEDS)
    drawn = kedge("graph", "needs.py", "--set", "dsn=env:SHOP_DSN", cwd=tmp_path)
    assert (drawn.returncode, drawn.stderr) == (0, "")


def test_a_check_names_the_extra_that_a_sink_needs_and_that_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "needs.py").write_text("import sys\nsys.modules['psycopg'] = None\n" + NEEDS)
    checked = kedge("check", "needs.py", cwd=tmp_path)
    assert checked.returncode == 0
    assert re.search(f"warning: 'store' needs psycopg, .*: {PIP.format('postgres')}", checked.stderr)
    assert checked.stdout.splitlines()[0].endswith("no mistakes, 1 warning")


def test_a_check_names_the_extra_that_a_function_imports(tmp_path: Path) -> None:
    (tmp_path / "inside.py").write_text("import sys\nsys.modules['pyspark'] = None\n" + INSIDE)
    checked = kedge("check", "inside.py", cwd=tmp_path)
    assert checked.returncode == 2
    found = told(checked.stderr)
    assert found.code == "K118"
    assert re.search(PIP.format("spark"), found.next)
