"""Built once and installed once for all tests of this folder: it takes a while."""

from pathlib import Path

import pytest
from install_kit import Stranger, built, copied, stranger


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source, without git."""
    return copied(tmp_path_factory.mktemp("source") / "kedge")


@pytest.fixture(scope="session")
def dist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution, and a wheel that was built out of it."""
    return built(source, tmp_path_factory.mktemp("dist")).parent


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def newcomer(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Stranger:
    """Has installed the wheel, and nothing besides."""
    return stranger(tmp_path_factory.mktemp("newcomer"), wheel)
