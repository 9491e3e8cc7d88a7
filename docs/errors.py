"""The page of all errors, made of the catalogue: `python docs/errors.py` writes it; a test says whether it is as new.

Knows the catalogue and Markdown, and has no words of its own about any one error.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE / "reference" / "errors.md"
sys.path[:0] = [str(HERE.parent)]

from topology.codes.catalogue import GROUPS  # noqa: E402 - found on the path above

HEAD = """\
# Errors

Every error of Kedge's own ends in a code: what it means and what to do stands here, and in the terminal by
`kedge explain CODE`. Codes are for good: one that is given up is not used again.

What your own code raises is shown by its traceback, from your first line on: each kind once, and then a count a
minute.

This page is made of the catalogue, `topology/codes`, by `python docs/errors.py`.
"""

RAISED = """\
## What is raised

All derive from `KedgeError`. Each has its `code` (`error.code.name`), and in `next` what to do; a traceback ends in
both. Those that you raise yourself, `Reject`, `NotYet` and `ConfigurationError` most of the time, need neither.

```{eval-rst}
.. autoclass:: topology.errors.KedgeError
"""
CLASSES = (
    "DeclarationError Mistake ConfigurationError StartError WorkerError TupleStateError EmitError RecordError "
    "Reject NotYet"
)


def page() -> str:
    """The whole page."""
    others = [f".. autoclass:: topology.errors.{name}" for name in CLASSES.split()]
    return "\n".join([HEAD, *_groups(), RAISED, *others, ".. autoclass:: topology.codes.code.Code", "```", ""])


def _groups() -> Iterator[str]:
    for title, codes in GROUPS.items():
        yield f"## {title} ({codes[0].name[:2]}xx)\n"
        for code in codes:
            yield f"({code.name})=\n### {code.name}: {_plain(code.title)}\n"
            yield f"{_plain(code.cause)}\n\nNext: {_plain(code.next)}\n"


def _plain(text: str) -> str:
    """Text that Markdown leaves as it is: names of Python and options are not emphasis, nor dashes to be joined."""
    for mark in "\\*_<>[]|":
        text = text.replace(mark, f"\\{mark}")
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
