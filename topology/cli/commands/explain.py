"""`kedge explain`: print the meaning of an error code and the next step; without a code, list all codes."""

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

SHOWN_MAX: Final = 80  # characters of an unknown code that the error message shows
WIDTH: Final = 88  # columns; texts are wrapped to this width
EXAMPLES: Final = (("kedge explain K112", "the meaning of this error code"),)

CodeArgument = Annotated[
    str | None, typer.Argument(metavar="CODE", help="The code that an error shows: K112. Default: list all codes.")
]


def explain(code: CodeArgument = None, debug: DebugOption = False) -> None:
    """Explain an error code, and what to do about the error."""
    if code is None:
        terminal.put("\n".join(_all()))
        return
    found = CODES.get(code.strip().upper())
    if found is None:
        text = f"there is no code {code.strip()!r:.{SHOWN_MAX}}{_near(code)}"
        raise ConfigurationError(text, code=UNKNOWN_ERROR_CODE)
    terminal.put("\n".join(_one(found)))


def _near(code: str) -> str:
    """Return a hint if the digits alone name a code. Similar codes are no hint: each code resembles many others."""
    meant = "K" + "".join(c for c in code[:SHOWN_MAX].upper().replace("O", "0") if c in digits)
    return f"; did you mean {meant!r}?" if meant in CODES else ""


def _all() -> list[str]:
    """Return one line per code, by groups."""
    lines = []
    for title, codes in GROUPS.items():
        lines += [f"{title}:", *(f"  {code}  {code.title}" for code in codes), ""]
    return [*lines, "kedge explain CODE explains one of them."]


def _one(code: Code) -> list[str]:
    """Return title, cause and next step of a code, wrapped."""
    wrapped = partial(fill, width=WIDTH, initial_indent="  ", break_on_hyphens=False)
    cause = wrapped(code.cause, subsequent_indent="  ")
    return [f"{code}: {code.title}", "", cause, "", wrapped(f"next: {code.next}", subsequent_indent="        ")]
