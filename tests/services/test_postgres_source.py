"""`PostgresSource` on a real server: no row is skipped, whatever the order of commits; and what it says if it can't."""

import asyncio
import contextlib
import time
from collections.abc import Iterator

import psycopg
import pytest
from postgres_cluster import Cluster
from postgres_kit import Database, through
from postgres_source_kit import (
    COME_S,
    ItemTable,
    Mode,
    PostgresSourceSubject,
    Writer,
    all_of,
    line_to,
    numbers,
    opened,
    refusal,
)
from slow_proxy import SlowProxy
from tcp_proxy import TcpProxy

from spouts.postgres import growing, session
from topology.testing.sources import SOURCE_CHECKS, check_source
from topology.testing.sources.driver import DrivenSource, Memory, within

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


@pytest.mark.parametrize("mode", ["growing", "outbox", "by uuid", "notified"])
@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_the_source_keeps_the_contract(check: str, mode: str, database: Database, line: TcpProxy) -> None:
    kept: Mode = "growing" if mode == "notified" else mode  # type: ignore[assignment]
    ItemTable(database, kept).make()
    subject = PostgresSourceSubject(database.dsn, database.schema, kept, mode == "notified")
    subject.proxy = line
    assert not check_source(check, subject)


# -- the order of commits


async def test_two_transactions_that_commit_in_the_reverse_order_lose_nothing(table: ItemTable) -> None:
    async with opened(table.source()) as source:
        with Writer(table) as first, Writer(table) as second:
            first.insert(1)
            second.insert(2).commit()
            assert await source.rest(NOTHING_S) == [], "the row with a lower number may still come"
            first.commit()
            await source.take(2, COME_S)
    assert [message.id for message in source.messages] == [1, 2]
    assert numbers(source) == [1, 2]


async def test_a_number_drawn_before_its_transaction_has_an_id_is_not_skipped(table: ItemTable) -> None:
    """The rule `xmin < pg_snapshot_xmin` would pass it: the server does not know of that transaction's id yet."""
    database = table.database
    database.do(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF NEW.number = 1 THEN PERFORM pg_advisory_xact_lock_shared(4711); END IF; RETURN NEW; END $$"
    )
    database.do("CREATE TRIGGER slow BEFORE INSERT ON item FOR EACH ROW EXECUTE FUNCTION slow()")
    table.put([0])  # the first number of a sequence is logged, and so gives its transaction an id
    safe = "xmin::text::bigint < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
    async with opened(table.source()) as source:
        await source.take(1, COME_S)
        with Writer(table) as gate, Writer(table) as first, Writer(table) as second:
            gate.do("SELECT pg_advisory_xact_lock(4711)")
            inserting = asyncio.ensure_future(asyncio.to_thread(first.insert, 1))
            activity = f"SELECT backend_xid FROM pg_stat_activity WHERE pid = {first.connection.info.backend_pid}"
            waits = f"{activity} AND wait_event = 'advisory'"
            assert await within(COME_S, lambda: bool(database.do(waits)))
            second.insert(2).commit()
            assert database.do(activity) == [{"backend_xid": None}]
            seen = database.do(f"SELECT id, {safe} AS safe FROM item WHERE id > 1")
            assert seen == [{"id": 3, "safe": True}], "by that rule the row could be read now"
            await source.rest(NOTHING_S)
            assert numbers(source) == [0]
            gate.commit()
            await inserting
            first.commit()
            await source.take(3, COME_S)
    assert [(message.id, message.record.number) for message in source.messages] == [(1, 0), (2, 1), (3, 2)]


async def test_many_writers_at_once_lose_nothing_and_the_order_is_that_of_the_numbers(table: ItemTable) -> None:
    def write(place: int) -> None:
        with Writer(table) as writer:
            for number in range(place * 1000, place * 1000 + 100):
                writer.insert(number).do(f"SELECT pg_sleep(0.00{number % 5})").commit()

    async with opened(table.source()) as source:
        writing = asyncio.gather(*[asyncio.to_thread(write, place) for place in range(6)])
        await source.take(600, COME_S)
        await writing
        await source.rest()
    assert sorted(numbers(source)) == sorted(place * 1000 + n for place in range(6) for n in range(100))
    ids = [message.id for message in source.messages]
    assert ids == sorted(ids)  # type: ignore[type-var]


async def test_a_transaction_that_is_rolled_back_leaves_a_gap_that_is_passed(table: ItemTable) -> None:
    async with opened(table.source()) as source:
        with Writer(table) as first:
            first.insert(1)
            table.put([2])
            assert await source.rest(NOTHING_S) == []
        await source.take(1, COME_S)
    assert [message.id for message in source.messages] == [2]


async def test_a_transaction_that_writes_into_a_partition_holds_back_the_whole_table(database: Database) -> None:
    database.do(
        "CREATE TABLE item (id bigint GENERATED ALWAYS AS IDENTITY, number int, text text) PARTITION BY RANGE (number)"
    )
    database.do("CREATE TABLE low PARTITION OF item FOR VALUES FROM (0) TO (10)")
    database.do("CREATE TABLE high PARTITION OF item FOR VALUES FROM (10) TO (20)")
    table = ItemTable(database)
    async with opened(table.source()) as source:
        with Writer(table) as first:
            first.do("INSERT INTO low (id, number, text) SELECT nextval('item_id_seq'), 1, 'into the partition'")
            table.put([12])
            assert await source.rest(NOTHING_S) == []
            first.commit()
        await source.take(2, COME_S)
    assert numbers(source) == [1, 12]


async def test_a_transaction_that_writes_another_table_holds_nothing_back(table: ItemTable) -> None:
    other = ItemTable(table.database, "growing", "other").make()
    async with opened(table.source()) as source:
        with Writer(other) as long:
            long.insert(1)
            table.put([2])
            await source.take(1, COME_S)
    assert numbers(source) == [2]


async def test_a_vacuum_of_the_table_holds_nothing_back(table: ItemTable) -> None:
    table.database.do("ALTER TABLE item SET (autovacuum_enabled = off)")
    table.put(range(1, 50_001))
    table.database.do("DELETE FROM item WHERE number % 2 = 0")

    def vacuum(connection: psycopg.Connection) -> None:
        connection.execute("SET vacuum_cost_delay = 100")
        connection.execute("SET vacuum_cost_limit = 1")
        with contextlib.suppress(psycopg.errors.QueryCanceled):
            connection.execute(f"VACUUM {table.full_name}".encode())

    with psycopg.connect(table.database.dsn, autocommit=True) as connection:
        pid = connection.info.backend_pid
        under_way = asyncio.ensure_future(asyncio.to_thread(vacuum, connection))
        index = f"SELECT 1 FROM pg_locks WHERE pid = {pid} AND relation = 'item_pkey'::regclass AND granted"
        assert await within(COME_S, lambda: bool(table.database.do(f"{index} AND mode = 'RowExclusiveLock'")))
        async with opened(table.source()) as source:
            await source.take(100, COME_S)
            assert not under_way.done()
            assert source.spout.away == ""
        connection.cancel()
        await under_way
    assert numbers(source)[:100] == [*range(1, 200, 2)]


async def test_a_transaction_that_changes_the_catalog_holds_nothing_back(table: ItemTable) -> None:
    table.put([1])
    with Writer(table) as long:
        long.do("LOCK TABLE pg_class IN ROW EXCLUSIVE MODE")
        async with opened(table.source()) as source:
            await source.take(1, COME_S)
    assert numbers(source) == [1]


async def test_a_long_transaction_is_named_in_the_stall_text_and_not_after_it(
    table: ItemTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "HELD_BACK_S", 0.3)
    async with opened(table.source()) as source:
        with Writer(table) as long:
            long.insert(1)
            table.put([2])
            assert await within(COME_S, lambda: bool(source.spout.away))
            assert f"server process {long.connection.info.backend_pid}" in source.spout.away
            assert "table " in source.spout.away
            long.commit()
            await source.take(2, COME_S)
        assert source.spout.away == ""


async def test_a_prepared_transaction_holds_the_source_back(cluster: Cluster) -> None:
    cluster.start(max_prepared_transactions="5")
    table = ItemTable(cluster.database).make()
    async with opened(table.source()) as source:
        with Writer(table) as first:
            first.insert(1).do("PREPARE TRANSACTION 'first'").commit()
        table.put([2])
        assert await source.rest(NOTHING_S) == []
        table.database.do("COMMIT PREPARED 'first'")
        await source.take(2, COME_S)
    assert [message.id for message in source.messages] == [1, 2]


async def test_rows_after_a_position_come_again_in_their_order_with_another_number_of_tasks(table: ItemTable) -> None:
    table.put(range(1, 101))
    memory = Memory()
    async with opened(table.source(follow=False), memory) as source:
        await source.take(100, COME_S)
        await source.settle([message for message in source.messages if message.record.number <= 40])
    found = []
    for index in range(3):
        async with opened(table.source(follow=False), memory, 3, index) as source:
            await source.take(100, COME_S)
            assert {message.id % 3 for message in source.messages} == {index}  # type: ignore[operator]
            found += numbers(source)
    assert sorted(found) == [*range(41, 101)]


# -- an outbox


async def test_settled_rows_of_an_outbox_are_deleted_and_no_others(outbox: ItemTable) -> None:
    outbox.put(range(1, 301))
    async with opened(outbox.source()) as source:
        await source.take(300, COME_S)
        await source.settle([message for message in source.messages if message.record.number % 3 == 0])
        assert await within(COME_S, lambda: len(outbox.numbers()) == 200)
    assert outbox.numbers() == [number for number in range(1, 301) if number % 3]


async def test_a_row_that_cannot_be_deleted_is_away_with_the_reason_until_it_can(outbox: ItemTable) -> None:
    outbox.put([1, 2])
    outbox.database.do("CREATE TABLE parcel (item bigint REFERENCES item (id))")
    outbox.database.do("INSERT INTO parcel VALUES (1)")
    async with opened(outbox.source()) as source:
        await source.take(2, COME_S)
        await source.settle(source.messages)
        why = 'that are done can\'t be deleted: update or delete on table "item" violates foreign key constraint'
        assert await within(COME_S, lambda: why in source.spout.away), source.spout.away
        assert outbox.numbers() == [1, 2]
        outbox.database.do("DELETE FROM parcel")
        assert await within(COME_S, lambda: not outbox.numbers())
        await source.rest()
        assert len(source.messages) == 2


async def test_an_outbox_whose_rows_may_not_be_deleted_is_refused_when_it_is_opened(cluster: Cluster) -> None:
    database = cluster.database
    table = ItemTable(database, "outbox").make()
    database.do("CREATE ROLE reader")
    database.do(f'GRANT USAGE ON SCHEMA "{database.schema}" TO reader')
    database.do("GRANT SELECT ON item TO reader")
    dsn = psycopg.conninfo.make_conninfo(database.dsn, options="-c role=reader")
    said = await refusal(table.source(dsn))
    assert said.startswith(f"PostgresSource: rows of table {table.full_name} of database ")
    assert said.endswith("that are done can't be deleted: permission denied for table item")
    database.do("GRANT DELETE ON item TO reader")
    async with opened(table.source(dsn)):
        pass
    database.do("CREATE VIEW grouped AS SELECT id, min(number) AS number, min(text) AS text FROM item GROUP BY id")
    assert 'can\'t be deleted: cannot delete from view "grouped"' in await refusal(
        ItemTable(database, "outbox", "grouped").source()
    )


async def test_a_row_of_an_outbox_that_is_visible_late_comes_late(outbox: ItemTable) -> None:
    async with opened(outbox.source()) as source:
        with Writer(outbox) as first:
            first.insert(1)
            outbox.put([2])
            await source.take(1, COME_S)
            assert numbers(source) == [2], "nothing is held back"
            first.commit()
            await source.take(2, COME_S)
        await source.rest()
    assert numbers(source) == [2, 1]


async def test_a_lost_connection_while_rows_are_deleted_gives_no_row_twice(outbox: ItemTable, line: TcpProxy) -> None:
    outbox.put(range(1, 501))
    dsn = through(outbox.database.dsn, "127.0.0.1", line.port)
    async with opened(outbox.source(dsn)) as source:
        await source.take(500, COME_S)
        with line.away():
            await source.settle(source.messages[:250])
            assert await within(COME_S, lambda: bool(source.spout.away))
        assert await within(COME_S, lambda: len(outbox.numbers()) == 250)
        await source.settle(source.messages[250:])
        assert await within(COME_S, lambda: not outbox.numbers())
        await source.rest()
        assert len(source.messages) == 500
        assert source.repeated == 0


async def test_an_outbox_that_does_not_follow_ends_when_each_row_was_given(outbox: ItemTable) -> None:
    outbox.put(range(1, 101))
    found = await all_of(outbox.source(follow=False, prefetch=7), tasks=2)
    assert sorted(message.record.number for message in found) == [*range(1, 101)]
    assert {type(message.id) for message in found} == {str}


# -- a slow line


@pytest.mark.parametrize("mode", ["growing", "outbox"])
async def test_rows_that_are_too_many_for_a_slow_line_come_in_smaller_reads(
    mode: Mode, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "GRACE_S", 0.5)
    table = ItemTable(database, mode).make()
    database.do("INSERT INTO item (number, text) SELECT n, repeat('x', 20000) FROM generate_series(1, 100) AS n")
    parameters = psycopg.conninfo.conninfo_to_dict(database.dsn)
    proxy = SlowProxy(int(parameters.get("port") or 5432), 5e5, str(parameters.get("host") or "127.0.0.1"))
    dsn = through(database.dsn, "127.0.0.1", proxy.port)
    try:  # 32 rows take 1.3 s, and may take 1 s
        async with opened(table.source(dsn, prefetch=64, timeout_s=0.5)) as source:
            await source.take(100, COME_S)
    finally:
        proxy.close()
    assert sorted(numbers(source)) == [*range(1, 101)]


# -- news


async def notified_at_once(table: ItemTable, source: DrivenSource, number: int) -> float:
    """Seconds from a commit with NOTIFY until its row is there."""
    started = time.monotonic()
    with Writer(table) as writer:
        writer.insert(number).do("NOTIFY news").commit()
    count = len(source.messages) + 1
    await source.take(count, COME_S)
    assert len(source.messages) == count
    return time.monotonic() - started


@pytest.mark.parametrize("mode", ["growing", "outbox"])
async def test_a_notification_wakes_the_source_also_after_its_connection_was_lost(
    mode: Mode, database: Database
) -> None:
    table = ItemTable(database, mode).make()
    name = f"kedge {database.schema}"[:60]
    dsn = psycopg.conninfo.make_conninfo(database.dsn, application_name=name)
    listening = f"SELECT pid FROM pg_stat_activity WHERE application_name = '{name}' AND query LIKE 'LISTEN%%'"

    async with opened(table.source(dsn, notify="news", poll_interval_s=3600)) as source:
        assert await within(COME_S, lambda: bool(database.do(listening)))
        assert await notified_at_once(table, source, 1) < 10
        (before,) = database.do(listening)
        database.do(f"SELECT pg_terminate_backend({before['pid']})")
        assert await within(COME_S, lambda: database.do(listening) not in ([], [before]))
        assert await notified_at_once(table, source, 2) < 10


async def test_what_comes_while_notifications_are_not_heard_is_seen_when_they_are_again(
    table: ItemTable, line: TcpProxy
) -> None:
    dsn = through(table.database.dsn, "127.0.0.1", line.port)
    async with opened(table.source(dsn, notify="news", poll_interval_s=3600)) as source:
        table.put([1])
        with line.away():
            table.put([2])  # and no notification
        await source.take(2, COME_S)
    assert numbers(source) == [1, 2]


async def test_the_source_looks_by_itself_as_often_as_it_is_told(table: ItemTable) -> None:
    async with opened(table.source(poll_interval_s=0.02)) as often, opened(table.source(poll_interval_s=600)) as seldom:
        await asyncio.gather(often.rest(0.2), seldom.rest(0.2))
        table.put([1])
        await often.take(1, COME_S)
        await seldom.rest(0.5)
    assert (numbers(often), numbers(seldom)) == ([1], [])
