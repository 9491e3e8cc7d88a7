"""Calls of user code that finish no input: open, flush, summary, close. What they raise ends nothing but the start.

Must not know executors, trees or how a run ends.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from topology.codes.startup import COMPONENT_OPEN_RAISED
from topology.components import Clock
from topology.errors import KedgeError, StartError
from topology.runtime.current_task import TaskPlace, entered
from topology.runtime.failures import Failure, Reason
from topology.runtime.hot.outputs import being_cancelled
from topology.runtime.telemetry.failure_log import Reporter
from topology.runtime.telemetry.stall import SILENT_S, tell_opening
from topology.runtime.worker.start_wait import open_in_time
from topology.user_frames import described

ENDING_S: Final = 1.0  # how long a call may take to end once it is cancelled


async def opened(place: TaskPlace, call: Callable[[], Any], clock: Clock, limit_s: float) -> None:
    """Opens a component, however long it takes; what it says is not there yet is waited for, up to `limit_s`. Raises
    its KedgeError, or a StartError that says what it raised, be it SystemExit; CancelledError where it is cancelled,
    whatever `open` makes of that."""
    component = place.component
    slow = asyncio.get_running_loop().call_later(SILENT_S, tell_opening, component)
    try:
        with entered(place):
            await open_in_time(component, call, clock.monotonic, limit_s)
    except KedgeError:
        raise
    except BaseException as error:
        if being_cancelled(error):
            raise
        raise StartError(
            f"{component!r} could not be opened: {described(error)}", code=COMPONENT_OPEN_RAISED
        ) from error
    finally:
        slow.cancel()
    if (running := asyncio.current_task()) is not None and running.cancelling():
        raise asyncio.CancelledError


async def called(reporter: Reporter, place: TaskPlace, call: Callable[[], Any], limit_s: float) -> None:
    """Call flush or close. An error is reported, and so is a call that does not return; neither ends anything (F6,
    F9)."""
    component = place.component
    error: BaseException | None = None
    with entered(place):
        try:
            result = call()
        except BaseException as raised:
            error = raised
        else:
            if inspect.isawaitable(result):
                error = await _outcome_within(result, limit_s, f"{component} {_name(call)}")
        if error is not None:
            _tell(reporter, component, call, error)


def summaries(reporter: Reporter, components: Iterable[tuple[TaskPlace, Any]]) -> dict[str, list[str]]:
    """Return the lines that the components have at the end, by name."""
    said: dict[str, list[str]] = {}
    for place, component in components:
        name = place.component
        try:
            with entered(place):
                lines = [str(line) for line in component.summary()]
        except BaseException as error:
            _tell(reporter, name, component.summary, error)
        else:
            if lines:
                said.setdefault(name, []).extend(lines)
    return said


async def _outcome_within(result: Awaitable[Any], limit_s: float, name: str) -> BaseException | None:
    """Return the error that awaiting this raises, in a task of its own: it may ignore its cancellation. Only then it is
    left running."""
    task = asyncio.get_running_loop().create_task(_error_of(result), name=name)
    try:
        await asyncio.wait({task}, timeout=limit_s)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=ENDING_S)
    return TimeoutError(f"not done after {limit_s:g} s")


async def _error_of(result: Awaitable[Any]) -> BaseException | None:
    """Returned, not raised, so that SystemExit does not end the loop."""
    try:
        await result
    except BaseException as error:
        return error
    return None


def _tell(reporter: Reporter, component: str, call: Callable[..., Any], error: BaseException) -> None:
    text = f"{_name(call)}: {described(error)}"
    reporter.failed(Failure(Reason.RAISED, component, text, error))


def _name(call: Callable[..., Any]) -> str:
    return getattr(call, "__name__", "flush")
