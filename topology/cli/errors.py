"""How an error is told: the user's frames, one clear sentence, what to do next, and the exit status that goes with it.

    1  interrupted, or stdout failed     2  usage, declaration or configuration     3  could not start otherwise

All of it goes to stderr, made safe (S11): lines besides the sentence are indented, so that none passes for another one.
`--debug` shows the whole traceback besides. Knows errors and no command.
"""

import traceback
from typing import Any

import typer

from topology.cli.output import terminal
from topology.cli.usage import USAGE_ERROR, sentence
from topology.codes.code import Code
from topology.codes.command_line import INTERNAL_ERROR, INVALID_COMMAND_LINE, STDOUT_NOT_WRITABLE
from topology.errors import ConfigurationError, DeclarationError, KedgeError, advice
from topology.text import printable
from topology.user_frames import users_place


def told(error: Any, *, debug: bool) -> int:
    """Tells an error; returns the exit status. Raises what is our own bug again: that deserves its traceback."""
    frames, place, next_step = "", "", ""
    code: Code | None = None
    if isinstance(error, USAGE_ERROR):
        text, status, code = sentence(error), 2, INVALID_COMMAND_LINE
        next_step = f"see what there is: {error.ctx.command_path} --help" if error.ctx is not None else ""
    elif isinstance(error, KedgeError):
        text, status, code = (
            str(error),
            2 if isinstance(error, ConfigurationError | DeclarationError) else 3,
            error.code,
        )
        frames, next_step = error.users_trace(), error.next
        place = users_place(error) if code is not None and not frames else ""  # a user's own sentence says enough
    elif isinstance(error, KeyboardInterrupt | typer.Abort):
        text, status = "interrupted before anything ran", 1
    elif isinstance(error, OSError):  # of stdout: what happens to files is told by who uses them
        text, status, code = f"the output can't be written: {error.strerror or error}", 1, STDOUT_NOT_WRITABLE
    else:
        error.add_note(advice(INTERNAL_ERROR.next, INTERNAL_ERROR))
        raise error
    if debug and code is not INVALID_COMMAND_LINE:  # of what was mistyped, a traceback shows nothing
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
    """A line that belongs to the sentence: indented, and safe."""
    return printable(line if line.startswith("  ") else f"  {line}")
