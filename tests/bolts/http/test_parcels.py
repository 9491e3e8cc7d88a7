"""Parcels that are divided, and outputs in their order: `Parcel` and `InOrder`, without a loop."""

from bolts.sinks.http.parcels import HeldOutput, InOrder, Parcel
from topology.testing.sinks.driver import item


def outputs(*names: str) -> list[HeldOutput]:
    """Outputs whose keys are these; the first letter is the origin."""
    return [HeldOutput(name, b"", item(1), to=name[0], origin=name[0]) for name in names]


def keys(parcel: Parcel | None) -> list[str]:
    return [output.key for output in parcel.outputs] if parcel is not None else []


def to_all(origin: str) -> bool:
    return True


def gathered(most: int, *names: str) -> InOrder:
    gathering = InOrder(most)
    for output in outputs(*names):
        gathering.add(output, 0.0)
    return gathering


def test_only_an_output_that_is_alone_begins_with_a_new_clock() -> None:
    parcel = Parcel(outputs("a1", "a2", "a3"), tries=7, alone_s=600.0, first_failed_at=5.0, due_at=9.0)
    pair = parcel.divided()
    assert (keys(pair), pair.tries, pair.alone_s) == (["a1", "a2"], 0, 600.0), "so the bad one is soon found"
    first = pair.divided()
    assert (keys(first), first.tries, first.alone_s, first.due_at) == (["a1"], 0, 0.0, 0.0)
    second = first.next_part()
    assert second is not None
    assert (keys(second), second.tries, second.alone_s) == (["a2"], 0, 0.0)
    third = second.next_part()
    assert third is not None
    assert (keys(third), third.tries, third.alone_s) == (["a3"], 0, 0.0)
    assert third.next_part() is None


def test_a_part_that_fails_lets_the_others_pass_and_keeps_its_clock() -> None:
    first = Parcel(outputs("a1", "a2"), groups=("group",)).divided()
    first.tries, first.alone_s = 3, 50.0
    second = first.let_pass()
    assert keys(second) == ["a2"]
    assert second.groups == ("group",)
    assert second.next_part() is first
    assert (first.tries, first.alone_s, first.rest) == (3, 50.0, [])
    assert first.let_pass() is first


def test_outputs_of_a_receiver_that_is_away_let_others_pass_and_keep_their_order() -> None:
    gathering = gathered(1, "a1", "b1", "a2", "b2")
    assert keys(gathering.take(0.0, False, lambda origin: origin == "b")) == ["b1"]
    assert keys(gathering.take(0.0, False, lambda origin: origin == "b")) == ["b2"]
    assert gathering.due_at(lambda origin: origin == "b") is None
    gathering.add(outputs("a3")[0], 0.0)
    assert [keys(gathering.take(0.0, False, to_all)) for _ in range(4)] == [["a1"], ["a2"], ["a3"], []]


def test_a_batch_joins_outputs_that_let_others_pass_and_younger_ones() -> None:
    gathering = gathered(4, "a1", "a2")
    assert gathering.due_at(lambda origin: False) is None
    gathering.add(outputs("a3")[0], 0.0)
    gathering.add(outputs("b1")[0], 0.0)
    assert keys(gathering.take(0.0, False, to_all)) == ["a1", "a2", "a3"]
    assert keys(gathering.take(0.0, False, to_all)) == ["b1"]


def test_outputs_whose_time_is_over_are_given_back_whether_they_let_others_pass_or_not() -> None:
    gathering = gathered(1, "a1", "a2", "b1", "b2")
    assert gathering.due_at(lambda origin: origin == "b") == 0.0
    assert [output.key for output in gathering.expired(lambda output: output.key.endswith("1"))] == ["a1", "b1"]
    assert [keys(gathering.take(0.0, False, to_all)) for _ in range(3)] == [["a2"], ["b2"], []]
