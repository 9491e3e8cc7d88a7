"""Closing a sink whose store, of an asynchronous client library, is slow, stubborn or fails."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sink_kit import Recorder, alert, task, until

from bolts.sinks import retry
from bolts.sinks.batching import BatchingSink
from bolts.sinks.contract import AsyncSinkStore, StoreAway, Written
from bolts.sinks.keys import WriteCounts
from bolts.sinks.retry import RetryForever
from topology.core.tuples import Tuple
from topology.errors import NotYet


class SlowStore:
    """Waits for ever in each of these calls. `cancelled`: is awaited by a write that is cancelled."""

    def __init__(self, *waits_in: str, cancelled: Callable[[], Any] | None = None, away: bool = False) -> None:
        self._waits_in, self._cancelled, self._away = waits_in, cancelled, away
        self.writing = self.ended = False

    async def open(self) -> None:
        if self._away:
            raise StoreAway("connection refused")

    async def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        self.writing = True
        try:
            if "write" in self._waits_in:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self._cancelled is None:
                raise
            await self._cancelled()
        finally:
            self.ended = True
        return Written(WriteCounts(stored=len(tuples)))

    async def close(self) -> None:
        if "close" in self._waits_in:
            await asyncio.Event().wait()


class SlowSink(BatchingSink):
    def __init__(self, store: SlowStore) -> None:
        super().__init__(batch=10, within_ms=0)
        self.store = store

    def _make_store(self) -> AsyncSinkStore:
        return self.store


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "CLOSING_S", 0.05)
    monkeypatch.setattr(retry, "CANCELLED_S", 0.5)


async def writing(store: SlowStore) -> tuple[SlowSink, Recorder]:
    """A sink that is in the middle of a write, and the collector of its tuple."""
    sink, out = SlowSink(store), Recorder()
    await sink.open(task())
    assert sink.execute(alert(1), out) is None
    await until(lambda: store.writing)
    return sink, out


async def closed(sink: SlowSink) -> None:
    async with asyncio.timeout(10):
        await sink.close()


async def test_a_store_that_does_not_close_in_time_is_given_up_with_a_line_and_nothing_is_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = asyncio.all_tasks()
    sink = SlowSink(SlowStore("close"))
    await sink.open(task())
    await closed(sink)
    assert [record.getMessage() for record in caplog.records] == [
        "store: its store was not closed in order: it has not answered, and the sink is closed"
    ]
    assert sink._store is None
    assert sink._patience._thread._shutdown
    assert asyncio.all_tasks() == before
    await sink.close()


async def test_a_store_that_was_away_at_the_start_and_does_not_close_is_not_there_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bolts.sinks.batching.OPENING_S", 0.01)
    async with asyncio.timeout(10):
        with pytest.raises(NotYet, match="connection refused"):
            await SlowSink(SlowStore("close", away=True)).open(task())


async def test_a_write_that_is_given_up_has_ended_before_its_tuples_fail() -> None:
    ended_then: list[bool] = []

    class Answers(Recorder):
        def fail(self, tup: Tuple[Any], reason: str) -> None:
            ended_then.append(store.ended)
            super().fail(tup, reason)

    async def some_turns() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        raise OSError("the connection is lost")

    store, out = SlowStore("write", cancelled=some_turns), Answers()
    sink = SlowSink(store)
    await sink.open(task())
    assert sink.execute(alert(1), out) is None
    await until(lambda: store.writing)
    await closed(sink)
    assert ended_then == [True]


async def test_a_write_that_succeeds_at_the_last_moment_is_acked() -> None:
    sink, out = await writing(SlowStore("write", cancelled=lambda: asyncio.sleep(0)))
    await closed(sink)
    assert len(out.acked) == 1
    assert not out.failed


async def test_the_error_of_a_write_that_ignores_its_cancellation_is_not_reported_as_unseen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "CANCELLED_S", 0.05)
    unseen: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    over = asyncio.Event()

    async def stubborn() -> None:
        await over.wait()
        raise OSError("the connection is lost")

    store = SlowStore("write", cancelled=stubborn)
    sink, out = await writing(store)
    await closed(sink)
    assert list(out.failed.values()) == ["it has not answered, and the sink is closed"]
    over.set()
    await until(lambda: store.ended)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not unseen


async def test_a_call_whose_caller_is_cancelled_has_ended_when_the_caller_has() -> None:
    patience = RetryForever("store", task().random, lambda _: None)
    store = SlowStore("write", cancelled=lambda: asyncio.sleep(0.01))
    caller = asyncio.ensure_future(patience.once(store.write, []))
    await until(lambda: store.writing)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert store.ended
    patience.close()
