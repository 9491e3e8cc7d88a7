"""How batches form, when `execute` waits, and what becomes of tuples when a store is busy, broken or closed.

The store here is scripted: it notes its batches, blocks while its gate is shut, and raises what it is told to.
"""

import asyncio
import copy
import threading
from typing import Any

import pytest
from batching_kit import ScriptedSink, ScriptedStore, fed, give
from sink_kit import Recorder, alert, feed, opened, task, until

from bolts.sinks import batching, retry
from bolts.sinks.contract import SinkStoreBroken, StoreAway
from topology.core.tuples import Tuple
from topology.errors import NotYet, WorkerError


async def test_a_lone_tuple_is_written_at_once_however_long_a_batch_may_gather() -> None:
    store, out = ScriptedStore(), Recorder()
    async with opened(ScriptedSink(store, within_ms=60_000)) as sink:
        for number in (1, 2, 3):
            give(sink, out, number)
            await until(lambda: len(out.acked) == number, within_s=5)  # noqa: B023  # awaited here
    assert store.batches == [[1], [2], [3]]


async def test_tuples_of_one_turn_of_the_loop_are_one_batch() -> None:
    store, out = ScriptedStore(), Recorder()
    async with opened(ScriptedSink(store)) as sink:
        give(sink, out, 1, 2, 3)
        await until(lambda: len(out.acked) == 3)
    assert store.batches == [[1, 2, 3]]


async def test_what_comes_during_a_write_gathers_until_the_batch_is_full() -> None:
    store, out = ScriptedStore(), Recorder()
    async with opened(ScriptedSink(store, batch=4)) as sink:
        store.gate.clear()
        give(sink, out, 1)
        await until(lambda: store.writing)
        give(sink, out, 2, 3)
        store.gate.set()
        await until(lambda: len(out.acked) == 1)
        for _ in range(20):
            await asyncio.sleep(0)
        give(sink, out, 4, 5)
        await until(lambda: len(out.acked) == 5)
    assert store.batches == [[1], [2, 3, 4, 5]]


async def test_what_comes_during_a_write_is_written_when_its_first_has_waited_within_ms() -> None:
    store, out = ScriptedStore(), Recorder()
    async with opened(ScriptedSink(store, within_ms=20)) as sink:
        store.gate.clear()
        give(sink, out, 1)
        await until(lambda: store.writing)
        begun = asyncio.get_running_loop().time()
        give(sink, out, 2, 3)
        store.gate.set()
        await until(lambda: len(out.acked) == 3)
        assert asyncio.get_running_loop().time() - begun >= 0.02
    assert store.batches == [[1], [2, 3]]


async def test_a_batch_never_has_more_than_its_number() -> None:
    store = ScriptedStore()
    async with opened(ScriptedSink(store, batch=4)) as sink:
        out = await feed(sink, [alert(n) for n in range(1, 103)])
    assert len(out.acked) == 102
    assert max(map(len, store.batches)) == 4
    assert [number for batch in store.batches for number in batch] == list(range(1, 103))


async def test_flush_does_not_wait_for_a_batch_to_fill() -> None:
    store, out = ScriptedStore(), Recorder()
    async with opened(ScriptedSink(store, within_ms=60_000)) as sink:
        store.gate.clear()
        give(sink, out, 1)
        await until(lambda: store.writing)
        give(sink, out, 2)
        store.gate.set()
        async with asyncio.timeout(5):
            await sink.flush(out)
    assert len(out.acked) == 2


async def test_execute_waits_when_two_batches_wait_and_goes_on_when_there_is_room() -> None:
    store, out = ScriptedStore(), Recorder()
    async with opened(ScriptedSink(store, batch=2)) as sink:
        store.gate.clear()
        give(sink, out, 1)
        await until(lambda: store.writing)
        give(sink, out, 2, 3, 4, 5)
        waits = sink.execute(alert(6), out)
        assert waits is not None
        late = asyncio.ensure_future(waits)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not late.done()
        store.gate.set()
        await late
        await sink.flush(out)
    assert len(out.acked) == 6


async def test_a_cancelled_execute_has_not_taken_its_tuple() -> None:
    store, out = ScriptedStore(), Recorder()
    async with opened(ScriptedSink(store, batch=1)) as sink:
        store.gate.clear()
        give(sink, out, 1)
        await until(lambda: store.writing)
        give(sink, out, 2, 3)
        waits = sink.execute(alert(4), out)
        assert waits is not None
        late = asyncio.ensure_future(waits)
        await asyncio.sleep(0)
        late.cancel()
        store.gate.set()
        await sink.flush(out)
    assert store.batches == [[1], [2], [3]]


async def test_the_loop_turns_while_the_store_writes() -> None:
    store, out = ScriptedStore(), Recorder()
    async with opened(ScriptedSink(store)) as sink:
        store.gate.clear()
        give(sink, out, 1)
        await until(lambda: store.writing)
        store.gate.set()
        await sink.flush(out)
        await feed(sink, [alert(2)], out)
    assert len(store.threads) == 1
    assert threading.current_thread().name not in store.threads


async def test_f43_a_store_that_is_away_is_asked_again_and_no_tuple_fails() -> None:
    store = ScriptedStore(raises=[StoreAway("locked")] * 4)
    async with opened(ScriptedSink(store)) as sink:
        out = await fed(sink, [alert(1)])
        assert sink.away == ""
    assert len(out.acked) == 1
    assert not out.failed
    assert store.batches == [[1]]


async def test_f43_while_its_store_is_away_the_sink_says_why_and_how_often_it_has_asked() -> None:
    store, out = ScriptedStore(raises=[StoreAway("connection refused")] * 1_000), Recorder()
    async with opened(ScriptedSink(store)) as sink:
        give(sink, out, 1)
        await until(lambda: sink.away == "its store is away (connection refused), retry 3")
        await sink.flush(out)
        assert not out.acked
        store.heal()
        await until(lambda: len(out.acked) == 1)
        assert sink.away == ""


async def test_c10_after_an_unknown_outcome_the_same_tuples_are_written_again_and_others_wait() -> None:
    store = ScriptedStore(raises=[StoreAway("the connection was lost during COMMIT")])
    store.gate.clear()
    async with opened(ScriptedSink(store, within_ms=1)) as sink:
        out = Recorder()
        give(sink, out, 1, 2)
        await until(lambda: store.writing)
        give(sink, out, 3)
        store.gate.set()
        await until(lambda: len(out.acked) == 3)
    assert store.asked[:2] == [[1, 2], [1, 2]]
    assert store.batches == [[1, 2], [3]]


async def test_a_store_that_is_away_for_a_moment_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(ScriptedSink(ScriptedStore(raises=[StoreAway("locked")] * 3))) as sink:
        await fed(sink, [alert(1)])
    assert not caplog.records


async def test_f43_an_outage_is_told_when_it_lasts_at_intervals_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "TOLD_S", 0.0)
    monkeypatch.setattr(retry, "AGAIN_S", 0.05)
    store, out = ScriptedStore(raises=[StoreAway("disk full")] * 1_000), Recorder()
    async with opened(ScriptedSink(store)) as sink:
        give(sink, out, 1)
        await until(lambda: len(caplog.records) >= 3)
        store.heal()
        await until(lambda: len(out.acked) == 1)
    first, *_, last = [record.getMessage() for record in caplog.records]
    assert first == "store: its store is away (disk full), retry 1, for 0 s so far; its inputs wait (K546)"
    assert last.startswith("store: its store is back, after ")


async def test_f18_a_broken_store_acks_and_fails_nothing_and_the_runtime_is_told() -> None:
    store, out = ScriptedStore(raises=[SinkStoreBroken("fsync: input/output error")]), Recorder()
    async with opened(ScriptedSink(store)) as sink:
        give(sink, out, 1, 2)
        await until(lambda: sink.broken is not None)
        assert "fsync: input/output error" in str(sink.broken)
        give(sink, out, 3)
        with pytest.raises(WorkerError, match="its store is broken: fsync"):
            await sink.flush(out)
        await sink.close()
    assert not out.acked
    assert not out.failed, "a failure would spend an attempt of what the next process stores"
    assert len(store.asked) == 1, "nothing is tried again"


async def test_a_mistake_of_ours_fails_its_batch_and_the_next_one_is_written() -> None:
    error = ValueError("a mistake of ours")
    async with opened(ScriptedSink(ScriptedStore(raises=[error]))) as sink:
        out = await feed(sink, [alert(1), alert(2)])
        assert len(out.failed) == 2
        assert all(str(error) in reason for reason in out.failed.values())
        assert not out.acked
        out = await feed(sink, [alert(1), alert(2)])
        assert len(out.acked) == 2


async def test_a_lasting_trouble_is_told_once_until_it_changes_or_ends(caplog: pytest.LogCaptureFixture) -> None:
    store = ScriptedStore(refuses=["NUL", "NUL", "NUL", "too large", "", "NUL"])
    async with opened(ScriptedSink(store)) as sink:
        for number in range(1, 7):
            await feed(sink, [alert(number)])
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["NUL", "too large", "NUL"]


async def test_a3_a_tuple_that_the_runtime_gave_up_meanwhile_does_no_harm() -> None:
    store, out = ScriptedStore(), Recorder()
    async with opened(ScriptedSink(store)) as sink:
        store.gate.clear()
        first, second = alert(1), alert(2)
        sink.execute(first, out)
        sink.execute(second, out)
        await until(lambda: store.writing)
        out.give_up(first)
        store.gate.set()
        await sink.flush(out)
    assert [id(t) for t in out.acked] == [id(second)]


async def test_close_finishes_the_write_under_way_and_fails_what_waits() -> None:
    store, out = ScriptedStore(), Recorder()
    sink = ScriptedSink(store)
    await sink.open(task())
    store.gate.clear()
    give(sink, out, 1)
    await until(lambda: store.writing)
    give(sink, out, 2, 3)
    closing = asyncio.ensure_future(sink.close())
    await asyncio.sleep(0)
    store.gate.set()
    await closing
    assert [t.record.failures for t in out.acked] == [1]
    assert list(out.failed.values()) == ["the sink was closed before this was stored"] * 2
    assert store.closed
    with pytest.raises(RuntimeError, match="not open"):
        sink.execute(alert(4), out)


async def test_close_does_not_wait_for_a_store_that_is_away() -> None:
    store, out = ScriptedStore(raises=[StoreAway("locked")] * 100), Recorder()
    sink = ScriptedSink(store)
    await sink.open(task())
    give(sink, out, 1)
    await until(lambda: bool(store.threads))
    async with asyncio.timeout(3):
        await sink.close()
    assert list(out.failed.values()) == ["locked"]


async def test_open_waits_for_a_store_that_is_away_and_gives_up_with_its_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(ScriptedSink(ScriptedStore(open_raises=[StoreAway("locked")] * 2))) as sink:
        assert len((await feed(sink, [alert(1)])).acked) == 1
    monkeypatch.setattr(batching, "OPENING_S", 0.02)
    with pytest.raises(NotYet, match="locked"):
        async with opened(ScriptedSink(ScriptedStore(open_raises=[StoreAway("locked")] * 100))):
            pass


async def test_f7_execute_and_flush_raise_when_the_writer_has_died(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Recorder):
        def ack(self, tup: Tuple[Any]) -> None:
            raise ZeroDivisionError("the collector is broken")

    out = Broken()
    async with opened(ScriptedSink(ScriptedStore())) as sink:
        give(sink, out, 1)
        with pytest.raises(RuntimeError, match="writer has ended"):
            await sink.flush(out)
        with pytest.raises(RuntimeError, match="writer has ended"):
            sink.execute(alert(2), out)
    assert "the collector is broken" in caplog.text


def test_a_prototype_can_be_copied_for_each_task() -> None:
    store = ScriptedStore()
    assert copy.deepcopy(ScriptedSink(store)).store is store
