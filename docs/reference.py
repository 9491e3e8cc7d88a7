"""Pages made of text that stands elsewhere: docstrings as Sphinx reads them, the command line's own help, files of the
root.

A Sphinx extension; knows how the house writes docstrings, and what none of them says.
"""

import ast
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective
from sphinx.util.logging import getLogger

logger = getLogger(__name__)
ENTRY = re.compile(r"(?P<name>[a-z_]+(?:, [a-z_]+)*)  +(?P<text>\S.*)")  # `max_pending   open trees a spout task; …`
ITEM = re.compile(r"[-*] ")
NOT_CALLED = {"topology.Stream", "topology.Input"}  # a topology makes them, users do not
RULE = re.compile(r"\s+\([A-E]\d+(?: [iv]+)?(?:, [A-E]\d+(?: [iv]+)?)*\)")  # the house's numbers; no page has the list
FACTORY = re.compile(
    r"<(?:factory|function [^=]*?<lambda>)>"
)  # a default that is made for each call; Python can't say it
FIRST_LINE = re.compile(r"(?:async )?def |@")  # of an example whose indentation was taken for the docstring's
LINK = re.compile(r"\]\((?!https?://)([^)\s]+)\)")


def as_rst(lines: list[str]) -> list[str]:
    """A docstring of ours as reStructuredText: aligned names become a definition list, an indented block after a
    paragraph an example, and lists get the empty line that reStructuredText wants before them. Numbers of rules are
    left out."""
    return [*_as_rst(_indented(RULE.sub("", "\n".join(lines)).split("\n")))]


def _indented(lines: list[str]) -> list[str]:
    """Puts the indentation of an example back, taken for the docstring's where nothing else follows its first line."""
    begin = next((index for index, line in enumerate(lines) if FIRST_LINE.match(line)), len(lines))
    return [*lines[:begin], *(f"    {line}" if line.strip() else line for line in lines[begin:])]


def _as_rst(lines: list[str]) -> Iterator[str]:
    before = ""  # the last line that is not empty
    index = 0
    while index < len(lines):
        line = lines[index]
        if (entry := ENTRY.fullmatch(line)) and index + 1 < len(lines):
            if index and lines[index - 1].strip() and before:
                yield ""
            index = yield from _definition(lines, index, entry)
            before = ""
            continue
        if line.startswith("    ") and index and not lines[index - 1].strip() and not ITEM.match(before):
            index = yield from _example(lines, index)
            continue
        if ITEM.match(line) and not ITEM.match(before) and lines[index - 1].strip():
            yield ""
        yield line
        before = line if line.strip() and not line.startswith("  ") else before
        index += 1


def _definition(lines: list[str], index: int, entry: re.Match[str]) -> "Iterator[str] | Any":
    """Yields one aligned name with its text; returns the index behind it."""
    texts = [entry["text"]]
    index += 1
    while index < len(lines) and lines[index].startswith("  ") and lines[index].strip():
        texts.append(lines[index].strip())
        index += 1
    yield f"``{entry['name']}``"
    yield from (f"    {text}" for text in texts)
    yield ""
    return index


def _example(lines: list[str], index: int) -> "Iterator[str] | Any":
    """Yields an indented block as one that is shown as it stands; returns the index behind it."""
    language = "sh" if lines[index].lstrip().startswith(("kedge ", "pip ")) else "python"
    yield f".. code-block:: {language}"
    yield ""
    while index < len(lines) and (lines[index].startswith("    ") or not lines[index].strip()):
        yield lines[index]
        index += 1
    if lines[index - 1].strip():
        yield ""
    return index


def _docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    if what in ("class", "exception", "function") and not any(map(str.strip, lines)):
        logger.warning("%s is in the reference, and has no docstring", name)  # which fails the build
    lines[:] = as_rst(lines)


def _signature(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str, returns: str
) -> tuple[str, str] | None:
    """None leaves it as it is. A Protocol is not called either; a default without a written form is three dots."""
    if name in NOT_CALLED or getattr(obj, "_is_protocol", False):
        return "", ""
    return (FACTORY.sub("...", signature), returns) if signature and FACTORY.search(signature) else None


class CommandLine(SphinxDirective):
    """`{command-line}`: what `kedge --help` and each command's `--help` say, word by word."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(command_line(), allow_section_headings=True)


class Fixtures(SphinxDirective):
    """`.. fixtures:: MODULE`: a pytest plugin's fixtures by name, each with its docstring."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        spec = find_spec(self.arguments[0])
        assert spec is not None, self.arguments[0]
        assert spec.origin is not None, self.arguments[0]
        self.env.note_dependency(spec.origin)
        lines = []
        for name, doc in fixtures(Path(spec.origin).read_text("utf-8")):
            lines += [f".. py:data:: {name}", "   :no-index:", "", *(f"   {line}" for line in as_rst(doc)), ""]
        return self.parse_text_to_nodes("\n".join(lines))


def fixtures(source: str) -> list[tuple[str, list[str]]]:
    """Name and docstring of each function that `@pytest.fixture` decorates. The plugin itself is not imported."""
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    decorated = (node for node in functions if any("pytest.fixture" in ast.unparse(by) for by in node.decorator_list))
    return [(node.name, (ast.get_docstring(node) or "").split("\n")) for node in decorated]


def command_line() -> str:
    """The help of all commands, as Markdown: a heading and a block each."""
    import typer.main

    from topology.cli.main import app

    group: Any = typer.main.get_command(app)
    top = _context(group, "kedge", None)
    helps = [(top.command_path, group.get_help(top)), *_helps(group, top)]
    return "\n".join(f"## {name}\n\n```text\n{help}\n```\n" for name, help in helps)


def _helps(group: Any, parent: Any) -> Iterator[tuple[str, str]]:
    """The commands of a group, and those of these where they have some."""
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        context = _context(command, name, parent)
        yield context.command_path, command.get_help(context)
        if hasattr(command, "list_commands"):
            yield from _helps(command, context)


def _context(command: Any, name: str, parent: Any) -> Any:
    """Return the context in which a command's help is made: a terminal of 88 columns."""
    settings = {**command.context_settings, "terminal_width": 88, "max_content_width": 88}
    return command.context_class(command, info_name=name, parent=parent, **settings)


def _file_of_the_root(app: Sphinx, docname: str, source: list[str]) -> None:
    """A page in `project/` is the file of the repository's root with its name, and links lead there from here."""
    folder, _, name = docname.partition("/")
    if folder == "project":
        root = Path(app.srcdir).parent
        app.env.note_dependency(str(root / f"{name.upper()}.md"))
        text = (root / f"{name.upper()}.md").read_text("utf-8")
        source[0] = LINK.sub(lambda match: f"]({_from_project(match[1])})", text)


def _from_project(link: str) -> str:
    path, mark, anchor = link.partition("#")
    if path.startswith("docs/"):
        path = f"../{path.removeprefix('docs/')}"
    elif path == "README.md":
        path = "../index.md"
    elif path.endswith(".md") and "/" not in path:
        path = path.lower()
    elif path:
        path = f"../../{path}"
    return f"{path}{mark}{anchor}"


def _one_signature(app: Sphinx) -> None:
    """The overloads of `Topology.bolt` are for type checkers; the signature behind them says more to a person."""
    analyzer = ModuleAnalyzer.for_module("topology.graph")
    analyzer.analyze()
    analyzer.overloads = {}


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("builder-inited", _one_signature)
    app.connect("autodoc-process-signature", _signature)
    app.connect("source-read", _file_of_the_root)
    app.add_directive("command-line", CommandLine)
    app.add_directive("fixtures", Fixtures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
