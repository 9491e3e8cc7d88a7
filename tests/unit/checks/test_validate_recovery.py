"""What a bolt says of its state, its timers and its former name: mistakes are found, and told with the rest."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from declaring_kit import Count, CountAny, Declaring, Failure, Holding, Line, Lines, Malformed, Parse, Sink

from topology import Bolt, Config, State, Topology
from topology.plan import plan
from topology.signatures import of_bolt


def declared(bolt: Any, config: Config | None = None, *, tasks: int = 1, **attributes: Any) -> Declaring:
    """A topology in which this bolt, with these attributes, reads by a field."""
    for name, value in attributes.items():
        setattr(bolt, name, value)
    declaring = Declaring(config=config or Config())
    declaring.bolt("x", bolt, declaring.parse[Failure].fields("user"), tasks=tasks)
    return declaring


def coded(declaring: Declaring) -> list[str]:
    from topology.checks.declaration import mistakes

    return [str(one.code) for one in mistakes(declaring.topology)]


# -- recovery, and what is held for it (A19)


@pytest.mark.parametrize("recovery", ["checkpoint", "replay", "none"])
def test_the_three_ways_to_recover_state_are_possible(recovery: str) -> None:
    assert declared(Count(), recovery=recovery).said() == []


@pytest.mark.parametrize(
    ("recovery", "hint"), [("checkpiont", "; did you mean 'checkpoint'?"), ("", ""), (None, ""), (["none"], "")]
)
def test_another_recovery_is_told_with_the_three_that_there_are(recovery: Any, hint: str) -> None:
    declaring = declared(Count(), recovery=recovery)
    assert declaring.one() == f"'x': Count.recovery is one of checkpoint, replay, none, not {recovery!r}{hint}"
    assert coded(declaring) == ["K232"]


@pytest.mark.parametrize("recovery", ["replay", "none"])
def test_a_bolt_without_state_has_nothing_to_recover(recovery: str) -> None:
    declaring = declared(Sink(), recovery=recovery)
    assert declaring.one() == (f"'x': Sink.recovery is {recovery!r}, but it keeps no state; leave recovery out")
    assert declared(Sink(), recovery="checkpoint").said() == []


def test_replay_needs_messages_that_are_replayed() -> None:
    never = Config(guarantee="at-most-once")
    declaring = declared(Count(), never, recovery="replay")
    assert declaring.one() == (
        "'x': Count.recovery is 'replay', and with guarantee='at-most-once' nothing is replayed; make it 'none'"
    )
    assert coded(declaring) == ["K232"]
    assert declared(Count(), never, recovery="none").said() == []


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "9", None])
def test_holds_max_is_a_whole_number_of_at_least_1(value: Any) -> None:
    for recovery in ("checkpoint", "replay"):
        declaring = declared(Count(), recovery=recovery, holds_max=value)
        assert declaring.one() == f"'x': Count.holds_max is a whole number of at least 1, not {value!r}"


def test_a_bolt_that_may_hold_all_that_may_be_pending_would_wait_for_ever_A19() -> None:
    few = Config(max_pending=50)
    declaring = declared(Count(), few, recovery="replay", holds_max=50)
    assert "may hold 50 inputs (holds_max), and its spouts have at most 50 in flight (max_pending)" in declaring.one()
    assert coded(declaring) == ["K233"]
    assert declared(Count(), few, recovery="replay", holds_max=49).said() == []
    assert declared(Count(), few, recovery="checkpoint", holds_max=50).said() == []
    two = declared(Count(), few, recovery="replay", holds_max=25, tasks=2)
    assert "may hold 50 inputs" in two.one(), "of all tasks"


@pytest.mark.parametrize("option", ["fires_at_end", "deterministic"])
@pytest.mark.parametrize("value", [1, "yes", None])
def test_what_is_a_yes_or_a_no_is_nothing_else(option: str, value: Any) -> None:
    assert declared(Count(), **{option: value}).one() == f"'x': Count.{option} is True or False, not {value!r}"


def test_all_mistakes_come_at_once() -> None:
    declaring = declared(Count(), recovery="reply", holds_max=0, fires_at_end="no")
    assert sorted(coded(declaring)) == ["K207", "K232", "K233"]


# -- timers


class Timed(Bolt):
    """Emits one class for its inputs, and another for its timers."""

    def process(self, failure: Failure, state: State[int]) -> Iterator[Malformed]:
        yield Malformed(failure.user)

    def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> Iterator[Line | Malformed]:
        yield Line(name)


def test_what_a_bolt_emits_for_its_timers_alone_is_a_stream_of_it_too() -> None:
    declaring = declared(Timed())
    assert declaring.said() == []
    assert of_bolt(Timed()).gives == (Malformed, Line)
    other = Declaring()
    timed = other.bolt("x", Timed(), other.parse[Failure].fields("user"))
    other.bolt("late", Sink(), timed[Line].shuffle())
    assert other.said() == []


def test_timers_are_of_a_bolt_with_state() -> None:
    class OnProcess(Sink):
        def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> None:
            return None

    class OnExecute(Holding):
        def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> None:
            return None

    for bolt in (OnProcess(), OnExecute()):
        (problem,) = of_bolt(bolt).problems
        assert "defines `on_timer`, and a timer is a part of the state; write process(self, record: X, st" in problem
        assert str(problem.code) == "K234"


class TwoParameters(CountAny):
    def on_timer(self, key: tuple[Any, ...], state: State[int]) -> None:
        return None


class Async(CountAny):
    async def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> None:
        return None


class Streams(CountAny):
    async def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> AsyncIterator[Line]:
        yield Line(name)


class Later(CountAny):
    def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> AsyncIterator[Line]:
        raise NotImplementedError


class Untyped(CountAny):
    def on_timer(self, key, name, state):  # type: ignore[no-untyped-def]
        return None


class OneRecord(CountAny):
    def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> Line:
        return Line(name)


class NoRecord(CountAny):
    def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> Iterator[int]:
        yield 1


class OtherState(CountAny):
    def on_timer(self, key: tuple[Any, ...], name: str, state: State[str]) -> None:
        return None


@pytest.mark.parametrize(
    ("bolt", "said"),
    [
        (TwoParameters(), "TwoParameters has an `on_timer` of 2 parameters besides self; write on_timer(self, key"),
        (Async(), "Async has an `on_timer` that is async"),
        (Streams(), "Streams has an `on_timer` that is async"),
        (Later(), "Later has an `on_timer` that is async"),
        (Untyped(), "Untyped needs the annotation of what `on_timer` gives; write on_timer(self, key"),
        (OneRecord(), "OneRecord has an `on_timer` that gives one Line; give an iterable"),
        (NoRecord(), "NoRecord emits int; name a record class"),
        (OtherState(), "OtherState has an `on_timer` of State[str], and a `process` of State[int]; it is the same"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_on_timer_that_can_not_be_called_is_a_sentence(bolt: Bolt, said: str) -> None:
    (problem,) = declared(bolt).said()
    assert problem.startswith(f"'x': {said}")


# -- bolts whose outputs are journalled (B2)


class Guess(Parse):
    deterministic = False


class GuessesState(Count):
    deterministic = False


class GuessesTuples(Holding):
    deterministic = False


class Stores(Sink):
    deterministic = False
    drops_replays = True


def test_what_a_bolt_that_is_not_deterministic_puts_out_is_journalled_B2() -> None:
    shapes = [of_bolt(one).shape for one in (Guess(), Parse(), GuessesState(), GuessesTuples(), Stores())]
    assert shapes == ["journal", "process", "state", "execute", "process"]


@pytest.mark.parametrize(("guarantee", "shape"), [("at-least-once", "journal"), ("at-most-once", "process")])
def test_nothing_is_journalled_where_nothing_is_replayed(guarantee: Any, shape: str) -> None:
    topology = Topology("guesses", Config(guarantee=guarantee))
    lines = topology.spout("lines", Lines())
    topology.bolt("guess", Guess(), lines.shuffle())
    topology.validate()
    assert plan(topology).components["guess"].shape == shape


# -- former names


def named(name: str, former: Any, more: str = "more", more_former: Any = None) -> Declaring:
    declaring = Declaring()
    declaring.bolt(name, Sink(), declaring.lines.shuffle(), renamed_from=former)
    declaring.bolt(more, Sink(), declaring.lines.shuffle(), renamed_from=more_former)
    return declaring


def test_a_component_is_known_as_what_it_was_called_when_it_was_first_run() -> None:
    declaring = Declaring()
    source = declaring.spout("source", Lines(), renamed_from="tail")
    declaring.bolt("store", Sink(), source.shuffle(), renamed_from="keep")
    assert declaring.said() == []
    assert plan(declaring.topology).known_as == {
        "lines": "lines",
        "parse": "parse",
        "source": "tail",
        "store": "keep",
    }


@pytest.mark.parametrize("former", ["", "a b", "../x", 3, b"a", ["a"]], ids=repr)
def test_a_former_name_that_could_be_anything_but_a_name_is_refused_S6(former: Any) -> None:
    declaring = named("x", former)
    assert declaring.one().startswith("'x': renamed_from: its former name ")
    assert coded(declaring) == ["K235"]


def test_a_name_is_not_its_own_former_one() -> None:
    assert named("x", "x").one() == "'x': renamed_from='x' is the name that it has; leave it out"


def test_the_former_name_is_not_that_of_another_component_and_no_two_share_one() -> None:
    assert "'x': renamed_from='more': a component of this name is declared, in line" in named("x", "more").one()
    said = named("x", "old", more_former="old").said()
    assert [one.partition(", in line")[0] for one in said] == [
        "'x': renamed_from='old': 'more' has the same former name",
        "'more': renamed_from='old': 'x' has the same former name",
    ]
    # nor may two have changed their names with each other: what is kept under either would be the other's
    assert len(named("x", "more", more_former="x").said()) == 2


def test_the_name_that_a_component_is_known_as_is_a_part_of_the_fingerprint() -> None:
    prints = {plan(named("x", former).topology).fingerprint for former in (None, "old", "older")}
    assert len(prints) == 3


# -- what a source gives again


@pytest.mark.parametrize(("value", "hint"), [("Never", "; did you mean 'never'?"), (True, ""), (None, ""), ([], "")])
def test_what_a_spout_gives_again_is_one_of_three(value: Any, hint: str) -> None:
    declaring, lines = Declaring(), Lines()
    vars(lines)["given_again"] = value
    declaring.bolt("x", Sink(), declaring.spout("more", lines).shuffle())
    assert declaring.one() == f"'more': Lines.given_again is one of same, other ids, never, not {value!r}{hint}"
    assert coded(declaring) == ["K236"]


# -- the orders that matter


@pytest.mark.parametrize(("value", "hint"), [("Never", "; did you mean 'never'?"), (True, ""), (None, ""), ([], "")])
def test_the_orders_that_matter_to_a_bolt_are_one_of_three(value: Any, hint: str) -> None:
    declaring, sink = Declaring(), Sink()
    vars(sink)["order_matters"] = value
    declaring.bolt("x", sink, declaring.lines.shuffle())
    assert declaring.one() == f"'x': Sink.order_matters is one of always, inputs, never, not {value!r}{hint}"
    assert coded(declaring) == ["K253"]
