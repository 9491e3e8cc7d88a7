"""`kedge explain`: what a code means and what to do, out of the catalogue; without a code, all there are."""

from functools import partial
from string import digits
from textwrap import fill
from typing import Annotated, Final

import typer

from topology.cli.options import DebugOption
from topology.cli.output import terminal
from topology.codes.catalogue import CODES, GROUPS
from topology.codes.code import Code
from topology.codes.command_line import UNKNOWN_ERROR_CODE
from topology.errors import ConfigurationError

SHOWN_MAX: Final = 80  # characters of what is no code
WIDTH: Final = 88  # columns that a text is wrapped to
EXAMPLES: Final = (("kedge explain K112", "what the code of an error means"),)

CodeArgument = Annotated[
    str | None, typer.Argument(metavar="CODE", help="As an error shows it: K112. Without one, all are listed.")
]


def explain(code: CodeArgument = None, debug: DebugOption = False) -> None:
    """Say what the code of an error means, and what to do about it."""
    if code is None:
        terminal.put("\n".join(_all()))
        return
    found = CODES.get(code.strip().upper())
    if found is None:
        text = f"there is no code {code.strip()!r:.{SHOWN_MAX}}{_near(code)}"
        raise ConfigurationError(text, code=UNKNOWN_ERROR_CODE)
    terminal.put("\n".join(_one(found)))


def _near(code: str) -> str:
    """What was meant, where the digits are right: one code is as near to another as the next."""
    meant = "K" + "".join(c for c in code[:SHOWN_MAX].upper().replace("O", "0") if c in digits)
    return f"; did you mean {meant!r}?" if meant in CODES else ""


def _all() -> list[str]:
    """One line a code, by groups."""
    lines = []
    for title, codes in GROUPS.items():
        lines += [f"{title}:", *(f"  {code}  {code.title}" for code in codes), ""]
    return [*lines, "kedge explain CODE says more of one."]


def _one(code: Code) -> list[str]:
    """Title, cause, advice; wrapped, as these are sentences."""
    wrapped = partial(fill, width=WIDTH, initial_indent="  ", break_on_hyphens=False)
    cause = wrapped(code.cause, subsequent_indent="  ")
    return [f"{code}: {code.title}", "", cause, "", wrapped(f"next: {code.next}", subsequent_indent="        ")]
