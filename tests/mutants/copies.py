"""A copy of the shipped packages and the tests, in which mutants are applied, and tests run and judged.

Must not know rules or catalogues. Each run is a pytest process of its own, whose `witness` says what became of the test
and makes sure that the copy's code was what ran. Python's own caches can't mix up a file and its mutant: they are made
to be checked by the source's hash, not by its time.
"""

import asyncio
import compileall
import contextlib
import enum
import json
import os
import py_compile
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.mutants.mutant import Mutant

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = (
    *("acker", "topology", "spouts", "bolts", "bridge", "kedge.py", "kedge_pytest.py"),
    *("examples", "tests", "pyproject.toml"),
)
NOT_COPIED: Final = shutil.ignore_patterns("__pycache__", ".*", "*.db*", "*.so")  # what is compiled is not patched
TEST_LIMIT_S: Final = 20.0  # of one test; longer hangs
REST_LIMIT_S: Final = 40.0  # of all else that a process does; longer, and it is killed
SAID_MAX: Final = 2_000  # characters of a process's output that are shown where it went wrong


class Verdict(enum.Enum):
    GREEN = "green"  # all named tests passed, and none was skipped
    RED = "red"  # a test failed by what it found
    HUNG = "hung"  # a test did not end in its time
    BROKEN = "broken"  # nothing was learned: not collected, an error around the test, other code than the copy's


@dataclass(frozen=True)
class Outcome:
    """What a run of tests has shown; `text` is the failed assertion, or what went wrong, for people."""

    verdict: Verdict
    text: str = ""

    def kills(self, mutant: Mutant) -> bool:
        """Whether this run of a mutant's test has seen the mutant."""
        return self.verdict is Verdict.RED or (self.verdict is Verdict.HUNG and mutant.hangs)


class Copy:
    """A copy in a folder of its own; used by one run at a time."""

    def __init__(self, folder: Path) -> None:
        """Copies, which takes about a second. `folder` is made, and is the caller's to remove."""
        self.folder = folder
        for name in COPIED:
            source, target = ROOT / name, folder / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=NOT_COPIED)
            else:
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        checked = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(folder, quiet=2, invalidation_mode=checked)

    @contextlib.contextmanager
    def patched(self, mutant: Mutant) -> Iterator[None]:
        """The copy with this mutant in it. Raises BrokenMutant where it does not fit."""
        with contextlib.ExitStack() as undone:
            for one in (mutant, *mutant.also):
                changed = one.mutated_file(self.folder)
                file = self.folder / one.file
                undone.callback(file.write_bytes, file.read_bytes())
                file.write_text(changed, "utf-8")
            yield

    async def run(self, tests: Sequence[str], *, test_limit_s: float = TEST_LIMIT_S) -> Outcome:
        """Runs tests by their node ids, up to the first that fails. Cancelled, it leaves no process behind."""
        with tempfile.TemporaryDirectory(dir=self.folder) as beside:
            report, said = Path(beside) / "report.json", Path(beside) / "said.txt"
            with said.open("wb") as output:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "pytest", "-p", "tests.mutants.witness", "-p", "no:cacheprovider"),
                    *("-x", "-q", "--tb=line", f"--timeout={test_limit_s:g}", "--timeout-method=signal", *tests),
                    cwd=self.folder,
                    env=self._environment(report),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
                try:
                    async with asyncio.timeout(REST_LIMIT_S + test_limit_s * len(tests)):
                        status = await process.wait()
                except TimeoutError:
                    return Outcome(Verdict.HUNG, "killed: the process did not end")
                finally:
                    with contextlib.suppress(ProcessLookupError, PermissionError):  # the latter on macOS, for the dead
                        os.killpg(process.pid, signal.SIGKILL)  # and whatever it has started
                    await process.wait()
            return judged(status, report, said.read_text("utf-8", "replace")[-SAID_MAX:])

    def _environment(self, report: Path) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "KEDGE", "PYTHON"))}
        return {
            **kept,
            "PYTHONPATH": str(self.folder),  # before the installed packages, which are those of the work tree
            "PYTHONHASHSEED": "0",
            "MUTANTS_ROOT": str(self.folder),
            "MUTANTS_REPORT": str(report),
        }


def judged(status: int, report: Path, said: str) -> Outcome:
    """What pytest's exit status and the witness's report come to."""
    if not report.exists():
        return Outcome(Verdict.BROKEN, f"pytest ended with status {status}: {said.strip()}")
    found: dict[str, Any] = json.loads(report.read_text("utf-8"))
    if found["errors"]:
        return Outcome(Verdict.BROKEN, found["errors"][0])
    if found["hung"]:
        return Outcome(Verdict.HUNG, found["hung"][0])
    if found["failed"] and status == 1:
        return Outcome(Verdict.RED, found["failed"][0])
    if found["skipped"]:
        return Outcome(Verdict.BROKEN, f"skipped: {found['skipped'][0]}")
    if status == 0 and found["passed"]:
        return Outcome(Verdict.GREEN)
    return Outcome(Verdict.BROKEN, f"pytest ended with status {status}: {said.strip()}")
