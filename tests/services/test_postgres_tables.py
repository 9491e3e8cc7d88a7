"""`PostgresSink`'s tables on a server: which ones it makes, takes and refuses, what becomes of them in mid-run (F47),
how durable what they hold is (C11), and rows of the user's own keys (C8).
"""

import asyncio
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from postgres_cluster import PASSWORD, Cluster
from postgres_kit import Database
from sink_kit import Alert, Sample, alert, feed, opened, stored, tup, until

from bolts import PostgresSink
from bolts.sinks.postgres.connection import _CREATING
from bolts.sinks.postgres.table import PostgresTable
from topology.errors import ConfigurationError
from topology.records import Record

pytestmark = pytest.mark.service("postgres")


async def test_s10_reserved_words_and_odd_names_are_columns_like_others(database: Database) -> None:
    class Select(Record):
        user: str
        table: int
        Group: int
        ünïcode: int
        key: int
        c0: int

    await stored(database.sink(records=(Select,)), [tup(Select("a", 1, 2, 3, 4, 5), 1)])
    (row,) = database.do('SELECT * FROM "select"')
    assert {**row, "_key": len(row["_key"])} == {
        **{"user": "a", "table": 1, "Group": 2, "ünïcode": 3, "key": 4, "c0": 5, "_key": 24}
    }


async def test_a_table_that_another_task_makes_while_this_one_waits_for_its_turn_is_taken(database: Database) -> None:
    """The catalogue as it was before the wait may be what the server still goes by in the same transaction."""
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with database.connected() as other:
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(%s::bigint)", (_CREATING,))
        made = asyncio.ensure_future(stored(database.sink(records=(Alert,)), [alert(1)]))
        await until(lambda: bool(database.do(waiting)))
        other.execute(PostgresTable(Alert, schema=database.schema).create.encode())
        other.execute("COMMIT")
        await made
    assert database.numbers() == [1]


async def test_an_existing_table_that_fits_is_used_with_columns_of_its_own(database: Database) -> None:
    database.do(
        "CREATE TABLE alert (id bigserial PRIMARY KEY, noted timestamptz NOT NULL DEFAULT now(), note text, at"
        " timestamptz, source_ip varchar NOT NULL, failures bigint NOT NULL, key bytea UNIQUE NOT NULL)"
    )
    async with opened(database.sink(records=(Alert,))) as sink:
        await feed(sink, [alert(1), alert(1), alert(2)])
    assert database.numbers() == [1, 2]


@pytest.mark.parametrize(
    ("create", "said"),
    [
        ("TABLE alert (source_ip text, failures int, at timestamptz, key bytea PRIMARY KEY)", "'failures' is integer"),
        ("TABLE alert (source_ip text, failures bigint, key bytea PRIMARY KEY)", "no column 'at' (timestamp with time"),
        ("TABLE alert (source_ip text, failures bigint, at timestamp, key bytea PRIMARY KEY)", "is timestamp without"),
        (
            "TABLE alert (source_ip varchar(9), failures bigint, at timestamptz, key bytea UNIQUE)",
            "character varying(9)",
        ),
        (
            "TABLE alert (source_ip text, failures bigint, at timestamptz NOT NULL, key bytea UNIQUE)",
            "'at' is NOT NULL",
        ),
        ("TABLE alert (source_ip text, failures bigint, at timestamptz, key bytea)", "no PRIMARY KEY or unique index"),
        (
            "TABLE alert (source_ip text, failures bigint, at timestamptz, key bytea UNIQUE DEFERRABLE)",
            "no PRIMARY KEY or unique index on (key)",
        ),
        (
            "TABLE alert (source_ip text, failures bigint, at timestamptz, key bytea, UNIQUE (key, failures))",
            "no PRIMARY KEY or unique index on (key)",
        ),
        (
            "TABLE alert (source_ip text, failures bigint, at timestamptz, key bytea UNIQUE, more int NOT NULL)",
            "'more', which Alert does not have, must be given a value",
        ),
        ("UNLOGGED TABLE alert (source_ip text, failures bigint, at timestamptz, key bytea UNIQUE)", "UNLOGGED"),
        ("VIEW alert AS SELECT 1", "it is no table"),
    ],
)
async def test_an_existing_table_that_does_not_fit_is_refused_at_the_start(
    create: str, said: str, database: Database
) -> None:
    database.do(f"CREATE {create}")
    with pytest.raises(ConfigurationError) as error:
        async with opened(database.sink(records=(Alert,))):
            raise AssertionError("opened")
    assert said in str(error.value)
    assert error.value.code is not None
    assert error.value.code.name == "K356"


async def test_a_schema_that_is_not_there_is_said_at_the_start(database: Database) -> None:
    sink = type(database)(database.dsn, "kedge_test_not_there").sink(records=(Alert,))
    with pytest.raises(ConfigurationError, match=r"can't be made: schema .* does not exist"):
        async with opened(sink):
            raise AssertionError("opened")


async def test_f47_a_table_that_is_altered_fails_its_rows_until_it_is_repaired(database: Database) -> None:
    async with opened(database.sink(records=(Alert, Sample))) as sink:
        await feed(sink, [alert(1)])
        database.do("ALTER TABLE alert ALTER failures TYPE text")
        bad = alert(2)
        out = await feed(sink, [bad, tup(Sample("x", 0.5), 3)])
        assert len(out.acked) == 1, "the other table's"
        assert "its column 'failures' is text, and bigint is wanted" in out.failed[id(bad)]
        database.do("ALTER TABLE alert ALTER failures TYPE bigint USING failures::bigint")
        out = await feed(sink, [bad])
        assert len(out.acked) == 1
    assert database.numbers() == [1, 2]


async def test_f47_a_table_that_is_dropped_fails_its_rows_until_it_is_there_again(database: Database) -> None:
    async with opened(database.sink()) as sink:
        await feed(sink, [alert(1)])
        database.do("DROP TABLE alert")
        bad = alert(2)
        out = await feed(sink, [bad])
        (why,) = out.failed.values()
        assert "was dropped while the sink was writing; to go on: CREATE TABLE" in why
        database.do(why.partition("to go on: ")[2])
        await feed(sink, [bad])
    assert database.numbers() == [2]


async def test_f47_a_table_that_lost_its_key_fails_its_rows(database: Database) -> None:
    async with opened(database.sink()) as sink:
        await feed(sink, [alert(1)])
        database.do("ALTER TABLE alert DROP CONSTRAINT alert_pkey")
        out = await feed(sink, [alert(1)])
        (why,) = out.failed.values()
        assert "no PRIMARY KEY or unique index on (key)" in why


async def test_c9_a_row_on_which_a_trigger_of_the_users_fails_fails_alone(database: Database) -> None:
    """By an error that would be the table's, were it not for one row alone: a relation that is not there."""
    async with opened(database.sink(records=(Alert,))) as sink:
        database.do(
            "CREATE FUNCTION refers() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF NEW.failures = 3 THEN EXECUTE 'SELECT 1 FROM nowhere'; END IF; RETURN NEW; END $$"
        )
        database.do("CREATE TRIGGER refers BEFORE INSERT ON alert FOR EACH ROW EXECUTE FUNCTION refers()")
        out = await feed(sink, [alert(number) for number in range(1, 6)])
        (why,) = out.failed.values()
        assert "refuses the row (42P01" in why
        assert "failures=3" in why
    assert database.numbers() == [1, 2, 4, 5]


async def test_c9_a_row_that_a_policy_forbids_fails_alone(cluster: Cluster) -> None:
    """It comes under the same state as a right that is missing, which is waited for."""
    cluster.database.do(
        "CREATE TABLE alert (source_ip text, failures bigint, at timestamptz, key bytea PRIMARY KEY);"
        "GRANT ALL ON alert TO guarded; ALTER TABLE alert ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY own ON alert TO guarded USING (true) WITH CHECK (failures <> 3)"
    )
    dsn = f"postgresql://guarded:{quote(PASSWORD, safe='')}@127.0.0.1:{cluster.port}/postgres"
    async with opened(PostgresSink(dsn, schema="public")) as sink:
        out = await feed(sink, [alert(number) for number in range(1, 6)])
        (why,) = out.failed.values()
        assert "row-level security" in why
        assert "failures=3" in why
    assert cluster.database.numbers() == [1, 2, 4, 5]


async def test_nothing_is_prepared_as_a_pooler_may_give_each_transaction_another_session(database: Database) -> None:
    async with opened(database.sink(batch=1)) as sink:
        await feed(sink, [alert(number) for number in range(1, 21)])
        line = sink._store.server._line  # type: ignore[union-attr]
        found = line.execute("SELECT count(*) FROM pg_prepared_statements").fetchall()
        assert found == [(0,)]


async def test_columns_that_are_added_in_mid_run_change_nothing(database: Database) -> None:
    async with opened(database.sink()) as sink:
        await feed(sink, [alert(1)])
        database.do("ALTER TABLE alert ADD COLUMN note text")
        out = await feed(sink, [alert(2)])
        assert len(out.acked) == 1
    assert database.numbers() == [1, 2]


# -- durability


async def test_c11_synchronous_commit_is_on_for_what_the_sink_writes_whatever_the_session_says(
    database: Database,
) -> None:
    async with opened(database.sink(f"{database.dsn}?options=-csynchronous_commit%3Doff", records=(Alert,))) as sink:
        database.do("ALTER TABLE alert ADD COLUMN said text DEFAULT current_setting('synchronous_commit')")
        await feed(sink, [alert(1)])
        assert any("synchronous_commit on, set by the sink" in line for line in sink.summary())  # type: ignore[attr-defined]
    assert database.do("SELECT said FROM alert") == [{"said": "on"}]


async def test_c11_a_stronger_setting_is_left_as_it_is(database: Database) -> None:
    async with opened(
        database.sink(f"{database.dsn}?options=-csynchronous_commit%3Dremote_apply", records=(Alert,))
    ) as sink:
        database.do("ALTER TABLE alert ADD COLUMN said text DEFAULT current_setting('synchronous_commit')")
        await feed(sink, [alert(1)])
    assert database.do("SELECT said FROM alert") == [{"said": "remote_apply"}]


async def test_c11_a_batch_of_nothing_but_replays_still_waits_for_the_log(database: Database) -> None:
    """What another session has written may be visible before it is safe: see `postgres_server`."""
    async with opened(database.sink()) as sink:
        await feed(sink, [alert(1)])
        await feed(sink, [alert(1)])
        (before,) = database.do("SELECT pg_current_wal_flush_lsn() AS at")
        await feed(sink, [alert(1)])
        (after,) = database.do("SELECT pg_current_wal_flush_lsn() AS at")
        assert sink.duplicates == 2
    assert after["at"] != before["at"]


# -- upsert (C8)


class Count(Record):
    word: str
    count: int
    version: int
    at: datetime | None = None


async def test_c8_an_upsert_keeps_the_highest_revision_of_each_key(database: Database) -> None:
    settings: dict[str, Any] = {"mode": "upsert", "key": ("word",), "revision": "version"}
    async with opened(database.sink(**settings)) as sink:
        out = await feed(sink, [tup(Count("a", 10, 1), 1), tup(Count("b", 5, 7), 2), tup(Count("a", 30, 3), 3)])
        assert (len(out.acked), sink.stored, sink.duplicates) == (3, 2, 1)
        out = await feed(sink, [tup(Count("a", 20, 2), 4), tup(Count("a", 99, 3), 5)])
        assert (len(out.acked), sink.stored, sink.duplicates) == (2, 2, 3)
        await feed(sink, [tup(Count("a", 40, 4), 6)])
    assert database.do("SELECT word, count, version FROM count ORDER BY word") == [
        {"word": "a", "count": 40, "version": 4},
        {"word": "b", "count": 5, "version": 7},
    ]


async def test_c8_one_revision_with_two_contents_is_divergent_and_the_stored_one_stays(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    settings: dict[str, Any] = {"mode": "upsert", "key": ("word",), "revision": "version"}
    async with opened(database.sink(**settings)) as sink:
        out = await feed(sink, [tup(Count("a", 1, 1), 1), tup(Count("a", 2, 1), 2), tup(Count("a", 1, 1), 1)])
        assert (len(out.acked), sink.stored, sink.duplicates, sink.divergent) == (3, 1, 2, 1)
        out = await feed(sink, [tup(Count("a", 3, 1), 3), tup(Count("a", 1, 1), 1)])
        assert (len(out.acked), sink.stored, sink.duplicates) == (2, 1, 4)
    assert [row["count"] for row in database.rows("count", "word")] == [1]
    assert "('a',)" in caplog.text


async def test_c9_in_a_batch_no_upsert_is_acked_for_the_sake_of_one_that_is_refused(database: Database) -> None:
    async with opened(
        database.sink(records=(Count,), mode="upsert", key=("word",), revision="version", batch=100)
    ) as sink:
        database.do("ALTER TABLE count ADD CHECK (count < 100)")
        tuples = [tup(Count(word, count, count), count) for word in "ab" for count in (1, 50, 200, 3)]
        out = await feed(sink, tuples)
    assert [t.record.count for t in tuples if id(t) in out.failed] == [200, 200]
    assert [row["count"] for row in database.rows("count", "word")] == [50, 50]


async def test_c8_a_table_of_the_users_takes_upserts_by_its_own_key(database: Database) -> None:
    database.do(
        "CREATE TABLE totals (word text, at timestamptz, count bigint, version bigint, id serial, UNIQUE (at, word))"
    )
    sink = database.sink(table="totals", mode="upsert", key=("word", "at"), revision="version")
    with pytest.raises(ConfigurationError, match=r"Count\.at can't be part of a key"):
        async with opened(database.sink(records=(Count,), mode="upsert", key=("word", "at"), revision="version")):
            raise AssertionError("opened")

    class Total(Record):
        word: str
        at: datetime
        count: int
        version: int

    at = datetime(2026, 1, 1, tzinfo=UTC)
    await stored(sink, [tup(Total("a", at, n, n), n) for n in (1, 3, 2)])
    assert [row["count"] for row in database.rows("totals", "word")] == [3]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mode": "replace"}, "mode is 'append' or 'upsert'"),
        ({"mode": "upsert"}, "needs key="),
        ({"mode": "upsert", "key": ("word",)}, "needs revision="),
        ({"key": ("word",)}, "belong to mode='upsert'"),
        ({"mode": "upsert", "key": ("wrod",), "revision": "version"}, "has no field 'wrod'"),
        ({"mode": "upsert", "key": ("version",), "revision": "word"}, "can't be the revision"),
        ({"table": "a b"}, "can't be a table's name"),
        ({"table": "x" * 64}, "can't be a table's name"),
        ({"table": "pg_x"}, "can't be a table's name"),
        ({"table": "x", "records": (Count, Alert)}, "can't hold several classes"),
        ({"timeout_s": 0}, "timeout_s is a number of seconds"),
    ],
)
def test_what_can_not_be_is_said_at_the_declaration(settings: dict[str, Any], said: str, database: Database) -> None:
    with pytest.raises(ConfigurationError) as error:
        database.sink(**{"records": (Count,), **settings})
    assert said in str(error.value)


def test_the_tests_find_their_server(database: Database) -> None:
    with psycopg.connect(database.dsn) as connection:
        assert connection.info.server_version >= 120_000
