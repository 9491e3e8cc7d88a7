"""Whose a store is: one owner at a time, none that comes late, and nobody writes beside it (D6)."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from durable_kit import made, mark, store
from state_rows_kit import Held, change, held_by, row

from topology.errors import StartError
from topology.filesystem.files import DiskFiles
from topology.storage.store import StoreBroken
from topology.storage.values import Changes
from topology.storage.worker_store import WorkerStore, open_store

OWNER = """
import sys
from pathlib import Path
from topology.filesystem.files import DiskFiles
from topology.storage.values import Changes, Mark
from topology.storage.worker_store import open_store

store = open_store(DiskFiles(), Path(sys.argv[1]), owner=(0, int(sys.argv[2])), decided=0, logged=False)
for number, _ in enumerate(sys.stdin):
    changes = Changes(marks=[Mark("lines", 0, "p", "e", number, (), number)])
    if "process" in sys.argv:
        store.prepare(number + 1, changes)
        store.decided(number + 1)
    else:
        store.conclude(number + 1, changes)
    print(number, flush=True)
"""


def opened(path: Path, incarnation: int, worker: int = 0) -> "closing[WorkerStore]":
    return closing(open_store(DiskFiles(), path, owner=(worker, incarnation), decided=0, logged=False))


class Process:
    """Another process that has the store, and commits when it is told to."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(path), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=Path(__file__).parents[3],
        )
        self.commit()

    def commit(self) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        return self._process.stdout.readline()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self._process.pid}/stat")
        deadline = time.monotonic() + 10
        while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < deadline

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return made(tmp_path / "worker-0.db")


@pytest.fixture
def first(path: Path) -> Iterator[Process]:
    process = Process(path, "5")
    yield process
    process.kill()


def test_while_a_stopped_process_has_it_nobody_else_gets_it_and_once_that_is_killed_the_next_does_D6(
    path: Path, first: Process
) -> None:
    first.stop()
    for incarnation in (5, 6):
        with pytest.raises(StartError, match="another process has it open") as refused:
            opened(path, incarnation)
        assert str(refused.value.code) == "K436"
    first.wake()
    assert first.commit() == "1\n", "it had it all the time"
    first.stop()
    first.kill()
    with opened(path, 6) as one:
        assert one.loaded.marks[0].position == 1


def test_one_of_an_earlier_start_that_comes_late_is_refused_and_changes_nothing_D6(path: Path) -> None:
    with opened(path, 7) as one:
        one.conclude(1, Changes(marks=[mark(1)]))
        commits = one.commits
    for worker in (0, 3):
        with pytest.raises(StartError, match=r"worker-0\.db belongs to a later start than this one") as refused:
            opened(path, 6, worker)
        assert str(refused.value.code) == "K445"
    with store(path) as found:
        assert (found.commits, found.loaded.deaths) == (commits, 1)


@pytest.mark.parametrize("later", [7, 8, 7 + 2_048, 7 + 4_096 + 1, 1 << 40])
def test_later_starts_are_not_however_many_there_were_between_D6(path: Path, later: int) -> None:
    """Roots have incarnations modulo 4,096: here that would refuse a worker that had long had nothing to do."""
    with opened(path, 7):
        pass
    with opened(path, later, worker=3):
        pass
    with pytest.raises(StartError, match="belongs to a later start"):
        opened(path, 6)


def test_who_only_looks_owns_nothing_and_is_not_refused_D6(path: Path) -> None:
    with opened(path, 7):
        pass
    for lives in (False, True):
        with store(path, lives=lives) as one:
            one.commit(Changes(marks=[mark(1)]))
    with pytest.raises(StartError, match="belongs to a later start"):
        opened(path, 6)


def test_a_commit_into_a_file_that_somebody_else_has_written_to_is_not_made_and_none_after_it_D6(path: Path) -> None:
    held: Held = {}
    with opened(path, 7) as one:
        one.conclude(1, Changes(states=[change(held, row("k", 1))]))
        (before,) = one._store._database.rows("SELECT body, sum FROM own")
        one.conclude(2, Changes(marks=[mark(1)]))
        with one._store._database.transaction() as database:  # as the other would, where the disk keeps no locks
            database.run("UPDATE own SET body = ?, sum = ?", before)
            database.run("DELETE FROM marks")
        for _ in range(2):
            with pytest.raises(StoreBroken, match=r"another process has written to .*worker-0\.db \(K446\)"):
                one.conclude(3, Changes(states=[change({**held}, row("k", 2))]))
        with pytest.raises(StoreBroken):
            one.ended_in_order()
    with store(path) as found:
        assert held_by(found) == held, "nothing of it was kept"


def test_what_a_process_was_told_to_be_decided_survives_its_death_D1(path: Path) -> None:
    process = Process(path, "5", "process")
    for number in range(1, 20):
        assert process.commit() == f"{number}\n"
    process.stop()
    process.kill()
    with store(path) as one:
        assert one.loaded.marks[0].position == 19
