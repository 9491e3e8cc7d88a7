"""Options of `kedge run` that a package brings for its companion, from an entry point to the companion's process."""

import os
from pathlib import Path

import pytest
from cli_kit import kedge, one_sentence, told

PACKAGE = """
import sys
from pathlib import Path
from topology.companions import Companion, Launch, Option

OPTIONS = (
    Option("--beside", "WHERE", "Where it is."),
    Option("--beside-conf", "KEY=VALUE", "What it is told.", pairs=True),
)


class Beside(Companion):
    name = "beside"

    def __init__(self):
        self.taken = {}

    def configure(self, name, value, called):
        self.taken[called] = value

    def launch(self, folder):
        Path("taken").write_text(repr(self.taken))
        return Launch((sys.executable, "-c", "print('ready')"), {})
"""
TOPOLOGY = """
from beside_package import Beside
from bolts import Print
from spouts import Items
from topology import Record, Topology


class One(Record):
    number: int


def topology(beside: bool = True) -> Topology:
    topology = Topology("t")
    topology.bolt("print", Print(), topology.spout("one", Items([One(1)])).shuffle())
    if beside:
        topology.companion(Beside())
    return topology
"""


@pytest.fixture
def site(tmp_path: Path) -> dict[str, str]:
    """An environment in which that package is installed, and the topology's folder."""
    info = tmp_path / "site" / "beside-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: beside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kedge.companions]\nbeside = beside_package:OPTIONS\n")
    (tmp_path / "site" / "beside_package.py").write_text(PACKAGE)
    (tmp_path / "t.py").write_text(TOPOLOGY)
    return {"PYTHONPATH": os.fspath(tmp_path / "site")}


def test_a_topology_without_the_companion_refuses_its_option_by_the_name_that_it_was_given_by(
    site: dict[str, str], tmp_path: Path
) -> None:
    result = kedge("run", "t.py", "--set", "beside=false", "--beside", "here", cwd=tmp_path, env=site)
    assert result.returncode == 2
    assert told(result.stderr).code == "K177"
    assert one_sentence(result) == "--beside is for topologies with the companion 'beside', and t has none"
    result = kedge("run", "t.py", "--set", "beside=false", cwd=tmp_path, env=site | {"KEDGE_BESIDE": "here"})
    assert "KEDGE_BESIDE is for topologies" in one_sentence(result)


def test_a_pair_without_an_equals_sign_is_refused(site: dict[str, str], tmp_path: Path) -> None:
    result = kedge("run", "t.py", "--beside-conf", "fast", cwd=tmp_path, env=site)
    assert result.returncode == 2
    assert one_sentence(result) == "--beside-conf takes key=value, not 'fast'"


def test_options_whose_package_can_not_be_imported_keep_no_topology_from_running(
    site: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "site" / "beside-1.0.dist-info" / "entry_points.txt").write_text("[kedge.companions]\nx = no_such:X\n")
    result = kedge("run", "t.py", "--set", "beside=false", cwd=tmp_path, env=site)
    assert result.returncode == 0, result.stderr
    assert "the options of 'x', no_such:X, can't be loaded: ModuleNotFoundError" in result.stderr


@pytest.mark.parametrize("workers", [(), ("--workers", 2)], ids=["here", "workers"])
def test_the_companion_has_what_was_given_before_it_is_launched(
    site: dict[str, str], tmp_path: Path, workers: tuple[object, ...]
) -> None:
    given = ("--beside", "here", "--beside-conf", "a=1", "--beside-conf", "b=x=y")
    result = kedge("run", "t.py", *given, *workers, cwd=tmp_path, env=site)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "taken").read_text() == repr({"--beside": "here", "--beside-conf": {"a": "1", "b": "x=y"}})
    variables = {"KEDGE_BESIDE": "there", "KEDGE_BESIDE_CONF": "a=1"}
    result = kedge("run", "t.py", "--beside", "here", *workers, cwd=tmp_path, env=site | variables)
    assert (tmp_path / "taken").read_text() == repr({"--beside": "here", "KEDGE_BESIDE_CONF": {"a": "1"}})


def test_help_shows_them_among_the_options_of_run_alone(site: dict[str, str], tmp_path: Path) -> None:
    shown = kedge("run", "--help", cwd=tmp_path, env=site).stdout
    assert "--beside WHERE" in shown
    assert "[KEDGE_BESIDE_CONF]" in shown
    assert shown.index("--links") < shown.index("--beside") < shown.index("--json")
    assert "--beside" not in kedge("check", "--help", cwd=tmp_path, env=site).stdout
