"""`PostgresSource` on a real server: columns as fields, what it refuses in one sentence, and a server that is away."""

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import psycopg
import pytest
from postgres_cluster import PASSWORD, Cluster
from postgres_kit import Database, through
from postgres_source_kit import COME_S, ItemTable, Mode, Writer, all_of, as_json, line_to, numbers, opened, refusal
from tcp_proxy import TcpProxy

from spouts.lines import Line
from spouts.payload.formats import Json, Msgpack, Payload
from spouts.postgres.source import PostgresSource
from topology.errors import ConfigurationError, NotYet
from topology.records import Record
from topology.secrets import Secret
from topology.testing.sources import SourceItem
from topology.testing.sources.driver import Memory, within

pytestmark = pytest.mark.service("postgres")

NOTHING_S = 0.7  # after which nothing more is expected


@pytest.fixture
def line(database: Database) -> Iterator[TcpProxy]:
    """Between a source and the server."""
    with line_to(database.dsn) as one:
        yield one


@pytest.fixture
def table(database: Database) -> ItemTable:
    return ItemTable(database).make()


@pytest.fixture
def outbox(database: Database) -> ItemTable:
    return ItemTable(database, "outbox").make()


# -- rows


class Colour(Enum):
    RED = "red"


class Address(Record):
    street: str
    number: int


class Everything(Record):
    flag: bool
    real: float
    money: Decimal
    name: str
    data: bytes
    at: datetime
    maybe: int | None
    colour: Colour
    tags: tuple[str, ...]
    where: Address
    places: tuple[Address, ...]
    key: str
    left_out: int = 7


EVERYTHING = (
    "flag bool, real float8, money numeric, name varchar(20), data bytea, at timestamptz, maybe int, colour text,"
    ' tags text[], "where" jsonb, places jsonb, key uuid'
)


async def test_columns_of_all_kinds_become_fields(database: Database) -> None:
    database.do(f"CREATE TABLE every (id bigserial PRIMARY KEY, {EVERYTHING}, unread text)")
    database.do(
        "INSERT INTO every VALUES (DEFAULT, true, 0.1, 12345678901234567890.10, 'ä\"\\', %s,"
        " '2026-03-01 12:30:00.5+02', NULL, 'red',"
        " ARRAY['a', 'b c'], '{\"street\": \"Elm\", \"number\": 3, \"no\": 1}', '[]',"
        " '00000000-0000-0000-0000-0000000000ff', 'x')",
        bytes(range(256)),
    )
    source = PostgresSource(
        database.dsn, table=f"{database.schema}.every", value=Json(Everything, at="at"), follow=False
    )
    (message,) = await all_of(source)
    at = datetime(2026, 3, 1, 10, 30, 0, 500_000, tzinfo=UTC)
    data, money, elm = bytes(range(256)), Decimal("12345678901234567890.10"), Address("Elm", 3)
    key = "00000000-0000-0000-0000-0000000000ff"
    row = (True, 0.1, money, 'ä"\\', data, at, None, Colour.RED, ("a", "b c"), elm, (), key, 7)
    assert message.record == Everything(*row)
    assert (message.at, message.id) == (at, 1)


class Numbered(Record):
    row: int
    text: str


async def test_the_number_of_a_row_can_be_a_field_and_a_function_can_make_the_record(table: ItemTable) -> None:
    table.put([5, 6])
    (first, _) = await all_of(table.source(follow=False, value=Json(Numbered, fields={"row": "id"})))
    assert first.record == Numbered(1, "item 5")

    def read(payload: Payload) -> Numbered:
        return Numbered(payload.attributes["id"], str(json.loads(payload.data)))

    (first, _) = await all_of(table.source(follow=False, value=read))
    assert first.record == Numbered(1, str({"id": 1, "number": 5, "text": "item 5"}))
    (first, _) = await all_of(table.source(follow=False, value=Line))
    assert first.record.text.encode() == as_json({"id": 1, "number": 5, "text": "item 5"})


async def test_a_row_that_does_not_fit_is_malformed_and_names_its_number(database: Database) -> None:
    database.do("CREATE TABLE item (id bigserial PRIMARY KEY, number int, text text, at timestamp)")
    database.do("INSERT INTO item (number, text, at) VALUES (1, 'a', NULL), (NULL, 'b', now())")
    good, bad = await all_of(ItemTable(database).source(follow=False))
    assert (good.record, bad.id) == (SourceItem(1, "a"), 2)
    assert bad.record.data == b'{"number":null,"text":"b"}'
    assert bad.record.attributes == (("id", "2"),)
    assert "number" in bad.record.error


async def test_a_query_and_a_view_are_read_like_a_table_and_held_back_like_one(table: ItemTable) -> None:
    schema = table.database.schema
    table.database.do("CREATE VIEW shown AS SELECT id AS nr, number * 2 AS number, text FROM item")
    query = f"SELECT v.nr, v.number, v.text FROM {schema}.shown v WHERE v.number > 4 -- a comment;"
    table.put([1, 2, 3, 4])
    async with opened(table.source(table=None, query=query, column="nr", follow=True)) as source:
        await source.take(2, COME_S)
        with Writer(table) as first:
            first.insert(5)
            table.put([6])
            await source.rest(NOTHING_S)
            assert numbers(source) == [6, 8]
            first.commit()
        await source.take(4, COME_S)
    assert [(message.id, message.record.number) for message in source.messages] == [(3, 6), (4, 8), (5, 10), (6, 12)]


async def test_a_read_takes_its_rows_by_the_index_though_the_server_knows_little_of_the_table(table: ItemTable) -> None:
    table.put(range(1, 20_001))
    source = table.source()
    async with opened(source) as one:
        session, statements = one.spout._connection._session, one.spout._connection._statements
        for statement in (statements.growing(10_000, 20_000, 100), statements.highest(19_000)):
            (plan,) = await session.ask([f"EXPLAIN (ANALYZE, TIMING OFF) {statement}"])
            told = "\n".join(line.decode() for (line,) in plan if line)
            assert "Index" in told, told
            assert "Sort" not in told, told


# -- what is refused


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"table": "a.b.c"}, "table is NAME or SCHEMA.NAME, not 'a.b.c'"),
        ({"table": None}, "give a table, or a query"),
        ({"table": "a", "query": "SELECT 1"}, "give a table, or a query"),
        ({"table": None, "query": "SELECT 1", "outbox": True}, "an outbox is a table"),
        ({"column": ""}, "column is a name of 1 to 63 bytes"),
        ({"notify": "x" * 64}, "notify is a name of 1 to 63 bytes"),
        ({"poll_interval_s": 0}, "poll_interval_s is a number of seconds"),
        ({"timeout_s": 10**9}, "timeout_s is a number of seconds"),
        ({"prefetch": 0}, "prefetch is a number"),
        ({"value": Msgpack(SourceItem)}, "not msgpack"),
        ({"value": Json(SourceItem, id="number")}, "leave out id"),
        ({"value": Json(SourceItem, fields={"text": "topic"})}, "there is no 'topic' beside its payloads; there is id"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_sentence(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        PostgresSource("host=x", **{"table": "item", "value": SourceItem, **settings})
    text = str(caught.value).partition("\n  next:")[0]
    assert words in text
    assert text.startswith("PostgresSource: ")
    assert "\n" not in text


async def test_what_cannot_be_read_is_refused_in_one_sentence(table: ItemTable) -> None:
    database, schema = table.database, table.database.schema
    assert "has no column 'nr'; it has id, number, text" in await refusal(table.source(column="nr"))
    assert 'relation "nothing" does not exist' in await refusal(table.source(table="nothing"))
    assert "column 'text' of table" in await refusal(table.source(column="text"))
    assert "is not an integer, which" in await refusal(table.source(column="text"))
    assert "has no column 'row'" in await refusal(table.source(value=Numbered))
    assert "syntax error" in await refusal(table.source(table=None, query="SELEKT 1"))
    database.do("CREATE MATERIALIZED VIEW frozen AS SELECT * FROM item")
    assert "reads 'frozen', a materialized view" in await refusal(table.source(table=f"{schema}.frozen"))
    database.do("CREATE TABLE times (id timestamptz PRIMARY KEY, number int, text text)")
    times = f"{schema}.times"
    assert "is not an integer, a uuid or a text" in await refusal(table.source(table=times, outbox=True))


@pytest.mark.parametrize(
    ("changed", "words"),
    [("CACHE 20", "keeps 20 numbers in each session"), ("CYCLE", "begins again"), ("INCREMENT -1", "counts down")],
)
async def test_a_sequence_that_does_not_grow_is_refused(table: ItemTable, changed: str, words: str) -> None:
    low = "MINVALUE -100" if "-1" in changed else ""
    table.database.do(f"ALTER SEQUENCE item_id_seq {low} {changed}")
    text = await refusal(table.source())
    assert words in text
    assert "outbox=True" in text
    table.database.do("CREATE TABLE plain (id bigint DEFAULT nextval('item_id_seq'), number int, text text)")
    assert words in await refusal(table.source(table=f"{table.database.schema}.plain")), "by its default alone"


@pytest.mark.parametrize(
    ("rows", "words"), [("(1), (1)", "1 names two rows"), ("(-3), (4)", "-3 is below 0")], ids=["twice", "negative"]
)
async def test_a_column_that_does_not_number_rows_ends_the_run(database: Database, rows: str, words: str) -> None:
    database.do("CREATE TABLE item (id int, number int DEFAULT 1, text text DEFAULT 'a')")
    database.do(f"INSERT INTO item (id) VALUES {rows}")
    async with opened(ItemTable(database).source(prefetch=1)) as source:
        with pytest.raises(ConfigurationError, match=words):
            await source.take(2, COME_S)


async def test_a_table_that_begins_again_is_refused_until_it_has_another_epoch(table: ItemTable) -> None:
    memory = Memory()
    table.put(range(1, 11))
    async with opened(table.source(), memory) as source:
        await source.take(10, COME_S)
        await source.settle(source.messages)
    table.database.do("TRUNCATE item")
    async with opened(table.source(), memory) as source:
        table.put([11])
        await source.take(1, COME_S)
        await source.settle(source.messages)
        assert numbers(source) == [11], "only emptied: the numbers go on"
        table.database.do("TRUNCATE item RESTART IDENTITY")
        with pytest.raises(ConfigurationError, match=r"rows up to 11 of .* were read, and .*item_id_seq is at 0"):
            await source.poll()
    table.put([12])
    assert "pass another epoch" in await refusal(table.source(), memory)
    memory.done.clear()  # they are known by partition and epoch, in a run
    memory.given = {"": {11: None}}
    async with opened(table.source(epoch="2"), memory) as source:
        await source.take(1, COME_S)
        assert [(message.id, message.record.number) for message in source.messages] == [(1, 12)]


async def test_a_missing_index_is_reported_and_a_present_one_is_not(
    table: ItemTable, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "kedge.spouts")
    async with opened(table.source()):
        assert "no index" not in caplog.text
    async with opened(table.source(column="number")):
        assert "no index of table" in caplog.text


# -- a server that is away, slow, or refuses


async def test_a_server_that_swallows_everything_is_away_and_close_does_not_wait(
    table: ItemTable, line: TcpProxy
) -> None:
    dsn = through(table.database.dsn, "127.0.0.1", line.port)
    async with opened(table.source(dsn, timeout_s=0.5)) as source:
        table.put([1])
        await source.take(1, COME_S)
        line.swallows = True
        polling = asyncio.ensure_future(source.poll())
        assert await within(COME_S, lambda: "does not answer" in source.spout.away), source.spout.away
        polling.cancel()
        started = time.monotonic()
        await source.close()
        assert time.monotonic() - started < 8
    async with opened(table.source(timeout_s=30)) as source:
        await source.take(1, COME_S)


async def test_closing_does_not_wait_for_a_statement_that_runs(table: ItemTable) -> None:
    table.put([1])
    query = f"SELECT i.*, pg_sleep(20) FROM {table.full_name} AS i"
    async with opened(table.source(table=None, query=query)) as source:
        await source.rest(0.3)
        started = time.monotonic()
    assert time.monotonic() - started < 5


async def test_a_statement_over_the_time_limit_counts_as_away(table: ItemTable) -> None:
    table.put([1])
    query = f"SELECT i.* FROM {table.full_name} AS i WHERE pg_sleep(0.6) IS NOT NULL"
    async with opened(table.source(table=None, query=query, timeout_s=0.2)) as source:
        assert await within(COME_S, lambda: "statement timeout" in source.spout.away)


async def test_a_table_that_goes_away_while_it_is_read_is_waited_for(table: ItemTable) -> None:
    async with opened(table.source()) as source:
        table.put([1])
        await source.take(1, COME_S)
        table.database.do("ALTER TABLE item RENAME TO gone")
        assert await within(COME_S, lambda: "does not exist" in source.spout.away)
        table.database.do("ALTER TABLE gone RENAME TO item")
        table.put([2])
        await source.take(2, COME_S)
        assert (numbers(source), source.spout.away) == ([1, 2], "")


@pytest.mark.parametrize("mode", ["growing", "outbox"])
async def test_a_server_that_is_killed_and_comes_back_loses_nothing(mode: Mode, cluster: Cluster) -> None:
    table = ItemTable(cluster.database, mode).make()
    async with opened(table.source(notify="news")) as source:
        table.put(range(1, 101))
        await source.take(50, COME_S)
        await source.settle(source.messages[:30])
        await asyncio.to_thread(cluster.kill)
        assert await within(COME_S, lambda: bool(source.spout.away))
        await asyncio.to_thread(cluster.start)
        table.put(range(101, 201))
        await source.take(200, COME_S)
        await source.rest()
    assert sorted(numbers(source)) == [*range(1, 201)]


async def test_a_wrong_password_is_refused_and_never_shown(cluster: Cluster) -> None:
    def dsn(password: str) -> str:
        return psycopg.conninfo.make_conninfo(cluster.dsn, user="guarded", password=password)

    table = ItemTable(cluster.database).make()
    cluster.database.do("GRANT SELECT ON item TO guarded")
    text = await refusal(table.source(dsn("wrong-canary-1234")))
    assert "password authentication failed" in text
    assert "canary" not in text
    table.put([1])
    assert len(await all_of(table.source(Secret(dsn(PASSWORD)), follow=False))) == 1
    cluster.database.do("REVOKE SELECT ON item FROM guarded")
    assert "permission denied" in await refusal(table.source(dsn(PASSWORD)))
    assert 'role "nobody" does not exist' in await refusal(
        table.source(psycopg.conninfo.make_conninfo(cluster.dsn, user="nobody"))
    )


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:hidden@canary@127.0.0.1:5432/test",
        "postgresql://me:hidden/canary@127.0.0.1:5432/test",
        "postgresql://hidden:canary/test",
        "host=127.0.0.1 password='hidden canary",
        "hidden canary",
    ],
)
async def test_a_dsn_that_cannot_be_read_is_refused_without_a_word_of_it(dsn: str) -> None:
    text = await refusal(PostgresSource(dsn, table="item", value=SourceItem))
    assert "dsn" in text
    assert "canary" not in text
    assert "hid" not in text


async def test_a_dsn_can_come_from_the_environment(table: ItemTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITEMS_DSN", table.database.dsn)
    table.put([1])
    assert len(await all_of(table.source("env:ITEMS_DSN", follow=False))) == 1
    with pytest.raises(ConfigurationError, match="there is no variable OTHER_DSN"):
        async with opened(table.source("env:OTHER_DSN")):
            pass


async def test_a_server_that_does_not_answer_is_waited_for_at_the_start(line: TcpProxy) -> None:
    line.swallows = True
    started = time.monotonic()
    with pytest.raises(NotYet, match="PostgresSource: "):
        async with opened(PostgresSource(f"postgresql://me:canary@127.0.0.1:{line.port}/test", table="item")):
            pass
    assert time.monotonic() - started < 12


def test_the_source_says_where_it_reads(table: ItemTable) -> None:
    table.put([1, 2])

    async def run() -> Sequence[str]:
        async with opened(table.source(follow=False)) as source:
            await source.take(2, COME_S)
            return [*source.spout.summary()]

    (said,) = asyncio.run(run())
    assert said.startswith(f"2 received from table {table.full_name} of database ")
