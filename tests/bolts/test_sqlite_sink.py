"""`SqliteSink` and the world: durability (C11), other connections, bad rows (F46), tables altered meanwhile (F47)."""

# ruff: noqa: ASYNC240  # tests look at files on the loop: nothing else runs on it

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from sink_kit import Alert, Recorder, Sample, alert, feed, opened, sqlite_rows, stored, tup, until

from bolts import SqliteSink
from bolts.sinks.sqlite.file import SqliteFile
from bolts.sinks.sqlite.table import SqliteTable
from topology.errors import ConfigurationError
from topology.records import Record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alerts.db"


def sql(path: Path, statements: str) -> None:
    """What an operator does with another connection."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)


@pytest.mark.parametrize("name", ["", ":memory:"])
def test_c11_a_database_in_memory_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="not durable"):
        SqliteSink(name)


@pytest.mark.parametrize("name", ["file:x?mode=memory", "a b#c%41.db", "größe?.db"])
async def test_a_path_is_a_path_whatever_is_in_it(tmp_path: Path, name: str) -> None:
    await stored(SqliteSink(tmp_path / name), [alert(1)])
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_c11_the_connection_syncs_each_commit(path: Path) -> None:
    store = SqliteFile(str(path))
    store.open()
    connection = store.connection
    assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


async def test_a_reader_with_an_open_transaction_does_not_stop_the_sink(path: Path) -> None:
    async with opened(SqliteSink(path)) as sink:
        await feed(sink, [alert(1)])
        with closing(sqlite3.connect(path)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM alert").fetchone() == (1,)
            out = await feed(sink, [alert(n) for n in range(2, 3000)])
            assert len(out.acked) == 2998
            assert reader.execute("SELECT count(*) FROM alert").fetchone() == (1,)


async def test_a_reader_at_the_time_of_opening_does_not_stop_the_sink(path: Path) -> None:
    await stored(SqliteSink(path), [alert(1)])
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM alert").fetchone()
        assert len((await stored(SqliteSink(path), [alert(2)])).acked) == 1


async def test_a_writer_for_a_while_makes_the_sink_wait_and_no_tuple_fail(path: Path) -> None:
    out = Recorder()
    async with opened(SqliteSink(path)) as sink:
        await feed(sink, [alert(1)])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            sink.execute(alert(2), out)
            await asyncio.sleep(0.05)
            assert not out.acked
            other.execute("COMMIT")
        await until(lambda: len(out.acked) == 1)
    assert not out.failed


async def test_f43_a_writer_that_stays_is_waited_for_and_named(path: Path) -> None:
    out = Recorder()
    async with opened(SqliteSink(path)) as sink:
        await feed(sink, [alert(1)])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            sink.execute(alert(2), out)
            await until(lambda: "retry 5" in sink.away)
            assert "locked by another program (SQLITE_BUSY)" in sink.away
            assert not out.failed
        await until(lambda: len(out.acked) == 1)
    assert not out.failed


async def test_f46_rows_that_a_constraint_refuses_are_bisected_out(path: Path) -> None:
    sql(path, "CREATE TABLE alert (source_ip TEXT NOT NULL, failures INTEGER NOT NULL CHECK (failures % 100 <> 7), "
              "at TEXT, key BLOB NOT NULL PRIMARY KEY) STRICT")  # fmt: skip
    tuples = [alert(n) for n in range(1, 1001)]
    bad = [t for t in tuples if t.record.failures % 100 == 7]
    async with opened(SqliteSink(path, batch=500)) as sink:
        out = await feed(sink, tuples)
        assert set(out.failed) == {id(t) for t in bad}
        assert len(out.acked) == 990
        assert (sink.stored, sink.refused, sink.duplicates, sink.divergent) == (990, 10, 0, 0)
        for t in bad:
            assert "SQLITE_CONSTRAINT_CHECK" in out.failed[id(t)]
            assert f"failures={t.record.failures}" in out.failed[id(t)]
    assert {row["failures"] for row in sqlite_rows(path)} == {t.record.failures for t in tuples} - {
        t.record.failures for t in bad
    }


async def test_c9_a_bad_row_that_is_twice_in_a_batch_fails_twice(path: Path) -> None:
    sql(path, "CREATE TABLE alert (source_ip TEXT NOT NULL, failures INTEGER NOT NULL CHECK (failures < 3), at TEXT, "
              "key BLOB NOT NULL PRIMARY KEY) STRICT")  # fmt: skip
    tuples = [alert(1), alert(5), alert(2), alert(5)]
    out = await stored(SqliteSink(path), tuples)
    assert set(out.failed) == {id(tuples[1]), id(tuples[3])}


@pytest.mark.parametrize("action", ["ABORT", "FAIL", "ROLLBACK"])
async def test_f46_a_row_that_a_trigger_refuses_fails_alone(path: Path, action: str) -> None:
    await stored(SqliteSink(path), [alert(1000)])
    sql(path, f"CREATE TRIGGER no BEFORE INSERT ON alert WHEN new.failures = 50 "
              f"BEGIN SELECT RAISE({action}, 'not fifty'); END")  # fmt: skip
    tuples = [alert(n) for n in range(1, 101)]
    out = await stored(SqliteSink(path), tuples)
    assert list(out.failed) == [id(tuples[49])]
    assert "not fifty" in out.failed[id(tuples[49])]
    assert len(sqlite_rows(path)) == 100


async def test_f46_a_unique_index_of_the_users_fails_the_second_row_alone(path: Path) -> None:
    await stored(SqliteSink(path), [alert(1, "a")])
    sql(path, "CREATE UNIQUE INDEX one ON alert (source_ip)")
    again, other = alert(2, "a"), alert(3, "b")
    out = await stored(SqliteSink(path), [again, other])
    assert "SQLITE_CONSTRAINT_UNIQUE" in out.failed[id(again)]
    assert out.is_acked(other)


@pytest.mark.parametrize(
    ("harm", "said", "repair"),
    [
        ("DROP TABLE alert", "was dropped", SqliteTable(Alert).create),
        ("ALTER TABLE alert RENAME failures TO n", "no column 'failures'", "ALTER TABLE alert RENAME n TO failures"),
        ("ALTER TABLE alert RENAME TO old", "was dropped", "ALTER TABLE old RENAME TO alert"),
        (
            "DROP TABLE alert; CREATE TABLE alert (source_ip INTEGER, failures INTEGER, at TEXT, key BLOB PRIMARY KEY)",
            "'source_ip' is INTEGER, and TEXT is wanted",
            "DROP TABLE alert;" + SqliteTable(Alert).create,
        ),
    ],
    ids=["dropped", "column renamed", "renamed", "of other types"],
)  # fmt: skip
async def test_f47_a_table_altered_meanwhile_fails_its_rows_until_it_is_repaired(
    path: Path, harm: str, said: str, repair: str
) -> None:
    async with opened(SqliteSink(path)) as sink:
        await feed(sink, [alert(1), tup(Sample("s", 1.0), 2)])
        sql(path, harm)
        bad, neighbour = alert(3), tup(Sample("t", 1.0), 4)
        out = await feed(sink, [bad, neighbour])
        assert said in out.failed[id(bad)]
        assert out.is_acked(neighbour), "another table's rows go on"
        sql(path, repair)
        out = await feed(sink, [bad])
        assert out.is_acked(bad)
        assert 3 in {row["failures"] for row in sqlite_rows(path, "alert")}


async def test_f47_a_broken_trigger_fails_the_batch_and_it_resumes(path: Path) -> None:
    async with opened(SqliteSink(path)) as sink:
        await feed(sink, [alert(1)])
        sql(path, "CREATE TRIGGER t AFTER INSERT ON alert BEGIN INSERT INTO audit VALUES (new.failures); END")
        out = await feed(sink, [alert(2)])
        assert "no such table: main.audit" in next(iter(out.failed.values()))
        sql(path, "CREATE TABLE audit (n)")
        assert len((await feed(sink, [alert(2)])).acked) == 1


async def test_two_classes_that_want_one_table_name_are_told_apart(path: Path) -> None:
    other = msgspec.defstruct("Alert", [("x", int)], bases=(Record,), frozen=True, array_like=True, gc=False)
    bad = tup(other(1), 2)  # type: ignore[arg-type]
    out = await stored(SqliteSink(path), [alert(1), bad])
    assert "table 'alert' holds sink_kit.Alert" in out.failed[id(bad)]


async def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    with pytest.raises(ConfigurationError, match="too old for STRICT"):
        async with opened(SqliteSink(path)):
            pass
