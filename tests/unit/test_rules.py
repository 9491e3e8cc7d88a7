"""The page of the rules has each rule that our code and our tests cite, and what it names exists."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))  # `docs` is not installed

import rules  # noqa: E402 - found on the path above

ENTRIES = rules.entries(rules.PAGE.read_text("utf-8"))
NAMED = {entry.rule for entry in ENTRIES}


def test_each_rule_that_a_package_cites_is_on_the_page() -> None:
    cited = rules.cited_by_packages()
    assert len(cited) > 100
    assert {rule: file for rule, file in cited.items() if rule not in NAMED} == {}


def test_each_rule_in_the_name_of_a_test_is_on_the_page() -> None:
    cited = rules.cited_by_tests()
    assert len(cited) > 100
    assert {rule: tests[0] for rule, tests in cited.items() if rule not in NAMED} == {}


def test_no_rule_is_on_the_page_twice() -> None:
    assert len(NAMED) == len(ENTRIES)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.rule)
def test_a_rule_names_modules_and_tests_that_exist(entry: rules.Entry) -> None:
    assert entry.modules
    assert entry.tests
    assert [module for module in entry.modules if not (ROOT / module).is_file()] == []
    assert [test for test in entry.tests if not rules.exists(*test)] == []


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.rule)
def test_a_rule_says_what_goes_wrong_and_what_holds(entry: rules.Entry) -> None:
    assert "Trap: " in entry.text
    assert "Rule: " in entry.text
    assert "Kept in " in entry.text
    assert "Test: " in entry.text


def test_a_test_that_does_not_exist_any_more_is_replaced_by_one_of_the_same_rule() -> None:
    page = "- **A2** Title. Trap: x. Rule: y.\n  Kept in `acker/ledger.py`. Test: `tests/x.py::test_gone`.\n"
    (entry,) = rules.entries(rules.repaired(page))
    assert [rules.exists(*test) for test in entry.tests] == [True]
    assert "A2" in entry.tests[0][1]


def test_a_rule_that_no_test_has_is_an_error() -> None:
    page = "- **A99** Title. Trap: x. Rule: y. Kept in `acker/ledger.py`. Test: `tests/x.py::test_gone`.\n"
    with pytest.raises(LookupError, match="A99"):
        rules.repaired(page)
