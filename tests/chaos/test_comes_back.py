"""What goes away for some seconds and comes back, with a worker killed meanwhile: the run goes on by itself, within
seconds, and has said what it waited for."""

import contextlib
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chaos_kit import ENDLESS, Run, running, wait_for
from disks_kit import DISKS, Disk, small_disk
from test_strangers import ports, sockets

PACED: dict[str, Any] = {"count": ENDLESS, "rate": 2_000, "layout": "apart"}  # and ended by SIGTERM
SOON_S = 15.0  # the longest back-off of a worker, its start, and what a busy machine adds


def at_work(run: Run) -> tuple[int, int]:
    """The processes of the sink and of the spout, once both work."""
    run.until_done(500)
    run.until_all_work()
    (spout,) = run.with_spout()
    return run.with_sink(), spout


def goes_on(run: Run) -> None:
    target = run.done() + 1_000
    run.until(lambda: run.done() >= target, "1,000 more messages", within_s=SOON_S)


def socket_of(run: Run, pid: int) -> Path:
    """The file of the socket that this process listens on: who listens has it in /proc/net/unix under its inode."""
    inodes = {found[1] for fd in Path(f"/proc/{pid}/fd").iterdir() if (found := re.match(r"socket:\[(\d+)", link(fd)))}
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    mine = {line[7] for line in lines if len(line) == 8 and line[6] in inodes}
    (path,) = [path for path in sockets(run) if str(path) in mine]
    return path


def link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["sink", "spout"])
def test_the_socket_of_the_worker_that_stays_is_deleted_f70(folder: Path, whose: str) -> None:
    """And the other one killed, whose successor has to find it."""
    with running(folder, **PACED) as run:
        sink, spout = at_work(run)
        stays, dies = (sink, spout) if whose == "sink" else (spout, sink)
        socket_of(run, stays).unlink()
        run.kill(dies)
        goes_on(run)
        run.until_said(r"socket .* was gone, and is made again \(K571\)")
        assert run.workers().count(stays) == 1, "it was not replaced for that"
        run.drained_or_read_again()


def test_the_directory_of_the_sockets_is_deleted_f70(folder: Path) -> None:
    with running(folder, **PACED) as run:
        sink, _ = at_work(run)
        (place,) = (folder / "r").glob("kedge-*")
        shutil.rmtree(place)
        run.until(lambda: len([*place.glob("*.sock")]) == 2, "both sockets anew", within_s=SOON_S)
        assert place.stat().st_mode & 0o777 == 0o700
        run.kill(sink)
        goes_on(run)
        run.drained_or_read_again()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["read-only", "without inodes"])
def test_the_run_directory_can_t_be_written_for_a_while_f71(folder: Path, how: str) -> None:
    disk_of_its_own = small_disk(folder / "r", megabytes=3, inodes=50)
    with disk_of_its_own as disk, running(folder, command=disk.command, **PACED) as run:
        sink, _ = at_work(run)
        with unwritable(disk, how) as again:
            run.kill(sink)
            said = r"worker 0 .*could not start: .*sock"
            run.until(lambda: again() or re.search(said, run.said()), "what it waits for")
        goes_on(run)
        run.drained_or_read_again()


@contextlib.contextmanager
def unwritable(disk: Disk, how: str) -> Iterator[Callable[[], None]]:
    """Gives what makes it so once more: a socket that is deleted gives its inode back."""
    made: list[Path] = []

    def take_inodes() -> None:
        with contextlib.suppress(OSError):
            while True:
                (disk.view / f"file-{len(made)}").touch()
                made.append(disk.view / f"file-{len(made)}")

    if how == "read-only":
        disk.remount("ro")
        yield lambda: None
        disk.remount("rw")
    else:
        take_inodes()
        yield take_inodes
        for path in made:
            path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["sink", "spout"])
def test_the_state_directory_is_full_while_a_worker_dies_f71(folder: Path, whose: str) -> None:
    beside: dict[str, Any] = {"program": DISKS, "count": ENDLESS, "rate": 1_500, "dead": 100}
    disk_of_its_own = small_disk(folder / "state", megabytes=3)
    with disk_of_its_own as disk, running(folder, command=disk.command, **beside) as run:
        run.until_done(500)
        sink, (spout,) = run.with_sink(), run.with_spout()
        run.until(lambda: disk.fill() or "K536" in run.said(), "a store without room")
        run.kill(sink if whose == "sink" else spout)
        run.until_said("could not (be started|start): .*(No space left|disk is full)")
        run.until_said(r"is being replaced, for \d+ s: it could not")
        disk.free()
        goes_on(run)
        run.process.terminate()
        assert run.ended().status == 1, "there are dead letters"


def test_descriptors_are_taken_away_and_given_back_f71(folder: Path) -> None:
    """From the worker that stays: it can't make a link to the successor of the other, nor say hello."""
    with running(folder, "--links", "tcp://127.0.0.1", **PACED) as run:
        sink, spout = at_work(run)
        fds = [int(fd.name) for fd in Path(f"/proc/{spout}/fd").iterdir()]
        before = resource.prlimit(spout, resource.RLIMIT_NOFILE)
        resource.prlimit(spout, resource.RLIMIT_NOFILE, (len(fds) - 4, before[1]))
        run.kill(sink)
        run.until_said(r"can't be connected to at .*Too many open files; it is tried again \(K534\)")
        run.until_said("worker [01] has no link with all others yet, for")
        resource.prlimit(spout, resource.RLIMIT_NOFILE, before)
        goes_on(run)
        run.drained_or_read_again()


FLOOD = """
import resource, socket, sys, time
kind, most, *where = sys.argv[1:]
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held = []
while True:
    for one in where:
        try:
            held.append(socket.socket(socket.AF_UNIX if kind == "ipc" else socket.AF_INET))
            held[-1].settimeout(0.2)
            held[-1].connect(one if kind == "ipc" else ("127.0.0.1", int(one)))
        except OSError:
            held.pop().close()
            time.sleep(0.001)
    while len(held) > int(most):
        held.pop(0).close()
    print(len(held), flush=True)
"""


@contextlib.contextmanager
def flood(kind: str, where: list[str], most: int = 600) -> Iterator[None]:
    """Meanwhile another process has so many connections to these that say nothing, and makes new ones all the time."""
    process = subprocess.Popen([sys.executable, "-c", FLOOD, kind, str(most), *where], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        while int(process.stdout.readline()) < 200:
            pass
        yield
    finally:
        process.kill()
        process.communicate()


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


def a_soft_limit() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4_096))


@pytest.mark.slow
@pytest.mark.parametrize("most", [600, 6_000])
def test_a_flood_of_connections_to_the_sockets_takes_no_worker_down_s25(folder: Path, most: int) -> None:
    """More of them than the soft limit has descriptors, and more than a worker may ever have; libzmq aborts a process
    that has none left to accept with."""
    with running(folder, **PACED, prepare=a_soft_limit) as run:
        at_work(run)
        with flood("ipc", [str(path) for path in sockets(run)], most):
            run.until_said(r"a process has \d+ connections already", within_s=10)
            goes_on(run)
        outcome = run.drained()
    assert outcome.figures["restarts"] == 0, outcome.said


def test_a_port_is_flooded_without_keys_while_a_worker_dies_f71(folder: Path) -> None:
    with running(folder, "--links", "tcp://127.0.0.1", **PACED, prepare=few_descriptors) as run:
        sink, spout = at_work(run)
        with flood("tcp", [str(port) for port in ports(spout)]):
            wait_for(lambda: len([*Path(f"/proc/{spout}/fd").iterdir()]) >= 250, "a flood", within_s=10)
            run.kill(sink)
            run.until_said(r"worker 0 \(pid \d+\) was killed")
            run.until(lambda: "K534" in run.said() or "is back" in run.said(), "what comes of that")
        goes_on(run)
        run.drained_or_read_again()
