"""What is held for long, in the real runtime on virtual time: hours of limits, outages and groups in milliseconds."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from bolts.alerts.grouping import AlertGroups
from bolts.sinks.http import delivering
from bolts.sinks.http.delivering import DeliveringSink
from bolts.sinks.http.parcels import Gathering, HeldOutput, InOrder
from bolts.sinks.http.requests import Receiver
from bolts.sinks.http.retries import RETRIES, Retries
from bolts.sinks.publishing.bodies import BodyEncoder
from topology import Config, Record, Topology
from topology.clients.errors import ServerAway
from topology.components import Task
from topology.core.tuples import Tuple
from topology.testing import Pause, ScriptedSpout, Watch, run_topology


@pytest.fixture(autouse=True)
def holds_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of what it holds otherwise: virtual hours take real seconds for each that is held."""
    monkeypatch.setattr(delivering, "HELD_MAX", 100)


class Count(Record):
    number: int


class Told(DeliveringSink):
    """A sink whose receiver is a function of the numbers of a request; what it takes is in `told`."""

    def __init__(
        self,
        answers: Callable[[list[int], float], Awaitable[None]],
        *,
        wait_s: float = 0.0,
        concurrency: int = 4,
        retries: Retries = RETRIES,
        rate: tuple[float, float] | None = None,
        origin: Callable[[int], str] = lambda number: "",
    ) -> None:
        super().__init__(concurrency=concurrency, retries=retries, rate=rate)
        self.origin = origin
        self.answers, self.wait_s = answers, wait_s
        self.told: list[tuple[float, list[int]]] = []
        self.closed_with: list[str] = []
        self.given_up: list[float] = []  # when
        self.where = "a function"

    def __deepcopy__(self, memo: Any) -> "Told":
        return self

    def _make_receiver(self, task: Task) -> Receiver:
        self.began_at = asyncio.get_running_loop().time()
        return self  # type: ignore[return-value]

    def _make_gathering(self) -> Gathering:
        return AlertGroups(self.wait_s, merges=True) if self.wait_s else InOrder(1)

    def _output(self, tup: Tuple[Count]) -> HeldOutput:
        (_, message), *_ = BodyEncoder().messages([tup], {})
        group, origin = "all" if self.wait_s else "", self.origin(tup.record.number)
        return HeldOutput(message.key, message.body, tup.record, group=group, origin=origin)

    async def deliver(self, outputs: Sequence[HeldOutput], key: str) -> None:
        numbers = [output.record.number for output in outputs]  # type: ignore[attr-defined]
        await self.answers(numbers, self.now)
        self.told.append((self.now, numbers))

    def refused(self, output: HeldOutput, why: str) -> None:
        self.given_up.append(self.now)
        super().refused(output, why)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time() - self.began_at

    async def open(self, task: Task | None = None) -> None:
        if task is not None:
            await super().open(task)

    async def close(self) -> None:
        await super().close()


def over(sink: Told, count: int, pause_s: float = 0.0, **settings: Any) -> Topology:
    topology = Topology("delivering", Config(**{"tree_timeout_s": 5.0, **settings}))  # a hard cap of 100 s
    script: list[Any] = [Count(number) for number in range(count)]
    if pause_s:
        script = [each for number in range(count) for each in (Count(number), Pause(pause_s))]
    topology.bolt("told", sink, topology.spout("counts", ScriptedSpout(script)).shuffle())
    return topology


def assert_all(sink: Told, watch: Watch, count: int) -> None:
    assert not watch.failures
    assert sorted(number for _, numbers in sink.told for number in numbers) == [*range(count)]


async def takes(numbers: list[int], now: float) -> None:
    pass


@pytest.mark.parametrize("count", [9, 14])
def test_what_a_limit_holds_back_for_long_neither_fails_nor_is_replayed(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """14 are more than it holds: the rest waits in `execute`, for longer than an input may take."""
    monkeypatch.setattr(delivering, "HELD_MAX", 10)
    sink, watch = Told(takes, rate=(1.0, 40.0)), Watch()
    run_topology(over(sink, count), watch=watch, limit_s=20_000)
    assert_all(sink, watch, count)
    for at, _ in sink.told:
        assert sum(at <= other < at + 39.9 for other, _ in sink.told) == 1


def test_a_group_may_wait_for_longer_than_a_tree_may_be_silent() -> None:
    sink, watch = Told(takes, wait_s=400.0), Watch()
    run_topology(over(sink, 60, pause_s=10.0), watch=watch, limit_s=8_000)
    assert_all(sink, watch, 60)
    first, second = sink.told
    assert first[0] == pytest.approx(400.0, abs=1.0)
    assert second[0] < 800.0, "the inputs have ended, so the second group does not wait"


def test_an_outage_of_ten_minutes_spends_no_replay_and_probes_are_few() -> None:
    probes = []

    async def away(numbers: list[int], now: float) -> None:
        if now < 600:
            probes.append(now)
            raise ServerAway("no route to host")

    sink, watch = Told(away), Watch()
    run_topology(over(sink, 300), watch=watch, limit_s=4_000)
    assert_all(sink, watch, 300)
    assert len(probes) < 100


def test_a_slow_receiver_makes_nothing_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(numbers: list[int], now: float) -> None:
        await asyncio.sleep(40)

    monkeypatch.setattr(delivering, "HELD_MAX", 10)
    sink, watch = Told(slow, concurrency=1), Watch()
    run_topology(over(sink, 15), watch=watch, limit_s=8_000)
    assert_all(sink, watch, 15)


def test_a_record_that_fails_alone_is_dead_after_for_s_of_others_being_delivered() -> None:
    async def poisonous(numbers: list[int], now: float) -> None:
        if numbers == [3]:
            raise ServerAway("it answers 500")

    sink, watch = Told(poisonous, retries=Retries(for_s=300.0)), Watch()
    report = run_topology(over(sink, 900, pause_s=1.0, tree_timeout_s=30.0), watch=watch, limit_s=8_000)
    (dead,) = watch.dead
    assert "others are delivered" in str(dead.failure)
    assert "rejected in 'told'" in str(dead.failure)
    assert report.snapshot.spouts["counts"].dead == 1
    assert sorted(number for _, numbers in sink.told for number in numbers) == [*range(3), *range(4, 900)]


def test_an_outage_in_the_life_of_a_poisonous_record_does_not_count_for_it() -> None:
    tries = []

    async def away_then_poisonous(numbers: list[int], now: float) -> None:
        if numbers == [3] and now < 1_500:
            tries.append(now)
            raise ServerAway("it answers 500")
        if 100 < now < 1_000:
            raise ServerAway("no route to host")

    sink, watch = Told(away_then_poisonous, retries=Retries(for_s=800.0)), Watch()
    run_topology(over(sink, 900, pause_s=2.0, tree_timeout_s=30.0), watch=watch, limit_s=8_000)
    assert_all(sink, watch, 900)


@pytest.mark.parametrize("concurrency", [2, 4, 8])
def test_a_good_record_is_delivered_soon_though_twice_as_many_as_the_places_hang_before_it(concurrency: int) -> None:
    async def hangs(numbers: list[int], now: float) -> None:
        if numbers[0] < 2 * concurrency and now < 60:
            await asyncio.sleep(0.5)
            raise ServerAway("it has not answered within 0.5 s")

    sink, watch = Told(hangs, concurrency=concurrency), Watch()
    run_topology(over(sink, 40), watch=watch, limit_s=4_000)
    assert_all(sink, watch, 40)
    assert sink.told[0][0] < 12.0, "14 attempts of half a second, and the pauses between them"


def test_a_receiver_that_is_away_keeps_no_record_of_another_waiting() -> None:
    async def away(numbers: list[int], now: float) -> None:
        if numbers[0] % 2 and now < 600:
            raise ServerAway("no route to the odd ones")

    sink, watch = Told(away, origin=lambda number: str(number % 2)), Watch()
    run_topology(over(sink, 80), watch=watch, limit_s=4_000)
    assert_all(sink, watch, 80)
    assert sorted(numbers[0] for at, numbers in sink.told if at < 5.0) == [*range(0, 80, 2)]
    odd = [numbers[0] for _, numbers in sink.told if numbers[0] % 2]
    assert len(odd) == 40


def test_many_receivers_that_hang_leave_half_of_the_places_to_one_that_answers() -> None:
    async def hangs(numbers: list[int], now: float) -> None:
        await asyncio.sleep(1.0 if numbers[0] % 2 or now > 300 else 20.0)
        if not numbers[0] % 2 and now < 300:
            raise ServerAway("it has not answered within 20 s")

    retries = Retries(for_s=None)
    sink = Told(hangs, retries=retries, origin=lambda number: "good" if number % 2 else f"hangs {number % 20}")
    watch = Watch()
    run_topology(over(sink, 160, pause_s=1.0), watch=watch, limit_s=8_000)
    assert_all(sink, watch, 160)
    late = [at - number for at, (number,) in sink.told if number % 2 and number > 110]
    assert max(late) < 10.0, "without that limit it is 200"


def test_records_of_a_receiver_that_is_away_while_others_take_theirs_are_dead_after_for_s() -> None:
    async def away(numbers: list[int], now: float) -> None:
        if not numbers[0] % 10 and now < 1_500:
            raise ServerAway("no route to the tens")

    retries = Retries(for_s=300.0)
    sink, watch = Told(away, retries=retries, origin=lambda number: "others" if number % 10 else "tens"), Watch()
    run_topology(over(sink, 900, pause_s=1.0, tree_timeout_s=30.0), watch=watch, limit_s=8_000)
    dead = sorted(letter.record.number for letter in watch.dead)  # type: ignore[attr-defined]
    assert dead == [*range(0, dead[-1] + 1, 10)]
    assert 560 < dead[-1] < 640, "later ones have not waited for 300 s while others were delivered"
    assert "no route to the tens; its receiver has been away for" in str(watch.dead[0].failure)
    told = sorted(number for _, numbers in sink.told for number in numbers)
    assert told == [number for number in range(900) if number not in dead]


def test_a_dead_receiver_whose_records_fill_the_room_keeps_the_others_waiting_for_about_for_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def away(numbers: list[int], now: float) -> None:
        if not numbers[0] % 4 and now < 1_000:
            raise ServerAway("no route to the fourths")

    monkeypatch.setattr(delivering, "HELD_MAX", 20)
    retries = Retries(for_s=1.0)
    sink, watch = Told(away, retries=retries, origin=lambda number: "good" if number % 4 else "dead"), Watch()
    run_topology(over(sink, 400, pause_s=0.005, tree_timeout_s=30.0), watch=watch, limit_s=8_000)
    good = [at for at, (number,) in sink.told if number % 4]
    assert len(good) == 300
    assert max(good) < 100.0, "each room of 20 dead ones is given up after a second, and the pause between two probes"
    dead = [letter.record.number for letter in watch.dead]  # type: ignore[attr-defined]
    assert len(dead) > 60
    assert not any(number % 4 for number in dead)
    assert "no route to the fourths; its receiver has been away for" in str(watch.dead[0].failure)
    assert min(sink.given_up) < 3.0
    assert len(dead) + len(sink.told) == 400


def test_the_only_receiver_may_be_away_for_long_though_its_records_fill_the_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def away(numbers: list[int], now: float) -> None:
        if now < 900:
            raise ServerAway("no route to host")

    monkeypatch.setattr(delivering, "HELD_MAX", 20)
    sink, watch = Told(away, retries=Retries(for_s=1.0), origin=lambda number: "the only"), Watch()
    run_topology(over(sink, 60), watch=watch, limit_s=4_000)
    assert_all(sink, watch, 60)


def test_if_all_receivers_are_away_nothing_dies() -> None:
    async def away(numbers: list[int], now: float) -> None:
        if now < 900:
            raise ServerAway("no route to host")

    sink, watch = Told(away, retries=Retries(for_s=10.0), origin=lambda number: str(number % 3)), Watch()
    run_topology(over(sink, 90), watch=watch, limit_s=4_000)
    assert_all(sink, watch, 90)


def test_while_inputs_come_slower_than_it_takes_them_none_waits() -> None:
    late = []

    async def look(numbers: list[int], now: float) -> None:
        late.append(now - numbers[0])

    sink, watch = Told(look), Watch()
    run_topology(over(sink, 200, pause_s=1.0), watch=watch)
    assert_all(sink, watch, 200)
    assert max(late) < 1.0
