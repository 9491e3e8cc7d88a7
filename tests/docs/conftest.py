"""The build of the pages, once for all tests of this folder, and only where one of them looks at it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from snippets import ROOT

LIMIT_S = 110.0


@pytest.fixture(scope="session", autouse=True)
def building(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, "subprocess.Popen[str]"] | None]:
    """Begins the build, and does not wait for it; every warning is an error."""
    if not any("built" in getattr(item, "fixturenames", ()) for item in request.session.items):
        yield None
        return
    to = tmp_path_factory.mktemp("html")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-d", f"{to}/.trees", "docs", str(to)]
    with (to / ".told").open("w", encoding="utf-8") as told:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=told, text=True)
        try:
            yield to, process
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def built(building: tuple[Path, "subprocess.Popen[str]"] | None) -> Path:
    """Where all pages are, as HTML. Waits for the build; fails where it said anything."""
    assert building is not None
    to, process = building
    if process.wait(LIMIT_S):
        pytest.fail((to / ".told").read_text("utf-8"), pytrace=False)
    return to
