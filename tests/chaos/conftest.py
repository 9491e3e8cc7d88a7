"""A folder for each test's runs, and what has to be true of it afterwards."""

import compileall
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos_kit import ALL_GONE_S, wait_for
from proc_kit import left_over

from topology.user_frames import HOME, PACKAGES

# Hundreds of processes import Kedge here. Where Python keeps no bytecode by itself (PYTHONDONTWRITEBYTECODE, as in many
# containers), each would compile all of it, which takes twice as long as all else of its start.
for package in PACKAGES:
    compileall.compile_dir(HOME / package, quiet=2)


@pytest.fixture
def folder() -> Iterator[Path]:
    """For a store, state and books, with a place for run directories: its path is short, as sockets' paths have to be.
    Whatever a test did to its runs, no process, socket or run directory may be left of them."""
    place = Path(tempfile.mkdtemp(prefix="chaos-"))
    for name in ("r", "books"):
        (place / name).mkdir(mode=0o700)
    try:
        yield place
        try:
            wait_for(lambda: not left_over(place), "the end of all processes", within_s=ALL_GONE_S)
        finally:
            assert left_over(place) == []
    finally:
        shutil.rmtree(place)
