"""What the house rules look at: the project's own files, their imports and calls; and how a rule says that
it is broken.

Kept apart from the rules in `test_house.py`, so that each finder can be shown a snippet that breaks its rule.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("acker", "topology", "spouts", "bolts", "bridge")  # what is installed, beside the modules at the root
ALL_FOLDERS = (*PACKAGES, "examples", "benchmarks", "tests")


@dataclass(frozen=True)
class Import:
    """One imported module or name. `deferred`: inside a function, or for type checkers only."""

    target: str  # dotted; for `from a import b`, a.b
    line: int
    deferred: bool


@dataclass(frozen=True)
class SourceFile:
    """One file of the project. `path` is relative to the root, with slashes."""

    path: str
    text: str

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def folder(self) -> str:
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def tree(self) -> ast.Module:
        return parsed(self.text)


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def files(*folders: str) -> tuple[SourceFile, ...]:
    """The Python files of these folders, and the two at the root if "kedge" is one of them."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    if "kedge" in folders:
        paths += [ROOT / "kedge.py", ROOT / "kedge_pytest.py"]
    return tuple(SourceFile(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths)


def imports(tree: ast.Module) -> Iterator[Import]:
    """All imports of a file, wherever they stand. A relative one begins with its dots."""

    def within(nodes: list[ast.stmt] | list[ast.AST], deferred: bool) -> Iterator[Import]:
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from (Import(alias.name, node.lineno, deferred) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                start = "." * node.level + (node.module or "")
                yield from (Import(f"{start}.{alias.name}", node.lineno, deferred) for alias in node.names)
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                yield from within(list(node.body), True)
                yield from within(list(node.orelse), deferred)
            else:
                inner = deferred or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from within(list(ast.iter_child_nodes(node)), inner)

    return within(list(tree.body), False)


def own_modules(tree: ast.Module, known: set[str]) -> Iterator[tuple[str, Import]]:
    """The modules of the project that a file imports; of `from a import b`, a.b where that is a module, or else a."""
    for one in imports(tree):
        target = one.target
        while target and target not in known:
            target = target.rpartition(".")[0]
        if target:
            yield target, one


def dotted_uses(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each imported name that a file uses, spelled in full: `time.time` too where it was `from time import time as t`.

    A call without arguments ends in "()".
    """
    full: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                full[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                full[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def name_of(node: ast.AST) -> str | None:
        if isinstance(node, ast.Name):
            return full.get(node.id)
        if isinstance(node, ast.Attribute):
            start = name_of(node.value)
            return f"{start}.{node.attr}" if start else None
        return None

    def within(node: ast.AST) -> Iterator[tuple[str, int]]:
        if isinstance(node, ast.Call) and not node.args and not node.keywords and (name := name_of(node.func)):
            yield f"{name}()", node.lineno
        elif (name := name_of(node)) is not None:
            yield name, getattr(node, "lineno", 0)
        else:
            for child in ast.iter_child_nodes(node):
                yield from within(child)

    return within(tree)


def functions(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """Name, line and length in lines of each function, without its docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            told = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) else 0
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1 - told


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """One circle for each set of modules that import each other; empty where there is none."""
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(module: str, way: list[str]) -> None:
        if module in way:
            found.append([*way[way.index(module) :], module])
        elif module not in done:
            for target in sorted(graph.get(module, ())):
                visit(target, [*way, module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])
    return found


def report(broken: Iterable[str], advice: str) -> None:
    """Fails with one line for each place, and what to do."""
    lines = sorted(broken)
    if lines:
        pytest.fail("\n  ".join([advice, *lines]), pytrace=False)


def unneeded(table: Iterable[object], used: set[object]) -> list[str]:
    """Exceptions of a table for files that exist, that nothing needs any more."""
    entries = (entry for entry in table if entry not in used)
    paths = ((entry[0] if isinstance(entry, tuple) else str(entry).split(":")[0], entry) for entry in entries)
    return [f"{entry}: not needed any more, remove it" for path, entry in paths if (ROOT / str(path)).exists()]
