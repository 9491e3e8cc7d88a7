"""What tests of worker processes are given: a run directory, and workers in it that end with the test."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from process_kit import Spawn, WorkerAt


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
