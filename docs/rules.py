"""The page of the rules, `docs/internals/rules.md`, as data: what it says of each rule, and what code and tests cite.

`python docs/rules.py` puts another test in the place of each that does not exist any more: the test of a mutant of that
rule (`tests/mutants`), else one whose name has the rule's number. Knows the form of the page, and no rule.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs/internals/rules.md"
PACKAGES: Final = ("acker", "topology", "spouts", "bolts", "bridge", "examples")

RULE: Final = re.compile(r"(?<![\w#&\"'./-])([A-FS]\d{1,2}|P1[0-6]|P[1-9])(?![\w-])")  # K523 is a code, and no rule
IN_A_NAME: Final = re.compile(r"(?<=_)([a-fsA-FS]\d{1,2}|[pP]1[0-6]|[pP][1-9])(?=_|\Z)")  # p99 is a percentile
TEST: Final = re.compile(r"def (test_\w+)\(")
NODE: Final = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
MODULE: Final = re.compile(r"`((?:acker|topology|spouts|bolts|bridge)/[\w/]+\.py)`")
ENTRY: Final = re.compile(r"^- \*\*([A-FPS]\d{1,2})\*\* .*?(?=\n\n|\n- |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """One rule of the page: the modules that keep it, and the tests that see it broken, as (file, name)."""

    rule: str
    text: str
    modules: tuple[str, ...]
    tests: tuple[tuple[str, str], ...]


def entries(text: str) -> list[Entry]:
    """All rules of the page, in its order."""
    return [
        Entry(found[1], found[0], (*MODULE.findall(found[0]),), (*NODE.findall(found[0]),))
        for found in ENTRY.finditer(text)
    ]


def cited_by_packages() -> dict[str, str]:
    """Each rule that a file of our packages cites → one such file."""
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    return {rule: _path(file) for file in files for rule in RULE.findall(file.read_text("utf-8"))}


def cited_by_tests() -> dict[str, list[tuple[str, str]]]:
    """Each rule that is in a test's name → these tests, as (file, name)."""
    found: dict[str, list[tuple[str, str]]] = {}
    for file, name in _tests():
        for rule in IN_A_NAME.findall(name):
            found.setdefault(rule.upper(), []).append((file, name))
    return found


def exists(file: str, name: str) -> bool:
    """Return whether that file has a test of that name."""
    return (file, name) in _tests()


def repaired(text: str) -> str:
    """The page with another test in the place of each that does not exist. Raises LookupError where there is none."""
    named = cited_by_tests()
    for entry in entries(text):
        for file, name in entry.tests:
            if not exists(file, name):
                candidates = [*_of_mutants(entry.rule), *named.get(entry.rule, [])]
                if not candidates:
                    raise LookupError(f"{entry.rule} names {file}::{name}, which does not exist; no other test has it")
                text = text.replace(f"`{file}::{name}`", "`{}::{}`".format(*candidates[0]))
    return text


def _of_mutants(rule: str) -> Iterator[tuple[str, str]]:
    sys.path.insert(0, str(ROOT))  # `tests` is not installed
    from tests.mutants.catalogue import MUTANTS

    for mutant in MUTANTS:
        file, _, name = mutant.test.partition("::")
        if mutant.rule == rule:
            yield file, name.partition("[")[0]


@cache
def _tests() -> dict[tuple[str, str], None]:
    """All tests, as (file, name), in order."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return dict.fromkeys((_path(file), name) for file in files for name in TEST.findall(file.read_text("utf-8")))


def _path(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


if __name__ == "__main__":
    PAGE.write_text(repaired(PAGE.read_text("utf-8")), "utf-8")
