"""Puts pictures that know a dark theme into the page itself, so that they follow the theme that the reader has chosen.

A Sphinx extension. An SVG behind `<img>` sees the system's theme alone (`prefers-color-scheme`). Within the page its
dark rules also hold when Furo's button says so. The rules are confined to their picture, so that no picture changes
another one, and a wide picture scrolls sideways on a phone before its letters become too small. A picture without
`prefers-color-scheme` stays behind `<img>`. Must not know what a picture shows.
"""

import re
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

LEGIBLE = 9.0  # pixels: the least size of a letter on any screen
STYLE = re.compile(r"<style>(?P<css>.*?)</style>", re.DOTALL)
DARK = re.compile(
    r"@media\s*\(prefers-color-scheme:\s*dark\)\s*\{(?P<rules>(?:[^{}]*\{[^{}]*\})*)\s*\}",
)
RULE = re.compile(r"(?P<selectors>[^{}]+)\{(?P<body>[^{}]*)\}")
SIZE = re.compile(r"(?:font|font-size)\s*[:=]\s*\"?(?:[a-z0-9]+ )?(?P<size>\d+(?:\.\d+)?)(?:px|\")")
WIDTH = re.compile(r"<svg[^>]*?\swidth=\"(?P<width>[\d.]+)\"")
PROLOGUE = re.compile(r"\A\s*(?:<\?xml.*?\?>\s*)?(?:<!--.*?-->\s*)?", re.DOTALL)


class InlinePictures(SphinxPostTransform):
    """Replaces images by the SVG that they name."""

    formats: ClassVar[tuple[str, ...]] = ("html",)
    default_priority: ClassVar[int] = 5  # before Sphinx copies what is behind an image

    def run(self, **_: Any) -> None:
        for number, image in enumerate([*self.document.findall(nodes.image)], 1):
            path = Path(self.env.srcdir) / image["uri"]
            if path.suffix == ".svg" and path.is_file():
                drawn = inlined(path.read_text("utf-8"), f"picture-{number}", image.get("alt", ""))
                if drawn is not None:
                    image.replace_self(nodes.raw("", drawn, format="html"))


def inlined(svg: str, name: str, words: str) -> str | None:
    """The picture as HTML, with `words` for those who can't see it; None if it has no dark theme.

    `name` is the id of the element around it: no other element of the page has it.
    """
    style = STYLE.search(svg)
    if style is None or DARK.search(style["css"]) is None or "@" in DARK.sub("", style["css"]):
        return None
    drawn = svg[: style.start("css")] + scoped(style["css"], f"#{name}") + svg[style.end("css") :]
    drawn = _own_ids(PROLOGUE.sub("", drawn).strip(), name)
    width = WIDTH.search(svg)
    sizes = [float(found["size"]) for found in SIZE.finditer(svg)]
    least = f' style="min-width: {float(width["width"]) * LEGIBLE / min(sizes):.0f}px"' if width and sizes else ""
    drawn = drawn.replace("<svg ", f"<svg{least} ", 1)
    return f'<span class="picture" id="{name}" role="img" aria-label="{escape(words)}">{drawn}</span>'


def scoped(css: str, scope: str) -> str:
    """The rules, for what is in `scope` alone: dark by the system, unless the page is bright; or by the page."""
    dark = "".join(found["rules"] for found in DARK.finditer(css))
    by_page = _prefixed(dark, f'body[data-theme="dark"] {scope}')
    by_system = _prefixed(dark, f'body:not([data-theme="light"]) {scope}')
    return (
        f"{_prefixed(DARK.sub('', css), scope)}"
        f"@media not print {{ {by_page} @media (prefers-color-scheme: dark) {{ {by_system} }} }}"
    )


def _prefixed(css: str, scope: str) -> str:
    return " ".join(
        f"{', '.join(f'{scope} {selector.strip()}' for selector in rule['selectors'].split(','))} {{{rule['body']}}}"
        for rule in RULE.finditer(css)
    )


def _own_ids(svg: str, name: str) -> str:
    """Ids of the picture, and what refers to them, with `name` before them."""
    ids = set(re.findall(r'\sid="([^"]+)"', svg))
    if not ids:
        return svg
    any_id = "|".join(map(re.escape, sorted(ids, key=len, reverse=True)))
    svg = re.sub(rf'(\sid="|url\(#|href="#)({any_id})(?=["\)])', rf"\1{name}-\2", svg)
    return re.sub(
        r'(aria-(?:labelledby|describedby)=")([^"]+)"',
        lambda found: f'{found[1]}{" ".join(f"{name}-{id_}" for id_ in found[2].split())}"',
        svg,
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_post_transform(InlinePictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
