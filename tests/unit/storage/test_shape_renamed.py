"""A bolt is gone whose state is kept, and a new one could be the same: refused until somebody says which it is."""

from collections.abc import Iterator
from typing import Any

import pytest

from topology import Bolt, DeclarationError, Message, Record, Spout, StartError, State, Topology
from topology.plan import plan
from topology.storage.directory.shape import agreed, following, shape_of, text_of


class Line(Record):
    user: str


class Lines(Spout):
    async def poll(self, limit: int) -> list[Message[Line]]:
        return []


class Count(Bolt):
    def process(self, line: Line, state: State[int]) -> None:
        state.set(state.get(0) + 1)


class Names(Bolt):
    def process(self, line: Line, state: State[str]) -> None:
        state.set(line.user)


class InMemory(Count):
    recovery = "none"


class Passes(Bolt):
    def process(self, line: Line) -> Iterator[Line]:
        yield line


def declared(bolts: dict[str, Any], **how: Any) -> Topology:
    topology = Topology("renamed")
    lines = topology.spout("lines", Lines())
    for name, bolt in bolts.items():
        given: dict[str, Any] = how if name == "tally" else {}
        topology.bolt(name, bolt, lines.fields("user"), **given)
    topology.validate()
    return topology


def go_on(topology: Topology, kept: str | None, *, clean: bool = True, accept: bool = False) -> tuple[list[str], str]:
    """What is told at the start, and what is kept from then on."""
    run = plan(topology, 1)
    empty = {one.known_as for one in run.components.values() if one.begins_empty}
    told = agreed(kept, clean, shape_of(run), accept_duplicates=accept, begin_empty=empty)
    return told, text_of(following(kept, shape_of(run)))


KEPT = go_on(declared({"count": Count()}), None)[1]


@pytest.mark.parametrize(("clean", "accept"), [(True, False), (False, False), (False, True)])
def test_a_bolt_with_another_name_is_refused_with_both_ways_however_the_last_run_ended(
    clean: bool, accept: bool
) -> None:
    with pytest.raises(StartError) as caught:
        go_on(declared({"tally": Count()}), KEPT, clean=clean, accept=accept)
    assert str(caught.value) == (
        "bolt 'count' is gone, whose state is kept, and 'tally' is new with such a state: "
        "renamed_from='count' carries it over, begins_empty=True starts from nothing"
    )
    assert str(caught.value.code) == "K463"
    assert "renamed_from" in caught.value.next
    assert "begins_empty=True" in caught.value.next


def test_it_goes_on_with_the_state_where_it_says_what_it_was_called() -> None:
    assert go_on(declared({"tally": Count()}, renamed_from="count"), KEPT)[0] == []


def test_it_begins_from_nothing_where_it_says_so_and_the_other_state_stays() -> None:
    (told,), kept = go_on(declared({"tally": Count()}, begins_empty=True), KEPT)
    assert told.endswith("bolt 'count' is gone; bolt 'tally' is new")
    assert go_on(declared({"tally": Count()}), kept)[0] == [], "said once is enough"
    (told,), _ = go_on(declared({"tally": Count(), "count": Count()}), kept)
    assert "'count' resumes with the state that an earlier run has left" in told


@pytest.mark.parametrize(
    "bolts",
    [
        {"passes": Passes()},
        {"count": Count(), "tally": Count()},
        {"tally": Names()},
        {"tally": InMemory()},
        {"tally": Passes()},
    ],
    ids=["only gone", "only new", "another type", "kept in memory alone", "without state"],
)
def test_what_can_be_no_renaming_goes_on(bolts: dict[str, Bolt]) -> None:
    assert len(go_on(declared(bolts), KEPT)[0]) == 1


def test_a_bolt_that_was_taken_out_in_an_earlier_run_is_looked_for_no_more() -> None:
    _, kept = go_on(declared({"passes": Passes()}), KEPT)
    (told,), _ = go_on(declared({"passes": Passes(), "tally": Count()}), kept)
    assert told.endswith("bolt 'tally' is new")


def test_a_bolt_whose_former_name_is_gone_as_well_is_named_by_what_it_is_filed_under() -> None:
    _, kept = go_on(declared({"tally": Count()}, renamed_from="count"), KEPT)
    with pytest.raises(StartError, match=r"bolt 'tally' is gone, .*'third' is new .*renamed_from='count' carries"):
        go_on(declared({"third": Count()}), kept)


def test_each_of_several_is_told() -> None:
    _, kept = go_on(declared({"count": Count(), "names": Names()}), None)
    with pytest.raises(StartError) as caught:
        go_on(declared({"one": Count(), "two": Count(), "three": Names()}), kept)
    assert "'one' or 'two' is new" in str(caught.value)
    assert "bolt 'names' is gone" in str(caught.value)


@pytest.mark.parametrize(
    ("bolt", "how", "text"),
    [
        (Count(), {"begins_empty": True, "renamed_from": "count"}, "contradict each other"),
        (Passes(), {"begins_empty": True}, "True is for a bolt whose state is kept"),
        (InMemory(), {"begins_empty": True}, "True is for a bolt whose state is kept"),
        (Count(), {"begins_empty": "yes"}, "begins_empty='yes'"),
    ],
)
def test_what_can_not_begin_empty_is_a_mistake_of_the_declaration(bolt: Bolt, how: dict[str, Any], text: str) -> None:
    with pytest.raises(DeclarationError, match=text) as caught:
        declared({"tally": bolt}, **how)
    assert [str(one.code) for one in caught.value.mistakes] == ["K251"]
