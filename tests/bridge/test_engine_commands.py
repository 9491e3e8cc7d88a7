"""What commands say of a topology on Spark: that all of it can run there, and what a dead letter of it is good for."""

import subprocess
from pathlib import Path

import pytest
from runs_kit import KEDGE

TOPOLOGY = Path(__file__).with_name("engine_topology.py")
REJECTING = """
from bridge.engine.handover import Rejections
from bridge.engine.rows import Rejected
from spouts import Items
from topology import Topology


def topology() -> Topology:
    one = Topology("rejecting")
    told = one.spout("spark", Items([Rejected("deal", "Reject: an unlucky number", "Numbered(number=13)")]))
    one.bolt("rejected", Rejections(), told.shuffle())
    return one
"""


def kedge(*words: str, folder: Path, status: int = 0) -> str:
    ended = subprocess.run([KEDGE, *words], cwd=folder, capture_output=True, text=True, timeout=120)
    assert ended.returncode == status, ended.stderr
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("more", [[], ["--guarantees"]])
def test_check_ends_with_a_line_that_says_that_all_of_it_can_run_on_spark(tmp_path: Path, more: list[str]) -> None:
    said = kedge("check", str(TOPOLOGY), "--engine", "spark", "--set", "store=x.db", *more, folder=tmp_path)
    assert said.splitlines()[-1] == "on spark: the whole topology can run there; nothing was started"
    assert "on spark" not in kedge("check", str(TOPOLOGY), "--set", "store=x.db", *more, folder=tmp_path)
    assert not [*tmp_path.iterdir()]


def test_a_replay_of_what_was_rejected_on_spark_tells_the_same_as_the_catalogue_says(tmp_path: Path) -> None:
    (tmp_path / "rejecting.py").write_text(REJECTING)
    kedge("run", "rejecting.py", folder=tmp_path, status=1)
    first = kedge("dead", "show", "0-1", folder=tmp_path)
    kedge("dead", "replay", "--all", folder=tmp_path)
    kedge("run", "rejecting.py", folder=tmp_path, status=1)
    again = kedge("dead", "show", "0-1", folder=tmp_path)
    for letter in (first, again):
        assert "'deal' has rejected Numbered(number=13): Reject: an unlucky number" in letter
        assert "let the source give the message again" in letter
    explained = " ".join(kedge("explain", "K555", folder=tmp_path).split())
    assert "`kedge dead replay` only prints the same error again" in explained
