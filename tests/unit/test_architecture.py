"""ARCHITECTURE.md against the code: its map has each room, its walks name symbols that exist, and it stays short."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from house import PACKAGES, ROOT, files, report

PAGE = ROOT / "ARCHITECTURE.md"
BYTES_MAX = 14_000  # the map has a row for each room
ROW = re.compile(r"\| `([\w/]+)` \| ([^|]+) \| ([^|]+) \| `([\w/]+\.py)` \|")
PLACE = re.compile(r"`((?:acker|topology|spouts|bolts|bridge)/[\w/]+(?:\.py)?)(?::([A-Za-z_][\w.]*))?`")
SYMBOL = re.compile(r"`([A-Z]\w+)(?:\.(\w+))?`")
PAGES = (
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/internals/*.md")),
)


def test_the_page_can_be_read_in_a_sitting() -> None:
    assert len(PAGE.read_bytes()) <= BYTES_MAX, "move depth to docs/internals"


def test_the_map_has_each_room_once_and_a_file_to_start_at() -> None:
    rows = ROW.findall(PAGE.read_text("utf-8"))
    rooms = sorted({file.path.rpartition("/")[0] for file in files(*PACKAGES)})
    assert sorted(room for room, *_ in rows) == rooms
    report((f"{room}: {start}" for room, *_, start in rows if not (ROOT / room / start).is_file()), "not there:")


@pytest.mark.parametrize("page", PAGES)
def test_each_file_and_symbol_that_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    wrong = []
    for path, symbol in PLACE.findall(text):
        file = ROOT / path
        if not (file.exists() or file.with_suffix(".py").exists()):
            wrong.append(path)
        elif symbol and not defined(file, symbol):
            wrong.append(f"{path}:{symbol}")
    for cls, member in SYMBOL.findall(text):
        if member and cls in classes() and member not in classes()[cls]:
            wrong.append(f"{cls}.{member}")
    report(wrong, f"{page} names what is not there:")


def defined(file: Path, symbol: str) -> bool:
    """Whether a file has this class, function or constant, or this member of a class."""
    cls, _, member = symbol.partition(".")
    names = {
        getattr(node, "name", "") or getattr(getattr(node, "target", None), "id", "")
        for node in ast.parse(file.read_text("utf-8")).body
    }
    return cls in names and (not member or member in classes().get(cls, set()))


@cache
def classes() -> dict[str, set[str]]:
    """Class → the methods and attributes that its body names, its bases' included where they are ours."""
    found: dict[str, set[str]] = {}
    bases: dict[str, list[str]] = {}
    for file in files(*PACKAGES):
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ClassDef):
                members = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
                members |= {part.name for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)}
                members |= {
                    part.target.id
                    for part in node.body
                    if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
                }
                members |= {
                    name.id
                    for part in node.body
                    if isinstance(part, ast.Assign)
                    for name in part.targets
                    if isinstance(name, ast.Name)
                }
                found.setdefault(node.name, set()).update(members)
                bases[node.name] = [ast.unparse(base).partition("[")[0] for base in node.bases]
    for name in found:
        todo = [*bases[name]]
        while todo:
            base = todo.pop()
            if base in found:
                found[name] |= found[base]
                todo += bases[base]
    return found


def test_the_finder_finds_what_is_not_there() -> None:
    assert defined(ROOT / "acker/ledger.py", "Ledger.ack")
    assert not defined(ROOT / "acker/ledger.py", "Ledger.ackk")
    assert not defined(ROOT / "acker/ledger.py", "Ledgers")
