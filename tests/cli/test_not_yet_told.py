"""What a user sees of a run that waits at its start for what is not there yet, and how it ends. F73."""

import signal
import socket
from pathlib import Path

import pytest
from cli_kit import kedge, started, told

LATE = """
from pathlib import Path
from counting import Forget, Numbers
from topology import Config, NotYet, Task, Topology
class Late(Forget):
    def open(self, task: Task) -> None:
        if not Path("there").exists():
            raise NotYet("the server does not answer")
topology = Topology("late", Config(start_timeout_s=60))
topology.bolt("late", Late(), topology.spout("numbers", Numbers(3)).shuffle())
"""

POSTGRES = """
from counting import Numbers
from bolts import PostgresSink
from topology import Topology
topology = Topology("stored")
sink = PostgresSink("postgresql://nobody@127.0.0.1:{port}/none")
topology.bolt("rows", sink, topology.spout("numbers", Numbers(3)).shuffle())
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_what_does_not_come_within_the_limit_is_exit_status_3_F73(folder: Path, workers: int) -> None:
    (folder / "late.py").write_text(LATE)
    result = kedge("run", "late.py", "--workers", workers, "--config", "start_timeout_s=1.5", cwd=folder)
    assert result.returncode == 3, result.stderr
    assert "'late' waits, as what it needs is not there yet, for " in result.stderr
    assert "'late' could not be opened within start_timeout_s = 1.5 s: the server does not answer" in result.stderr
    assert "K478" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_waits_goes_on_once_what_it_waits_for_is_there_F73(folder: Path, workers: int) -> None:
    (folder / "late.py").write_text(LATE)
    with started("run", "late.py", "--workers", workers, cwd=folder) as run:
        run.until_said("what it needs is not there yet")
        (folder / "there").touch()
        assert run.ended() == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_ends_a_run_that_waits_F73(folder: Path, workers: int) -> None:
    (folder / "late.py").write_text(LATE)
    with started("run", "late.py", "--workers", workers, cwd=folder) as run:
        run.until_said("what it needs is not there yet")
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 0


def test_a_server_that_refuses_connections_is_waited_for_and_then_is_exit_status_3_F73(folder: Path) -> None:
    pytest.importorskip("psycopg", reason="needs pip install 'kedge-streams[postgres]'")
    with socket.socket() as taken:  # bound, and not listening: refused, and nobody else takes it
        taken.bind(("127.0.0.1", 0))
        (folder / "stored.py").write_text(POSTGRES.format(port=taken.getsockname()[1]))
        result = kedge("run", "stored.py", "--config", "start_timeout_s=2", cwd=folder)
    assert result.returncode == 3, result.stderr
    found = told(result.stderr)
    assert found.code == "K478"
    assert found.sentence.startswith("'rows' could not be opened within start_timeout_s = 2 s: PostgresSink: ")
    assert "refused" in found.sentence
    assert "'rows' waits, as what it needs is not there yet" in result.stderr
