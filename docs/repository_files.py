"""Gives each file of the repository that a page links to a page of its own, which shows its code.

A Sphinx extension. Without it such a link downloads the file. The pages are made while the HTML is written, in the
folder `source`; nothing of them is in `docs/`. Must not know which files are linked, nor by which pages.
"""

import posixpath
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

FOLDER = "source"  # of these pages, in the HTML
ROOT = Path(__file__).resolve().parents[1]


class Links(SphinxTransform):
    """Has links to files lead to their pages. Runs before Sphinx collects what is to be downloaded."""

    default_priority: ClassVar[int] = 500

    def apply(self, **_: Any) -> None:
        if self.app.builder.format != "html":
            return
        for link in [*self.document.findall(addnodes.download_reference)]:
            _, absolute = self.env.relfn2path(link["reftarget"], self.env.docname)
            path = Path(absolute).resolve()
            if path.is_file() and path.is_relative_to(ROOT):
                shown = path.relative_to(ROOT).as_posix()
                _linked(self.env).setdefault(self.env.docname, set()).add(shown)
                uri = self.app.builder.get_relative_uri(self.env.docname, _page(shown))
                link.replace_self(nodes.reference("", "", *link.children, refuri=uri, internal=True))


def _page(path: str) -> str:
    return posixpath.join(FOLDER, path)


def _linked(env: BuildEnvironment) -> dict[str, set[str]]:
    """Page → the files that it links to."""
    if not hasattr(env, "kedge_linked_files"):
        env.kedge_linked_files = {}  # type: ignore[attr-defined]
    linked: dict[str, set[str]] = env.kedge_linked_files  # type: ignore[attr-defined]
    return linked


def _forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    _linked(env).pop(docname, None)


def _merge(app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment) -> None:
    _linked(env).update({name: files for name, files in _linked(other).items() if name in docnames})


def _pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Name, context and template of each file's page."""
    if app.builder.format != "html":
        return
    for path in sorted(set().union(*_linked(app.env).values())):
        code = (ROOT / path).read_text("utf-8")
        highlighter: Any = app.builder.highlighter  # type: ignore[attr-defined]
        shown = highlighter.highlight_block(code, _language(path), linenos="inline")
        body = f'<h1><code class="file">{escape(path)}</code></h1>\n<p>A file of the repository.</p>\n{shown}'
        yield _page(path), {"title": path, "body": body}, "page.html"


def _language(path: str) -> str:
    try:
        return str(get_lexer_for_filename(path).aliases[0])
    except (ClassNotFound, IndexError):
        return "text"


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_transform(Links)
    app.connect("env-purge-doc", _forget)
    app.connect("env-merge-info", _merge)
    app.connect("html-collect-pages", _pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
