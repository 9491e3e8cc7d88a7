"""The bytes of what waits for the log are those of what waits: they bound it, and a record of the log (D14)."""

from types import SimpleNamespace
from typing import Any

from topology.runtime.state.known_input import KnownInput
from topology.runtime.state.logged_work import UNLOGGED_BYTES_MAX, LoggedWork
from topology.storage.log.layout import RECORD_BYTES_MAX


class Log:
    def add(self, part: Any) -> None:
        """Nothing is written."""


def test_what_has_left_counts_no_more_though_something_always_waits() -> None:
    work = LoggedWork(Log(), "counts", "counts", None, None, lambda gone: None)  # type: ignore[arg-type]
    position, tup, size = 0, SimpleNamespace(origin=1, identity=2, root=1), 100_000
    for _ in range(3 * UNLOGGED_BYTES_MAX // size):
        work.keep(tup, (), None, None, KnownInput(1), size)  # type: ignore[arg-type]
        work._taken, work.open, work._records = [*work._taken, *work.open], [], []
        position += 1
        work.written(position)
        work.release(position - 1)
        assert work.count == 1
        assert not work.full
    assert work.bytes == size
    work.release(position)
    assert (work.count, work.bytes) == (0, 0)


def test_known_inputs_that_come_again_with_large_outputs_fit_the_records_of_the_log() -> None:
    """After a restart all of them come at once, under new messages; a record that is too long would end the worker."""
    outputs: Any = SimpleNamespace(classes=[("Line", 1)])
    work = LoggedWork(Log(), "counts", "counts", outputs, None, lambda gone: None)  # type: ignore[arg-type]
    for origin in range(1, 129):
        tup: Any = SimpleNamespace(origin=origin, identity=2, root=1)
        work.keep_number(tup, (), KnownInput(5, b"key", (), [(0, b"x" * 66_000)], False, 0))
    assert work.bytes > 128 * 66_000
    records = work.take_records()
    assert sum(map(len, records)) > RECORD_BYTES_MAX
    assert max(map(len, records)) <= RECORD_BYTES_MAX
    work.written(1)
    work.release(1)
    assert (work.count, work.bytes) == (0, 0)


def test_a_known_input_whose_outputs_no_record_of_the_log_can_hold_is_not_logged_again() -> None:
    """It is of a run without a log, which had no such bound."""
    outputs: Any = SimpleNamespace(classes=[("Line", 1)])
    work = LoggedWork(Log(), "counts", "counts", outputs, None, lambda gone: None)  # type: ignore[arg-type]
    for size, takes in ((6 << 20, True), (RECORD_BYTES_MAX + 1, False)):
        entry = KnownInput(5, b"key", (), [(0, b"x" * size)], False, 0)
        assert work.takes_number(entry) == takes
        if takes:
            tup: Any = SimpleNamespace(origin=1, identity=2, root=1)
            work.keep_number(tup, (), entry)
            assert max(map(len, work.take_records())) <= RECORD_BYTES_MAX
