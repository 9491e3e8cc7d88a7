"""A user's traceback as text: from the first frame of theirs on, none of ours before it, and never without end.

Knows where our packages and Python's library are, and nothing of errors or of who shows it. No locals: they may hold
secrets (S12). What it gives is as the user's code has it: whoever shows it makes it safe (S11).
"""

import os
import types
from pathlib import Path
from traceback import TracebackException
from typing import Final

HOME: Final = Path(__file__).resolve().parent.parent  # where all of our packages are
PACKAGES: Final = ("acker", "bolts", "bridge", "spouts", "topology", "kedge")
PACKAGED: Final = "-packages" + os.sep  # in the path of what is installed: the command line's own library, say
LINES_MAX: Final = 80  # of a traceback: half of them from its beginning, half from its end

_OURS: Final = tuple(f"{HOME / name}{os.sep}" for name in PACKAGES)
_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep


def users_frames(error: BaseException) -> str:
    """The traceback of what a user's code has raised, with what caused it; empty where no frame is theirs. A syntax
    error is shown with its line, whoever has imported that file. Never raises."""
    frames = error.__traceback__
    while frames is not None and _is_ours(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    if frames is None and not isinstance(error, SyntaxError):
        return ""
    return formatted(error, frames)


def users_place(error: BaseException) -> str:
    """The last line of the user's that an error went through: "FILE:LINE, in FUNCTION"; empty where there is none."""
    place, frames = "", error.__traceback__
    while frames is not None:
        code = frames.tb_frame.f_code
        if not _is_ours(code.co_filename) and PACKAGED not in code.co_filename:
            place = f"{code.co_filename}:{frames.tb_lineno}, in {code.co_name}"
        frames = frames.tb_next
    return place


def formatted(error: BaseException, frames: types.TracebackType | None) -> str:
    """The error with these frames, as Python prints it; without lines from the middle where there are too many."""
    try:
        text = "".join(TracebackException(type(error), error, frames).format())
    except Exception:  # its own __str__ may raise, and so may the source that its lines are read from
        return f"{type(error).__name__}, whose traceback can't be told"
    lines = text.rstrip().split("\n")
    left_out = len(lines) - LINES_MAX
    if left_out > 0:
        half = LINES_MAX // 2
        lines = [*lines[:half], f"  … {left_out} more lines …", *lines[-half:]]
    return "\n".join(lines)


def _is_ours(file: str) -> bool:
    """Whether a frame of this file is Kedge's, or Python's own: no place that a user can mend."""
    if file.startswith(("<frozen ", "<string>", *_OURS)):  # <string>: made by a dataclass, or evaluated of annotations
        return True
    return file.startswith(_LIBRARY) and PACKAGED not in file


def text_of(error: BaseException) -> str:
    """An exception's text; never raises, though the exception's own `__str__` may."""
    try:
        return str(error)
    except BaseException:
        return "its text can't be told"


def described(error: BaseException) -> str:
    """The class of an exception, and its text where it has one."""
    return ": ".join(filter(None, [type(error).__name__, text_of(error)]))


def shown(value: object, most: int) -> str:
    """The beginning of a value's repr; never raises, though its `__repr__` may."""
    try:
        return repr(value)[:most]
    except BaseException:
        return f"a {type(value).__name__} that can't be shown"
