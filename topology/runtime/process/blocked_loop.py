"""Says where a thread stands at this moment: the component, and the line of user code that keeps the loop (F8).

For another thread to call while the loop does not turn. Reads frames and changes nothing; must not know what is done
about a blocked loop.
"""

import asyncio
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from types import FrameType
from typing import Final

from topology.runtime.tasks.executor import Executor
from topology.runtime.tasks.spout_task import SpoutTask

_RUNTIME: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep
_ASYNCIO: Final = os.path.dirname(asyncio.__file__) + os.sep
_LIBRARIES: Final = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})
_CALLS: Final = os.path.join(
    _RUNTIME, "worker", "user_calls.py"
)  # its functions have the component's name as a parameter
_TASK: Final = re.compile(r"([A-Za-z0-9_-]{1,64})\.[0-9]+(?: .*)?")  # what the runtime calls its asyncio tasks


def where(thread_id: int, loop: asyncio.AbstractEventLoop | None = None) -> str:
    """Like "component 'parse', examples/x.py:17 in process"; empty where nothing can be told. Never raises.

    `loop` is that thread's: it knows the running task's name, where an awaited call has no frame of ours around it.
    """
    try:
        frame = sys._current_frames().get(thread_id)
        frames = list(_outwards(frame))
        component = next((name for one in frames if (name := _component(one))), "") or _of_task(loop)
        parts = [f"component {component!r}"] if component else []
        return ", ".join([*parts, *_lines(frames)])
    except Exception:  # the thread goes on meanwhile, and a beat has to leave whatever its frames are like
        return ""


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _component(frame: FrameType) -> str:
    """Asks for locals of the runtime's own frames alone: what is asked for is kept until the frame ends."""
    code = frame.f_code
    if not code.co_filename.startswith(_RUNTIME):
        return ""
    if code.co_filename == _CALLS:
        named = frame.f_locals.get("component")
        return named if isinstance(named, str) else ""
    if code.co_varnames[:1] == ("self",):
        driving = frame.f_locals.get("self")
        if isinstance(driving, Executor | SpoutTask):
            return driving.component
    return ""


def _of_task(loop: asyncio.AbstractEventLoop | None) -> str:
    task = asyncio.current_task(loop) if loop is not None else None
    found = _TASK.fullmatch(task.get_name()) if task is not None else None
    return found[1] if found else ""


def _lines(frames: list[FrameType]) -> list[str]:
    """The innermost line that is neither ours nor asyncio's; where that is in a library, the user's line before it."""
    outside = [one for one in frames if not one.f_code.co_filename.startswith((_RUNTIME, _ASYNCIO, "<"))]
    if not outside:
        return [_line(frames[0])] if frames else []
    user = next((one for one in outside if not one.f_code.co_filename.startswith(_LIBRARIES)), None)
    if user is None or user is outside[0]:
        return [_line(outside[0])]
    return [_line(user), f"which runs {_line(outside[0])}"]


def _line(frame: FrameType) -> str:
    path = frame.f_code.co_filename.removeprefix(os.getcwd() + os.sep)
    for library in _LIBRARIES:
        path = path.removeprefix(library)
    return f"{path}:{frame.f_lineno} in {frame.f_code.co_name}"
