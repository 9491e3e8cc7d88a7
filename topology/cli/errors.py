"""Printing of an error: the user's frames, one clear sentence, the next step, and the exit status.

    1  interrupted, or stdout failed     2  usage, declaration or configuration     3  could not start otherwise

All output goes to stderr, made safe (S11). Lines other than the sentence are indented, so that none looks like another
message. `--debug` also prints the complete traceback. Knows errors and no command.
"""

import traceback
from typing import Any

import typer

from topology.cli.output import terminal
from topology.cli.usage import USAGE_ERROR, sentence
from topology.codes.code import Code
from topology.codes.command_line import (
    FILE_NOT_USABLE,
    INTERNAL_ERROR,
    INVALID_COMMAND_LINE,
    STDOUT_NOT_WRITABLE,
)
from topology.errors import ConfigurationError, DeclarationError, KedgeError, advice
from topology.text import printable
from topology.user_frames import users_place


def print_error(error: Any, *, debug: bool) -> int:
    """Print an error; return the exit status. Raises a bug of Kedge again, so that its traceback is printed."""
    frames, place, next_step = "", "", ""
    code: Code | None = None
    if isinstance(error, USAGE_ERROR):
        text, status, code = sentence(error), 2, INVALID_COMMAND_LINE
        next_step = f"print the options: {error.ctx.command_path} --help" if error.ctx is not None else ""
    elif isinstance(error, KedgeError):
        text, status, code = (
            str(error),
            2 if isinstance(error, ConfigurationError | DeclarationError) else 3,
            error.code,
        )
        frames, next_step = error.users_trace(), error.next
        place = (
            users_place(error) if code is not None and not frames else ""
        )  # the message of a user's own error is enough
    elif isinstance(error, KeyboardInterrupt | typer.Abort):
        text, status = "interrupted before anything ran", 1
    elif isinstance(error, OSError) and error.filename is not None:
        named = error.filename if isinstance(error.filename, str) else str(error.filename)
        text, status, code = f"{named} can't be used: {error.strerror or error}", 3, FILE_NOT_USABLE
    elif isinstance(error, OSError):  # of stdout, which has no name
        text, status, code = f"the output can't be written: {error.strerror or error}", 1, STDOUT_NOT_WRITABLE
    else:
        error.add_note(advice(INTERNAL_ERROR.next, INTERNAL_ERROR))
        raise error
    if debug and code is not INVALID_COMMAND_LINE:  # a traceback does not help with a mistyped command line
        terminal.say("".join(traceback.format_exception(error)).rstrip())
    first, *others = text.split("\n")
    frames_lines = [printable(f"  {line}") for line in frames.split("\n") if line]
    lines = [*frames_lines, f"kedge: {printable(first)}", *(_below(line) for line in others)]
    if place:
        lines.append(f"  at: {printable(place)}")
    if next_step := next_step or (code.next if code is not None else ""):
        lines.append(printable(advice(next_step, code)))
    terminal.say("\n".join(lines), level="error", **({"code": code.name} if code is not None else {}))
    return status


def _below(line: str) -> str:
    """Return a further line of the message, indented and safe."""
    return printable(line if line.startswith("  ") else f"  {line}")
