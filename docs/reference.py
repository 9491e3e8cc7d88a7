"""What is written elsewhere, as pages: docstrings as Sphinx reads them, the command line's own help, files of the root.

A Sphinx extension; knows how the house writes docstrings, and what none of them says.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

ENTRY = re.compile(r"(?P<name>[a-z_]+)  +(?P<text>\S.*)")  # `max_pending        open trees a spout task; …`
ITEM = re.compile(r"[-*] ")
NOT_CALLED = {"topology.Stream", "topology.Input"}  # a topology makes them; how is nobody's affair
LINK = re.compile(r"\]\((?!https?://)([^)\s]+)\)")


def as_rst(lines: list[str]) -> list[str]:
    """A docstring of ours as reStructuredText: aligned names become a definition list, an indented block after a
    paragraph an example, and lists get the empty line that reStructuredText wants before them."""
    return [*_as_rst(lines)]


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
    lines[:] = as_rst(lines)


def _signature(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str, returns: str
) -> tuple[str, str] | None:
    return ("", "") if name in NOT_CALLED else None


class CommandLine(SphinxDirective):
    """`{command-line}`: what `kedge --help` and each command's `--help` say, by Typer's own writer of docs."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(command_line(), allow_section_headings=True)


def command_line() -> str:
    """The help of all commands, as Markdown, without the page's own heading."""
    import typer.main
    from typer.cli import get_docs_for_click

    from topology.cli.main import app

    command = typer.main.get_command(app)
    context = command.make_context("kedge", ["--help-is-not-asked-for"], resilient_parsing=True)
    text = get_docs_for_click(obj=command, ctx=context, name="kedge")
    return text.partition("\n")[2].replace("```console\n$ ", "```text\n")


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
    return {"parallel_read_safe": True, "parallel_write_safe": True}
