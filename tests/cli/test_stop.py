"""`kedge stop`: each way to end a run, how it says that it came, and what it says where nothing runs."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_kit import KEDGE, PATIENCE_S, Started, environment, kedge, kedge_here, one_sentence, started, told

from topology.cli.commands.stop import verdict
from topology.runtime.run.command_socket import Ended, short

PATIENT = ("--set", "seconds=0.2", "--set", "every_s=0.05", "--config", "drain_timeout_s=0.3")


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Started]:
    """A run that works, and can be reached."""
    with started("run", *(arguments or ("endless.py",)), cwd=folder) as one:
        one.until_said("records/s")
        yield one


def until_it_waits(stop: "subprocess.Popen[str]") -> None:
    """Reads until the run has answered: signals are its own from then on."""
    assert stop.stderr is not None
    assert "draining" in stop.stderr.readline()


@contextmanager
def stopping(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """`kedge stop`, under way."""
    command = [KEDGE, "stop"]
    with subprocess.Popen(command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True) as stop:
        try:
            yield stop
        finally:
            stop.kill()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_a_drained_run_says_so_and_has_given_its_state_directory_back(folder: Path, workers: tuple[str, ...]) -> None:
    with running(folder, "endless.py", *workers) as one:
        result = kedge_here("stop", cwd=folder)
        assert result.returncode == 0, result.stderr
        assert result.stdout == "endless: drained: everything read is done; you can change the topology now\n"
        again = kedge("run", "endless.py", "--for", "0.1", cwd=folder)  # at once: nobody has the directory any more
        assert again.returncode == 0, again.stderr
        assert one.ended() == 0
        assert "kedge stop: draining" in one.said()


def test_a_drain_that_its_time_does_not_suffice_for_is_no_success_and_says_what_is_left(folder: Path) -> None:
    with running(folder, "endless.py", *PATIENT) as one:
        result = kedge_here("stop", "endless", cwd=folder)
        assert result.returncode == 1
        assert "endless: stopped, but did not drain within its drain_timeout_s: " in result.stdout
        assert "the next run reads them again (kedge stop --drain waits for them)" in result.stdout
        assert one.ended() == 1


@pytest.mark.slow
def test_with_drain_it_waits_for_as_long_as_it_takes(folder: Path) -> None:
    """B11: only then may a changed topology follow, whatever drain_timeout_s is."""
    with running(folder, "endless.py", *PATIENT) as one:
        result = kedge("stop", "endless.py", "--drain", cwd=folder)
        assert (result.returncode, one.ended()) == (0, 0), result.stdout
        assert "drained: everything read is done" in result.stdout
        assert "without a time limit" in result.stderr
        assert "left, no time limit" in one.said()


def test_with_now_nothing_is_waited_for(folder: Path) -> None:
    with running(folder, "endless.py", "--set", "seconds=1000") as one:
        result = kedge_here("stop", "--now", cwd=folder)
        assert result.returncode == 0
        assert result.stdout.startswith("endless: ended at once: ")
        assert one.ended() == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_that_is_interrupted_leaves_the_run_draining_and_says_so(folder: Path, number: int) -> None:
    with running(folder, "endless.py", "--set", "seconds=1000") as one:
        with stopping(folder) as stop:
            until_it_waits(stop)
            os.kill(stop.pid, number)
            os.kill(stop.pid, number)
            _, said = stop.communicate(timeout=PATIENCE_S)
        assert stop.returncode == 1
        assert "the run goes on draining; kedge stop --now ends it at once" in said
        assert kedge_here("stop", "--now", cwd=folder).returncode == 0
        assert one.ended() == 1


def test_a_run_that_is_killed_meanwhile_is_told_of(folder: Path) -> None:
    with running(folder, "endless.py", "--set", "seconds=1000") as one:
        with stopping(folder) as stop:
            until_it_waits(stop)
            one.process.kill()
            _, said = stop.communicate(timeout=PATIENCE_S)
        assert stop.returncode == 1
        assert told(said).sentence == "the run ended without an answer: it was killed, or has failed"
        assert told(said).code == "K164"


# -- where nothing runs


def test_where_nothing_runs_it_says_so_also_over_what_a_killed_run_has_left(folder: Path) -> None:
    """F25."""
    with running(folder) as one:
        one.process.kill()
        one.process.wait()
    assert (folder / ".kedge" / "endless" / "socket").exists()
    result = kedge_here("stop", cwd=folder)
    assert result.returncode == 1
    assert one_sentence(result) == "nothing runs on .kedge/endless"


def test_a_folder_that_nothing_has_run_in_is_a_mistake(folder: Path) -> None:
    result = kedge_here("stop", cwd=folder)
    assert result.returncode == 2
    assert one_sentence(result) == "no topology has run in this folder: .kedge is empty or missing"


def test_of_several_topologies_the_one_that_runs_is_meant_and_else_one_has_to_be_named(folder: Path) -> None:
    for name in ("alerts", "counts"):
        (folder / ".kedge" / name).mkdir(parents=True)
    result = kedge_here("stop", cwd=folder)
    assert result.returncode == 2
    assert one_sentence(result) == "several topologies have state in .kedge: alerts, counts"
    with running(folder) as one:
        assert kedge_here("stop", cwd=folder).returncode == 0
        assert one.ended() == 0


def test_a_name_that_has_no_state_is_a_mistake_with_what_was_probably_meant(folder: Path) -> None:
    (folder / ".kedge" / "endless").mkdir(parents=True)
    result = kedge_here("stop", "endles", cwd=folder)
    assert result.returncode == 2
    assert one_sentence(result) == "topology 'endles' has no state in .kedge; did you mean 'endless'?"


@pytest.mark.parametrize("name", ["../outside", "/etc", "a\x1b[2Jb", "x" * 300])
def test_a_name_leads_nowhere_else(folder: Path, name: str) -> None:
    """S6, S11."""
    (folder / ".kedge").mkdir()
    result = kedge_here("stop", name, cwd=folder)
    assert result.returncode == 2
    assert "\x1b" not in result.stderr
    one_sentence(result)


def test_a_directory_that_somebody_has_locked_and_does_not_answer_in_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    from topology.cli import run_client
    from topology.errors import WorkerError

    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    monkeypatch.setattr(run_client, "STARTING_S", 1)
    monkeypatch.setattr(run_client, "WORD_S", 0.01)
    with pytest.raises(WorkerError, match="can't be reached") as caught:
        run_client.reached(folder)
    assert str(caught.value.code) == "K168"
    os.close(lock)
    assert run_client.reached(folder) is None


def test_a_socket_of_another_user_is_nobodys(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S17: the system says whose process is at the other end."""
    from topology.cli import run_client

    listening = socket.socket(socket.AF_UNIX)
    path = short(folder / "socket")
    assert path is not None
    listening.bind(path)
    listening.listen()
    monkeypatch.setattr(run_client, "may_command_us", lambda uid: False)
    assert run_client.line_to(folder) is None
    listening.close()


@pytest.mark.parametrize(
    ("how", "end", "text", "status"),
    [
        ("drain", Ended("ended", 0, 0, 0, 1.0, True), "drained: everything read is done", 0),
        ("drain", Ended("stopped", 0, 2, 1, 1.0, True), "the topology now; 2 dead, see kedge dead list", 0),
        ("drain", Ended("ended", 0, 0, 0, 1.0, True, "", False), "changed topology needs --accept-duplicates", 0),
        ("drain all", Ended("aborted", 1, 0, 1, 1.0, False), "was ended by force: 1 message not done", 1),
        ("drain", Ended("failed", 0, 0, 1, 1.0, False, "OSError: \x1b[2J"), r"has failed: OSError: \x1b[2J; 0 mess", 1),
        ("now", Ended("stopped", 3, 0, 1, 1.0, False), "ended at once: 3 messages not done", 0),
    ],
)
def test_the_verdict_says_how_it_ended_and_whether_that_was_asked(how: str, end: Ended, text: str, status: int) -> None:
    said, code = verdict(how, end)  # type: ignore[arg-type]
    assert text in said
    assert code == status


def test_drain_and_now_exclude_each_other(folder: Path) -> None:
    result = kedge_here("stop", "--drain", "--now", cwd=folder)
    assert result.returncode == 2
    assert told(result.stderr).code == "K166"
