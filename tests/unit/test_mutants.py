"""That the mutants still fit the code, each rule has one, and what runs them tells red from green.

The mutants themselves are run by `make mutants`, which takes a minute or two; here is what keeps them from going stale.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # `tests` is not installed

from tests.mutants.__main__ import main
from tests.mutants.catalogue import MUTANTS, RULES, of_rules
from tests.mutants.copies import ROOT, Copy, Outcome, Verdict
from tests.mutants.mutant import BrokenMutant, Mutant

SHIPPED = ("acker/", "topology/", "spouts/", "bolts/", "bridge/", "examples/", "kedge.py")


# -- the mutants


def test_each_rule_that_holds_from_the_start_has_a_mutant() -> None:
    assert set(RULES) - {mutant.rule for mutant in MUTANTS} == set()


@pytest.mark.parametrize("rule", sorted({mutant.rule for mutant in MUTANTS}))
def test_each_mutant_fits_the_shipped_code_in_one_place(rule: str) -> None:
    for mutant in of_rules([rule]):
        assert mutant.file.startswith(SHIPPED)
        mutant.mutated_file(ROOT)


def test_no_two_mutants_are_the_same() -> None:
    patches = [(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS]
    assert len(set(patches)) == len(patches)
    sentences = [mutant.breaks for mutant in MUTANTS]
    assert len(set(sentences)) == len(sentences)


def test_each_named_test_exists() -> None:
    files = sorted({mutant.test.partition("::")[0] for mutant in MUTANTS})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout[-2_000:]
    cases = {*done.stdout.splitlines()}  # a mutant may name one case of a test, test_x[4], or all of them, test_x
    there = cases | {case.partition("[")[0] for case in cases}
    assert sorted({mutant.test for mutant in MUTANTS} - there) == []


# -- a mutant


ONE = Mutant("A1", "nothing", "x.py", old="a = 1", new="a = 2", test="")


@pytest.mark.parametrize("text", ["b = 1\n", "a = 1\na = 1\n", "a = 1 if\n"], ids=["nowhere", "twice", "no Python"])
def test_a_patch_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(BrokenMutant, match="A1"):
        ONE.mutated(text)


def test_a_patch_that_changes_nothing_or_has_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokenMutant, match="changes nothing"):
        replace(ONE, new=ONE.old).mutated("a = 1\n")
    with pytest.raises(BrokenMutant, match=r"there is no x\.py"):
        ONE.mutated_file(tmp_path)


# -- what runs them


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("mutants") / "copy")


SMALL = next(mutant for mutant in MUTANTS if mutant.rule == "B12" and mutant.file == "acker/identity.py")
TESTS = """
import time
import pytest
import acker.identity

def test_green(): assert acker.identity.MASK
def test_red(): assert not acker.identity.MASK
def test_hangs(): time.sleep(60)
def test_skipped(): pytest.skip("a reason")
def test_errs(no_such_fixture): pass
"""


async def test_a_real_mutant_is_killed_and_the_copy_is_as_before(copy: Copy) -> None:
    before = (copy.folder / SMALL.file).read_bytes()
    with copy.patched(SMALL):
        assert (copy.folder / SMALL.file).read_bytes() != before
        red = await copy.run([SMALL.test])
    green = await copy.run([SMALL.test])
    assert (red.verdict, green.verdict) == (Verdict.RED, Verdict.GREEN), (red.text, green.text)
    assert (copy.folder / SMALL.file).read_bytes() == before == (ROOT / SMALL.file).read_bytes()


@pytest.mark.parametrize(
    ("test", "verdict", "said"),
    [
        ("test_green", Verdict.GREEN, ""),
        ("test_red", Verdict.RED, "assert not"),
        ("test_hangs", Verdict.HUNG, "Timeout"),
        ("test_skipped", Verdict.BROKEN, "a reason"),
        ("test_errs", Verdict.BROKEN, "no_such_fixture"),
        ("test_missing", Verdict.BROKEN, "not found"),
    ],
)
async def test_red_is_told_from_all_that_only_looks_like_it(copy: Copy, test: str, verdict: Verdict, said: str) -> None:
    (copy.folder / "tests" / "test_verdicts.py").write_text(TESTS)
    outcome = await copy.run([f"tests/test_verdicts.py::{test}"], test_limit_s=1 if test == "test_hangs" else 20)
    assert outcome.verdict is verdict, outcome.text
    assert said in outcome.text


async def test_code_that_can_not_be_imported_is_not_taken_for_red(copy: Copy) -> None:
    breaks = replace(SMALL, new='_BYTES: Final = b"\\x03" + no_such_name')
    with copy.patched(breaks):
        outcome = await copy.run([SMALL.test])
    assert outcome.verdict is Verdict.BROKEN
    assert "no_such_name" in outcome.text


async def test_other_code_than_the_copys_is_never_tested(copy: Copy) -> None:
    """The packages of the work tree are installed, and would be imported where the copy had none."""
    (copy.folder / "acker").rename(copy.folder / "away")
    try:
        outcome = await copy.run([SMALL.test])
    finally:
        (copy.folder / "away").rename(copy.folder / "acker")
    assert outcome.verdict is Verdict.BROKEN
    assert "acker comes from" in outcome.text


def test_hanging_kills_only_a_mutant_that_says_so() -> None:
    hung = Outcome(Verdict.HUNG)
    assert not hung.kills(ONE)
    assert hung.kills(replace(ONE, hangs=True))
    assert Outcome(Verdict.RED).kills(ONE)
    assert not any(Outcome(verdict).kills(ONE) for verdict in (Verdict.GREEN, Verdict.BROKEN))


def test_the_command_lists_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "b12"]) == 0
    assert SMALL.breaks in capsys.readouterr().out
    assert main(["Z9"]) == 2
    assert "no mutant breaks rule 'Z9'" in capsys.readouterr().err
