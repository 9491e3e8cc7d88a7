"""Garbage on workers' sockets, who listens where, and links over tcp: the run goes on, and loses nothing."""

import ipaddress
import re
import shutil
import stat
import subprocess
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zmq
from chaos_kit import ENDLESS, Run, hit, running, seeded
from proc_kit import opened
from strangers import (
    OPENINGS,
    RUBBISH,
    Stranger,
    fuzzed,
    garbage,
    of_another_run,
    open_with,
    too_big,
    worker_and_incarnation,
)

PACED: dict[str, Any] = {"count": ENDLESS, "rate": 2_000}  # and ended by SIGTERM


def sockets(run: Run) -> list[Path]:
    """The workers' sockets, once both are there."""
    found = run.until(
        lambda: len(there := sorted((run.folder / "r").glob("kedge-*/*.sock"))) == 2 and there, "two sockets"
    )
    assert isinstance(found, list)
    return found


def test_other_protocols_and_half_a_greeting_disturb_nobody_f34(folder: Path) -> None:
    """On both workers' sockets, before the ZMTP greeting; connections that stay open included."""
    random = seeded(501)
    with running(folder, **PACED, layout="apart") as run:
        paths = sockets(run)
        run.until_done(500)
        held = []
        for path in paths:
            for opening in [*OPENINGS.values(), *(random.randbytes(random.randint(1, 500)) for _ in range(30))]:
                held.append(open_with(path, opening))
                open_with(path, opening).close()
        run.until_done(2_000)
        for connection in held:
            connection.close()
        run.until_said("a connection to this worker was refused: ")
        outcome = run.drained()
    assert (outcome.figures["restarts"], outcome.total("failed")) == (0, 0)


def test_garbage_in_frames_and_frames_of_another_run_are_dropped_a11_f34(folder: Path) -> None:
    """From sockets that speak ZMTP as peers do, to both workers while they work."""
    random = seeded(502)
    with running(folder, **PACED, layout="apart") as run, zmq.Context() as context:
        paths = sockets(run)
        run.until_done(500)
        for path, other in (paths, paths[::-1]):
            send_rubbish(context, path, other, random)
        run.until_done(2_000)
        for what in ("too few for a frame", "is no frame of Kedge", "it is of another run"):
            run.until_said(f"a frame was dropped: .*{what}")
        outcome = run.drained()
    assert (outcome.figures["restarts"], outcome.total("failed")) == (0, 0)


def send_rubbish(context: "zmq.Context[zmq.Socket[bytes]]", path: Path, other: Path, random: Random) -> None:
    real = of_another_run(worker_and_incarnation(path), worker_and_incarnation(other), random)
    with closing(Stranger(context, f"ipc://{path}")) as stranger:
        assert stranger.settled(3_000) == "in", "no handshake, so nothing was shown"
        for data in (*RUBBISH, *real, *fuzzed(real, random, 200), *garbage(random, 50)):
            stranger.socket.send(data)
        stranger.socket.send_multipart(real)
        stranger.socket.send(too_big())
        assert stranger.settled(3_000) == "refused", "a frame that is too big ends its connection"
    for kind in (zmq.SUB, zmq.DEALER, zmq.PULL):
        with closing(Stranger(context, f"ipc://{path}", kind)) as wrong:
            assert wrong.settled(3_000) == "refused"


# -- who listens where


@pytest.mark.parametrize("links", ["ipc", "tcp://127.0.0.1"])
def test_nothing_listens_but_on_loopback_or_in_the_run_s_own_directories(folder: Path, links: str) -> None:
    with running(folder, "--links", links, **PACED) as run:
        run.until_done(500)
        pids = [run.process.pid, *run.workers()]
        paths, addresses = listeners(pids)
        assert len(pids) == 3
        commands = folder / "state" / "socket"
        paths.remove(str(commands))
        assert stat.S_IMODE(commands.stat().st_mode) == 0o600
        if links == "ipc":
            assert addresses == []
            assert sorted(paths) == sorted(map(str, sockets(run)))
        else:
            assert len(addresses) == 2
            assert all(ipaddress.ip_address(one).is_loopback for one in addresses)
            assert paths == []
        assert all((path.stat().st_mode & 0o777) == 0o700 for path in (folder / "r").iterdir())
        shown = shown_by_ss(pids)
        outcome = run.drained()
    assert outcome.figures["restarts"] == 0
    if shown is None:
        pytest.skip("needs ss (apt install iproute2); only /proc/net was checked")
    assert [str(commands) in line for line in shown].count(True) == 1
    shown = [line for line in shown if str(commands) not in line]
    assert all(str(folder / "r") in line or re.search(r" (127\.0\.0\.1|\[::1\]):\d+ ", line) for line in shown), shown
    assert len(shown) == 2


def listeners(pids: list[int]) -> tuple[list[str], list[str]]:
    """Paths of Unix sockets, and internet addresses, that these processes listen on (or, without connections, have)."""
    inodes = {found[1] for pid in pids for one in opened(pid) if (found := re.fullmatch(r"socket:\[(\d+)\]", one))}
    paths = []
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        _, _, _, flags, _, _, inode, *path = line.split()
        if int(flags, 16) & 0x10000 and inode in inodes:
            paths.append(path[0] if path else "")
    addresses = []
    for name in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if rest[5] in inodes and (state == "0A" or "tcp" not in name):
                addresses.append(address_of(local.partition(":")[0]))
    return paths, addresses


def address_of(text: str) -> str:
    """An address as /proc/net has it: words in the machine's order of bytes."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(words)))


def shown_by_ss(pids: list[int]) -> list[str] | None:
    """Lines of ss about what these processes listen on; None where there is no ss."""
    if shutil.which("ss") is None:
        return None
    lines: list[str] = []
    for options in ("-Hxlp", "-Htlnp", "-Hulnp"):
        done = subprocess.run(["ss", options], capture_output=True, text=True, check=True, timeout=20)
        lines += done.stdout.splitlines()
    return [line for line in lines if any(f"pid={pid}," in line for pid in pids)]


# -- tcp


def test_over_tcp_a_kill_costs_no_row_and_strangers_are_refused_s1(folder: Path) -> None:
    """CURVE with keys of this run: neither a plain connection nor one with keys of its own gets in."""
    with running(folder, "--links", "tcp://127.0.0.1", **PACED, layout="apart") as run, zmq.Context() as context:
        run.until_done(500)
        for port in [one for pid in run.workers() for one in ports(pid)]:
            for curve in (False, True):
                with closing(Stranger(context, f"tcp://127.0.0.1:{port}", curve=curve)) as stranger:
                    assert stranger.settled(500) != "in"
                    with pytest.raises(zmq.Again):
                        stranger.socket.send(b"let me in", zmq.NOBLOCK)
        run.until_said("a connection to this worker was refused: (no CURVE key|it ended, or was silent)")
        run.until_said("a connection to this worker was refused: .* made for another worker's key")
        kill = run.kill_in_flight(run.with_sink())
        run.told(kill)
        run.until_done(2_000)
        outcome = run.drained()
    hit([kill], outcome)


def ports(pid: int) -> list[int]:
    """The ports on which a process listens."""
    inodes = {found[1] for one in opened(pid) if (found := re.fullmatch(r"socket:\[(\d+)\]", one))}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [int(one[1].rpartition(":")[2], 16) for one in lines if one[3] == "0A" and one[9] in inodes]
    assert len(listening) == 1, f"process {pid} listens on {listening}"
    return listening
