"""The build of the pages, once for all tests of this folder, and only where one of them looks at it."""

import subprocess
import sys
from pathlib import Path

import pytest
from snippets import ROOT

LIMIT_S = 110.0


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all pages are, as HTML; every warning is an error. Fails where the build said anything."""
    to = tmp_path_factory.mktemp("html")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-d", f"{to}/.trees", "docs", str(to)]
    made = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False
    )
    if made.returncode:
        pytest.fail(made.stderr, pytrace=False)
    return to
