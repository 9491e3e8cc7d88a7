"""How an error is told: one clear sentence on stderr, and the exit status that goes with it.

    1  interrupted, or stdout failed     2  usage, declaration or configuration     3  could not start otherwise

`--debug` shows the whole traceback besides. Knows errors and no command.
"""

import traceback
import types
from sysconfig import get_path
from typing import Any, Final

import typer

from topology.cli import terminal
from topology.errors import ConfigurationError, DeclarationError, KedgeError, StartError
from topology.text import printable

USAGE_ERROR: Final[Any] = (
    typer.BadParameter.__base__
)  # of options, arguments and commands; Typer exports no name for it


def told(error: Any, *, debug: bool) -> int:
    """Tells an error; returns the exit status. Raises what is our own bug again: that deserves its traceback."""
    if isinstance(error, USAGE_ERROR):
        text, status = f"{error.format_message()} (kedge --help says more)", 2
    elif isinstance(error, DeclarationError | ConfigurationError):
        text, status = str(error), 2
    elif isinstance(error, StartError):
        text, status = str(error) + users_frames(error.__cause__), 3
    elif isinstance(error, KedgeError):
        text, status = str(error), 3
    elif isinstance(error, KeyboardInterrupt | typer.Abort):
        text, status = "interrupted before anything ran", 1
    elif isinstance(error, OSError):  # of stdout: what happens to files is told by who uses them
        text, status = f"the output can't be written: {error.strerror or error}", 1
    else:
        raise error
    if debug:
        terminal.say("".join(traceback.format_exception(error)).rstrip())
    first, *others = text.split("\n")
    terminal.say("\n".join([f"kedge: {printable(first)}", *(printable(line) for line in others)]))
    return status


def users_frames(error: BaseException | None) -> str:
    """The traceback of a user's exception, from the first frame of their own on; empty where there is none: an error of
    the world (a directory that can't be written) has its sentence, and frames of ours and of Python's library."""
    from topology.cli.hidden import HOME, PACKAGES

    frames: types.TracebackType | None = error.__traceback__ if error is not None else None
    library = {f"{path}/" for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := get_path(name))}
    ours = (*(str(HOME / name) + "/" for name in PACKAGES), *library)
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(ours):
        frames = frames.tb_next
    if error is None or frames is None:
        return ""
    return "\n" + "".join(traceback.format_exception(type(error), error, frames, chain=False)).rstrip()
