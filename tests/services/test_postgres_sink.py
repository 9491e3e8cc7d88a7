"""`PostgresSink` on a server: what it stores, what it drops, what it refuses, and what its tables look like."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal

import pytest
import sink_kit
from postgres_kit import Database
from sink_kit import Alert, Level, Recorder, Sample, Verdict, alert, feed, opened, sink_key, stored, tup

from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.records import Record

pytestmark = pytest.mark.service("postgres")


class Everything(sink_kit.Everything):
    mixed: int | str


def everything(**changed: Any) -> Everything:
    values: dict[str, Any] = {
        **{"text": "007 ü\n\t\\\"'", "number": -(2**63), "real": 0.1, "yes": True, "data": b"\x00\xff'\\"},
        **{"at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "money": Decimal("1.10"), "verdict": Verdict.GUILTY},
        **{"level": Level.HIGH, "mode": "a", "maybe": None, "parts": (1, 2), "names": frozenset({"b", "a"})},
        **{"nested": Sample("x", 0.5), "mixed": "007"},
    }
    return Everything(**{**values, **changed})


# -- rows


async def test_each_output_is_one_row_and_acked_in_its_order(database: Database) -> None:
    tuples = [alert(number) for number in range(1, 2001)]
    out = await stored(database.sink(batch=64), tuples)
    assert [id(t) for t in out.acked] == [id(t) for t in tuples]
    assert database.numbers() == list(range(1, 2001))


async def test_every_kind_of_field_comes_back_as_it_was(database: Database) -> None:
    await stored(database.sink(), [tup(everything(), 1), tup(everything(maybe=7, mixed=7), 2)])
    first, second = database.do("SELECT * FROM everything ORDER BY maybe NULLS FIRST")
    key = first.pop("key")
    assert first == {
        **{"text": "007 ü\n\t\\\"'", "number": -(2**63), "real": 0.1, "yes": True, "data": b"\x00\xff'\\"},
        **{"at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "money": Decimal("1.10"), "verdict": "guilty"},
        **{"level": 3, "mode": "a", "maybe": None, "parts": [1, 2], "names": ["a", "b"]},
        **{"nested": {"name": "x", "value": 0.5}, "mixed": "007"},
    }
    assert str(first["money"]) == "1.10"
    assert (second["maybe"], second["mixed"]) == (7, 7)
    assert len(key) == 24
    assert key[:16] == (3).to_bytes(8, "big") + (7920).to_bytes(8, "big")


async def test_none_is_stored_wherever_a_field_takes_it(database: Database) -> None:
    class Verdicts(Record):
        verdict: Literal["guilty", None]
        nothing: None
        mixed: int | Literal["none", None]

    out = await stored(database.sink(records=(Verdicts,)), [tup(Verdicts(None, None, None), 1)])
    assert out.failed == {}
    (row,) = database.do("SELECT verdict, nothing, mixed FROM verdicts")
    assert row == {"verdict": None, "nothing": None, "mixed": None}


@pytest.mark.parametrize(
    "at",
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2026, 3, 29, 3, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    ],
)
async def test_times_are_kept_to_the_microsecond(at: datetime, database: Database) -> None:
    await stored(database.sink(), [tup(Alert("x", 1, at), 1)])
    assert database.do("SELECT at = %s::timestamptz AS same FROM alert", at.isoformat()) == [{"same": True}]


async def test_the_key_of_a_row_is_fixed_for_ever(database: Database) -> None:
    """A golden vector: were it to change, the next version would store every replay again."""
    await stored(database.sink(), [tup(everything(), 1)])
    ((key),) = (row["key"] for row in database.do("SELECT key FROM everything"))
    assert key.hex() == "00000000000000030000000000001ef0b7652627c37b9898"


async def test_what_is_acked_is_visible_to_others_at_that_moment(database: Database) -> None:
    """C11: a second connection sees the row when the ack comes."""
    seen: list[bool] = []
    with database.connected() as other:

        def on_ack(tup: Tuple[Any]) -> None:
            found = other.execute("SELECT 1 FROM alert WHERE failures = %s", [tup.record.failures]).fetchall()
            seen.append(bool(found))

        async with opened(database.sink(batch=7)) as sink:
            await feed(sink, [alert(number) for number in range(1, 51)], Recorder(on_ack))
    assert seen == [True] * 50


async def test_replays_are_dropped_in_a_batch_in_a_run_and_in_the_next_one(database: Database) -> None:
    async with opened(database.sink(batch=10)) as sink:
        out = await feed(sink, [alert(1), alert(2), alert(1), *(alert(n) for n in range(1, 30))])
        assert (len(out.acked), sink.stored, sink.duplicates, sink.divergent) == (32, 29, 3, 0)
    async with opened(database.sink()) as sink:
        out = await feed(sink, [alert(n) for n in range(1, 41)])
        assert (len(out.acked), sink.stored, sink.duplicates, sink.divergent) == (40, 11, 29, 0)
    assert database.numbers() == list(range(1, 41))


async def test_b2_the_same_identity_with_other_content_is_stored_counted_and_named(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(database.sink()) as sink:
        await feed(sink, [alert(1, "192.0.2.1"), alert(1, "192.0.2.2"), alert(2)])
        assert (sink.stored, sink.duplicates, sink.divergent) == (3, 0, 1)
        await feed(sink, [alert(1, "192.0.2.3"), alert(1, "192.0.2.1")])
        assert (sink.stored, sink.duplicates, sink.divergent) == (4, 1, 2)
    assert len(database.rows()) == 4
    assert "alert 0000000000000003" in caplog.text
    assert "not deterministic" in caplog.text


async def test_c1_outputs_of_two_messages_whose_identities_collide_are_two_rows(database: Database) -> None:
    source, record = Source("detect", "Alert"), Alert("192.0.2.1", 5)
    async with opened(database.sink()) as sink:
        await feed(sink, [Tuple(record, origin, ident, 1, (), source) for origin, ident in [(1, 7), (2, 7), (1, 8)]])
        assert (sink.stored, sink.duplicates, sink.divergent) == (3, 0, 0)
    assert {row["key"] for row in database.rows()} >= {
        sink_key(1, 7, b"")[:16] + row["key"][16:] for row in database.rows()[:1]
    }


async def test_several_tasks_store_what_reaches_them_all_once(database: Database) -> None:
    """C4: replays may come to another task; all of them know what each has stored."""
    numbers = range(1, 401)
    async with (
        opened(database.sink(batch=20)) as one,
        opened(database.sink(batch=30)) as two,
        opened(database.sink(batch=50)) as three,
    ):
        outs = await asyncio.gather(
            feed(one, [alert(n) for n in numbers]),
            feed(two, [alert(n) for n in reversed(numbers)]),
            feed(three, [alert(n) for n in numbers if n % 2]),
        )
        assert [len(out.acked) for out in outs] == [400, 400, 200]
        assert one.stored + two.stored + three.stored == 400
        assert one.divergent + two.divergent + three.divergent == 0
    assert database.numbers() == list(numbers)


async def test_two_classes_have_two_tables_in_one_transaction(database: Database) -> None:
    async with opened(database.sink(records=(Alert, Sample))) as sink:
        await feed(sink, [alert(1), tup(Sample("x", 0.5), 2), alert(3)])
    assert database.numbers() == [1, 3]
    assert [row["name"] for row in database.rows("sample", "name")] == ["x"]


# -- bad rows (C9, F46)

BAD = [
    (Alert("a\0b", 1), "has a NUL"),
    (Alert("x", 2**63), "does not fit in 64 bits"),
    (Alert("\ud800", 1), "lone surrogate"),
    (Alert("x", True), "an int is declared"),
    (Alert("x", 1, datetime(2026, 1, 1)), "no time zone"),  # noqa: DTZ001
    (Sample("x", float("nan")), "a number is wanted"),
    (Sample("x", float("inf")), "a number is wanted"),
    (everything(money=Decimal("NaN")), "a number is wanted"),
    (everything(money=Decimal("1e200000")), "refuses the row"),
    (everything(nested=Sample("\0", 1.0)), "refuses the row"),
    (everything(mixed="\0"), "refuses the row"),
]


@pytest.mark.parametrize(("record", "said"), BAD, ids=[f"{type(r).__name__}-{n}" for n, (r, _) in enumerate(BAD)])
async def test_f46_a_bad_row_fails_alone_and_the_rest_of_its_batch_is_stored(
    record: Record, said: str, database: Database
) -> None:
    good = [alert(number) for number in range(1, 21)]
    bad = tup(record, 1000)
    good_too = [tup(Sample("x", float(n)), n) for n in range(2001, 2004)] + [tup(everything(), 3001)]
    async with opened(database.sink(batch=50, records=(Alert, Sample, Everything))) as sink:
        out = await feed(sink, [*good[:9], bad, *good[9:], *good_too])
    assert [id(t) for t in out.acked] == [id(t) for t in [*good, *good_too]]
    assert list(out.failed) == [id(bad)]
    assert said in out.failed[id(bad)]
    assert database.numbers() == list(range(1, 21))


async def test_f46_constraints_and_triggers_of_the_users_refuse_their_rows_only(database: Database) -> None:
    async with opened(database.sink(records=(Alert,), batch=100)) as sink:
        database.do("ALTER TABLE alert ADD CHECK (failures % 10 <> 3)")
        database.do("CREATE TABLE ips (ip text PRIMARY KEY)")
        database.do("INSERT INTO ips VALUES ('192.0.2.1')")
        database.do(
            "ALTER TABLE alert ADD FOREIGN KEY (source_ip) REFERENCES ips DEFERRABLE INITIALLY DEFERRED"
        )  # fails at COMMIT
        database.do(
            "CREATE FUNCTION picky() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.failures = 50 THEN"
            " RAISE EXCEPTION 'fifty is not wanted' USING ERRCODE = 'KE001'; END IF; RETURN NEW; END $$"
        )
        database.do("CREATE TRIGGER picky BEFORE INSERT ON alert FOR EACH ROW EXECUTE FUNCTION picky()")
        tuples = [alert(n, "192.0.2.9" if n == 77 else "192.0.2.1") for n in range(1, 101)]
        out = await feed(sink, tuples)
    refused = {n for n in range(1, 101) if n % 10 == 3 or n in (50, 77)}
    assert database.numbers() == [n for n in range(1, 101) if n not in refused]
    assert {t.record.failures for t in tuples if id(t) in out.failed} == refused
    assert "KE001: fifty is not wanted" in out.failed[id(tuples[49])]
    assert "23503" in out.failed[id(tuples[76])]
    assert "failures=3" in out.failed[id(tuples[2])]


async def test_f46_rows_that_the_table_refuses_fail_alone_in_a_large_batch_and_so_do_their_replays(
    database: Database,
) -> None:
    tuples = [alert(n) for n in range(1, 1001)]
    async with opened(database.sink(records=(Alert,), batch=1000)) as sink:
        database.do("ALTER TABLE alert ADD CHECK (failures NOT IN (1, 500, 501, 1000))")
        for stored in (996, 0):
            before = sink.stored
            out = await feed(sink, tuples)
            assert {t.record.failures for t in tuples if id(t) in out.failed} == {1, 500, 501, 1000}
            assert sink.stored - before == stored
        assert all("23514" in why for why in out.failed.values())
        assert sink.duplicates == 996
    assert database.numbers() == [n for n in range(1, 1001) if n not in (1, 500, 501, 1000)]


async def test_a_batch_of_many_megabytes_is_halved_until_it_goes_and_a_row_beyond_all_bounds_fails_alone(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolts.sinks.postgres.writer.BATCH_BYTES_MAX", 4_000_000)
    monkeypatch.setattr("bolts.sinks.postgres.writer.ROW_BYTES_MAX", 8_000_000)
    async with opened(database.sink(batch=500)) as sink:
        out = await feed(sink, [alert(n, "x" * (9_000_000 if n == 7 else 300_000)) for n in range(1, 51)])
        (why,) = out.failed.values()
        assert "bytes are too many for one statement" in why
    assert len(out.acked) == 49
    assert database.numbers() == [n for n in range(1, 51) if n != 7]
