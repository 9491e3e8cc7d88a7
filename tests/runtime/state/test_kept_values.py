"""State as bytes: values of each type come back after a restart as they were; a bad one fails alone. D9."""

import enum
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from kept_kit import kept_in
from runtime_kit import Number, Pair, line

from topology import Bolt, Config, Record, State, Topology
from topology.errors import KedgeError
from topology.testing import Captured, ScriptedSpout, Watch, run_topology


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Seen(Record):
    at: datetime
    names: tuple[str, ...] = ()
    color: Color | None = None


NOW = datetime(2026, 5, 6, 7, 8, 9, 10, tzinfo=UTC)


class Keeps(Bolt):
    """Its state is what it is told; `read` is what it found at each input."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.read: list[Any] = []

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def process(self, number: Number, state: State[Any]) -> None:
        self.read.append(state.get())
        state.set(self.value)


def keeping(kind: Any, value: Any) -> Keeps:
    """As `Keeps`, with another annotation."""

    class Kept(Keeps):
        def process(self, number: Number, state: Any) -> None:
            super().process(number, state)

    Kept.process.__annotations__["state"] = State if kind is None else State[kind]
    return Kept(value)


def run(path: Path, bolt: Keeps, count: int, watch: Watch | None = None) -> None:
    topology = Topology("values", Config(max_replays=0))
    numbers = topology.spout("numbers", ScriptedSpout([Number(n) for n in range(count)]))
    topology.bolt("bolt", bolt, numbers.global_())
    run_topology(topology, state_dir=path, watch=watch)


GOOD: dict[Any, Any] = {tuple[int, ...]: (1, 2), frozenset[int]: frozenset({1})}
CASES: list[tuple[Any, Any]] = [
    (int, -(2**63)),
    (str, "ä\x00😀"),
    (bytes, b"\xff\x00"),
    (bool, True),
    (float, 1.5),
    (float, 3),
    (datetime, NOW),
    (Decimal, Decimal("1.2300")),
    (Color, Color.BLUE),
    (Seen, Seen(NOW, ("a", "b"), Color.RED)),
    (tuple[int, str], (1, "a")),
    (tuple[Seen, ...], (Seen(NOW), Seen(NOW, ("x",)))),
    (frozenset[str], frozenset({"a", "b"})),
    (int | None, 5),
    (Seen | None, Seen(NOW)),
    (Any, (1, ("a", 2.5), True, b"x")),
    (None, ("what", ("State", 1))),
]


@pytest.mark.parametrize(("kind", "value"), CASES, ids=[f"{number}-{kind}" for number, (kind, _) in enumerate(CASES)])
def test_a_value_comes_back_as_it_was_within_a_run_and_after_one(tmp_path: Path, kind: Any, value: Any) -> None:
    watch = Watch()
    run(tmp_path, keeping(kind, value), 2, watch)
    again = keeping(kind, value)
    run(tmp_path, again, 3, watch)
    assert watch.failures == []
    assert again.read == [value]
    assert type(again.read[0]) is (float if kind is float else type(value))


@pytest.mark.parametrize(
    ("kind", "value", "code"),
    [
        (int, "1", "K619"),
        (int, True, "K619"),
        (int, 1.0, "K619"),
        (str, b"1", "K619"),
        (float, "1", "K619"),
        (Seen, Pair(1, 2), "K619"),
        (Color, "red", "K619"),
        (Decimal, 1, "K619"),
        (tuple[int, ...], ("a",), "K619"),
        (int | None, "a", "K619"),
        (frozenset[int], frozenset({"a"}), "K619"),
        (Any, Seen(NOW), "K619"),
        (int, 2**70, "K615"),
        (str, "\ud800", "K615"),
        (tuple[int, ...], [1], "K614"),
        (Seen, Seen(NOW, ["a"]), "K614"),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_value_of_another_type_or_without_bytes_fails_its_input_and_changes_nothing_D9(
    tmp_path: Path, kind: Any, value: Any, code: str
) -> None:
    good = GOOD.get(kind) or next(one for kind_, one in CASES if kind_ == kind)

    class Sometimes(Keeps):
        def process(self, number: Number, state: Any) -> None:
            self.read.append(state.get())
            state.set(value if number.n == 1 else good)

    Sometimes.process.__annotations__["state"] = State[kind]
    watch, bolt = Watch(), Sometimes(good)
    run(tmp_path, bolt, 3, watch)
    assert bolt.read == [None, good, good]
    assert [one.id for one in watch.dead] == [1]
    error = watch.dead[0].failure.error
    assert isinstance(error, KedgeError)
    assert error.code is not None
    assert str(error.code) == code
    assert kept_in(tmp_path, kind=kind) == {(): good}


def raising(value: Any) -> Callable[[Number], Iterator[Any]]:
    def outputs(number: Number) -> Iterator[Any]:
        yield number
        if number.n == 1:
            raise ValueError("after set, and after an output")

    return outputs


class Sets(Bolt):
    """Counts, then gives what `outputs` gives."""

    def __init__(self, outputs: Callable[[Number], Iterator[Any]]) -> None:
        self.outputs = outputs

    def process(self, number: Number, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + 1)
        yield from self.outputs(number)


def undeclared(number: Number) -> Iterator[Any]:
    yield number
    if number.n == 1:
        yield Pair(1, 2)


def too_large(number: Number) -> Iterator[Any]:
    yield number
    if number.n == 1:
        yield Number(2**70)


@pytest.mark.parametrize("outputs", [raising(None), undeclared, too_large], ids=["raises", "undeclared", "no-bytes"])
def test_an_input_that_can_not_be_done_changes_nothing_and_fails_alone_D9(tmp_path: Path, outputs: Any) -> None:
    topology, captured = line(
        ScriptedSpout([Number(n) for n in range(4)]), Sets(outputs), config=Config(max_replays=2), by="n"
    )
    watch = Watch()
    run_topology(topology, state_dir=tmp_path, watch=watch)
    assert kept_in(tmp_path) == {0: 1, 2: 1, 3: 1}
    assert [one.id for one in watch.dead] == [1]
    assert {one.n for one in captured.records} == {0, 2, 3}
    assert len(watch.failures) >= 3, "each attempt is one"


def test_what_an_input_sees_of_its_own_changes_is_gone_with_it_D9(tmp_path: Path) -> None:
    class Clears(Bolt):
        def process(self, number: Number, state: State[int]) -> list[Number]:
            before = state.get(0)
            state.set(7)
            assert state.get() == 7
            state.clear()
            assert state.get() is None
            if number.n == 1:
                raise ValueError("after clear")
            state.set(before + 1)
            return [Number(before)]

    topology, captured = Topology("own", Config(max_replays=0)), Captured[Number]()
    numbers = topology.spout("numbers", ScriptedSpout([Number(n) for n in range(3)]))
    topology.bolt("captured", captured, topology.bolt("bolt", Clears(), numbers.global_()).shuffle())
    run_topology(topology, state_dir=tmp_path)
    assert captured.records == [Number(0), Number(1)]
    assert kept_in(tmp_path) == {(): 2}
