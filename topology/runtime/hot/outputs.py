"""Makes records of what a bolt has returned: iterables, awaitables, async iterables, and their errors.

Knows nothing of tuples or queues.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from topology.codes.tuples import PROCESS_RETURNED_NO_ITERABLE, TOO_MANY_RECORDS_EMITTED
from topology.errors import EmitError
from topology.records import Record

OUTPUTS_MAX: Final = 100_000  # records that `process` may return for one input; more is for `execute` and `drain`
END: Final[Any] = object()  # that a generator has ended


def collected(outputs: Any) -> Sequence[Record]:
    """Return what an iterable yields, as a list. Raises EmitError if it is none, or yields without end."""
    try:
        records = list(islice(outputs, OUTPUTS_MAX + 1))
    except TypeError as error:
        if hasattr(outputs, "__iter__"):
            raise
        raise EmitError(
            f"`process` returned {outputs!r:.200}, which is no iterable", code=PROCESS_RETURNED_NO_ITERABLE
        ) from error
    if len(records) > OUTPUTS_MAX:
        raise too_many()
    return records


def yielded(outputs: Iterator[Any]) -> Sequence[Record]:
    """As `collected`, of a generator. As most have it, that yields nothing or one record, and no list is needed."""
    first = next(outputs, END)
    if first is END:
        return ()
    second = next(outputs, END)
    return (first,) if second is END else [first, second, *collected(outputs)]


def too_many() -> EmitError:
    return EmitError(f"`process` gave more than {OUTPUTS_MAX} records for one input", code=TOO_MANY_RECORDS_EMITTED)


def waits(outputs: Any) -> bool:
    """Return whether this must be awaited, or iterated by `async for`, before there are records (A5)."""
    return hasattr(outputs, "__aiter__") or inspect.isawaitable(outputs)


async def outcome(outputs: Any) -> tuple[Sequence[Record], BaseException | None]:
    """Awaits whatever a bolt has returned. Its exception is returned, so that SystemExit does not end the loop."""
    try:
        if isinstance(outputs, Awaitable):
            outputs = await outputs
        if outputs is None:
            return (), None
        if hasattr(outputs, "__aiter__"):
            records: list[Record] = []
            async for record in outputs:
                records.append(record)
                if len(records) > OUTPUTS_MAX:
                    raise too_many()
            return records, None
        return collected(outputs), None
    except BaseException as error:
        if being_cancelled(error):
            raise
        return (), error


def being_cancelled(error: BaseException) -> bool:
    """Return whether we cancel the task that this was raised in; a CancelledError can be the user's own, too (F6)."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    running = asyncio.current_task()
    return running is not None and running.cancelling() > 0
