"""The build of the pages, once for all tests of this folder, and only where one of them looks at it."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from snippets import ROOT

HERE = Path(__file__).parent
BUILD_LIMIT_S = 300.0  # a build takes half a minute, and four times as long beside other tests on a slow machine
TEST_LIMIT_S = 2 * BUILD_LIMIT_S + 30  # for a test that waits for the build of another process, and builds once itself


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whichever test comes first builds the pages, so each test that looks at them may take as long as that."""
    for item in items:
        if item.path.is_relative_to(HERE) and "built" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(TEST_LIMIT_S))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all pages are, as HTML; every warning is an error. Fails where the build said anything."""
    base = tmp_path_factory.getbasetemp()
    with one_at_a_time((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "html.lock") as lock:
        to = lock.with_suffix("")
        if not to.exists():
            build(to)
    return to


@contextlib.contextmanager
def one_at_a_time(lock: Path) -> Iterator[Path]:
    """Processes of one run of the tests wait here for each other."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield lock


def build(to: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-d", f"{to}/.trees", "docs", str(to)]
    made = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=BUILD_LIMIT_S,
        check=False,
    )
    if made.returncode:
        shutil.rmtree(to, ignore_errors=True)  # so that it fails in each process
        pytest.fail(made.stderr, pytrace=False)
