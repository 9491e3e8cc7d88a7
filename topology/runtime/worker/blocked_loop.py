"""Find where a thread is at this moment: the component, and the line of user code that blocks the loop (F8).

Another thread calls this while the loop does not turn. Reads frames and changes nothing. Must not know what is done
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
)  # the first parameter of its functions is the component's name
_TASK: Final = re.compile(r"([A-Za-z0-9_-]{1,64})\.[0-9]+(?: .*)?")  # the runtime's names of asyncio tasks


def where(thread_id: int, loop: asyncio.AbstractEventLoop | None = None) -> str:
    """Return for example "component 'parse', examples/x.py:17 in process"; empty if nothing can be found. Never raises.

    `loop` is that thread's loop: it knows the running task's name, if no frame of ours is around an awaited call.
    """
    try:
        frame = sys._current_frames().get(thread_id)
        frames = list(_outwards(frame))
        component = next((name for outer in frames if (name := _component(outer))), "") or _of_task(loop)
        parts = [f"component {component!r}"] if component else []
        return ", ".join([*parts, *_lines(frames)])
    except Exception:  # the thread runs on meanwhile, and a beat must leave whatever the frames look like
        return ""


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _component(frame: FrameType) -> str:
    """Return the component of a frame. Asks only our own frames for locals, because locals are kept until the frame
    ends."""
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
    """Return the innermost line outside the runtime and asyncio. If it is in a library, return the user's line too."""
    outside = [place for place in frames if not place.f_code.co_filename.startswith((_RUNTIME, _ASYNCIO, "<"))]
    if not outside:
        return [_line(frames[0])] if frames else []
    user = next((place for place in outside if not place.f_code.co_filename.startswith(_LIBRARIES)), None)
    if user is None or user is outside[0]:
        return [_line(outside[0])]
    return [_line(user), f"which runs {_line(outside[0])}"]


def _line(frame: FrameType) -> str:
    path = frame.f_code.co_filename.removeprefix(os.getcwd() + os.sep)
    for library in _LIBRARIES:
        path = path.removeprefix(library)
    return f"{path}:{frame.f_lineno} in {frame.f_code.co_name}"
