"""The bytes of what waits for the log are those of what waits: they bound it (D14)."""

from types import SimpleNamespace
from typing import Any

from topology.runtime.state.known_inputs import KnownInput
from topology.runtime.state.logged_work import UNLOGGED_BYTES_MAX, LoggedWork


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
