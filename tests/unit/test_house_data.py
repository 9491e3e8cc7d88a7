"""What is read is data (S13): nothing of ours evaluates text, and no bytes from outside become code."""

import ast
from collections.abc import Iterator

import pytest
from house import PACKAGES, files, imports, parsed

EVALUATES = {"eval", "exec", "compile", "__import__", "execfile"}
LOADERS = {"yaml", "ruamel", "jsonpickle", "joblib", "simpleeval", "asteval", "runpy", "code", "codeop"}


def evaluating(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Where a built-in that makes code of text is named, called or not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in EVALUATES:
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and node.attr in EVALUATES and ast.unparse(node.value) == "builtins":
            yield node.attr, node.lineno


def loading(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for one in imports(tree):
        if one.target.split(".")[0] in LOADERS:
            yield one.target, one.line


def test_s13_nothing_is_ever_evaluated() -> None:
    found = [
        f"{file.path}:{line} {name}"
        for file in files(*PACKAGES, "examples", "benchmarks", "kedge")
        for name, line in [*evaluating(file.tree), *loading(file.tree)]
    ]
    assert found == [], "what comes from outside is data; decode it by type"


@pytest.mark.parametrize(
    "text",
    [
        "eval('1')",
        "f = exec",
        "import builtins\nbuiltins.eval(x)",
        "import yaml\nyaml.load(x)",
        "compile(x, '', 'eval')",
    ],
)
def test_the_finder_finds_it(text: str) -> None:
    assert [*evaluating(parsed(text)), *loading(parsed(text))]


def test_what_only_looks_alike_is_left_alone() -> None:
    text = "import re\nre.compile(x)\ndef f(self):\n    self.exec(x)\n    inspect.signature(f, eval_str=True)\n"
    assert [*evaluating(parsed(text)), *loading(parsed(text))] == []
