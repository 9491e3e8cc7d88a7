"""`kedge run --workers N`: the same command on several processes, through real ones: what it shows, how it ends, and
what becomes of it when a worker is killed."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from cli_kit import KEDGE, Started, environment, kedge, one_sentence, started, wait_for
from test_cli_terminal import COLOUR, on_a_terminal

TWO = ("--workers", "2")
WORKER_LINE = re.compile(r"^  worker (\d)  pid (\d+)  [\d,]+ handled/s  bolts busy \d+ %  queued [\d,]+$", re.MULTILINE)
WORKER_ROW = re.compile(
    r"^worker (\d)  pid (\d+) +[\d.,k–]+ handled/s  busy +[\d–]+(?: %)?  queued +[\d,]+$", re.MULTILINE
)
DIED = re.compile(r"worker (\d) \(pid (\d+)\) was killed by SIGKILL")

SPREAD = '''
import asyncio
from collections.abc import Iterator
from pathlib import Path
from bolts import Print
from spouts import Tick, Ticker
from topology import Bolt, ConfigurationError, Message, Record, Spout, Task, Topology


class Number(Record):
    value: int


class Numbers(Spout):
    """`count` numbers, or without end; `every_s` between two of them."""

    def __init__(self, count: int, every_s: float) -> None:
        self.count, self.every_s, self.next = count, every_s, 0

    async def poll(self, limit: int) -> list[Message[Number]]:
        await asyncio.sleep(self.every_s)
        taken = range(self.next, min(self.next + (1 if self.every_s else limit), self.count or self.next + 1))
        self.next = taken.stop
        return [Message(Number(value), value) for value in taken]


class Hold(Bolt):
    def __init__(self, seconds: float, fail_at: int, bad_open: bool) -> None:
        self.seconds, self.fail_at, self.bad_open = seconds, fail_at, bad_open

    def open(self, task: Task) -> None:
        if self.bad_open:
            raise ConfigurationError("there is no [red]store[/red] here")

    async def process(self, number: Number) -> Iterator[Number]:
        if number.value == self.fail_at:
            raise ValueError(f"no {number.value}")
        await asyncio.sleep(self.seconds)
        return [number]


def topology(
    count: int = 1000,
    every_s: float = 0.0,
    seconds: float = 0.0,
    fail_at: int = -1,
    bad_open: bool = False,
    says: bool = False,
    stray: bool = False,
) -> Topology:
    if stray:
        import os
        os.chdir("/")
    topology = Topology("spread")
    numbers = topology.spout("numbers", Numbers(count, every_s))
    hold = topology.bolt("hold", Hold(seconds, fail_at, bad_open), numbers.shuffle(), tasks=2, concurrency=64)
    if says:
        topology.bolt("print", Print(), hold.global_())
    return topology
'''


@pytest.fixture
def folder(folder: Path) -> Path:
    (folder / "spread.py").write_text(SPREAD)
    return folder


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def pids(run: Started) -> dict[int, int]:
    """The workers' processes, as they are shown; waits until they are."""
    wait_for(lambda: len(WORKER_LINE.findall(run.said())) >= 2 or run.process.poll() is not None, "workers' lines")
    found = {int(worker): int(pid) for worker, pid in WORKER_LINE.findall(run.said())}
    assert sorted(found) == [0, 1], run.said()
    return found


# -- a run


def test_two_workers_end_with_one_summary_and_say_that_none_was_restarted(folder: Path) -> None:
    result = kedge("run", "spread.py", *TWO, "--set", "count=3000", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "spread: 1 spout, 1 bolt; 2 workers; state in .kedge/spread\n" in result.stderr
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"spread has read everything and ended after \d+\.\d s", lines[0])
    assert lines[2].split()[:6] == ["numbers", "3,000", "3,000", "0", "0", "0"]
    assert lines[3].split()[:4] == ["hold", "3,000", "3,000", "0"]
    assert "  workers  2, none restarted" in lines
    assert f"run spread.py {' '.join(TWO)} --set count=3000" in lines[-1]
    assert "kill -9" not in result.stderr, "nobody watches, and nobody has asked for it"


def test_json_has_the_keys_of_a_run_in_one_process_and_counts_all_workers(folder: Path) -> None:
    result = kedge("run", "spread.py", *TWO, "--json", cwd=folder, env={"KEDGE_HINT": "1"})
    assert result.returncode == 0, result.stderr
    (line,) = result.stdout.splitlines()
    figures = json.loads(line)
    told = "topology seconds workers spouts bolts latency_ms dead_letters checkpoint restarts"
    assert list(figures) == told.split()
    assert (figures["workers"], figures["restarts"]) == (2, 0)
    assert figures["spouts"]["numbers"]["acked"] == figures["bolts"]["hold"]["executed"] == 1000
    assert "kill -9" not in result.stderr


def test_one_worker_is_a_process_of_its_own_and_more_than_there_are_tasks_is_said(folder: Path) -> None:
    one = kedge("run", "spread.py", "--workers", "1", cwd=folder)
    assert (one.returncode, "; 1 worker; state" in one.stderr) == (0, True), one.stderr
    assert "  workers  1, none restarted" in one.stdout
    many = kedge("run", "spread.py", "--workers", "5", cwd=folder)
    assert many.returncode == 0, many.stderr
    assert "2 of 5 workers have tasks" in many.stderr


@pytest.mark.slow
@pytest.mark.parametrize("target", ["spread.py", "./spread.py:topology", "spread", "spread:topology"])
def test_workers_make_the_topology_that_the_command_names_wherever_its_code_goes(folder: Path, target: str) -> None:
    state = folder / "state"
    arguments = ("--set", "stray=true", "--set", "count=10", "--state-dir", state)
    result = kedge("run", target, *TWO, *arguments, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert re.search(r"numbers +10 +10 +0 +0 +0", result.stdout)


def test_workers_run_with_the_settings_of_the_command_and_of_its_environment(folder: Path) -> None:
    arguments = ("--set", "fail_at=3", "--set", "count=10", "--config", "max_replays=2", "--json")
    result = kedge("run", "spread.py", *TWO, *arguments, cwd=folder, env={"KEDGE_MAX_REPLAYS": "4"})
    assert result.returncode == 1, result.stderr
    figures = json.loads(result.stdout)
    assert (figures["spouts"]["numbers"]["replayed"], figures["spouts"]["numbers"]["dead"]) == (2, 1)
    assert "exit status 1: 1 dead, each logged above" in result.stderr
    events = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    dead = next(one for one in events if one["event"].startswith("message 3 of 'numbers' is dead"))
    assert (dead["worker"], dead["level"]) == (0, "error")


def test_plain_lines_have_one_for_each_worker_and_one_that_names_the_limit(folder: Path) -> None:
    arguments = ("--set", "count=0", "--set", "every_s=0.002")
    waits = r"(nothing waits|no queue is more than \d+ % full)"  # on a busy machine something does
    limit = rf"the source 'numbers' is the limit: {waits}, it pauses \d+ % of the time"
    with started("run", "spread.py", *TWO, *arguments, cwd=folder) as run:
        assert sorted(pids(run)) == [0, 1]
        wait_for(lambda: re.search(f"\n  {limit}\n", run.said()) is not None, "a line that names the limit")
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 0, run.said()
    assert re.search(f"\n  limit    {limit}\n", (folder / "stdout.txt").read_text())


# -- wrong uses


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workers", "0"], "--workers takes a whole number from 1 to 64, not 0"),
        (["--workers", "-3"], "--workers takes a whole number from 1 to 64, not -3"),
        (["--workers", "65"], "--workers takes a whole number from 1 to 64, not 65"),
        (["--workers", "two"], "--workers takes a whole number, not 'two'"),
        (["--workers", "1.5"], "--workers takes a whole number, not '1.5'"),
        (["--links", "ipc"], "--links is for runs on several processes"),
        ([*TWO, "--links", "udp://x"], "--links takes ipc, tcp://HOST or tcp://HOST:PORT, not 'udp://x'"),
        ([*TWO, "--links", ""], "--links takes ipc, tcp://HOST or tcp://HOST:PORT, not ''"),
        ([*TWO, "--links", "tcp://"], "--links takes ipc, tcp://HOST or tcp://HOST:PORT, not 'tcp://'"),
        ([*TWO, "--links", "tcp://h:port"], "--links takes ipc, tcp://HOST or tcp://HOST:PORT, not 'tcp://h:port'"),
        ([*TWO, "--links", "tcp://h:99999"], "--links takes ipc, tcp://HOST or tcp://HOST:PORT"),
        ([*TWO, "--links", "tcp://h/x"], "--links takes ipc, tcp://HOST or tcp://HOST:PORT"),
        ([*TWO, "--set", "bad_open=true"], "there is no [red]store[/red] here"),
        ([*TWO, "--config", "max_restarts=-1"], "max_restarts is a whole number of at least 0"),
    ],
)
def test_wrong_use_of_workers_is_one_sentence_and_exit_status_2(folder: Path, arguments: list[str], said: str) -> None:
    result = kedge("run", "spread.py", *arguments, cwd=folder)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert said in one_sentence(result, ours="bad_open" not in arguments[-1])


def test_a_port_in_use_is_one_sentence_and_exit_status_3(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = kedge("run", "spread.py", *TWO, "--links", f"tcp://127.0.0.1:{port}", cwd=folder)
    assert result.returncode == 3, result.stderr
    assert str(port) in one_sentence(result)


def test_each_worker_has_a_port_of_its_own_counted_from_the_one_that_was_given(folder: Path) -> None:
    port = two_free_ports()
    result = kedge("run", "spread.py", *TWO, "--links", f"tcp://127.0.0.1:{port}", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert re.search(r"numbers +1,000 +1,000 +0 +0 +0", result.stdout)


def two_free_ports() -> int:
    """A port that nobody listens on, nor on the next."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first, contextlib.suppress(OSError):
            port: int = first.getsockname()[1]
            with socket.create_server(("127.0.0.1", port + 1)):
                return port


def test_links_by_tcp_on_this_machine_run_as_others_do(folder: Path) -> None:
    result = kedge("run", "spread.py", *TWO, "--links", "tcp://127.0.0.1", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert re.search(r"numbers +1,000 +1,000 +0 +0 +0", result.stdout)


def test_a_second_run_on_the_same_state_directory_is_one_sentence_and_disturbs_nothing(folder: Path) -> None:
    with started("run", "spread.py", *TWO, "--set", "count=0", "--set", "every_s=0.01", cwd=folder) as run:
        pids(run)
        second = kedge("run", "spread.py", *TWO, cwd=folder)
        assert second.returncode == 3, second.stderr
        assert "another run" in one_sentence(second)
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 0, run.said()


def test_help_tells_of_workers_and_links(folder: Path) -> None:
    result = kedge("run", "--help", cwd=folder, env={"COLUMNS": "200"})
    assert "--workers N" in result.stdout
    assert "--links WHERE" in result.stdout
    assert "tcp://HOST[:PORT]" in result.stdout


# -- signals


def test_a_sigterm_drains_all_workers_F10(folder: Path) -> None:
    arguments = ("--set", "count=0", "--set", "every_s=0.005", "--set", "seconds=0.3")
    with started("run", "spread.py", *TWO, *arguments, cwd=folder) as run:
        processes = pids(run)
        run.process.send_signal(signal.SIGTERM)
        assert run.ended() == 0, run.said()
    assert "SIGTERM: draining; once more ends it now" in run.said()
    summary = (folder / "stdout.txt").read_text()
    assert "spread was stopped and has drained" in summary
    assert re.search(r"numbers +([\d,]+) +\1 +0 +0 +0", summary), summary
    assert all(map(gone, processes.values()))


def test_ctrl_c_reaches_every_process_and_still_drains_F10(folder: Path) -> None:
    """A terminal sends it to the whole group."""
    with (folder / "stdout.txt").open("wb") as out, (folder / "stderr.txt").open("wb") as err:
        shell = subprocess.Popen(
            [KEDGE, "run", "spread.py", *TWO, "--set", "count=0", "--set", "every_s=0.01"],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    run = Started(shell, folder / "stderr.txt")
    try:
        pids(run)
        os.killpg(shell.pid, signal.SIGINT)
        assert run.ended() == 0, run.said()
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    assert "spread was stopped and has drained" in (folder / "stdout.txt").read_text()
    assert "Traceback" not in run.said()


def test_a_second_signal_ends_all_workers_now_and_says_what_was_in_flight_F10(folder: Path) -> None:
    arguments = ("--set", "count=0", "--set", "every_s=0.01", "--set", "seconds=600")
    with started("run", "spread.py", *TWO, *arguments, cwd=folder) as run:
        processes = pids(run)
        run.process.send_signal(signal.SIGINT)
        run.until_said("draining")
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 1, run.said()
    assert "SIGINT again: ending now" in run.said()
    assert re.search(r"\n\d[\d,]* messages are pending", run.said()), run.said()
    summary = (folder / "stdout.txt").read_text()
    assert "spread was ended by force" in summary
    assert "not done at the end" in summary
    assert all(map(gone, processes.values()))


# -- deaths


@pytest.mark.parametrize("as_json", [False, True])
def test_a_killed_worker_has_a_line_for_its_death_and_one_for_its_return(folder: Path, as_json: bool) -> None:
    arguments = ["--set", "count=0", "--set", "every_s=0.005", "--set", "seconds=0.05", *["--json"] * as_json]
    with started("run", "spread.py", *TWO, *arguments, cwd=folder) as run:
        worker, pid = 1, pids(run)[1]
        os.kill(pid, signal.SIGKILL)
        run.until_said(f"worker {worker} (pid {pid}) was killed by SIGKILL")
        run.until_said(f"worker {worker} is back as pid ")
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 0, run.said()
    assert re.search(r"messages? in flight (has|have) failed and (is|are) replayed", run.said()), run.said()
    stdout = (folder / "stdout.txt").read_text()
    if as_json:
        assert json.loads(stdout)["restarts"] == 1
    else:
        assert "  workers  2, restarted once" in stdout


def test_a_worker_that_dies_too_often_ends_the_run_with_status_1(folder: Path) -> None:
    arguments = ("--set", "count=0", "--set", "every_s=0.01", "--config", "max_restarts=0")
    with started("run", "spread.py", *TWO, *arguments, cwd=folder) as run:
        os.kill(pids(run)[1], signal.SIGKILL)
        assert run.ended() == 1, run.said()
    stdout = (folder / "stdout.txt").read_text()
    assert "spread has failed" in stdout
    assert "max_restarts = 0 allows no restart" in stdout
    assert "Traceback" not in run.said()


# -- what workers print


def test_head_takes_the_first_line_of_a_worker_that_prints_and_the_run_ends_cleanly_F55(folder: Path) -> None:
    result = subprocess.run(
        ["/bin/sh", "-c", f"'{KEDGE}' run spread.py --workers 2 --set says=true --set count=20000 | head -1"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert re.fullmatch(r"Number\(value=\d+\)\n", result.stdout), result.stdout
    assert "acked 20,000" in result.stderr
    assert "Broken pipe" not in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_on_a_terminal_each_worker_has_a_line_in_the_view_and_what_they_print_stands_whole_above_it(
    folder: Path,
) -> None:
    arguments = ("run", "spread.py", *TWO, "--set", "count=300", "--set", "every_s=0.01", "--set", "says=true")
    status, written = on_a_terminal(folder, *arguments)
    assert status == 0, written
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", COLOUR.sub("", written)).replace("\r", "\n")
    lines = shown.splitlines()
    assert sorted(line for line in lines if line.startswith("Number(")) == sorted(
        f"Number(value={value})" for value in range(300)
    )
    assert {worker for worker, _ in WORKER_ROW.findall(shown)} == {"0", "1"}
    assert len(re.findall(r"try: kill -9 \d+   \(worker 1\), and watch it come back", shown)) == 1
    assert "the source 'numbers' is the limit: " in shown
    assert re.search(r"\b0:00:(0[3-9]|[1-5]\d)\b", shown), "300 numbers take three seconds, and more on a busy machine"


@pytest.mark.slow
def test_without_colours_the_view_of_workers_has_none(folder: Path) -> None:
    _, plain = on_a_terminal(folder, "run", "spread.py", *TWO, "--set", "every_s=0.002", NO_COLOR="1")
    assert WORKER_ROW.search(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", plain.replace("\r", "\n")))
    assert not COLOUR.search(plain)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_behind_the_stdout_of_a_worker_that_prints_is_told_and_status_1(folder: Path) -> None:
    arguments = ("run", "spread.py", *TWO, "--set", "says=true", "--set", "count=5", "--config", "max_replays=0")
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [KEDGE, *arguments],
            cwd=folder,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 1
    assert "No space left on device" in result.stderr
