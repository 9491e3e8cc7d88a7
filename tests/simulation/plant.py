"""`python -m tests.simulation.plant`: plants one bug after the other, and tells which seed has found each.

Exit status 0 when all were found, 1 when one was not, or its patch does not fit. Must not know what a bug is.
"""

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.mutants.copies import Copy
from tests.mutants.mutant import BrokenMutant, Mutant
from tests.simulation import planted, planted_checkpoints

PLANTED: Final = (*planted.PLANTED, *planted_checkpoints.PLANTED)
SEEDS: Final = 600  # some bugs need two faults at the right moments
LIMIT_S: Final = 600.0  # for one bug
FOUND: Final = re.compile(r"^FAILED seed (\d+)(.*)$", re.MULTILINE)


async def found(copy: Copy, bug: Mutant, *, seeds: int = SEEDS, jobs: int = 1) -> str:
    """Which seed has found this bug and how, in a line; empty where none has. Raises BrokenMutant."""
    with copy.patched(bug):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.simulation", f"--seeds={seeds}", f"--jobs={jobs}", "--stop"),
            cwd=copy.folder,
            env={**os.environ, "PYTHONPATH": str(copy.folder)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(LIMIT_S):
                said, _ = await process.communicate()
        except TimeoutError:
            return ""
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    match = FOUND.search(said.decode(errors="replace"))
    return f"seed {match[1]}{match[2]}"[:200] if match and process.returncode == 1 else ""


async def _all(bugs: Sequence[Mutant], jobs: int, folder: Path) -> int:
    waiting, missed = list(reversed(bugs)), 0

    async def work(number: int) -> None:
        nonlocal missed
        copy = Copy(folder / str(number))
        while waiting:
            bug, begun = waiting.pop(), time.monotonic()
            try:
                how = await found(copy, bug)
            except BrokenMutant as error:
                how = ""
                print(error)
            missed += not how
            word = "found " if how else "MISSED"
            print(f"{bug.rule:4} {word} {time.monotonic() - begun:5.1f} s  {bug.breaks}\n     {how}", flush=True)

    await asyncio.gather(*(work(number) for number in range(jobs)))
    print(f"\n{len(bugs)} bugs planted, {len(bugs) - missed} found")
    return 1 if missed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.plant", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("rules", nargs="*", metavar="RULE", help="only these, E3 for example")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="bugs side by side")
    given = parser.parse_args(arguments)
    bugs = [one for one in PLANTED if not given.rules or one.rule in given.rules]
    with tempfile.TemporaryDirectory(prefix="kedge-planted-") as folder:
        return asyncio.run(_all(bugs, given.jobs, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
