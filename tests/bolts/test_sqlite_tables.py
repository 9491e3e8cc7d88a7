"""The tables that `SqliteSink` makes or finds: columns, names, identifiers (S10), and what does not fit."""

# ruff: noqa: ASYNC240  # tests look at files on the loop: nothing else runs on it

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sink_kit import Alert, Sample, alert, feed, opened, sqlite_rows, stored, tup

from bolts import SqliteSink
from bolts.sinks.sqlite.table import snake_case
from topology.errors import ConfigurationError
from topology.records import Record


class BruteForce(Record):
    source_ip: str
    failures: int
    first_at: datetime
    last_at: datetime


class Sought(Record):
    least: int
    most: int


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alerts.db"


def sql(path: Path, statements: str) -> None:
    """What an operator does with another connection."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)


def schema(path: Path, table: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return [info[1:4] for info in connection.execute(f'PRAGMA table_info("{table}")')]


async def test_no_name_of_a_statement_hides_a_table(path: Path) -> None:
    """Also those of the pairs that are looked for, and of their bounds."""
    rows = [tup(Sought(number, 2), number) for number in range(1, 4)]
    async with opened(SqliteSink(path)) as sink:
        for _ in range(2):
            out = await feed(sink, rows)
            assert (len(out.acked), out.failed) == (3, {})
        assert (sink.stored, sink.duplicates) == (3, 3)


async def test_a_table_is_made_from_the_records_fields_and_is_strict(path: Path) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    await stored(SqliteSink(path), [tup(BruteForce("192.0.2.1", 5, at, at))])
    assert schema(path, "brute_force") == [
        ("source_ip", "TEXT", 1),
        ("failures", "INTEGER", 1),
        ("first_at", "TEXT", 1),
        ("last_at", "TEXT", 1),
        ("key", "BLOB", 1),
    ]
    with closing(sqlite3.connect(path)) as connection:
        (strict,) = connection.execute("SELECT strict FROM pragma_table_list('brute_force')").fetchone()
    assert strict == 1
    (row,) = sqlite_rows(path)
    assert row["first_at"] == "2026-01-02T03:04:05.000006Z"


async def test_each_field_type_has_its_column_type(path: Path) -> None:
    class Color(Enum):
        RED = 1
        BLUE = 2

    class Mixed(Enum):
        ONE = 1
        TWO = "two"

    class Wide(Record):
        a: int
        b: float
        c: bool
        d: str
        e: bytes
        f: datetime
        g: Decimal
        h: Color
        i: Mixed
        j: Literal["x", "y"]
        k: int | None
        m: tuple[str, int]
        n: frozenset[str]
        o: Sample
        p: int | str
        q: tuple[Sample, ...] | None

    now = datetime(2026, 1, 1, tzinfo=UTC)
    values: tuple[Any, ...] = (1, 2.5, True, "d", b"\0", now, Decimal("1.10"), Color.BLUE, Mixed.TWO, "x", None)
    values += (("a", 1), frozenset("ba"), Sample("s", 1.0), "1", (Sample("t", 2.0),))
    record = Wide(*values)
    await stored(SqliteSink(path), [tup(record)])
    kinds = [f"{kind}{'' if not_null else '?'}" for _, kind, not_null in schema(path, "wide")]
    assert " ".join(kinds) == (
        "INTEGER REAL INTEGER TEXT BLOB TEXT TEXT INTEGER TEXT TEXT INTEGER? TEXT TEXT TEXT TEXT TEXT? BLOB"
    )
    (row,) = sqlite_rows(path)
    assert [row[name] for name in "cehijkmnopq"] == [
        1,
        b"\0",
        2,
        '"two"',
        "x",
        None,
        '["a",1]',
        '["a","b"]',
        '{"name":"s","value":1.0}',
        '"1"',
        '[{"name":"t","value":2.0}]',
    ]


@pytest.mark.parametrize(
    ("name", "table"),
    [("BruteForce", "brute_force"), ("HTTPRequest", "http_request"), ("A", "a"), ("Top10List", "top10_list")],
)
def test_a_table_is_called_after_its_class(name: str, table: str) -> None:
    assert snake_case(name) == table


@pytest.mark.parametrize("name", ["", "a b", 'a"b', "1a", "a;--", "sqlite_x", "SQLite_x", "a\0", "x" * 129, "a.b"])
def test_s10_a_table_name_that_is_no_identifier_is_refused(path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="can't be a table's name"):
        SqliteSink(path, table=name)


@settings(max_examples=60, deadline=None)
@given(
    fields=st.lists(
        st.one_of(
            st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,20}\Z"),
            st.text(min_size=1, max_size=12).filter(str.isidentifier),
            st.sampled_from(["select", "from", "table", "order", "rowid", "oid", "_rowid_", "key", "_key", "values"]),
        ),
        min_size=1,
        max_size=6,
        unique_by=str.lower,
    ),
    table=st.one_of(st.sampled_from(["select", "table", "größe", "order"]), st.from_regex(r"\A[a-z]{1,8}\Z")),
)
def test_s10_whatever_fields_are_called_each_value_is_in_the_column_of_its_name(fields: list[str], table: str) -> None:
    import keyword
    import tempfile

    # a class can't have a reserved word of Python's as a field by syntax, but by `defstruct` it can
    names = [name for name in fields if not keyword.iskeyword(name) or name == "from"]
    if not names:
        return
    cls = msgspec.defstruct("Odd", [(n, str) for n in names], bases=(Record,), frozen=True, array_like=True, gc=False)
    record = cls(*(f"value of {name}" for name in names))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "odd.db"
        out = asyncio.run(stored(SqliteSink(path, table=table), [tup(record), tup(record)]))  # type: ignore[arg-type]
        assert not out.failed
        (row,) = sqlite_rows(path, table)
    assert {name: row[name] for name in names} == {name: f"value of {name}" for name in names}


@given(name=st.text(min_size=1, max_size=20))
def test_s10_a_quoted_identifier_means_itself_alone(name: str) -> None:
    from bolts.sinks.sqlite.table import quoted

    if "\0" in name or any("\ud800" <= c <= "\udfff" for c in name):
        return  # no file could hold it, and no Python identifier has one
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE t ({quoted(name)} TEXT, other TEXT)")
        assert [info[1] for info in connection.execute("PRAGMA table_info(t)")] == [name, "other"]


async def test_s10_hostile_values_are_bound(path: Path) -> None:
    text = "'); DROP TABLE alert; --"
    await stored(SqliteSink(path), [alert(1, text)])
    assert [row["source_ip"] for row in sqlite_rows(path)] == [text]


def test_fields_that_differ_in_case_only_are_refused_by_the_constructor(path: Path) -> None:
    class Twice(Record):
        at: int
        At: int

    with pytest.raises(ConfigurationError, match="differ from 'at' in case only"):
        SqliteSink(path, records=(Twice,))


async def test_records_named_to_the_sink_have_tables_when_it_opens(path: Path) -> None:
    async with opened(SqliteSink(path, records=(BruteForce, Sample))):
        assert schema(path, "brute_force")
    assert schema(path, "sample")


async def test_one_table_for_several_classes_is_refused(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't hold several classes: BruteForce, Sample"):
        SqliteSink(path, table="rows", records=(BruteForce, Sample))
    good, bad = alert(1), tup(Sample("s", 1.0), 2)
    out = await stored(SqliteSink(path, table="rows"), [good, bad])
    assert out.is_acked(good)
    assert "table 'rows' holds sink_kit.Alert, and can't hold sink_kit.Sample too" in out.failed[id(bad)]


async def test_an_existing_table_that_does_not_fit_is_named_with_what_differs(path: Path) -> None:
    sql(path, "CREATE TABLE alert (source_ip INTEGER, at TEXT NOT NULL, note TEXT NOT NULL, key BLOB)")
    with pytest.raises(ConfigurationError) as raised:
        async with opened(SqliteSink(path, records=(Alert,))):
            pass
    said = str(raised.value)
    assert "table 'alert' in " in said
    assert "does not fit Alert: its column 'source_ip' is INTEGER, and TEXT is wanted" in said
    assert "it has no column 'failures' (INTEGER)" in said
    assert "its column 'at' is NOT NULL, and the field may be None" in said
    assert "its column 'note', which Alert does not have, must be given a value" in said
    assert "its column 'key' is not part of the primary key" in said
    out = await stored(SqliteSink(path), [alert(1)])
    assert "does not fit Alert" in next(iter(out.failed.values()))


async def test_a_users_further_column_and_index_are_left_alone(path: Path) -> None:
    await stored(SqliteSink(path), [alert(1)])
    sql(path, "ALTER TABLE alert ADD COLUMN note TEXT; CREATE INDEX by_ip ON alert (source_ip)")
    out = await stored(SqliteSink(path, records=(Alert,)), [alert(1), alert(2)])
    assert len(out.acked) == 2
    assert len(sqlite_rows(path)) == 2


async def test_a_view_of_that_name_is_refused(path: Path) -> None:
    sql(path, "CREATE VIEW alert AS SELECT 1 AS x")
    with pytest.raises(ConfigurationError, match="it is a view"):
        async with opened(SqliteSink(path, records=(Alert,))):
            pass


async def test_what_is_no_database_is_refused_and_left_as_it_was(path: Path) -> None:
    path.write_text("my notes, which are long enough to be taken for a header " * 20)
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="not a database"):
        async with opened(SqliteSink(path)):
            pass
    assert path.read_bytes() == before
