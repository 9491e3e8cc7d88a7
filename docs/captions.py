"""Shows the name of a file above its code: the comment `<!-- file: visits.py -->` becomes the caption of the block.

A Sphinx extension. The comments are those that `tests/docs/snippets.py` describes; every other word of them stays
invisible. Must not know which pages there are.
"""

import re
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

FILE = re.compile(r"<!--\s*file:\s*(?P<name>\S+)\s*-->")


class Captions(SphinxTransform):
    """Wraps each block that is a file with its name, as `code-block` does with its `:caption:`."""

    default_priority: ClassVar[int] = 200  # before Sphinx gives what has a caption its id

    def apply(self, **_: Any) -> None:
        for block in [*self.document.findall(nodes.literal_block)]:
            if name := _file_above(block):
                _wrap(block, name)


def _file_above(block: nodes.Node) -> str:
    """The name in the comments right before the block; empty if there is none."""
    siblings = block.parent.children
    for before in reversed(siblings[: siblings.index(block)]):
        if not isinstance(before, nodes.raw) or not before.astext().strip().startswith("<!--"):
            return ""
        if found := FILE.search(before.astext()):
            return found["name"]
    return ""


def _wrap(block: nodes.literal_block, name: str) -> None:
    wrapper = nodes.container("", literal_block=True, classes=["literal-block-wrapper"])
    block.replace_self(wrapper)
    wrapper += nodes.caption(name, "", nodes.literal(name, name))
    wrapper += block


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_transform(Captions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
