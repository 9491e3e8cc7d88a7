"""How a batch that was written is answered: at once by the runtime's own collector, one by one by what wraps it, and in
parts, so that a big one does not hold the loop up."""

import asyncio
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from batching_kit import ScriptedSink, ScriptedStore, give
from sink_kit import Recorder, alert, feed, opened, until

from bolts.sinks import batching
from topology.core.tuples import Tuple


class Overheard:
    """A collector of a user's own, around the runtime's: writes down each ack, and passes all on."""

    def __init__(self, out: Recorder) -> None:
        self.out = out
        self.heard: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.out, name)

    def ack(self, tup: Tuple[Any]) -> None:
        self.heard.append(tup.record.failures)
        self.out.ack(tup)


async def test_who_wraps_the_collector_of_some_tuples_hears_the_acks_of_these() -> None:
    out = Recorder()
    overheard: Any = Overheard(out)
    async with opened(ScriptedSink(ScriptedStore())) as sink:
        for number, each in ((1, out), (2, overheard), (3, overheard), (4, out)):
            sink.execute(alert(number), each)
        await until(lambda: len(out.acked) == 4)
    assert overheard.heard == [2, 3]


async def test_a4_what_a_batch_acks_at_once_is_acked_once_and_what_was_given_up_meanwhile_is_passed_over() -> None:
    class AtOnce(Recorder):
        def __init__(self) -> None:
            super().__init__()
            self.parts: list[int] = []

        def ack(self, tup: Tuple[Any]) -> None:
            assert self.parts, "the runtime's own is asked for all at once"
            super().ack(tup)

        def ack_all(self, tuples: Iterable[Tuple[Any]]) -> list[Tuple[Any]]:
            given = [*tuples]
            self.parts.append(len(given))
            return super().ack_all(given)

    store, out = ScriptedStore(), AtOnce()
    async with opened(ScriptedSink(store, batch=5_000)) as sink:
        store.gate.clear()
        tuples = [alert(number) for number in range(2_500)]
        for tup in tuples:
            sink.execute(tup, out)
        await until(lambda: store.writing)
        out.give_up(tuples[1_200])
        store.gate.set()
        await sink.flush(out)
    assert out.parts == [1_000, 1_000, 500]
    assert [id(tup) for tup in out.acked] == [id(tup) for tup in tuples if tup is not tuples[1_200]]


@pytest.mark.parametrize("why", ["", "NUL"])
async def test_a_big_batch_is_answered_with_turns_for_the_others_in_between(why: str) -> None:
    store, out = ScriptedStore(refuses=[why]), Recorder()
    done_at_turns = [0]
    async with opened(ScriptedSink(store, batch=5_000)) as sink:
        give(sink, out, *range(4_500))
        async with asyncio.timeout(10):
            while done_at_turns[-1] < 4_500:
                await asyncio.sleep(0)
                done_at_turns.append(len(out.acked) + len(out.failed))
    assert max(after - before for before, after in pairwise(done_at_turns)) <= batching.ANSWERED_AT_ONCE
    assert len(out.failed) == bool(why)


async def test_what_is_stored_is_counted_before_anybody_hears_that_it_is() -> None:
    counted: list[tuple[int, int]] = []
    store = ScriptedStore(refuses=["NUL"])
    async with opened(ScriptedSink(store, batch=5_000)) as sink:
        await feed(sink, map(alert, range(2_500)), Recorder(lambda _: counted.append((sink.stored, sink.refused))))
    assert set(counted) == {(2_500, 1)}
