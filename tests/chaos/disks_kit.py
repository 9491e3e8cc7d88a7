"""Disks that the disk tests can fill, free and make read-only; and what is stored, counted without the sinks' code."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from chaos_kit import KEDGE, Run, wait_for
from proc_kit import opened

DISKS: Final = Path(__file__).with_name("disks.py")


class Disk:
    """A small file system of its own at `path`, which only processes started by `command` have there."""

    def __init__(self, holder: int, path: Path) -> None:
        self.path = path
        self.view = Path(f"/proc/{holder}/root{path}")  # from outside
        self.enter = ("nsenter", "-t", str(holder), "-U", "-m", "--preserve-credentials")
        self.command = (*self.enter, *KEDGE)

    def fill(self) -> None:
        """Takes all room there is, up to the last byte."""
        with (self.view / "filler").open("ab", buffering=0) as file:
            for size in (65_536, 4_096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"\xff" * size)

    def free(self) -> None:
        (self.view / "filler").unlink()

    def remount(self, how: str) -> None:
        """ "ro" or "rw"."""
        subprocess.run([*self.enter, "mount", "-o", f"remount,{how}", str(self.path)], check=True)


@contextlib.contextmanager
def small_disk(path: Path, megabytes: int = 24, inodes: int = 0) -> Iterator[Disk]:
    """Makes one in a namespace of its own, which ends with its last process. Skips where that is not allowed.
    `inodes`: how many files it has at most; 0: as many as there is memory for."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        pytest.skip("there is no unshare or nsenter here")
    path.mkdir(mode=0o700, exist_ok=True)
    script = (
        f'mount -t tmpfs -o size={megabytes}m,nr_inodes={inodes},mode=700 tmpfs "$1" && echo made && exec sleep 1000'
    )
    holder = subprocess.Popen(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stderr is not None
    try:
        if holder.stdout.readline() != b"made\n":
            pytest.skip(f"no file system can be mounted here: {holder.stderr.read().decode().strip()}")
        yield Disk(holder.pid, path)
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
        holder.stderr.close()


@contextlib.contextmanager
def refusing(
    run: Run, call: str, error: str, path: Path, when: str = "1+", *, workers_only: bool = False
) -> Iterator[None]:
    """Meanwhile the system answers these calls with an error, for files below `path`, in all processes of the run that
    have such files open, or in its workers only. Skips where strace can't do that."""
    if shutil.which("strace") is None:
        pytest.skip("there is no strace here")
    tracers = []
    try:
        for pid in run.workers() if workers_only else (run.process.pid, *run.workers()):
            below = (f"{path}/", f"{path}-wal", str(path))
            files = [one for one in sorted(opened(pid)) if one.startswith(below) and not one.endswith("/lock")]
            if not files:
                continue
            inject = f"inject={call}:error={error}:when={when}"
            line = ["strace", "-f", "-p", str(pid), "-e", f"trace={call}", "-e", inject]
            tracer = subprocess.Popen(
                [*line, *(part for file in files for part in ("-P", file))],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            tracers.append(tracer)
            assert tracer.stderr is not None
            said = tracer.stderr.readline().decode()
            while "Requested path" in said:
                said = tracer.stderr.readline().decode()
            if "attached" not in said:
                pytest.skip(f"strace can't do that here: {said}{tracer.stderr.read().decode()}")
        yield
    finally:
        for tracer in tracers:
            _end(tracer)


def _end(tracer: "subprocess.Popen[bytes]") -> None:
    """Ends a tracer. It can't let go of a process that is just starting another one: each waits for the other."""
    tracer.terminate()
    try:
        tracer.communicate(timeout=1)
    except subprocess.TimeoutExpired:
        tracer.kill()
        tracer.communicate()


# -- what is stored


def numbers_in(store: Path) -> list[int]:
    """The number of each row or line, in order of the numbers; rows of numbers with other texts are an error."""
    return sorted(n for n, _ in _rows(store))


def _rows(store: Path) -> list[tuple[int, str]]:
    if store.suffix == ".jsonl":
        lines = store.read_bytes().split(b"\n")
        assert lines.pop() == b"", "the last line is not whole"
        return [(found["n"], found["text"]) for found in map(json.loads, lines)]
    with contextlib.closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
        return connection.execute("SELECT n, text FROM word").fetchall()


def copied(store: Path, to: Path) -> Path:
    """A store's file, and the log beside it, where SQLite can open it: not below /proc."""
    to.mkdir(exist_ok=True)
    for path in (store, store.with_name(store.name + "-wal")):
        if path.exists():
            shutil.copy(path, to / path.name)
    return to / store.name


def stored_once(store: Path, count: int, dead: int = 0) -> None:
    """Fails unless each of the first `count` numbers is stored once, but for the rejected ones, and nothing else."""
    wanted = [n for n in range(count) if not dead or n % dead != dead - 1]
    found = numbers_in(store)
    assert len(found) == len(wanted), f"{len(found)} of {len(wanted)}; {len(set(found))} different ones"
    assert found == wanted


def letters(run_state: Path, *command: str) -> list[dict[str, Any]]:
    """What `kedge dead list` tells of a state directory: all of them."""
    line = [*(command or KEDGE), "dead", "list", "--state-dir", str(run_state), "--json", "--limit", "10000"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


# -- moments


def standing_still(run: Run, for_s: float = 0.7) -> int:
    """Waits until nothing is read any more for so long; returns how much was read."""

    def still() -> bool:
        before = run.read()
        with contextlib.suppress(AssertionError):
            wait_for(lambda: run.read() != before, "anything that is read", within_s=for_s)
            return False
        return True

    run.until(still, "sources that wait")
    return run.read()


@contextlib.contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """As a loss of power finds them: all of them stand still meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
