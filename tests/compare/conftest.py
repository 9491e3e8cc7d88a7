"""Tests here run the command as those of the command line do, with their kits."""

import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

CLI = Path(__file__).parents[1] / "cli"
sys.path.insert(0, str(CLI))  # for cli_kit, terminal_kit

# How long an example takes is the machine's, and no property.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of this test's own, for its processes too: a comparison keeps logs there."""
    folder = tmp_path_factory.mktemp("temp")  # short: the paths of sockets are
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the topologies of the command line's tests are."""
    from cli_kit import COUNTING, ENDLESS

    (tmp_path / "counting.py").write_text(COUNTING)
    (tmp_path / "endless.py").write_text(ENDLESS)
    return tmp_path
