"""Advice that loses data says what is lost before it names the way; no rule's number is told to users."""

import ast
import re
from collections.abc import Iterator

import pytest
from house import SourceFile, files

from topology.codes.catalogue import CODES
from topology.codes.code import FRESH, LOSS, NEW_DIRECTORY, Code

PRODUCT = ("acker", "topology", "spouts", "bolts", "bridge", "kedge", "kedge_pytest")
RULE = re.compile(r"\((?:[A-FPS]\d{1,2})(?:, [A-FPS]\d{1,2})*\)")
WAYS = re.compile(r"--fresh|--accept-loss|\bmove [^,;.]*\baway\b")
LOST = re.compile(r"give[s]? up|which is lost|is lost")

# Files whose words name a way and are not advice → why.
NOT_ADVICE = {
    "topology/cli/options.py": "the help of the options",
    "topology/cli/commands/run.py": "the options by their names, for what can't be combined",
    "topology/cli/next_steps.py": "the options that hold for one run",
    "topology/runtime/run/startup.py": "what a run that was given the option has done",
    "topology/storage/directory/checks.py": "what a run with the option has done; its advice is tested by hand",
    "topology/storage/rescale/resolve.py": "what a run with the option has done",
}


def advised() -> list[Code]:
    return [one for one in CODES.values() if WAYS.search(one.next)]


@pytest.mark.parametrize("code", advised(), ids=str)
def test_an_advice_that_loses_data_says_so_before_it_names_the_way(code: Code) -> None:
    for found in WAYS.finditer(code.next):
        assert LOST.search(code.next[: found.start()]), code.next


@pytest.mark.parametrize("text", [FRESH, LOSS, NEW_DIRECTORY])
def test_the_words_for_each_way_name_all_that_it_loses(text: str) -> None:
    first = WAYS.search(text)
    assert first is not None
    assert "positions" in text[: first.start()]
    assert "state" in text[: first.start()]
    assert ("dead letters" in text[: first.start()]) is (text != FRESH)  # --fresh keeps these


def test_what_advises_to_begin_anew_uses_these_words() -> None:
    own = [
        f"{file.path}:{node.lineno}"
        for file in files(*PRODUCT)
        if file.path not in NOT_ADVICE and not file.path.startswith("topology/codes/")
        for node in texts(file)
        if "--fresh" in str(node.value) or "--accept-loss" in str(node.value)
    ]
    assert own == []


def test_no_text_that_users_see_has_the_number_of_a_rule() -> None:
    found = [
        f"{file.path}:{node.lineno}: {node.value}"
        for file in files(*PRODUCT)
        for node in texts(file)
        if RULE.search(str(node.value))
    ]
    assert found == []


@pytest.mark.parametrize("text", ["never replayed (B10)", "agree (D8)", "both (A1, F67)"])
def test_the_number_of_a_rule_is_found(text: str) -> None:
    assert RULE.search(text)


def texts(file: SourceFile) -> Iterator[ast.Constant]:
    """The string constants of a file, but for docstrings: those stand alone."""
    alone = {id(node.value) for node in ast.walk(file.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node
