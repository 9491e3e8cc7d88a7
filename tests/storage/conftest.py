"""Where the tests of stores have their files: in memory, where the system has such a place.

Losses of power and full disks are simulated here, and a real sync changes nothing of what is seen: on a disk these
tests do little else than wait for syncs, thousands of them. A test of real disks asks for `disk_path`.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ROOM_BYTES = 256 * 1024 * 1024  # containers often have 64 MiB there


def has_room() -> bool:
    if not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK)):
        return False
    there = os.statvfs(MEMORY)
    return there.f_bavail * there.f_frsize >= ROOM_BYTES


@pytest.fixture
def disk_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("disk")


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory of the test's own, as pytest's, which it is where there is no room in memory."""
    if not has_room():
        disk_path: Path = request.getfixturevalue("disk_path")
        yield disk_path
        return
    path = Path(tempfile.mkdtemp(prefix="kedge-test-", dir=MEMORY))
    try:
        yield path
    finally:
        shutil.rmtree(path)
