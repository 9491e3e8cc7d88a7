"""An environment of its own for each set of needs, made by pip, kept in a folder, and made again when the needs change.

Must not know what runs in one.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

MADE: Final = ".made"  # written last: an environment without it was interrupted
PIPES: Final[dict[str, Any]] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.PIPE,
    "text": True,
    "start_new_session": True,
}
MAKE_S: Final = 120.0  # seconds for an empty environment
INSTALL_S: Final = 300.0  # seconds for its packages
# in each attempt, and at the end
NO_NETWORK: Final = re.compile(r"connection broken by .*\(from versions: none\)", re.DOTALL)
REASON: Final = re.compile(r"\[Errno -?[0-9]+\] ([\w ]+)")


class EnvironmentsError(Exception):
    """An environment could not be made. The text has the packages and the end of pip's output."""


class UnreachableError(EnvironmentsError):
    """pip has reached no package index: without a network no environment can be made."""


def python_of(folder: Path, needs: Sequence[str]) -> str:
    """Return the Python of the environment in this folder, which has these needs; the project's own if there are none.

    Blocks for as long as pip takes, within bounds. Raises EnvironmentsError, and UnreachableError without a network.
    """
    if not needs:
        return sys.executable
    python = _python(folder)
    if is_made(folder, needs):
        return str(python)
    print(f"installing {', '.join(needs)} into an environment of its own (once) ...", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentsError(f"{folder.parent} could not be created: {error.strerror}") from error
    _run([sys.executable, "-m", "venv", str(folder)], MAKE_S, needs)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    _run([*pip, "install", "--only-binary", ":all:", *needs], INSTALL_S, needs)
    (folder / MADE).write_text(_stamp(needs))
    return str(python)


def is_made(folder: Path, needs: Sequence[str]) -> bool:
    """Return True if `python_of` has nothing to install."""
    made = folder / MADE
    return not needs or (made.exists() and made.read_text() == _stamp(needs) and _python(folder).exists())


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _stamp(needs: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps([sys.version, sys.executable, *needs]).encode()).hexdigest()


def _run(command: Sequence[str], limit_s: float, needs: Sequence[str]) -> None:
    what = ", ".join(needs)
    with subprocess.Popen(command, **PIPES) as process:
        try:
            out, errors = process.communicate(timeout=limit_s)
        except BaseException as error:  # also Ctrl-C: pip ends with all its child processes
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise EnvironmentsError(f"{what} was not installed within {limit_s:g} s") from error
            raise
    if process.returncode:
        if NO_NETWORK.search(errors):
            reason = REASON.search(errors)
            raise UnreachableError(
                "pip reaches no package index, but needs one once, to install the peers' packages"
                + (f" ({reason[1]})" if reason else "")
            )
        said = (errors.strip() or out.strip() or "nothing said").splitlines()
        raise EnvironmentsError(f"installing {what} failed: {said[-1]}")


def versions_in(python: str, distributions: Sequence[str]) -> dict[str, str]:
    """Return the installed versions of these distributions for this Python; missing ones are left out."""
    code = (
        "import json, sys\nfrom importlib.metadata import PackageNotFoundError, version\nfound = {}\n"
        "for name in sys.argv[1:]:\n    try:\n        found[name] = version(name)\n"
        "    except PackageNotFoundError:\n        pass\nprint(json.dumps(found))"
    )
    done = subprocess.run([python, "-c", code, *distributions], capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found
