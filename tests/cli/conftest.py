"""A folder with the topologies that the tests of the command run."""

from pathlib import Path

import pytest
from cli_kit import COUNTING, ENDLESS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "counting.py").write_text(COUNTING)
    (tmp_path / "endless.py").write_text(ENDLESS)
    return tmp_path
