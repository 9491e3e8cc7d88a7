"""What tests of worker processes are given: a run directory, and workers in it that end with the test."""

import compileall
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from process_kit import Spawn, WorkerAt

from topology.frames import HOME, PACKAGES

# Hundreds of processes import Kedge here. Where Python keeps no bytecode by itself (PYTHONDONTWRITEBYTECODE, as in many
# containers), each would compile all of it, which takes twice as long as all else of its start.
for package in PACKAGES:
    compileall.compile_dir(HOME / package, quiet=2)


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
