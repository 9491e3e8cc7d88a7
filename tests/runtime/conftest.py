"""What these tests are given: a folder in memory; of worker processes, a run directory, and workers that end with the
test."""

import compileall
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from process_kit import Spawn, WorkerAt

from topology.user_frames import HOME, PACKAGES

# Hundreds of processes import Kedge here. Where Python keeps no bytecode by itself (PYTHONDONTWRITEBYTECODE, as in many
# containers), each would compile all of it, which takes twice as long as all else of its start.
for package in PACKAGES:
    compileall.compile_dir(HOME / package, quiet=2)


MEMORY = Path("/dev/shm")
ROOM_BYTES = 1 << 30  # that a machine has to have there; a test takes some megabytes


def in_memory() -> bool:
    """Whether there is a file system in memory, with room, on which programs may run as on any other."""
    if not os.access(MEMORY, os.W_OK):
        return False
    found = os.statvfs(MEMORY)
    return found.f_bavail * found.f_frsize > ROOM_BYTES and not found.f_flag & getattr(os, "ST_NOEXEC", 0)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of the test's own, in memory where that can be: a run of some seconds of virtual time commits dozens
    of times, and each commit would wait for a disk to sync, three times as long as all else takes. What a loss of power
    leaves is shown by simulated disks; `tests/storage` and `tests/chaos` are on the real one."""
    place = Path(tempfile.mkdtemp(prefix="kedge-test-", dir=MEMORY if in_memory() else None))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A run directory: short, as paths of sockets have to be."""
    path = Path(tempfile.mkdtemp(prefix="kedge-test-"))
    yield path
    if path.exists():
        path.rmdir()


@pytest.fixture
def spawn(directory: Path) -> Iterator[Spawn]:
    """Starts workers, and ends them."""
    started: list[WorkerAt] = []

    def start(worker: int = 0, workers: int = 1) -> WorkerAt:
        started.append(WorkerAt(directory, worker, workers))
        return started[-1]

    yield start
    for one in started:
        _, err = one.kill()
        assert not err
    for name in os.listdir(directory) if directory.exists() else []:
        os.unlink(directory / name)
