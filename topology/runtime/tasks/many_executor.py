"""The executor of a bolt that has `process_many` beside `process`: one call for as many inputs as a slice has.

What it returns for each record is emitted and acked for that input alone. Must not know what a bolt computes.
"""

import logging
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from topology.codes.tuples import PROCESS_MANY_MISMATCH, PROCESS_MANY_RAISED, PROCESS_RETURNED_NO_ITERABLE
from topology.errors import EmitError
from topology.runtime.hot.hot_path import work
from topology.runtime.hot.outputs import waits
from topology.runtime.tasks.executor import ProcessExecutor
from topology.user_frames import described, users_frames

CALL_S: Final = 0.02  # about how long a call may take; with calls that take longer, fewer records come at a time
_PLAIN: Final = (list, tuple)

logger = logging.getLogger("kedge")


class ManyExecutor(ProcessExecutor):
    """Drives a bolt's `process_many(records)`. If that raises, `process` is called for each record, so that only those
    fail which are the cause."""

    slice_s = CALL_S

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._has_told = False  # whether it was said that process_many raises

    def slice(self, count: int) -> int:
        return work(self, self._processed(tuple([tup.record for tup in islice(self.queue, count)])), count)

    def _processed(self, records: tuple[Any, ...]) -> Callable[[Any], Any]:
        """Return a function in place of `process`, to be called with each of these records in their order."""
        try:
            results = [*islice(self.bolt.process_many(records), len(records) + 1)]
        except BaseException as error:
            self._tell(error)
            process: Callable[[Any], Any] = self.bolt.process
            return process
        if len(results) != len(records):
            return self._mismatch(len(records))
        left = iter(results)

        def processed(record: Any) -> Any:
            outputs = next(left)
            if outputs is not None and type(outputs) not in _PLAIN and waits(outputs):
                text = f"`process_many` of {self.component!r} returned {outputs!r:.200}, which must be awaited"
                raise EmitError(text, code=PROCESS_RETURNED_NO_ITERABLE)
            return outputs

        return processed

    def _mismatch(self, count: int) -> Callable[[Any], Any]:
        def process(record: Any) -> Any:
            text = f"`process_many` of {self.component!r} did not return one result for each of {count} records"
            raise EmitError(text, code=PROCESS_MANY_MISMATCH)

        return process

    def _tell(self, error: BaseException) -> None:
        if not self._has_told:
            self._has_told = True
            text = "`process_many` of %r raised %s; `process` is called for each of its records (%s)\n%s"
            logger.warning(text, self.component, described(error), PROCESS_MANY_RAISED, users_frames(error))
