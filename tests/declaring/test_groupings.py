"""Groupings: the byte form of keys by golden vectors, slots and tasks, and what each chooser chooses."""

import enum
import itertools
import math
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, localcontext
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from topology import EmitError, Grouping, Record, StartError
from topology.groupings import (
    SLOTS,
    All,
    ByIdentity,
    Custom,
    Direct,
    Fields,
    Global,
    LocalOrShuffle,
    OneTarget,
    PartialKey,
    Shuffle,
    key_bytes,
    key_function,
    slot_of,
    slot_of_identity,
    task_of_slot,
)


class Colour(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    SMALL = 1


class Place(Record):
    name: str
    floor: int


class Visit(Record):
    user: str
    place: Place
    weight: float = 0.0


NOON = datetime(2026, 12, 10, 12, 0, tzinfo=UTC)


# Fixed for ever: stored state is filed by these.
def told(value: object) -> str:
    """As `repr`, and in each process the same."""
    return f"frozenset({sorted(value)})" if isinstance(value, frozenset) else repr(value)


GOLDEN: list[tuple[Any, str, int]] = [
    ("", "03", 79),
    ("ann", "03616e6e", 375),
    ("é", "03c3a9", 811),
    (0, "010000000000000000", 196),
    (1, "010100000000000000", 641),
    (-1, "01ffffffffffffffff", 334),
    (2**63, "02000000000000008000", 989),
    (b"", "04", 462),
    (b"\x00\xff", "0400ff", 939),
    (0.0, "050000000000000000", 680),
    (1.0, "05000000000000f03f", 805),
    (-1.5, "05000000000000f8bf", 828),
    (float("inf"), "05000000000000f07f", 37),
    (False, "0600", 338),
    (True, "0601", 749),
    (None, "07", 305),
    (NOON, "0800909d5046620600", 289),
    (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), "08ffffffffffffffff", 697),
    (Decimal("1.50"), "093135452d31", 197),
    (Decimal("-1200"), "092d31324532", 798),
    (Decimal(0), "0930", 963),
    (Decimal("Infinity"), "09496e66696e697479", 643),
    (Colour.RED, "0a03726564", 875),
    (Size.SMALL, "0a010100000000000000", 910),
    ((), "0b", 297),
    (("a", 1), "0b02000000036109000000010100000000000000", 439),
    ((("a",), ("b",)), "0b070000000b020000000361070000000b020000000362", 25),
    (frozenset(), "0c", 153),
    (frozenset(["b", "a"]), "0c020000000361020000000362", 904),
    (Place("attic", 3), "0d0600000003617474696309000000010300000000000000", 874),
]


@pytest.mark.parametrize(("key", "form", "slot"), GOLDEN, ids=lambda value: told(value)[:40])
def test_the_byte_form_and_the_slot_of_each_key_type_are_fixed_for_ever(key: Any, form: str, slot: int) -> None:
    assert (key_bytes(key).hex(), slot_of(key_bytes(key))) == (form, slot)


def test_1_and_1_0_and_True_and_the_texts_are_different_keys_D8() -> None:
    keys = [1, 1.0, True, "1", b"1", Decimal(1), Size.SMALL, (1,), frozenset([1]), None, "", b"", (), 0, 0.0, False]
    assert len({key_bytes(key) for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (-0.0, 0.0),
        (Decimal("1.0"), Decimal("1.00")),
        (Decimal("100"), Decimal("1E+2")),
        (Decimal("-0"), Decimal("0.000")),
        (Decimal("0E+99"), Decimal("0")),
        (NOON, NOON.astimezone(timezone(timedelta(hours=-7)))),
        (NOON, NOON.astimezone(ZoneInfo("Asia/Kolkata"))),
        (frozenset(["a", "b", "c"]), frozenset(["c", "b", "a"])),
        (("x", -0.0), ("x", 0.0)),
        (Visit("u", Place("p", 1), -0.0), Visit("u", Place("p", 1), 0.0)),
    ],
    ids=told,
)
def test_equal_values_of_one_type_are_one_key_D8(one: Any, other: Any) -> None:
    assert one == other
    assert key_bytes(one) == key_bytes(other)


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        -math.nan,
        Decimal("NaN"),
        Decimal("sNaN"),
        ("a", math.nan),
        frozenset([math.nan]),
        Visit("u", Place("p", 1), math.nan),
    ],
    ids=repr,
)
def test_nan_is_refused_as_a_key_wherever_it_stands_D8(value: Any) -> None:
    with pytest.raises(EmitError, match="NaN"):
        key_bytes(value)


class NoOffset(tzinfo):
    """A time zone that does not know its offset."""

    def utcoffset(self, dt: datetime | None) -> None:
        return None

    dst = utcoffset

    def tzname(self, dt: datetime | None) -> str:
        return "nowhere"


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=NoOffset())])  # noqa: DTZ001 - naive on purpose
def test_a_time_that_is_no_instant_is_refused_as_a_key(value: datetime) -> None:
    with pytest.raises(EmitError, match="time zone"):
        key_bytes(value)


@pytest.mark.parametrize("value", [["a"], {"a": 1}, {1}, object(), bytearray(b"x"), 1j])
def test_what_no_record_can_carry_is_refused_as_a_key_by_its_type(value: Any) -> None:
    with pytest.raises(EmitError, match=f"{type(value).__name__} can't be a key"):
        key_bytes(value)


def test_decimals_beyond_the_contexts_precision_stay_different_keys() -> None:
    long = Decimal("1." + "0" * 40 + "1")
    assert key_bytes(long) != key_bytes(Decimal(1))
    with localcontext(prec=3):
        assert key_bytes(Decimal("1.2345")) != key_bytes(Decimal("1.2346"))


def test_decimals_of_any_exponent_and_infinities_are_keys() -> None:
    values = [Decimal("1E+999999"), Decimal("1E-999999"), Decimal("Infinity"), Decimal("-Infinity"), Decimal("-1")]
    assert len(set(map(key_bytes, values))) == len(values)


def scalars() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.integers(),
        st.integers(-3, 3),
        st.text(max_size=4),
        st.binary(max_size=4),
        st.floats(allow_nan=False),
        st.booleans(),
        st.none(),
        st.decimals(allow_nan=False),
        st.datetimes(timezones=st.just(UTC)),
        st.sampled_from([*Colour, *Size]),
    )


keys = st.recursive(
    scalars(), lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3), max_leaves=5
)


def typed(value: Any) -> Any:
    """A form of a key that is equal where, and only where, value and types are."""
    if isinstance(value, frozenset):
        return frozenset, frozenset(map(typed, value))
    if isinstance(value, tuple):
        return tuple, tuple(map(typed, value))
    return type(value), value


@given(keys, keys)
def test_two_keys_have_one_byte_form_just_where_values_and_types_are_equal_D8(one: Any, other: Any) -> None:
    assert (key_bytes(one) == key_bytes(other)) == (typed(one) == typed(other))


@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_keys_of_several_fields_do_not_run_into_each_other(one: list[str], other: list[str]) -> None:
    assert (key_bytes(tuple(one)) == key_bytes(tuple(other))) == (one == other)


def test_the_key_of_one_field_is_that_of_its_value_and_of_several_that_of_a_tuple() -> None:
    visit = Visit("ann", Place("attic", 3), 1.5)
    assert key_function(("user",))(visit) == key_bytes("ann")
    assert key_function(("user", "weight"))(visit) == key_bytes(("ann", 1.5))
    assert key_function(("place",))(visit) == key_bytes(Place("attic", 3))
    assert key_function(())(visit) == b""


def test_slots_are_spread_evenly_over_keys() -> None:
    counts = Counter(slot_of(key_bytes(f"user-{number}")) for number in range(100_000))
    assert set(counts) == set(range(SLOTS))
    assert max(counts.values()) < 2 * 100_000 / SLOTS


@given(st.integers(1, SLOTS))
def test_tasks_own_whole_ranges_of_slots_of_nearly_one_size(tasks: int) -> None:
    owners = [task_of_slot(slot, tasks) for slot in range(SLOTS)]
    sizes = Counter(owners)
    assert owners == sorted(owners)
    assert set(owners) == set(range(tasks))
    assert max(sizes.values()) - min(sizes.values()) <= 1


@given(st.integers(1, SLOTS - 1))
def test_with_one_task_more_at_most_half_of_the_slots_move_and_only_upwards(tasks: int) -> None:
    moved = [(task_of_slot(slot, tasks), task_of_slot(slot, tasks + 1)) for slot in range(SLOTS)]
    assert all(after >= before for before, after in moved)
    assert sum(after != before for before, after in moved) <= SLOTS // 2 + tasks


@given(st.integers(1, SLOTS), st.integers(0, 2**64 - 1))
def test_by_identity_is_the_task_of_the_identitys_slot_B2(tasks: int, identity: int) -> None:
    one = ByIdentity().one(tasks, (), Random(0))
    assert one(None, identity) == task_of_slot(slot_of_identity(identity), tasks)


@given(st.integers(1, 50), st.integers(0, 2**32))
def test_shuffle_gives_each_task_every_nth_tuple_whatever_task_comes_first(tasks: int, seed: int) -> None:
    one = Shuffle().one(tasks, (), Random(seed))
    chosen = [one(None, 0) for _ in range(3 * tasks)]
    assert sorted(chosen[:tasks]) == list(range(tasks))
    assert chosen[tasks : 2 * tasks] == chosen[:tasks] == chosen[2 * tasks :]


def test_shuffles_of_different_emitters_do_not_all_begin_with_one_task() -> None:
    random = Random(1)
    assert {Shuffle().one(4, (), random)(None, 0) for _ in range(64)} == {0, 1, 2, 3}


def test_local_or_shuffle_keeps_to_the_tasks_of_its_own_worker() -> None:
    one = LocalOrShuffle().one(6, (1, 4), Random(0))
    assert Counter(one(None, 0) for _ in range(10)) == {1: 5, 4: 5}


def test_local_or_shuffle_shuffles_over_all_tasks_where_none_is_local() -> None:
    one = LocalOrShuffle().one(3, (), Random(0))
    assert Counter(one(None, 0) for _ in range(9)) == {0: 3, 1: 3, 2: 3}


@given(st.lists(st.tuples(st.text(max_size=3), st.floats(allow_nan=False)), max_size=20), st.integers(1, SLOTS))
def test_fields_sends_equal_keys_to_the_task_of_their_slot(pairs: list[tuple[str, float]], tasks: int) -> None:
    by_user = Fields(("user",)).one(tasks, (), Random(0))
    by_both = Fields(("user", "weight")).one(tasks, (), Random(0))
    for user, weight in [*pairs, *pairs]:
        visit = Visit(user, Place("p", 1), weight)
        assert by_user(visit, 0) == task_of_slot(slot_of(key_bytes(user)), tasks)
        assert by_both(visit, 1) == task_of_slot(slot_of(key_bytes((user, weight))), tasks)


def test_fields_does_not_take_a_key_of_another_type_for_one_that_it_remembers_D8() -> None:
    class Anything(Record):
        key: str | int | float | bool | None

    one = Fields(("key",)).one(SLOTS, (), Random(0))
    values: list[Any] = ["1", 1, 1.0, True, None, "1", 1, 1.0, True, None]
    expected = [task_of_slot(slot_of(key_bytes(value)), SLOTS) for value in values]
    assert [one(Anything(value), 0) for value in values] == expected


@given(st.lists(st.sampled_from("abcde"), max_size=200), st.integers(1, 20))
def test_partial_key_gives_each_key_two_tasks_at_most(users: list[str], tasks: int) -> None:
    one = PartialKey("user").one(tasks, (), Random(0))
    chosen: dict[str, set[int]] = {}
    for user in users:
        chosen.setdefault(user, set()).add(one(Visit(user, Place("p", 1)), 0))
    assert all(len(tasks_of_key) <= 2 for tasks_of_key in chosen.values())
    assert all(0 <= task < tasks for tasks_of_key in chosen.values() for task in tasks_of_key)


@given(st.text(), st.integers(2, 40))
@example("k0", 2)
def test_partial_key_gives_each_key_two_different_tasks_where_there_are_two(user: str, tasks: int) -> None:
    one = PartialKey("user").one(tasks, (), Random(0))
    chosen = {one(Visit(user, Place("p", 1)), 0) for _ in range(2)}
    assert len(chosen) == 2
    assert chosen <= {*range(tasks)}


def test_partial_key_spreads_the_pairs_of_tasks_over_all_that_there_are() -> None:
    pairs = Counter[frozenset[int]]()
    for number in range(6_000):
        one = PartialKey("user").one(4, (), Random(0))
        pairs[frozenset(one(Visit(f"k{number}", Place("p", 1)), 0) for _ in range(2))] += 1
    assert len(pairs) == 6
    assert all(850 <= count <= 1_150 for count in pairs.values())


def test_partial_key_splits_a_hot_key_evenly_between_its_two_tasks() -> None:
    one = PartialKey("user").one(16, (), Random(0))
    counts = Counter(one(Visit("hot", Place("p", 1)), 0) for _ in range(1_000))
    assert sorted(counts.values()) == [500, 500]


def test_all_chooses_every_task_and_global_the_first() -> None:
    assert list(All().many(3)(None)) == [0, 1, 2]
    one = Global().one(5, (), Random(0))
    assert {one(None, identity) for identity in (0, 2**64 - 1)} == {0}


class Chosen(Grouping):
    """Chooses what it was made with."""

    def __init__(self, targets: Any) -> None:
        self.targets = targets

    def choose(self, record: Any, tasks: int) -> Any:
        return self.targets


@pytest.mark.parametrize("targets", [[3], [-1], [0, 7], [True], [1.0], ["0"], [None]])
def test_a_custom_grouping_that_chooses_no_such_task_fails_by_name(targets: list[Any]) -> None:
    with pytest.raises(EmitError, match=r"Chosen chose task .*; there are tasks 0 to 2"):
        Custom(Chosen(targets)).many(3)(None)


@pytest.mark.parametrize("targets", [None, 1])
def test_a_custom_grouping_that_chooses_no_tasks_at_all_fails_by_name(targets: Any) -> None:
    with pytest.raises(EmitError, match="Chosen chose"):
        Custom(Chosen(targets)).many(3)(None)


def test_a_custom_grouping_may_choose_any_number_of_tasks_and_none_gets_two_copies() -> None:
    assert list(Custom(Chosen([])).many(3)(None)) == []
    assert list(Custom(Chosen([2, 0, 2])).many(3)(None)) == [2, 0]
    assert list(Custom(Chosen(range(3))).many(3)(None)) == [0, 1, 2]
    assert list(Custom(Chosen({1})).many(3)(None)) == [1]


class Counting(Grouping):
    """A custom grouping with a state of its own."""

    def __init__(self) -> None:
        self.count = itertools.count()

    def choose(self, record: Any, tasks: int) -> list[int]:
        return [next(self.count) % tasks]


def test_each_emitting_task_has_its_own_copy_of_a_custom_grouping() -> None:
    declared = Custom(Counting())
    first, second = declared.many(3), declared.many(3)
    assert [list(first(None)) for _ in range(3)] == [[0], [1], [2]]
    assert list(second(None)) == [0]


def test_a_custom_grouping_that_cannot_be_copied_is_named_before_anything_runs() -> None:
    grouping = Chosen([0])
    grouping.targets = (number for number in range(3))
    with pytest.raises(StartError, match="Chosen can't be copied"):
        Custom(grouping).many(3)


def test_the_groupings_that_always_have_one_target_say_so() -> None:
    assert all(issubclass(cls, OneTarget) for cls in (Shuffle, LocalOrShuffle, ByIdentity, Fields, PartialKey, Global))
    assert not any(issubclass(cls, OneTarget) for cls in (All, Custom, Direct))
