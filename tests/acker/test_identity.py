"""Identities, edges and seeds: golden vectors, and what must never collide. Knows nothing of ledgers or the runtime.

The hexadecimal values were computed once and hold for ever: they are the keys of what idempotent sinks have stored. A
change that turns one of them red makes every stored row of every user a stranger; change the code back, not the value.
"""

from enum import IntEnum
from functools import reduce
from operator import xor

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from acker.identity import (
    KEY_BYTES,
    MASK,
    MessageId,
    content_hash,
    copy_of,
    derive,
    edge,
    edge_tag,
    id_bytes,
    keyed_salt,
    message_pair,
    mixed,
    outside_pair,
    partition_seed,
    salt,
)

SEED = 0x6B0336893733B573  # of the partition below
KEY = bytes(range(KEY_BYTES))
SALT = 0x79B4C32A94A4111A  # of failures[Failure]
HASHES_TO_ZERO = 0xFF27D738E168D542  # xxh3-64 of these eight bytes is 0: found by running it backwards

u64 = st.integers(0, MASK)
identities = st.integers(1, MASK)
message_ids: st.SearchStrategy[MessageId] = st.one_of(
    st.integers(), st.integers(-(1 << 70), 1 << 70), st.text(st.characters()), st.binary()
)


class Level(IntEnum):
    LOW = 1


GOLDEN_IDS: list[tuple[MessageId, str, int, int]] = [
    # id, its bytes, origin, identity
    (0, "010000000000000000", 0x3EC8A96BFF52AB45, 0x05C03C7FAC283D56),
    (1, "010100000000000000", 0x91B7BF4D5A59F36B, 0xF0BE042B9842EB91),
    (-1, "01ffffffffffffffff", 0x22242EC631299E2B, 0x725611AEB1DE12FF),
    ((1 << 63) - 1, "01ffffffffffffff7f", 0xDBBA6FCBE3A4FB28, 0xA2BA132F1934639D),
    (-(1 << 63), "010000000000000080", 0xE4CFFAFB02267DB9, 0x0B889B14FE0D9854),
    (1 << 63, "02000000000000008000", 0x907F0D4A7AD0759E, 0xE10207B40EB06ACC),
    (-(1 << 63) - 1, "02ffffffffffffff7fff", 0x07B6A7FFEB8EB2DD, 0xCF6DF47864A08161),
    (1 << 200, "02" + "00" * 25 + "01", 0x2CFF91F0B5159F54, 0x363AFE2BB3AF1CE2),
    ("", "03", 0xACBB3561388D90FA, 0x787E15BCEBFFA134),
    ("1", "0331", 0xDEFF167143CD8FF4, 0xC7CA2B30C504DF6C),
    ("Zoë", "035a6fc3ab", 0x4FAA28EA0CCA4D2F, 0xB9C5DA8668DB77EB),
    ("\ud800", "03eda080", 0x98A26CEA504360FD, 0x86975FC30BDF6E82),
    (b"", "04", 0x3EF7C97B94C25557, 0xBB1317CCE109DD5F),
    (b"1", "0431", 0x6947B74EDD7EB0EB, 0xFE887D816F480B67),
    (b"\x00\xff", "0400ff", 0x09C5C35994D3FE34, 0x09DCB89EEB0A2B3E),
]


# -- golden vectors


def test_partition_seed_keeps_its_golden_values() -> None:
    assert partition_seed("ssh-alerts", "lines", "auth.log", "1") == SEED
    assert partition_seed("", "", "", "") == 0x5CBDAF0796E90469
    assert partition_seed("ssh-alerts", "lines", "auth.log", "1", 0) == SEED
    assert partition_seed("ssh-alerts", "lines", "auth.log", "1", 3) == 0x47B2B6ABC4C30B63


@pytest.mark.parametrize(("message_id", "form", "origin", "identity"), GOLDEN_IDS, ids=repr)
def test_a_message_id_keeps_its_golden_bytes_and_pair(
    message_id: MessageId, form: str, origin: int, identity: int
) -> None:
    assert id_bytes(message_id).hex() == form
    assert message_pair(message_id, SEED) == (origin, identity)


@pytest.mark.parametrize(
    ("message_id", "origin", "identity"),
    [
        (1, 0x975D9B6DEA183E59, 0xDF3CF350619E7FF7),
        ("1", 0xD92E79F889B137CD, 0x886C86EFE2367FC3),
        (b"1", 0xC1A23A5562440CBC, 0xD16A83E3900FA176),
    ],
)
def test_an_outsiders_message_id_keeps_its_golden_pair(message_id: MessageId, origin: int, identity: int) -> None:
    assert outside_pair(message_id, SEED, KEY) == (origin, identity)


def test_salts_keep_their_golden_values() -> None:
    assert salt("failures", "Failure") == SALT
    assert salt("", "") == 0x1066DA0648D34902
    assert keyed_salt(SALT, 1) == 0xB972D01EC23EEDCB
    assert keyed_salt(SALT, "1") == 0x90FD3C8C053BA96A
    assert keyed_salt(SALT, b"1") == 0xD80C2986C88049B5


def test_derived_identities_keep_their_golden_values() -> None:
    parent = 0x0123456789ABCDEF
    assert [derive(parent, SALT + k) for k in range(3)] == [0x63E54F37B7C8DBCB, 0xC4C624119FDB78A3, 0x873D29B3B71CF9D5]
    assert derive(1, 0) == 0x2FBC593564DB792E
    assert derive(MASK, MASK) == 0xDA8F77A4D5C399EA


def test_mixed_identities_keep_their_golden_values() -> None:
    assert mixed([1, 2, 3]) == 0x9DD53FBBB8BE89EE
    assert mixed([1]) == 0x2FBC593564DB792E


def test_tags_and_edges_keep_their_golden_values() -> None:
    assert [edge_tag(subscription) for subscription in (0, 1, 1000)] == [0, 0xD2397EDB53ED7957, 0x84BBCE0333C3C6DA]
    assert edge(0x0123456789ABCDEF, edge_tag(1)) == 0x23354F717B883B36
    assert [copy_of(0x0123456789ABCDEF, copy) for copy in (0, 1, 1000)] == [
        0x0123456789ABCDEF,
        0xFA28DC5EF154D470,
        0x33A30D28CC278971,
    ]


def test_content_hashes_keep_their_golden_values() -> None:
    assert content_hash(b"") == 0x2D06800538D394C2
    assert content_hash(b"alert") == 0xF4D1A2430D6E3A17


# -- message ids (B12, C1)


@given(message_ids, message_ids)
@example(1, "1")
@example("1", b"1")
@example(1, b"\x01\x00\x00\x00\x00\x00\x00\x00")
@example((1 << 63) - 1, 1 << 63)
@example(-(1 << 63), -(1 << 63) - 1)
@example(0xFF, -1)
@example("\U00010000", "\ud800\udc00")
def test_two_message_ids_never_have_the_same_bytes(one: MessageId, other: MessageId) -> None:
    """B12: injective over int, str and bytes together."""
    assume(type(one) is not type(other) or one != other)
    assert id_bytes(one) != id_bytes(other)
    assert message_pair(one, SEED) != message_pair(other, SEED)
    assert outside_pair(one, SEED, KEY) != outside_pair(other, SEED, KEY)
    assert keyed_salt(SALT, one) != keyed_salt(SALT, other)


@pytest.mark.parametrize("other", [True, False, 1.0, None, (1,), bytearray(b"1"), Level.LOW])
def test_what_only_resembles_a_message_id_is_refused_by_name(other: object) -> None:
    """B12: True equals 1, and an IntEnum's member does; a source that mixed them would drop messages."""
    with pytest.raises(TypeError, match=f"not {type(other).__name__}"):
        id_bytes(other)  # type: ignore[arg-type]


def test_a_part_of_the_seed_never_runs_into_the_next() -> None:
    """B12: "lines" + "12" + "3" is "lines" + "1" + "23"."""
    assert partition_seed("t", "lines", "12", "3") != partition_seed("t", "lines", "1", "23")
    assert partition_seed("t", "lines", "", "1") != partition_seed("t", "lines", "1", "")
    assert salt("ab", "c") != salt("a", "bc")


@given(st.lists(st.text(), min_size=4, max_size=4), st.lists(st.text(), min_size=4, max_size=4))
def test_every_part_of_its_place_tells_a_message_apart(one: list[str], other: list[str]) -> None:
    """C2, C3: the same offset of another topology, spout, partition or epoch is another message."""
    assume(one != other)
    assert message_pair(7, partition_seed(*one)) != message_pair(7, partition_seed(*other))


def test_a_pair_has_128_independent_bits() -> None:
    """C1: each half alone, and both together, change with the id; about half of all bits at each step."""
    pairs = [message_pair(number, SEED) for number in range(4_000)]
    words = [origin << 64 | identity for origin, identity in pairs]
    assert len({origin for origin, _ in pairs}) == len({identity for _, identity in pairs}) == len(pairs)
    for bit in range(128):
        ones = sum(word >> bit & 1 for word in words)
        assert 1_800 < ones < 2_200, f"bit {bit} is set in {ones} of 4,000"
    alike = sum((origin ^ identity).bit_count() for origin, identity in pairs) / len(pairs)
    assert 31.5 < alike < 32.5, "the halves of a pair are one hash twice"


# -- outsiders' ids (S19)


@given(message_ids, st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES), u64)
def test_an_outsiders_id_can_be_hashed_only_with_the_key(message_id: MessageId, key: bytes, seed: int) -> None:
    """S19: whoever does not know the key can't compute a pair, so can't choose two ids with one."""
    assume(key != KEY)
    assert outside_pair(message_id, seed, key) != outside_pair(message_id, seed, KEY)
    assert outside_pair(message_id, seed, key) != message_pair(message_id, seed)


def test_an_outsiders_id_is_told_apart_by_its_partition_too() -> None:
    assert outside_pair(1, SEED, KEY) != outside_pair(1, SEED + 1, KEY)


def test_an_empty_key_is_refused() -> None:
    """S19: BLAKE2b without a key is open to everybody."""
    with pytest.raises(AssertionError):
        outside_pair(1, SEED, b"")


# -- what a bolt emits (B1)


@given(identities, u64, u64)
@example(1, SALT, SALT + 1)
def test_two_emissions_for_one_input_never_collide(parent: int, seed: int, other: int) -> None:
    """B1: xxh3-64 of eight bytes is a bijection of (input ^ f(seed)), and f is one of the seed."""
    assume(seed != other)
    assert derive(parent, seed) != derive(parent, other)


@given(identities, identities, u64)
def test_two_inputs_never_have_the_same_first_emission(one: int, other: int, seed: int) -> None:
    assume(one != other)
    assert derive(one, seed) != derive(other, seed)


@given(st.text(), st.text())
def test_a_salt_leaves_room_for_every_ordinal(component: str, stream: str) -> None:
    """Salt + k stays within 64 bits, which is all that xxh3 takes, without a mask."""
    assert 0 <= salt(component, stream) < 1 << 63


@given(identities, identities, identities)
def test_a_longer_way_leads_to_another_identity(parent: int, seed: int, other: int) -> None:
    """A tuple's descendants have identities of their own, whatever the order of the components."""
    assume(seed != other)
    assert derive(derive(parent, seed), other) != derive(derive(parent, other), seed)


# -- edges (B1, A18)


def test_the_only_copy_of_the_first_subscription_has_its_identity_as_edge() -> None:
    assert edge(0x0123456789ABCDEF, 0) == 0x0123456789ABCDEF


@given(st.sets(identities, min_size=2, max_size=5), st.integers(1, 5), st.integers(1, 5))
def test_records_broadcast_to_the_same_tasks_do_not_cancel(records: set[int], readers: int, copies: int) -> None:
    """B1: with a linear mix, `identity ^ tag`, two records to two tasks XOR to zero, and their tree ends early."""
    targets = [(edge_tag(reader), copy) for reader in range(readers) for copy in range(copies)]
    edges = [edge(copy_of(identity, copy), tag) for identity in records for tag, copy in targets]
    assert len(set(edges)) == len(edges)
    assert reduce(xor, edges)


@given(identities)
def test_the_copies_of_a_broadcast_lead_to_identities_of_their_own(identity: int) -> None:
    """A18: two tasks that got one tuple each emit for it; derived from the identity alone, both edges would cancel."""
    emitted = [derive(copy_of(identity, copy), SALT) for copy in range(8)]
    assert len(set(emitted)) == 8
    assert reduce(xor, emitted)


def test_tags_are_never_shared_by_two_purposes() -> None:
    """An edge's tag and a copy's seed the same function; what they make of one identity must not meet."""
    edges = {edge(1, edge_tag(subscription)) for subscription in range(1_024)}
    copies = {copy_of(1, copy) for copy in range(1, 1_024)}
    assert len(edges) == 1_024
    assert len(copies) == 1_023
    assert edges.isdisjoint(copies)


# -- several anchors (B7)


@given(st.lists(identities, min_size=2, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_the_anchors_does_not_matter(values: list[int], random: object) -> None:
    """B7: the order of arrival at a join flips on a replay."""
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert mixed(shuffled) == mixed(values)


@given(st.sets(identities, min_size=1, max_size=4), st.sets(identities, min_size=1, max_size=4))
def test_other_anchors_mix_to_another_value(one: set[int], other: set[int]) -> None:
    """B7: not linear either; (1, 4) and (2, 3) have one sum, (1, 2) and (3,) one XOR."""
    assume(one != other)
    assert mixed(one) != mixed(other)


# -- no zero


def test_nothing_is_ever_zero() -> None:
    """Zero means "no tree", "no tag", and is no valid trace id: what hashes to 0 becomes 1."""
    assert xxh3_64_intdigest(HASHES_TO_ZERO.to_bytes(8, "little")) == 0
    assert derive(HASHES_TO_ZERO, 0) == 1
    assert mixed([HASHES_TO_ZERO]) == 1
    assert mixed([]) == 1
