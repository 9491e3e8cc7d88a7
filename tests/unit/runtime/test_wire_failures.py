"""The wire: records that can't travel, bodies that are none, and how failures cross. Each fails by name, and alone."""

from typing import Any

import msgspec
import pytest
from wire_kit import (
    ADDRESSES,
    CODEC,
    ENRICH,
    ENRICH_ADDRESS,
    SUBSCRIPTIONS,
    Event,
    content,
    for_enrich,
    sent,
    told,
    tup,
)

from topology.core.source import Source
from topology.runtime.failures import OWN, Failure, Reason
from topology.runtime.links.columns import COLUMN_MAX, TRACE_MAX, Body, Group, column
from topology.runtime.links.protocol import FrameError

# -- records that can't travel


class Odd:
    """What no byte form is for."""


@pytest.mark.parametrize(
    "bad", ["\ud800", 2**64, -(2**63) - 1, Odd(), "x" * 10 + "\udfff"], ids=lambda bad: ascii(bad).partition(" at ")[0]
)
def test_a_record_that_cant_be_encoded_fails_its_own_trees_and_its_neighbours_go(bad: Any) -> None:
    tuples = [tup(Event(f"{n}", n), n) for n in range(1, 129)]
    tuples[77] = tup(Event(bad), 500, (501,))
    tuples[99] = tup(Event(bad), 0)  # of no tree, so it can only be told of
    bodies, failed = CODEC.encode(for_enrich(*tuples))
    assert [root for root, _ in failed] == [500, 501, 0]
    assert {(why.reason, why.component) for _, why in failed} == {(Reason.EMIT, "events")}
    assert failed[0][1].text.startswith("a record of Event can't be encoded: ")
    (arrived,) = [CODEC.decode(body)[0] for body in bodies]
    kept = [one for n, one in enumerate(tuples) if n not in (77, 99)]
    assert told(arrived) == told(for_enrich(*kept))


def test_a_record_that_cant_be_decoded_fails_its_own_trees_and_its_neighbours_go_A12_F35() -> None:
    tuples = [tup(Event(f"{n}", n), n, (n + 1_000,) * (n % 2)) for n in range(1, 129)]
    tuples[10] = tup(Event("", "a text"), 500, (501, 502))  # type: ignore[arg-type]
    tuples[20] = tup(Event(None), 0)  # type: ignore[arg-type]
    tuples[127] = tup((), 600)  # no field at all
    bodies, failed = CODEC.encode(for_enrich(*tuples))
    assert failed == []
    arrived, failed = CODEC.decode(bodies[0])
    assert [root for root, _ in failed] == [500, 501, 502, 0, 600]
    assert {(why.reason, why.component) for _, why in failed} == {(Reason.UNDECODABLE, "enrich")}
    assert failed[0][1].text == "a record of events[Event] can't be decoded: Expected `int`, got `str` - at `$[1]`"
    kept = [one for n, one in enumerate(tuples) if n not in (10, 20, 127)]
    assert told(arrived) == told(for_enrich(*kept))


def test_both_kinds_of_failure_count_as_the_messages_own_E6() -> None:
    assert {Reason.UNDECODABLE, Reason.OVERSIZED, Reason.EMIT} <= OWN


def group(**changed: Any) -> Group:
    """A sound group of two tuples, but for this."""
    sound = {
        "address": ENRICH_ADDRESS,
        "subscription": ENRICH,
        "columns": column([1, 2, 11, 12, 21, 22]),
        "others": column([1, 3]),
        "records": msgspec.msgpack.encode([Event("a", 1), Event("b", 2)]),
    }
    return Group(**{**sound, **changed})


def body_of(*groups: Group, **changed: Any) -> bytes:
    sound: dict[str, Any] = {"acks": b"", "touches": b"", "queued": b"", "depths": b"", "fails": [], "checkpoint": 0}
    return msgspec.msgpack.encode(Body(groups=list(groups), **{**sound, **changed}))


@pytest.mark.parametrize("records", [b"\x92", b"\x92\xc1\xc1", b"\x92\x90\x90\x90", b"\x92" + b"\x91" * 100_000])
def test_where_no_record_can_be_told_from_the_next_all_of_their_group_fail_A12(records: bytes) -> None:
    arrived, failed = CODEC.decode(body_of(group(records=records), group()))
    assert [(root, why.reason) for root, why in failed] == [(root, Reason.UNDECODABLE) for root in (1, 2, 3)]
    assert [[each.root for each in some] for _, some in arrived.batches] == [[], [1, 2]]


WRONG_GROUPS = [
    (group(columns=column([1, 2, 11, 12, 21])), "disagree in length"),
    (group(columns=column([1, 11, 21])), "disagree in length"),
    (group(columns=b"\0" * 47), "disagree in length"),
    (group(columns=b""), "disagree in length"),
    (group(records=b""), "disagree in length"),
    (group(records=b"\xdd\xff\xff\xff\xff"), "disagree in length"),
    (group(others=b"\0" * 17), "17 bytes are no column"),
    (group(others=column([0])), "no pairs"),
    (group(others=column([2, 9])), "not there"),
    (group(others=column([0, 9] * 9)), "too many"),
    (group(subscription=-1), "subscription -1; the plan has"),
    (group(subscription=len(SUBSCRIPTIONS)), "the plan has"),
    (group(address=-1), "task -1; the plan has"),
    (group(address=len(ADDRESSES)), "the plan has"),
    (group(address=ADDRESSES.index(("sink", 0))), "tuples for 'enrich' are addressed to 'sink'"),
    (group(address=0), "tuples for 'enrich' are addressed to 'events'"),
]


@pytest.mark.parametrize(("wrong", "why"), WRONG_GROUPS)
def test_a_group_that_does_not_fit_the_plan_or_itself_is_refused(wrong: Group, why: str) -> None:
    with pytest.raises(FrameError, match=why):
        CODEC.decode(body_of(group(), wrong))


@pytest.mark.parametrize(
    "changed",
    [
        {"acks": b"\0" * 8},
        {"acks": b"\0" * 9},
        {"acks": b"\0" * 16 * (COLUMN_MAX + 1)},
        {"touches": b"\0" * 7},
        {"touches": b"\0" * 8 * (COLUMN_MAX + 1)},
        {"depths": b"\0" * 24},
        {"checkpoint": -1},
        {"fails": [(b"\0" * 8, "no reason", "", "", "")]},
        {"fails": [(b"\0" * 7, "raised", "", "", "")]},
        {"fails": [(b"\0" * 8, "raised", "", "x" * 2_001, "")]},
        {"fails": [(b"\0" * 8, "raised", "", "")]},
        {"groups": None},
        {"acks": "text"},
    ],
    ids=lambda changed: ", ".join(changed),
)
def test_columns_out_of_shape_or_bounds_are_refused(changed: dict[str, Any]) -> None:
    fields = {
        "groups": [],
        "acks": b"",
        "touches": b"",
        "queued": b"",
        "depths": b"",
        "fails": [],
        "checkpoint": 0,
    }
    CODEC.decode(msgspec.msgpack.encode([*fields.values()]))
    with pytest.raises(FrameError):
        CODEC.decode(msgspec.msgpack.encode([*{**fields, **changed}.values()]))


def test_what_is_said_of_garbage_is_one_short_line_S11() -> None:
    fails = [(b"\0" * 8, "\x1b]0;no\n" + "x" * 100_000, "", "", "")]
    with pytest.raises(FrameError) as caught:
        CODEC.decode(msgspec.msgpack.encode([[], b"", b"", b"", b"", fails, 0]))
    assert "\\x1b]0;no\\n" in str(caught.value)
    assert len(str(caught.value)) < 2_500


def test_a_field_more_is_refused() -> None:
    with pytest.raises(FrameError, match="can't be read"):
        CODEC.decode(msgspec.msgpack.encode([[], b"", b"", b"", b"", [], 0, 1]))


def test_tuples_of_a_subscription_that_the_plan_has_not_are_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        CODEC.encode(for_enrich(tup(Event("a"), source=Source("events", "Event", 7))))


# -- failures


def raised(depth: int = 0, text: str = "no") -> Failure:
    """A failure with an exception that a user's code has raised, so deep."""
    try:
        _sink(depth, text)
    except ValueError as error:
        return Failure(Reason.RAISED, "bolt", "ValueError: \ud800 no", error)
    raise AssertionError


def _sink(depth: int, text: str) -> None:
    if depth:
        _deeper(depth, text)
    raise ValueError(text)


def _deeper(depth: int, text: str) -> None:
    _sink(depth - 1, text)


def test_a_failure_crosses_as_text_with_its_traceback() -> None:
    failure = raised()
    (arrived,) = sent(content(fails=[(1, failure), (2, failure)]))
    assert [root for root, _ in arrived.fails] == [1, 2]
    theirs = arrived.fails[0][1]
    assert theirs.error is None
    assert (theirs.reason, theirs.component, theirs.text) == (Reason.RAISED, "bolt", "ValueError: \\ud800 no")
    assert theirs.traceback() == failure.traceback()
    assert theirs.traceback().endswith("ValueError: no")
    (again,) = sent(content(fails=[(1, theirs)]))
    assert again.fails[0][1] == theirs


def test_long_texts_of_a_failure_are_cut_and_the_end_of_the_traceback_is_kept() -> None:
    failure = raised(200, "n" * TRACE_MAX + "o")
    assert len(failure.traceback()) > TRACE_MAX
    long = Failure(failure.reason, "c" * 5_000, "t" * 5_000, failure.error)
    (arrived,) = sent(content(fails=[(1, long)]))
    theirs = arrived.fails[0][1]
    assert (len(theirs.component), len(theirs.text), len(theirs.traceback())) == (2_000, 2_000, TRACE_MAX)
    assert theirs.traceback().endswith("no")
