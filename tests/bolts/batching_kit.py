"""A sink over a scripted store, for the tests of batches: it notes them, blocks while its gate is shut, and raises or
refuses what it is told to."""

import threading
from collections.abc import Sequence
from typing import Any

from sink_kit import Recorder, alert, until

from bolts.sinks.batching import BatchingSink
from bolts.sinks.contract import SinkStore, Written
from bolts.sinks.keys import WriteCounts
from topology.core.tuples import Tuple


class ScriptedStore:
    """Takes everything. `raises`: what the next writes raise, one each; None for one that succeeds. `refuses`: why the
    next writes refuse their first tuple, one each; empty for one that does not."""

    def __init__(
        self,
        raises: Sequence[Exception | None] = (),
        open_raises: Sequence[Exception] = (),
        refuses: Sequence[str] = (),
    ) -> None:
        self.asked: list[list[int]] = []
        self.batches: list[list[int]] = []
        self.threads: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.writing = False
        self.closed = False
        self._raises, self._open_raises, self._refuses = list(raises), list(open_raises), list(refuses)

    def heal(self) -> None:
        self._raises.clear()

    def open(self) -> None:
        if self._open_raises:
            raise self._open_raises.pop(0)

    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        self.threads.add(threading.current_thread().name)
        self.writing = True
        assert self.gate.wait(10)
        self.writing = False
        self.asked.append([tup.record.failures for tup in tuples])
        if self._raises and (error := self._raises.pop(0)) is not None:
            raise error
        why = self._refuses.pop(0) if self._refuses else ""
        self.batches.append([tup.record.failures for tup in tuples])
        return Written(WriteCounts(stored=len(tuples)), {0: why} if why else {})

    def close(self) -> None:
        self.closed = True


class ScriptedSink(BatchingSink):
    def __init__(self, store: ScriptedStore, batch: int = 10, within_ms: float = 60_000) -> None:
        super().__init__(batch=batch, within_ms=within_ms)
        self.store = store

    def __deepcopy__(self, memo: Any) -> "ScriptedSink":
        return ScriptedSink(self.store, self.batch, self.within_ms)

    def _make_store(self) -> SinkStore:
        return self.store


async def fed(sink: BatchingSink, tuples: Sequence[Tuple[Any]]) -> Recorder:
    """Gives tuples for which there is room, and returns when all are acked or failed."""
    out = Recorder()
    for each in tuples:
        assert sink.execute(each, out) is None
    await until(lambda: len(out.acked) + len(out.failed) == len(tuples))
    return out


def give(sink: BatchingSink, out: Recorder, *numbers: int) -> None:
    """Gives tuples for which there is room."""
    for number in numbers:
        assert sink.execute(alert(number), out) is None
