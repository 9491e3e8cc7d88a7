"""The environments that `make peers` makes: what is told without a network, and that Ctrl-C leaves nothing behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it has no stubs
import pytest

from benchmarks.peers import __main__ as command
from benchmarks.peers import environments
from benchmarks.peers.catalogue import BASELINE, PEERS
from benchmarks.peers.environments import EnvironmentsError, python_of
from benchmarks.peers.inputs import WORKLOADS
from benchmarks.peers.rounds import OURS, Cell, Comparison

ROOT = Path(__file__).resolve().parents[2]
BY_NAME = {peer.name: peer for peer in PEERS}
LINES = 2_000
LIMIT_S = 60.0
GIVES_UP_S = 10.0  # by itself, pip waits 15 s for an answer, twice


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has pip alone, which takes six seconds of a core to make."""
    folder = tmp_path_factory.mktemp("bare") / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=LIMIT_S)
    return folder


@pytest.fixture
def copied(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments are copies of that one; whatever else is done to them is done."""
    run = environments._run

    def runs(command: Sequence[str], limit_s: float, needs: Sequence[str]) -> None:
        if command[1:3] == ["-m", "venv"]:
            shutil.copytree(bare, command[3], symlinks=True)
        else:
            run(command, limit_s, needs)

    monkeypatch.setattr(environments, "_run", runs)


@pytest.mark.slow
def test_an_environment_that_can_not_be_made_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentsError, match=r"installing no such needs! failed: "):
        python_of(tmp_path / "peer", ["no such needs!"])
    assert not (tmp_path / "peer/.made").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("copied")
def test_without_a_network_one_sentence_says_so_and_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_index(monkeypatch, "http://127.0.0.1:9/simple")  # where nobody listens
    monkeypatch.setattr(command, "PLACE", tmp_path)
    monkeypatch.setattr(sys, "argv", ["peers", "--json", "--rounds", "1", "--scale", "0.001"])
    assert command.main() == 1
    out, told = capsys.readouterr()
    assert out == ""
    first, *others = told.splitlines()
    assert first.startswith("installing msgspec")
    reason = "pip reaches no package index, but needs one once, to install the peers' packages (Connection refused)"
    assert others == [f"peers: {reason}"]


@pytest.mark.usefixtures("copied")
def test_without_a_network_peers_that_are_installed_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_index(monkeypatch, "http://127.0.0.1:9/simple")
    monkeypatch.setattr(command, "PLACE", tmp_path)
    there = BY_NAME[BASELINE]
    python = tmp_path / there.folder / "bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (tmp_path / there.folder / ".made").write_text(environments._stamp(there.needs))
    comparison = Comparison([Cell(WORKLOADS[0], peer, LINES) for peer in PEERS])
    pythons = command._environments(comparison, PEERS)
    assert set(pythons) == {BASELINE, *(name for name in BY_NAME if name.startswith(OURS))}
    assert [bool(cell.problem) for cell in comparison.cells] == [
        cell.peer.name not in pythons for cell in comparison.cells
    ]
    told = capsys.readouterr().err
    assert told.count("pip reaches no package index") == 1
    assert told.count("installing ") == 1, "the next one would take as long, and end as this one did"


def test_ctrl_c_while_something_is_installed_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as index:  # takes the question, and never answers
        index.settimeout(LIMIT_S)
        without_index(monkeypatch, f"http://127.0.0.1:{index.getsockname()[1]}/simple")
        code = "import pathlib, sys; from benchmarks.peers.environments import python_of; "
        code += "python_of(pathlib.Path(sys.argv[1]), ['nothing'])"
        told: dict[str, Any] = {"stderr": subprocess.DEVNULL}
        with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "peer")], cwd=ROOT, **told) as process:
            asked, _ = index.accept()
            started = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGINT)
            process.wait(LIMIT_S)
        assert started
        psutil.wait_procs(started, timeout=GIVES_UP_S)
        assert [one for one in started if one.is_running()] == []
        asked.close()
    assert not (tmp_path / "peer/.made").exists()


def without_index(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """pip looks there, and nowhere else."""
    for name, value in {"INDEX_URL": url, "RETRIES": "1", "CONFIG_FILE": os.devnull, "EXTRA_INDEX_URL": ""}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
