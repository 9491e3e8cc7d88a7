"""A user's traceback as text: it begins at the first frame of user code, and its length is limited.

Knows the folders of Kedge's packages and of Python's library, and nothing of errors or of the code that shows them. No
locals: they may hold secrets (S12). The text is as the user's code made it: the code that shows it must make it safe
(S11).
"""

import os
import types
from pathlib import Path
from traceback import TracebackException
from typing import Final

HOME: Final = Path(__file__).resolve().parent.parent  # the folder of all of Kedge's packages
PACKAGES: Final = ("acker", "bolts", "bridge", "spouts", "topology", "kedge")
PACKAGED: Final = "-packages" + os.sep  # in the path of installed packages, for example the command line's library
LINES_MAX: Final = 80  # of a traceback: half of them from its beginning, half from its end

_OURS: Final = tuple(f"{HOME / name}{os.sep}" for name in PACKAGES)
# A compiled frame has its file's path from the root on.
_COMPILED: Final = ("topology/core/", "topology/runtime/hot/", "topology/runtime/state/")
_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep


def users_frames(error: BaseException) -> str:
    """Return the traceback of an exception from user code, with its causes; empty if no frame is user code. A syntax
    error is shown with its line, whichever code imported that file. Never raises."""
    frames = error.__traceback__
    while frames is not None and _is_ours(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    if frames is None and not isinstance(error, SyntaxError):
        return ""
    return formatted(error, frames)


def users_place(error: BaseException) -> str:
    """Return the last line of user code that an error went through: "FILE:LINE, in FUNCTION". Empty if there is
    none."""
    place, frames = "", error.__traceback__
    while frames is not None:
        code = frames.tb_frame.f_code
        if not _is_ours(code.co_filename) and PACKAGED not in code.co_filename:
            place = f"{code.co_filename}:{frames.tb_lineno}, in {code.co_name}"
        frames = frames.tb_next
    return place


def formatted(error: BaseException, frames: types.TracebackType | None) -> str:
    """Return the error with these frames, as Python prints it; a long text loses lines from its middle."""
    try:
        text = "".join(TracebackException(type(error), error, frames).format())
    except Exception:  # its own __str__ may raise, and so may the source of its lines
        return f"{type(error).__name__}, whose traceback can't be shown"
    lines = text.rstrip().split("\n")
    left_out = len(lines) - LINES_MAX
    if left_out > 0:
        half = LINES_MAX // 2
        lines = [*lines[:half], f"  … {left_out} more lines …", *lines[-half:]]
    return "\n".join(lines)


def _is_ours(file: str) -> bool:
    """Return True if a frame of this file is Kedge's or Python's own, where a user cannot fix anything."""
    # <string>: made by a dataclass, or evaluated from annotations
    if file.startswith(("<frozen ", "<string>", *_COMPILED, *_OURS)):
        return True
    return file.startswith(_LIBRARY) and PACKAGED not in file


def text_of(error: BaseException) -> str:
    """Return an exception's text; never raises, though the exception's own `__str__` may."""
    try:
        return str(error)
    except BaseException:
        return "its text can't be shown"


def described(error: BaseException) -> str:
    """Return the class of an exception, and its text if it has one."""
    return ": ".join(filter(None, [type(error).__name__, text_of(error)]))


def shown(value: object, most: int) -> str:
    """Return the beginning of a value's repr; never raises, though its `__repr__` may."""
    try:
        return repr(value)[:most]
    except BaseException:
        return f"a {type(value).__name__} that can't be shown"
