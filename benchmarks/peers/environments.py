"""An environment of its own for each set of needs, made by pip, kept in a folder, and made again when the needs change.

Must not know what runs in one.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

MADE: Final = ".made"  # is written last: an environment without it was cut short
MAKE_S: Final = 120.0  # for an empty environment
INSTALL_S: Final = 300.0  # for what goes into it


class EnvironmentsError(Exception):
    """An environment could not be made: what was asked for, and the last of what pip has said."""


def python_of(folder: Path, needs: Sequence[str]) -> str:
    """The Python of the environment in this folder, which has these needs; the project's own where there are none.

    Blocks for as long as pip takes, within bounds. Raises EnvironmentsError.
    """
    if not needs:
        return sys.executable
    python = folder / "bin" / "python"
    stamp = hashlib.sha256(json.dumps([sys.version, sys.executable, *needs]).encode()).hexdigest()
    made = folder / MADE
    if made.exists() and made.read_text() == stamp and python.exists():
        return str(python)
    print(f"installing {', '.join(needs)} into an environment of its own (once) ...", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "venv", str(folder)], MAKE_S, needs)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    _run([*pip, "install", "--only-binary", ":all:", *needs], INSTALL_S, needs)
    made.write_text(stamp)
    return str(python)


def _run(command: Sequence[str], limit_s: float, needs: Sequence[str]) -> None:
    what = ", ".join(needs)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentsError(f"{what} was not installed within {limit_s:g} s") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing said").splitlines()
        raise EnvironmentsError(f"{what} can't be installed: {said[-1]}")


def versions_in(python: str, distributions: Sequence[str]) -> dict[str, str]:
    """The versions of what is installed beside this Python, of these; those that are not there are left out."""
    code = (
        "import json, sys\nfrom importlib.metadata import PackageNotFoundError, version\nfound = {}\n"
        "for name in sys.argv[1:]:\n    try:\n        found[name] = version(name)\n"
        "    except PackageNotFoundError:\n        pass\nprint(json.dumps(found))"
    )
    done = subprocess.run([python, "-c", code, *distributions], capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found
