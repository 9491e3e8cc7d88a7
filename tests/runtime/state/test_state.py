"""State in memory: each input counts once, whatever is replayed or fails. Rules B4, D3, D4, D5, D8, D9."""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest
from runtime_kit import Flaky, Number, Pair, Totals, line, numbers

from topology import Bolt, Config, DeclarationError, Grouping, State, Task, Topology
from topology.groupings import key_bytes
from topology.testing import (
    Captured,
    Divergence,
    Pause,
    ScriptedSpout,
    Watch,
    check_replays,
    run_bolt,
    run_topology,
)


def counting(
    inputs: list[Number], *after: Bolt, config: Config | None = None, tasks: int = 2
) -> tuple[Topology, Captured[Number]]:
    return line(ScriptedSpout(inputs), Totals(), *after, by="n", tasks=tasks, config=config)


def state_of(watch: Watch, keys: range) -> dict[int, int]:
    found = watch.state("bolt")
    return {key: found[key_bytes(key)] for key in keys if key_bytes(key) in found}


@pytest.mark.parametrize("seed", range(5))
def test_a_replay_does_not_count_twice_B4_D3(seed: int) -> None:
    inputs = [Number(random.Random(seed).randrange(7)) for _ in range(1)] + [Number(n % 7) for n in range(100)]
    watch = Watch()
    topology, captured = counting(inputs)
    run_topology(topology, seed=seed, replay_all=True, watch=watch)
    assert state_of(watch, range(7)) == Counter(one.n for one in inputs), f"seed {seed}"
    assert len(captured.records) == 2 * len(inputs)
    assert len(captured.distinct) == len(inputs)


@pytest.mark.parametrize("seed", range(5))
def test_failures_after_the_state_do_not_count_twice_B4(seed: int) -> None:
    inputs = [Number(n % 7) for n in range(100)]
    watch = Watch()
    topology, captured = counting(inputs, Flaky(0.4), config=Config(max_replays=60))
    report = run_topology(topology, seed=seed, watch=watch)
    assert report.snapshot.spouts["numbers"].replayed > 0
    assert state_of(watch, range(7)) == Counter(one.n for one in inputs), f"seed {seed}"
    assert len(captured.distinct) == len(inputs)


def test_a_replay_of_a_known_input_sends_the_same_outputs_under_its_new_root_D2() -> None:
    topology, captured = counting([Number(1)] * 3)
    run_topology(topology, replay_all=True)
    first, again = captured.tuples[:3], captured.tuples[3:]
    assert [one.record for one in first] == [one.record for one in again]
    assert [(one.origin, one.identity) for one in first] == [(one.origin, one.identity) for one in again]
    assert {one.root for one in first}.isdisjoint(one.root for one in again)


class Remembers(Bolt):
    """The example of B4 done wrong: it counts in an attribute, where a replay counts again."""

    def open(self, task: Task) -> None:
        self.seen: deque[int] = deque()

    def process(self, number: Number) -> Iterator[Number]:
        self.seen.append(number.n)
        if len(self.seen) % 5 == 0:
            yield Number(len(self.seen))


class KeepsState(Bolt):
    """The same, done right."""

    def process(self, number: Number, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + 1)
        if state.get(0) % 5 == 0:
            yield Number(state.get(0))


def test_the_kit_finds_a_bolt_whose_attribute_counts_replays_B4() -> None:
    def make(bolt: Any, keyed: bool, captured: Captured[Number]) -> Topology:
        topology = Topology("replays")
        stream = topology.spout("numbers", ScriptedSpout(numbers(12)))
        found = topology.bolt("fifth", bolt, stream.global_() if keyed else stream.shuffle())
        topology.bolt("captured", captured, found.shuffle())
        return topology

    with pytest.raises(Divergence, match="with replays the sink has"):
        check_replays(lambda captured: make(Remembers(), False, captured))
    assert list(check_replays(lambda captured: make(KeepsState(), True, captured)).values()) == [Number(5), Number(10)]


class SlowTotals(Bolt):
    """Reads, waits, writes: loses counts wherever two inputs of a key are under way at once."""

    async def process(self, number: Number, state: State[int]) -> list[Pair]:
        before = state.get(0)
        await asyncio.sleep(0.1)
        state.set(before + 1)
        return [Pair(number.n, before + 1)]


@pytest.mark.parametrize("seed", range(3))
def test_one_input_of_a_key_is_under_way_at_a_time_whatever_the_concurrency_D3(seed: int) -> None:
    done = run_bolt(SlowTotals(), [Number(n % 3) for n in range(30)], by=("n",), concurrency=16, seed=seed)
    assert done.state == {0: 10, 1: 10, 2: 10}
    assert sorted((pair.left, pair.right) for pair in done.outputs) == [
        (key, count) for key in range(3) for count in range(1, 11)
    ]


def test_inputs_of_different_keys_are_under_way_side_by_side() -> None:
    topology, captured = Topology("side-by-side"), Captured[Pair]()
    stream = topology.spout("numbers", ScriptedSpout(numbers(10)))
    topology.bolt(
        "captured", captured, topology.bolt("bolt", SlowTotals(), stream.fields("n"), concurrency=10).shuffle()
    )
    run_topology(topology)
    assert max(captured.times) < 0.2


def test_inputs_of_one_key_are_taken_in_their_order_also_when_they_had_to_wait() -> None:
    class Ordered(Bolt):
        async def process(self, pair: Pair, state: State[tuple[int, ...]]) -> None:
            await asyncio.sleep(0.05)
            state.set((*state.get(()), pair.right))

    inputs = [Pair(n % 4, n) for n in range(40)]
    done = run_bolt(Ordered(), inputs, by=("left",), concurrency=8)
    assert done.state == {key: tuple(range(key, 40, 4)) for key in range(4)}


def test_an_input_that_waited_for_one_over_its_time_limit_is_done_although_nothing_follows() -> None:
    class HangsFirst(Bolt):
        def process(self, pair: Pair, state: State[int]) -> Awaitable[None] | None:
            if not pair.right:
                return asyncio.Event().wait()  # type: ignore[return-value]
            state.set(pair.right)
            return None

    config = Config(process_timeout_s=3)
    done = run_bolt(HangsFirst(), [Pair(0, n) for n in range(2)], by=("left",), concurrency=4, config=config)
    assert [one.reason for one in done.failed] == ["over the time limit in 'bolt': not done after 3 s"]
    assert done.state == {0: 1}


def test_a_second_attempt_that_comes_while_the_first_is_in_process_counts_once_D3() -> None:
    """The first attempt's tree times out while the bolt still works on it; both attempts meet in the bolt."""

    class VerySlow(Bolt):
        async def process(self, number: Number, state: State[int]) -> list[Number]:
            await asyncio.sleep(25 if number.n == 0 else 0.01)
            state.set(state.get(0) + 1)
            return [Number(state.get(0))]

    watch = Watch()
    config = Config(tree_timeout_s=1, process_timeout_s=1000)
    topology, captured = line(ScriptedSpout(numbers(2)), VerySlow(), by="n", concurrency=4, config=config)
    report = run_topology(topology, watch=watch)
    assert report.snapshot.spouts["numbers"].replayed >= 1
    assert state_of(watch, range(2)) == {0: 1, 1: 1}
    assert len(captured.distinct) == 2


def test_an_input_that_raises_after_set_leaves_the_state_unchanged_D9() -> None:
    class SetsThenRaises(Bolt):
        def process(self, number: Number, state: State[int]) -> Iterator[Number]:
            state.set(state.get(0) + 1)
            yield Number(state.get(0))
            if number.n == 1:
                raise ValueError("after set")

    done = run_bolt(SetsThenRaises(), [Number(0), Number(1), Number(0)], state={(): 5})
    assert done.state == {(): 7}
    assert done.outputs == [Number(6), Number(7)]


def test_an_input_whose_output_can_not_leave_leaves_the_state_unchanged_D9() -> None:
    class Undeclared(Bolt):
        def process(self, number: Number, state: State[int]) -> Iterator[Number]:
            state.set(state.get(0) + 1)
            yield Pair(1, 1) if number.n == 1 else number  # type: ignore[misc]

    done = run_bolt(Undeclared(), numbers(3), state={(): 0})
    assert done.state == {(): 2}
    assert [one.record for one in done.failed] == [Number(1)]


def test_an_input_whose_grouping_raises_leaves_the_state_unchanged_D9() -> None:
    failing = [True]

    class Picky(Grouping):
        def __deepcopy__(self, memo: object) -> "Picky":
            return self

        def choose(self, record: Number, tasks: int) -> list[int]:
            if failing:
                failing.clear()
                raise ValueError("not this time")
            return [0]

    topology, captured, watch = Topology("picky"), Captured[Number](), Watch()
    totals = topology.bolt("bolt", Totals(), topology.spout("numbers", ScriptedSpout([Number(1)])).fields("n"))
    topology.bolt("captured", captured, totals.custom(Picky()))
    run_topology(topology, watch=watch)
    assert state_of(watch, range(2)) == {1: 1}
    assert len(captured.records) == 1


def test_a_mutable_value_is_refused_and_the_state_stays_D9() -> None:
    class Lists(Bolt):
        def process(self, number: Number, state: State[int]) -> None:
            state.set([number.n])  # type: ignore[arg-type]

    done = run_bolt(Lists(), numbers(1), state={(): 3})
    assert done.state == {(): 3}
    assert "immutable" in done.failed[0].reason


def test_clear_forgets_a_key_and_a_failed_clear_does_not_D9() -> None:
    class Clears(Bolt):
        def process(self, number: Number, state: State[int]) -> None:
            state.clear()
            if number.n == 1:
                raise ValueError("after clear")

    assert run_bolt(Clears(), numbers(1), by=("n",), state={0: 5}).state == {}
    assert run_bolt(Clears(), [Number(1)], by=("n",), state={1: 5}).state == {1: 5}


def test_what_was_processed_is_forgotten_once_its_message_is_done_D4() -> None:
    watch = Watch()
    topology, _ = line(ScriptedSpout[Number]([*numbers(50), Pause(2)]), Totals(), by="n")
    remembered: list[int] = []

    async def look(run: object) -> None:
        await asyncio.sleep(1.5)
        remembered.append(len(watch.executor("bolt").known))  # type: ignore[attr-defined]

    run_topology(topology, watch=watch, during=look)
    assert remembered == [0]


def test_what_belongs_to_a_message_that_waits_for_its_replay_is_remembered_D4() -> None:
    class FailsForAMinute(Bolt):
        def open(self, task: Task) -> None:
            self.clock = task.clock

        def process(self, number: Number) -> list[Number]:
            if number.n == 1 and self.clock.monotonic() < 60:
                raise ValueError("not yet")
            return [number]

    class Numbered(Bolt):
        def process(self, number: Number, state: State[int]) -> list[Number]:
            state.set(state.get(0) + 1)
            return [Number(state.get(0))] if number.n else []

    watch = Watch()
    config = Config(max_replays=100)
    spout = ScriptedSpout[Number]([Number(1), Pause(100)])
    topology, captured = line(spout, Numbered(), FailsForAMinute(), by="n", config=config)
    run_topology(topology, watch=watch)
    assert captured.records == [Number(1)]
    assert state_of(watch, range(2)) == {1: 1}


@pytest.mark.parametrize("grouping", ["shuffle", "all", "partial_key", "local_or_shuffle", "direct"])
def test_state_behind_a_grouping_that_scatters_keys_is_a_declaration_error_D8(grouping: str) -> None:
    topology = Topology("wrong")
    stream = topology.spout("numbers", ScriptedSpout(numbers(1)))
    read = stream.partial_key("n") if grouping == "partial_key" else getattr(stream, grouping)()
    topology.bolt("totals", Totals(), read)
    with pytest.raises(DeclarationError, match="state"):
        run_topology(topology)
