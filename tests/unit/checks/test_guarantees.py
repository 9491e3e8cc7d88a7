"""What each sink gets, and who is the weakest on the way: `kedge check --guarantees` (D13)."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from declaring_kit import Count, CountAny, Declaring, Failure, Holding, Line, Lines, Malformed, Parse, Sink

from bolts import Burst, CountWithin
from spouts import Paced, Ticker
from topology import Bolt, Collector, Config, Grouping, Record, State, Topology, Tuple
from topology.checks.guarantees import DURABILITIES, Guarantee, Mishap, Promise, guarantees
from topology.cli.output import guarantees as promises

EXACTLY, AT_LEAST, AT_MOST, NONE = Guarantee


class Store(Sink):
    drops_replays = True


class Guess(Parse):
    deterministic = False


class GuessTuples(Holding):
    deterministic = False


class GuessState(Count):
    deterministic = False


class Ticking(Parse):
    def tick(self, now: datetime) -> Iterator[Failure]:
        raise NotImplementedError


class Latest(Bolt):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def process(self, line: Line) -> Iterator[Malformed]:
        self.seen.append(line.text)
        yield Malformed(self.seen[0])


class First(Grouping):
    def choose(self, record: Record, tasks: int) -> tuple[int, ...]:
        return (0,)


def line_of(
    *bolts: Any, spout: Any = None, config: Config | None = None, keeps: bool = True, **options: Any
) -> Promise:
    """What the last of these bolts gets; each reads the first class of the one before, by fields where it has state."""
    topology: Any = Topology("line", config or Config())
    stream = topology.spout("lines", spout or Lines())
    for index, bolt in enumerate(bolts):
        read = stream[stream._classes[0]] if len(stream._classes) > 1 else stream
        grouping = read.global_() if isinstance(bolt, Count | CountAny) else read.shuffle()
        stream = topology.bolt(f"b{index}", bolt, grouping, **(options if index == 0 else {}))
    topology.validate()
    return guarantees(topology, keeps=keeps)[-1]


def with_recovery(bolt: Any, recovery: str) -> Any:
    bolt.recovery = recovery
    return bolt


def weak(promise: Promise) -> list[str]:
    return [one.component for one in promise.weaknesses]


# -- what is exact


@pytest.mark.parametrize(
    "bolts",
    [
        (Parse(), Store()),
        (Parse(), Count(), Store()),
        (Guess(), Count(), Store()),  # journalled
        (Parse(), GuessState(), Store()),  # what it gives is kept with its state
        (Holding(), Store()),
        (Parse(), CountAny()),  # its effect is its state
    ],
    ids=lambda bolts: " ".join(type(one).__name__ for one in bolts),
)
def test_deterministic_and_journalled_bolts_kept_state_and_a_sink_that_drops_replays_are_exact(bolts: Any) -> None:
    promise = line_of(*bolts)
    assert (promise.guarantee, promise.weaknesses, promise.weakest) == (EXACTLY, (), "")


# -- what is not


def test_a_sink_that_does_not_drop_replays_is_the_weakest_itself() -> None:
    promise = line_of(Parse(), Sink())
    assert (promise.guarantee, promise.weakest) == (AT_LEAST, "b1")
    assert promise.weaknesses[0].text == "is a Sink, which does not deduplicate replays"


def test_an_execute_that_is_not_deterministic_can_not_be_written_down_B2() -> None:
    promise = line_of(GuessTuples(), Store())
    assert (promise.guarantee, promise.weakest) == (AT_LEAST, "b0")
    assert "outputs of `execute` cannot be stored" in promise.weaknesses[0].text


@pytest.mark.parametrize(("recovery", "guarantee"), [("replay", AT_LEAST), ("none", NONE)])
def test_state_that_is_not_kept_is_a_weakness_and_twice_so_where_it_is_not_deterministic(
    recovery: str, guarantee: Guarantee
) -> None:
    """With 'none' what done inputs had changed in it is lost, too: the alert of which they were a part never comes."""
    promise = line_of(Parse(), with_recovery(Count(), recovery), Store())
    assert (promise.guarantee, weak(promise)) == (guarantee, ["b1"])
    assert f"has recovery = {recovery!r}: after its worker's death" in promise.weaknesses[0].text
    promise = line_of(Parse(), with_recovery(GuessState(), recovery), Store())
    assert (promise.guarantee, weak(promise)) == (guarantee, ["b1", "b1"])
    assert line_of(Parse(), with_recovery(CountAny(), recovery)).guarantee is guarantee  # a sink of state alone


def test_without_a_state_directory_state_may_be_lost_and_counted_twice_and_sources_are_read_from_their_start() -> None:
    assert line_of(Parse(), Count(), Store()).guarantee is EXACTLY
    promise = line_of(Parse(), Count(), Store(), keeps=False)
    assert (promise.guarantee, weak(promise)) == (NONE, ["b1", "lines"])
    assert "after its worker's death it begins empty" in promise.weaknesses[0].text
    assert "is read from its start again" in promise.weaknesses[1].text


def test_without_a_state_directory_a_replay_of_what_is_not_deterministic_may_give_something_else_B2() -> None:
    promise = line_of(Guess(), Store(), keeps=False)
    assert (promise.guarantee, weak(promise)) == (AT_LEAST, ["b0", "lines"])
    assert line_of(Parse(), Store(), keeps=False).guarantee is EXACTLY, "its sink knows what comes again"


def test_ticks_are_anchored_to_nothing_and_at_most_once_B10() -> None:
    promise = line_of(Ticking(), Store(), every="1s")
    assert (promise.guarantee, promise.weakest) == (AT_MOST, "b0")
    assert "emits records in `tick` that are anchored to no message" in promise.weaknesses[0].text


def test_a_tick_that_gives_nothing_emits_nothing_B10() -> None:
    class Quiet(Parse):
        def tick(self, now: datetime) -> None:
            if now.second:
                return None
            self.close()

    assert line_of(Quiet(), Store(), every="1s").guarantee is EXACTLY


def test_a_tick_that_emits_without_an_anchor_by_a_collector_that_it_has_kept_is_found_B10() -> None:
    class Kept(Bolt):
        def execute(self, tup: Tuple[Line], out: Collector[Line]) -> None:
            self.tup, self.out = tup, out

        def tick(self, now: datetime) -> None:
            self.out.emit(self.tup.record, anchors=())

    class Anchored(Kept):
        def tick(self, now: datetime) -> None:
            self.out.emit(self.tup.record)
            self.out.ack(self.tup)

    promise = line_of(Kept(), Store(), every="1s")
    assert promise.guarantee is AT_MOST
    assert "emits records in `tick` that are anchored to no message" in promise.weaknesses[0].text
    assert line_of(Anchored(), Store(), every="1s").guarantee is EXACTLY


def test_what_execute_and_flush_emit_without_an_anchor_is_found_in_their_source_B10() -> None:
    class Unanchored(Bolt):
        def execute(self, tup: Tuple[Line], out: Collector[Line]) -> None:
            self.send(tup.record, out)
            out.ack(tup)

        def send(self, line: Line, out: Collector[Line]) -> None:
            out.emit(line, anchors=())

    class Flushing(Parse):
        def flush(self, out: Collector[Failure]) -> None:
            out.emit(Failure("", "", 0, 0.0, frozenset()))

    class Careful(Bolt):
        def __init__(self) -> None:
            self.held: tuple[Tuple[Line], ...] = ()

        def execute(self, tup: Tuple[Line], out: Collector[Line]) -> None:
            out.emit(tup.record)

        def flush(self, out: Collector[Line]) -> None:
            out.emit(Line("last"), self.held)
            out.emit(Line("last"), anchors=self.held)

    for bolt, method in ((Unanchored(), "execute"), (Flushing(), "flush")):
        promise = line_of(bolt, Store())
        assert promise.guarantee is AT_MOST
        assert f"emits records in `{method}` that are anchored" in promise.weaknesses[0].text
    assert line_of(Careful(), Store()).guarantee is EXACTLY


def test_mutable_attributes_behind_a_tracked_stream_see_replays_and_are_gone_after_a_death_B4() -> None:
    promise = line_of(Latest(), Store())
    assert (promise.guarantee, promise.weakest) == (NONE, "b0")
    assert promise.weaknesses[0].text.startswith("keeps self.seen from record to record")


@pytest.mark.parametrize(("given", "guarantee"), [("other ids", AT_LEAST), ("never", AT_MOST)])
def test_a_source_says_what_it_gives_again_C2(given: str, guarantee: Guarantee) -> None:
    class Radio(Lines):
        given_again = given  # type: ignore[assignment]  # one of the three

    for spout in (Radio(), Paced(Radio(), 10)):
        promise = line_of(Parse(), Store(), spout=spout)
        assert (promise.guarantee, promise.weakest) == (guarantee, "lines")


def test_a_clock_gives_nothing_again() -> None:
    promise = line_of(Store(), spout=Ticker(1.0))
    assert (promise.guarantee, promise.weakest) == (AT_MOST, "lines")


def test_what_may_be_lost_and_may_come_twice_has_no_guarantee_at_all() -> None:
    promise = line_of(Sink(), spout=Ticker(1.0))
    assert (promise.guarantee, weak(promise)) == (NONE, ["lines", "b0"])


@pytest.mark.parametrize("how", ["custom", "direct"])
def test_tasks_that_code_chooses_are_a_weakness_where_state_is_behind_them_D13(how: str) -> None:
    def promised(*, state: bool) -> Promise:
        declaring = Declaring()
        holding = declaring.bolt("hold", Holding(), declaring.lines.shuffle())
        read = holding.custom(First()) if how == "custom" else holding.direct()

        class Same(Bolt):
            def process(self, record: Malformed) -> Iterator[Malformed]:
                yield record

        same = declaring.bolt("same", Same(), read)
        if state:
            declaring.bolt("count", CountAny(), same.global_())
        else:
            declaring.bolt("store", Store(), same.global_())
        declaring.topology.validate()
        return guarantees(declaring.topology)[-1]

    promise = promised(state=True)
    assert (promise.guarantee, promise.weakest) == (AT_LEAST, "same")
    assert "and 'count' behind it keeps state" in promise.weaknesses[0].text
    assert promised(state=False).guarantee is EXACTLY


def test_without_trees_everything_is_at_most_once() -> None:
    promise = line_of(Latest(), Sink(), config=Config(guarantee="at-most-once"))
    assert (promise.guarantee, promise.weakest) == (AT_MOST, "")
    assert [one.text for one in promise.weaknesses] == [
        "guarantee='at-most-once': no message is tracked, and none is replayed"
    ]


@pytest.mark.parametrize("durability", ["disk", "process", "checkpoint"])
def test_no_durability_is_a_weakness_of_its_own(durability: Any) -> None:
    promise = line_of(Guess(), Count(), Store(), config=Config(durability=durability))
    assert (promise.guarantee, promise.weakest, promise.weaknesses) == (EXACTLY, "", ())
    assert promise.durability == durability


# -- what may come out otherwise once all workers go back to a checkpoint


def varying(promise: Promise) -> list[str]:
    return [one.component for one in promise.variations]


def test_workers_go_back_to_a_checkpoint_after_a_death_with_checkpoint_and_after_a_loss_of_power_with_process() -> None:
    promise = line_of(Guess(), Store())
    found = {(name, event.name) for name in DURABILITIES for event in Mishap if promise.varies(name, event)}
    assert found == {("process", "POWER"), ("checkpoint", "DEATH"), ("checkpoint", "POWER")}
    sure = line_of(Parse(), Store())
    assert not any(sure.varies(name, event) for name in DURABILITIES for event in Mishap)


def test_a_line_of_single_tasks_from_one_source_comes_out_the_same() -> None:
    assert varying(line_of(Parse(), Count(), Store())) == []


def test_a_bolt_that_is_not_deterministic_may_come_out_otherwise_with_state_and_without() -> None:
    for bolts, name in (((Guess(), Store()), "b0"), ((Parse(), GuessState(), Store()), "b1")):
        (found,) = line_of(*bolts).variations
        assert (found.component, found.why) == (name, "is not deterministic, and its outputs are computed again")
        assert found.write == ("durability='disk'",)


def test_an_execute_may_combine_its_inputs_otherwise() -> None:
    (found,) = line_of(Holding(), Store()).variations
    assert found.component == "b0"
    assert found.write == ("`process` in place of `execute`", "durability='disk'")


def test_a_state_behind_several_tasks_of_a_bolt_names_them_and_what_to_write() -> None:
    (found,) = line_of(Parse(), Count(), Store(), tasks=3).variations
    assert found.component == "b1"
    assert found.why == "has state, and inputs of a key may come in another order: 'b0' has 3 tasks"
    assert found.write[:2] == ("tasks=1 for 'b0'", "durability='disk'")


def test_a_state_behind_a_bolt_that_works_on_several_inputs_at_a_time_names_it() -> None:
    class Fetch(Bolt):
        async def process(self, line: Line) -> list[Failure]:
            return []

    (found,) = line_of(Fetch(), Count(), Store(), concurrency=8).variations
    assert "'b0' works on 8 inputs at a time" in found.why
    assert found.write[0] == "concurrency=1 for 'b0'"


@pytest.mark.parametrize("order", ["always", "inputs", "never"])
def test_a_state_whose_outputs_are_the_same_in_any_order_is_not_named(order: str) -> None:
    bolt: Any = Count()
    bolt.order_matters = order
    assert varying(line_of(Parse(), bolt, Store(), tasks=2)) == ([] if order == "never" else ["b1"])


def test_timers_take_turns_with_inputs_and_so_may_come_at_another_place() -> None:
    class Timed(Count):
        def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> Iterator[Malformed]:
            raise NotImplementedError

    (found,) = line_of(Parse(), Timed(), Store()).variations
    assert found.why == "has state, and inputs of a key may come in another order: its timers take turns with them"
    assert found.write[0] == "durability='disk'", "one task is no way out"
    quiet: Any = Timed()
    quiet.order_matters = "inputs"
    assert line_of(Parse(), quiet, Store()).variations == ()


def test_a_state_that_reads_two_bolts_or_two_sources_is_named() -> None:
    declaring = Declaring()
    other = declaring.topology.spout("other", Lines())

    class Tell(Bolt):
        def process(self, line: Line, state: State[int]) -> Iterator[Malformed]:
            yield Malformed(line.text)

    told = declaring.bolt("tell", Tell(), declaring.lines.global_(), other.global_())
    declaring.bolt("store", Store(), told.shuffle())
    declaring.topology.validate()
    (found,) = guarantees(declaring.topology)[-1].variations
    assert (found.component, "'tell' reads 'lines' and 'other'" in found.why) == ("tell", True)
    assert found.write[0] == "durability='disk'"


def test_bursts_are_the_same_in_any_order_if_records_wait_and_else_depend_on_their_order_only() -> None:
    class Bursts(CountWithin[Failure, Malformed]):
        def at(self, record: Failure) -> datetime:
            raise NotImplementedError

        def raised(self, record: Failure, burst: Burst) -> Malformed:
            raise NotImplementedError

    def found(lateness_s: float, tasks: int) -> list[str]:
        declaring = Declaring()
        parse = declaring.bolt("again", Parse(), declaring.lines.shuffle(), tasks=tasks)
        bursts = declaring.bolt("bursts", Bursts(5, 60, lateness_s), parse[Failure].fields("user"))
        declaring.bolt("store", Store(), bursts.shuffle())
        declaring.topology.validate()
        return varying(guarantees(declaring.topology)[-1])

    assert [found(0, 1), found(0, 2), found(5, 1), found(5, 2)] == [[], ["bursts"], [], []]


def test_a_sink_whose_effect_is_its_state_goes_back_as_all_others_do() -> None:
    assert varying(line_of(Guess(), CountAny())) == []


@pytest.mark.parametrize("options", [{"keeps": False}, {"config": Config(guarantee="at-most-once")}])
def test_where_nothing_is_kept_or_replayed_durability_makes_no_difference(options: Any) -> None:
    promise = line_of(Guess(), Store(), **options)
    assert (promise.variations, promise.durability) == ((), None)


# -- which sinks, and which way


def test_each_sink_has_its_own_way_and_what_is_beside_it_weakens_it_not() -> None:
    declaring = Declaring()
    failures = declaring.parse[Failure]
    declaring.bolt("print", Sink(), failures.shuffle())
    counted = declaring.bolt("count", with_recovery(Count(), "none"), failures.fields("user"))
    declaring.bolt("store", Store(), counted.shuffle())
    declaring.bolt("raw", Store(), declaring.lines.shuffle())
    declaring.bolt("unread", Parse(), declaring.lines.shuffle())
    declaring.topology.validate()
    found = {one.sink: (one.guarantee, one.weakest) for one in guarantees(declaring.topology)}
    assert found == {
        "print": (AT_LEAST, "print"),
        "store": (NONE, "count"),
        "raw": (EXACTLY, ""),
        "unread": (AT_LEAST, "unread"),
    }


def test_a_reader_of_dead_letters_has_a_way_too() -> None:
    declaring = Declaring()
    declaring.bolt("page", Store(), declaring.lines.dead.shuffle())
    assert [(one.sink, one.guarantee) for one in guarantees(declaring.topology)] == [
        ("parse", AT_LEAST),
        ("page", EXACTLY),
    ]


# -- how it is shown


def test_it_is_shown_as_a_line_a_sink_and_a_line_a_weakness() -> None:
    found = [line_of(Latest(), Sink()), line_of(Parse(), Store())]
    assert [*promises.lines(found)] == [
        f"b1: {NONE.value}; the weakest is 'b0'",
        "  'b0' keeps self.seen from record to record: a replay counts twice in it, and a restart forgets it",
        "  'b1' is a Sink, which does not deduplicate replays",
        "  the same with each durability, when a worker dies and when power is lost",
        "b1: exactly once in effect",
        "  the same with each durability, when a worker dies and when power is lost",
    ]


def test_a_table_shows_what_each_durability_gives_where_results_may_differ_and_fits_80_columns() -> None:
    shown = [*promises.lines([line_of(Guess(), Store(), config=Config(durability="process"))])]
    assert shown == [
        "b1: exactly once in effect",
        "  durability        a worker dies     power is lost",
        "  disk              exactly once      exactly once",
        "  process (set)     exactly once      exactly once *",
        "  checkpoint        exactly once *    exactly once *",
        "  * what left after the last checkpoint is computed again, and may differ:",
        "    'b0' is not deterministic, and its outputs are computed again",
        "      write durability='disk'",
    ]
    assert max(map(len, shown)) <= 80


def test_a_run_that_keeps_nothing_shows_no_durability() -> None:
    assert not any("durability" in line for line in promises.lines([line_of(Parse(), Store(), keeps=False)]))


def test_machines_get_it_as_one_object_in_one_line() -> None:
    def sure(guarantee: str) -> dict[str, Any]:
        """With each durability, after each event."""
        events = {event: {"guarantee": guarantee, "varies": False} for event in ("death", "power")}
        return dict.fromkeys(("disk", "process", "checkpoint"), events)

    why = "is a Sink, which does not deduplicate replays"
    text = promises.as_json("line", [line_of(Parse(), Sink()), line_of(Parse(), Store())])
    assert "\n" not in text
    assert json.loads(text) == {
        "topology": "line",
        "sinks": [
            {
                "sink": "b1",
                "guarantee": "at-least-once",
                "weakest": "b1",
                "weaknesses": [{"component": "b1", "why": why, "loses": False, "repeats": True}],
                "durabilities": sure("at-least-once"),
                "variations": [],
            },
            {
                "sink": "b1",
                "guarantee": "exactly-once",
                "weakest": None,
                "weaknesses": [],
                "durabilities": sure("exactly-once"),
                "variations": [],
            },
        ],
    }
    (kept_in_memory,) = json.loads(promises.as_json("line", [line_of(Parse(), Store(), keeps=False)]))["sinks"]
    assert kept_in_memory["durabilities"] is None


def test_machines_get_the_bolts_whose_results_may_differ() -> None:
    (sink,) = json.loads(promises.as_json("line", [line_of(Guess(), Store())]))["sinks"]
    assert sink["durabilities"]["process"] == {
        "death": {"guarantee": "exactly-once", "varies": False},
        "power": {"guarantee": "exactly-once", "varies": True},
    }
    why = "is not deterministic, and its outputs are computed again"
    assert sink["variations"] == [{"component": "b0", "why": why, "write": ["durability='disk'"]}]


def test_asking_changes_nothing_and_gives_the_same_again() -> None:
    declaring = Declaring()
    assert guarantees(declaring.topology) == guarantees(declaring.topology)
