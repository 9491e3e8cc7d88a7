"""That planted bugs fit the code, and are found: some of them here, all by `make planted`."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # `tests` is not installed

from tests.mutants.copies import ROOT, Copy
from tests.mutants.mutant import Mutant
from tests.simulation.plant import PLANTED, found


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: f"{bug.rule}-{bug.file.rpartition('/')[2]}")
def test_each_planted_bug_fits_the_shipped_code_in_one_place(bug: Mutant) -> None:
    for one in (bug, *bug.also):
        one.mutated_file(ROOT)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("planted") / "copy")


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "breaks",
    [
        "passes a dead message before its letter is kept",
        "on the task that a tuple goes to",
        "a tuple of a message that is done is taken",
        "is forgotten once the first is done, and taken until all are",
    ],
)
async def test_the_simulator_finds_a_planted_bug(breaks: str, copy: Copy) -> None:
    bug = next(one for one in PLANTED if breaks in one.breaks)
    how = await found(copy, bug, seeds=50, jobs=os.cpu_count() or 1)
    print(how)
    assert how.startswith("seed ")


@pytest.mark.slow
async def test_nothing_is_found_where_nothing_is_planted(copy: Copy) -> None:
    harmless = Mutant(
        "A1", "nothing", "acker/roots.py", old="        return root + 1", new="        return 1 + root", test=""
    )
    assert not await found(copy, harmless, seeds=4)
