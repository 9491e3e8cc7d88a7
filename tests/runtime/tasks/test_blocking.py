"""Bolts with `blocking = True`: their `process` runs in a thread, and all else is as for other bolts."""

import threading
import time
from collections.abc import Iterator
from typing import ClassVar

import pytest

from topology import Bolt, DeclarationError, Message, Record, Spout, State, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import run_bolt


class Number(Record):
    value: int


class Numbers(Spout):
    def __init__(self, count: int) -> None:
        self.left = list(range(count))

    async def poll(self, limit: int) -> list[Message[Number]]:
        taken, self.left = self.left[:limit], self.left[limit:]
        return [Message(Number(n), n) for n in taken]


class Slow(Bolt):
    """Every second input raises at its first attempt."""

    blocking: ClassVar[bool] = True
    at_once: ClassVar[list[int]] = []
    threads: ClassVar[set[int]] = set()
    tried: ClassVar[set[int]] = set()
    most = 0

    def process(self, number: Number) -> Iterator[Number]:
        self.threads.add(threading.get_ident())
        self.at_once.append(number.value)
        Slow.most = max(Slow.most, len(self.at_once))
        time.sleep(0.01)
        self.at_once.remove(number.value)
        if number.value % 2 and number.value not in self.tried:
            self.tried.add(number.value)
            raise ValueError(number.value)
        yield number


class Seen(Bolt):
    values: ClassVar[list[int]] = []

    def process(self, number: Number) -> None:
        self.values.append(number.value)


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_it_runs_beside_the_loop_so_many_at_a_time_and_is_replayed_as_others_are(concurrency: int) -> None:
    for kept in (Slow.at_once, Slow.threads, Slow.tried, Seen.values):
        kept.clear()
    Slow.most = 0
    topology = Topology("t")
    slow = topology.bolt("slow", Slow(), topology.spout("numbers", Numbers(20)).shuffle(), concurrency=concurrency)
    topology.bolt("seen", Seen(), slow.shuffle())
    report = await EmbeddedRun(topology).finish()
    assert report.exit_status == 0
    assert sorted(Seen.values) == list(range(20))
    assert report.snapshot.total("failed") == 10
    assert threading.get_ident() not in Slow.threads
    assert Slow.most == concurrency
    assert len(Slow.threads) <= concurrency


def test_in_the_test_kit_it_is_called_as_others_are_on_virtual_time() -> None:
    Slow.tried.clear()
    assert run_bolt(Slow(), [Number(2), Number(4)]).outputs == [Number(2), Number(4)]


class WithState(Bolt):
    blocking: ClassVar[bool] = True

    def process(self, number: Number, state: State[int]) -> None:
        state.set(number.value)


class Async(Bolt):
    blocking: ClassVar[bool] = True

    async def process(self, number: Number) -> None:
        return None


@pytest.mark.parametrize(("bolt", "why"), [(WithState, "it has state"), (Async, "is async")])
def test_what_can_not_run_in_a_thread_is_refused_with_its_reason(bolt: type[Bolt], why: str) -> None:
    topology = Topology("t")
    numbers = topology.spout("numbers", Numbers(1))
    topology.bolt("bolt", bolt(), numbers.fields("value") if bolt is WithState else numbers.shuffle())  # type: ignore[call-overload]  # a class that only the test knows
    with pytest.raises(DeclarationError, match=f"blocking is True, and {why}"):
        topology.validate()
