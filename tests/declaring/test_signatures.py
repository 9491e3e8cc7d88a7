"""What is read out of annotations: the classes a component takes and gives, its shape, and what can't be read."""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from typing import Any, Generic, Never

import pytest
from declaring_kit import Failure, Line, Lines, Malformed
from typing_extensions import TypeVar

from topology import Bolt, Collector, Message, Record, Spout, State, Tuple, bolt
from topology.signatures import of_bolt, of_spout

T = TypeVar("T", bound=Record)
U = TypeVar("U", bound=Record)
OnlyLine = TypeVar("OnlyLine", bound=Line)
Either = TypeVar("Either", Line, Failure)


def with_types(takes: Any, gives: Any, state: Any = None) -> Bolt:
    """A bolt whose `process` has these annotations."""

    def plain(self: Any, record: Any) -> Any:
        return None

    def keyed(self: Any, record: Any, state: Any) -> Any:
        return None

    process = plain if state is None else keyed
    process.__annotations__.update({"record": takes, "return": gives, **({"state": state} if state else {})})
    made: Bolt = type("Made", (Bolt,), {"process": process})()
    return made


@pytest.mark.parametrize(
    "gives",
    [
        *(Iterable[Failure], Iterator[Failure], AsyncIterable[Failure], AsyncIterator[Failure]),
        *(Sequence[Failure], Collection[Failure], list[Failure]),
        Generator[Failure, None, None],
        AsyncGenerator[Failure, None],
        tuple[Failure, ...],
        tuple[Failure, Failure],
        frozenset[Failure],
        Awaitable[list[Failure] | None],
        Coroutine[Any, Any, list[Failure]],
        Iterator[Failure] | None,
    ],
    ids=str,
)
def test_every_way_to_give_records_is_read(gives: Any) -> None:
    signature = of_bolt(with_types(Line, gives))
    assert (signature.takes, signature.gives, signature.problems) == ((Line,), (Failure,), [])


@pytest.mark.parametrize("gives", [None, Never, Iterator[Never], Awaitable[None]], ids=str)
def test_nothing_is_a_way_to_give_records(gives: Any) -> None:
    signature = of_bolt(with_types(Line, gives))
    assert (signature.gives, signature.problems) == ((), [])


def test_several_classes_are_read_in_their_order_and_once() -> None:
    signature = of_bolt(with_types(Line | Failure, Iterator[Malformed | Failure] | list[Failure]))
    assert (signature.takes, signature.gives) == ((Line, Failure), (Malformed, Failure))


@pytest.mark.parametrize(
    ("takes", "read"), [(Record, ()), (T, ()), (OnlyLine, (Line,)), (Either, (Line, Failure))], ids=str
)
def test_a_type_variable_takes_what_it_is_bound_to_and_gives_what_it_took(takes: Any, read: Any) -> None:
    signature = of_bolt(with_types(takes, Iterator[takes]))
    assert (signature.takes, signature.same, signature.problems) == (read, takes is not Record, signature.problems)
    assert signature.problems == ([] if takes is not Record else ["Made emits Record; name a record class"])


def test_a_type_variable_that_the_input_does_not_have_is_a_problem() -> None:
    variable: Any = T
    assert of_bolt(with_types(Line, Iterator[variable])).problems == [
        "Made emits T, a type variable that its input does not have"
    ]


class Base(Bolt, Generic[T, U]):
    def process(self, record: T) -> Iterator[U]:
        raise NotImplementedError


class Swapped(Base[U, T], Generic[T, U]):
    """Its variables stand for each other's."""


class Leaf(Swapped[Failure, Line]):
    """Takes Line, gives Failure."""


class Same(Base[T, T]):
    """Gives what it takes."""


def test_a_subclass_says_what_stands_for_the_type_variables_of_its_base() -> None:
    leaf, same = of_bolt(Leaf()), of_bolt(Same())
    assert (leaf.takes, leaf.gives, leaf.same, leaf.problems) == ((Line,), (Failure,), False, [])
    assert (same.takes, same.gives, same.same, same.problems) == ((), (), True, [])


def test_an_instance_of_a_generic_bolt_may_be_made_with_its_classes() -> None:
    made, open_ = of_bolt(Base[Line, Failure]()), of_bolt(Base())
    assert (made.takes, made.gives, made.problems) == ((Line,), (Failure,), [])
    assert open_.problems == ["Base emits U, a type variable that its input does not have"]


class Holding(Bolt):
    async def execute(self, tup: Tuple[Line | Failure], out: Collector[Malformed]) -> None:
        out.ack(tup)


def test_execute_is_read_from_the_tuple_and_the_collector() -> None:
    signature = of_bolt(Holding())
    assert (signature.shape, signature.takes, signature.gives) == ("execute", (Line, Failure), (Malformed,))
    assert signature.waits
    assert signature.problems == []


@pytest.mark.parametrize(
    ("gives", "waits"), [(Iterator[Line], False), (AsyncIterator[Line], True), (Awaitable[list[Line]], True)], ids=str
)
def test_a_bolt_waits_where_what_it_returns_is_awaited(gives: Any, waits: bool) -> None:
    assert of_bolt(with_types(Line, gives)).waits is waits


def test_a_second_parameter_is_the_state_and_says_so() -> None:
    assert of_bolt(with_types(Line, None, State[int])).problems == []
    assert of_bolt(with_types(Line, None, State)).problems == []
    assert of_bolt(with_types(Line, None, State[int])).shape == "state"
    assert of_bolt(with_types(Line, None, int)).problems == [
        "Made takes a second parameter, `state`, which is its state; annotate it: State[…]"
    ]


def test_a_function_is_read_like_a_process_and_called_by_its_name() -> None:
    @bolt
    def split(line: Line) -> Iterator[Malformed]:
        yield Malformed(line.text)

    @bolt
    def untyped(line):  # type: ignore[no-untyped-def]
        return None

    assert (of_bolt(split).takes, of_bolt(split).gives) == ((Line,), (Malformed,))
    assert of_bolt(untyped).problems[0].startswith("untyped needs annotations; write ")


class Nothing(Bolt):
    """Defines nothing."""


class Both(Holding):
    def process(self, line: Line) -> None:
        """One too many."""


class Bare(Bolt):
    def process(self, line):  # type: ignore[no-untyped-def]
        return None


class Wide(Bolt):
    def process(self, line: Line, state: State[int], more: int) -> None:
        """One parameter too many."""


class Lost(Bolt):
    def process(self, line: "NoSuchClass") -> None:  # type: ignore[name-defined]  # noqa: F821 - that is the test
        """Takes what there is not."""


class Broken(Bolt):
    @property
    def process(self) -> Callable[[Line], None]:
        raise ZeroDivisionError("at your service")


class BareCollector(Bolt):
    def execute(self, tup: Tuple[Line], out: Collector) -> None:  # type: ignore[type-arg]
        """Does not say what it emits."""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Nothing(), "Nothing defines neither `process` nor `execute`; a bolt has one of them"),
        (Both(), "Both defines both `process` and `execute`; a bolt has one of them"),
        (Bare(), "Bare needs annotations; write process(self, record: X) -> Iterator[Y]"),
        (Wide(), "Wide has a `process` of 3 parameters besides self; write process("),
        (Lost(), "Lost has annotations that can't be resolved: name 'NoSuchClass' is not defined"),
        (Broken(), "Broken can't be read: ZeroDivisionError: at your service"),
        (BareCollector(), "BareCollector needs annotations; write execute(self, tup: Tuple[X], out: Collector[Y])"),
        (with_types(int, None), "Made takes int, which is not a record class"),
        (with_types(Line, Line), "Made has a `process` that gives one Line; give an iterable"),
        (with_types(Line, int), "Made has a `process` that gives int, which is not an iterable of records"),
        (with_types(Line, Iterator[int]), "Made emits int; name a record class"),
        (with_types(Line, Iterator[Any]), "Made emits Any; name a record class"),
    ],
    ids=lambda value: str(value)[:25],
)
def test_what_can_not_be_read_of_a_bolt_is_a_sentence(given: Any, said: str) -> None:
    (problem,) = of_bolt(given).problems
    assert problem.startswith(said)


class Source(Spout, Generic[T]):
    async def poll(self, limit: int) -> Sequence[Message[T]]:
        return []


class Of(Source[Line]):
    """Of lines."""


class Generated(Spout):
    async def records(self) -> AsyncIterator[Message[Line | Failure]]:
        yield Message(Line("a"), 1)


class Emits(Spout):
    def __init__(self, *classes: Any) -> None:
        self.classes = classes

    async def poll(self, limit: int) -> list[Message[Any]]:
        return []

    def emits(self) -> Any:
        return self.classes


@pytest.mark.parametrize(
    ("spout", "classes"),
    [
        (Lines(), (Line,)),
        (Of(), (Line,)),
        (Source[Failure](), (Failure,)),
        (Generated(), (Line, Failure)),
        (Emits(Failure, Line), (Failure, Line)),
        (Emits(), ()),
    ],
)
def test_a_spouts_classes_are_read_from_its_annotations_or_told_by_emits(spout: Spout, classes: Any) -> None:
    assert of_spout(spout) == (classes, [])


class Untyped(Spout):
    async def poll(self, limit: int):  # type: ignore[no-untyped-def]
        return []


@pytest.mark.parametrize(
    ("spout", "said"),
    [
        (Spout(), "Spout defines neither `records` nor `poll`; a spout has one of them"),
        (Untyped(), "Untyped needs an annotation of what it emits: poll(self, limit) -> list[Message[X]]"),
        (Source(), "Source needs an annotation of what it emits"),
        (Emits(int), "Emits emits int; name a record class"),
    ],
)
def test_what_can_not_be_read_of_a_spout_is_a_sentence(spout: Spout, said: str) -> None:
    classes, (problem,) = of_spout(spout)
    assert classes == ()
    assert problem.startswith(said)
