"""`PostgresSink` where the line or the server fails it: cut at every moment, during COMMIT too, swallowed, refused;
other transactions in its way. What was acked is stored, what is stored is stored once.
"""

import asyncio
import random
import secrets
from collections.abc import Callable

import pytest
from postgres_kit import Database
from postgres_proxy import Do, Passing, PostgresProxy
from sink_kit import Alert, Recorder, alert, opened, until

from bolts.sinks.batching import BatchingSink

pytestmark = pytest.mark.service("postgres")


async def fed(sink: BatchingSink, numbers: range) -> Recorder:
    """Gives the numbers to the sink, and returns when all of them are acked or failed: a store that is away is waited
    for, as a run does."""
    out = Recorder()
    for number in numbers:
        waits = sink.execute(alert(number), out)
        if waits is not None:
            await waits
    await until(lambda: len(out.acked) + len(out.failed) == len(numbers), within_s=60)
    return out


def commit_number(n: int) -> Callable[[Passing], bool]:
    seen = [0]

    def when(passing: Passing) -> bool:
        if passing.to_server and passing.text.endswith("COMMIT"):
            seen[0] += 1
            return seen[0] == n
        return False

    return when


def committed_number(n: int) -> Callable[[Passing], bool]:
    seen = [0]

    def when(passing: Passing) -> bool:
        if not passing.to_server and passing.text == "COMMIT":
            seen[0] += 1
            return seen[0] == n
        return False

    return when


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize(
    ("when", "outcome"),
    [(commit_number, "it did not happen"), (committed_number, "it happened, and nobody was told")],
    ids=["before", "after"],
)
async def test_f44_a_line_that_is_cut_during_commit_loses_and_doubles_nothing(
    n: int, when: Callable[[int], Callable[[Passing], bool]], outcome: str, database: Database, proxy: PostgresProxy
) -> None:
    """C10: the outcome is unknown, so the same rows are written again, with the same keys."""
    async with opened(database.sink(proxy.dsn, records=(Alert,), batch=10, within_ms=1)) as sink:
        proxy.cut_once(when(n), Do.CUT_BEFORE)
        out = await fed(sink, range(1, 201))
        assert proxy.cuts == 1
        assert (len(out.acked), out.failed, sink.divergent) == (200, {}, 0)
        assert (sink.duplicates > 0) == (when is committed_number), outcome
    assert database.numbers() == list(range(1, 201))


@pytest.mark.parametrize("how", [Do.CUT_BEFORE, Do.CUT_AFTER])
async def test_f44_a_line_that_is_cut_while_a_large_batch_is_on_its_way_loses_and_doubles_nothing(
    how: Do, database: Database, proxy: PostgresProxy
) -> None:
    """The message that carries the rows is lost, or arrives and nobody hears what became of it."""

    def rows(passing: Passing) -> bool:
        return passing.to_server and passing.kind == "B" and "INSERT INTO" in passing.text

    async with opened(database.sink(proxy.dsn, records=(Alert,), batch=1000)) as sink:
        proxy.cut_once(rows, how)
        out = await fed(sink, range(1, 3001))
        assert proxy.cuts == 1
        assert (len(out.acked), out.failed, sink.stored, sink.duplicates) == (3000, {}, 3000, 0)
    assert database.numbers() == list(range(1, 3001))


@pytest.mark.slow
async def test_f44_a_line_that_is_cut_at_any_turn_either_way_loses_and_doubles_nothing(
    database: Database, proxy: PostgresProxy
) -> None:
    """Every turn of making the connection, the table and the first batches, one after the other. Messages between them
    change nothing: a question is heard once it is whole, and of an answer its end counts."""
    passed = [0]

    def cut_at(n: int) -> Callable[[Passing], bool]:
        passed[0] = 0

        def when(passing: Passing) -> bool:
            passed[0] += passing.kind in ("QPES" if passing.to_server else "RCZ")
            return passed[0] == n

        return when

    proxy.cut_once(cut_at(-1), Do.PASS)
    async with opened(database.sink(proxy.dsn, batch=10, within_ms=1)) as sink:
        await fed(sink, range(1, 11))
    every, first = passed[0], 1000
    assert every > 40
    with database.connected() as reader:
        for n in range(1, every + 1):
            reader.execute("DROP TABLE alert")
            proxy.cut_once(cut_at(n), Do.CUT_BEFORE if n % 2 else Do.CUT_AFTER)
            numbers = range(first, first + 10)
            async with opened(database.sink(proxy.dsn, batch=10, within_ms=1)) as sink:
                out = await fed(sink, numbers)
            assert out.failed == {}, n
            stored = reader.execute("SELECT failures FROM alert ORDER BY failures").fetchall()
            assert [row["failures"] for row in stored] == list(numbers), n
            first += 100
    assert proxy.cuts > every * 0.9


async def test_f44_lines_that_are_cut_again_and_again_at_random_lose_and_double_nothing(
    database: Database, proxy: PostgresProxy
) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    choose = random.Random(seed)

    def script(passing: Passing) -> Do:
        return choose.choice([Do.CUT_BEFORE, Do.CUT_AFTER]) if choose.random() < 0.01 else Do.PASS

    async with opened(database.sink(proxy.dsn, records=(Alert,), batch=20, within_ms=1)) as sink:
        proxy.script = script
        out = await fed(sink, range(1, 601))
        proxy.script = lambda _: Do.PASS
    assert len(out.acked) == 600
    assert database.numbers() == list(range(1, 601))
    assert proxy.cuts > 1, "the run had faults"


async def test_f29_a_server_that_falls_silent_is_given_up_in_time_and_asked_again(
    database: Database, proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolts.sinks.postgres.connection.GRACE_S", 0.2)
    monkeypatch.setattr("bolts.sinks.postgres.connection._LOOK_S", 0.05)
    async with opened(database.sink(proxy.dsn + "&connect_timeout=2", records=(Alert,), timeout_s=0.3)) as sink:
        proxy.swallows = True
        feeding = asyncio.ensure_future(fed(sink, range(1, 51)))
        await until(lambda: "the server does not answer" in sink.away)
        proxy.swallows = False
        out = await feeding
        assert len(out.acked) == 50
        assert sink.away == ""
    assert database.numbers() == list(range(1, 51))


async def test_close_gives_a_server_that_does_not_answer_up_long_before_its_statements_time_is_over(
    database: Database, proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run gives `close` ten seconds. What becomes of the rows is not known (C10): they come again."""
    monkeypatch.setattr("bolts.sinks.postgres.sink.CLOSING_S", 0.2)
    monkeypatch.setattr("bolts.sinks.postgres.connection._LOOK_S", 0.05)
    out, loop = Recorder(), asyncio.get_running_loop()
    async with opened(database.sink(proxy.dsn, records=(Alert,), timeout_s=60)) as sink:
        proxy.swallows = True
        before = proxy.messages
        sink.execute(alert(1), out)
        await until(lambda: proxy.read > before)
        begun = loop.time()
    assert loop.time() - begun < 8
    assert "the server does not answer" in next(iter(out.failed.values()))
    proxy.swallows = False
    async with opened(database.sink(proxy.dsn)) as sink:
        assert len((await fed(sink, range(1, 3))).acked) == 2
    assert database.numbers() == [1, 2]


async def test_f43_a_server_that_refuses_is_asked_again_and_nothing_fails(
    database: Database, proxy: PostgresProxy
) -> None:
    async with opened(database.sink(proxy.dsn, records=(Alert,), batch=10)) as sink:
        proxy.refuses = True
        proxy.reset()
        feeding = asyncio.ensure_future(fed(sink, range(1, 101)))
        await until(lambda: "can't be reached" in sink.away)
        proxy.refuses = False
        out = await feeding
        assert (len(out.acked), out.failed) == (100, {})
    assert database.numbers() == list(range(1, 101))


async def test_f30_a_slow_line_makes_a_slow_sink_and_nothing_else(database: Database, proxy: PostgresProxy) -> None:
    async with opened(database.sink(proxy.dsn, records=(Alert,))) as sink:
        proxy.delay_s = 0.002
        out = await fed(sink, range(1, 501))
        assert len(out.acked) == 500
    assert proxy.connections == 1


@pytest.mark.slow
async def test_a_batch_larger_than_what_the_line_holds_gets_through(database: Database, proxy: PostgresProxy) -> None:
    """A client that stops sending while the line is full, and waits for an answer, waits for ever."""
    async with opened(database.sink(proxy.dsn, records=(Alert,), timeout_s=20)) as sink:
        proxy.delay_s = 0.1
        out = Recorder()
        for number in range(1, 13):
            sink.execute(alert(number, "x" * 1_000_000), out)
        await until(lambda: len(out.acked) == 12, within_s=60)
    assert proxy.connections == 1


async def test_f45_sessions_that_are_terminated_are_made_anew(database: Database) -> None:
    dsn = f"{database.dsn}?application_name={database.schema}"
    async with opened(database.sink(dsn, records=(Alert,), batch=10, within_ms=1)) as sink:
        for first in range(1, 1001, 100):
            feeding = asyncio.ensure_future(fed(sink, range(first, first + 100)))
            await asyncio.sleep(0)
            await asyncio.to_thread(
                database.do,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
                database.schema,
            )
            assert len((await feeding).acked) == 100
    assert database.numbers() == list(range(1, 1001))


async def test_f45_a_deadlock_with_another_writer_is_retried_with_the_same_rows(database: Database) -> None:
    """Another transaction takes the keys in the opposite order; the server ends one of the two after a second."""
    async with opened(database.sink(records=(Alert,), batch=100)) as sink:
        await fed(sink, range(1, 3))
        low, high = sorted(row["key"] for row in database.rows())
        database.do("TRUNCATE alert")
        with database.connected() as other:
            other.execute("SET deadlock_timeout = '30s'")  # so that it is the sink's transaction that is ended
            other.execute("BEGIN")
            insert = "INSERT INTO alert VALUES ('other', 0, NULL, %s)"
            other.execute(insert, [high])
            feeding = asyncio.ensure_future(fed(sink, range(1, 3)))
            waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"
            await until(lambda: bool(database.do(waiting)))
            await asyncio.to_thread(other.execute, insert, [low])
            await until(lambda: "deadlock detected" in sink.away)
            other.execute("ROLLBACK")
        out = await feeding
        assert len(out.acked) == 2
    assert database.numbers() == [1, 2]


async def test_f45_two_sinks_with_opposite_orders_wait_for_each_other_and_never_both(database: Database) -> None:
    """Keys are sorted in each batch, so that no order of inputs makes a deadlock."""
    before = database.do("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    async with (
        opened(database.sink(records=(Alert,), batch=200)) as one,
        opened(database.sink(batch=200)) as two,
    ):
        for first in range(1, 2001, 400):
            numbers = range(first, first + 400)
            outs = await asyncio.gather(fed(one, numbers), fed(two, numbers[::-1]))
            assert [len(out.acked) for out in outs] == [400, 400]
        assert one.stored + two.stored == 2000
    assert database.do("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == before


async def test_f45_a_statement_over_its_time_is_tried_again_until_the_lock_is_free(database: Database) -> None:
    async with opened(database.sink(records=(Alert,), timeout_s=0.2)) as sink:
        with database.connected() as other:
            other.execute("BEGIN")
            other.execute("LOCK TABLE alert IN SHARE MODE")
            feeding = asyncio.ensure_future(fed(sink, range(1, 11)))
            await until(lambda: "statement timeout" in sink.away)
            other.execute("ROLLBACK")
        out = await feeding
        assert (len(out.acked), out.failed) == (10, {})
    assert database.numbers() == list(range(1, 11))


async def test_a_server_that_is_read_only_is_waited_for(database: Database, proxy: PostgresProxy) -> None:
    dsn = f"{proxy.dsn}&options=-cdefault_transaction_read_only%3Don"
    database.do("CREATE TABLE alert (source_ip text, failures bigint, at timestamptz, key bytea PRIMARY KEY)")
    async with opened(database.sink(dsn, records=(Alert,))) as sink:
        out = Recorder()
        sink.execute(alert(1), out)
        await until(lambda: "read-only transaction" in sink.away)
    assert "read-only transaction" in next(iter(out.failed.values())), "given up as the sink closed"
    assert database.rows() == []
