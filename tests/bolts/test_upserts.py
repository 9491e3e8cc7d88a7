"""Upsert mode: what a user may ask for, and what its tables and rows are like (C8, C9, S10)."""

import enum
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sink_kit import feed, opened, sqlite_rows, stored, tup

from bolts import JsonLinesSink, SqliteSink
from bolts.sinks.sqlite.table import SqliteTable, row_lines
from bolts.sinks.upsert import Upsert
from topology.errors import ConfigurationError
from topology.records import Record


class Colour(enum.Enum):
    RED = "red"


class Score(Record):
    player: str
    game: Literal["chess", "go"]
    points: int
    at: datetime
    real: float = 0.0
    maybe: int | None = None
    money: Decimal = Decimal(0)
    colour: Colour = Colour.RED


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
BY_PLAYER: dict[str, Any] = {"mode": "upsert", "key": ("player", "game"), "revision": "at"}


def score(player: str, points: int, minutes: int, number: int = 1) -> Any:
    return tup(Score(player, "go", points, NOON + timedelta(minutes=minutes)), number * 1_000 + minutes)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mode": "merge"}, "mode is 'append' or 'upsert', not 'merge'"),
        ({"key": ("player",)}, "belong to mode='upsert'"),
        ({"revision": "points"}, "belong to mode='upsert'"),
        ({"mode": "upsert", "revision": "points"}, r"needs key=\(…\)"),
        ({"mode": "upsert", "key": "player", "revision": "points"}, r"needs key=\(…\)"),
        ({"mode": "upsert", "key": ("player",)}, "needs revision='…'"),
        ({"mode": "upsert", "key": ("player", "player"), "revision": "points"}, "name a field twice"),
        ({"mode": "upsert", "key": ("player",), "revision": "player"}, "name a field twice"),
        ({"mode": "upsert", "key": ("playr",), "revision": "points"}, "no field 'playr' .*; did you mean 'player'"),
        ({"mode": "upsert", "key": ("real",), "revision": "points"}, "Score.real can't be part of a key"),
        ({"mode": "upsert", "key": ("maybe",), "revision": "points"}, "Score.maybe can't be part of a key"),
        ({"mode": "upsert", "key": ("money",), "revision": "points"}, "Score.money can't be part of a key"),
        ({"mode": "upsert", "key": ("player",), "revision": "real"}, "Score.real can't be the revision"),
        ({"mode": "upsert", "key": ("player",), "revision": "maybe"}, "Score.maybe can't be the revision"),
    ],
    ids=str,
)
def test_what_can_t_be_upserted_so_is_one_sentence_from_the_constructor(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        SqliteSink("x.db", records=(Score,), **wrong)


def test_a_file_of_lines_has_no_upserts() -> None:
    with pytest.raises(ConfigurationError, match="lines are appended") as raised:
        JsonLinesSink("x.jsonl", mode="upsert")
    assert "SqliteSink" in raised.value.next


async def test_a_class_that_lacks_the_key_fails_its_rows_alone(tmp_path: Path) -> None:
    class Other(Record):
        text: str

    async with opened(SqliteSink(tmp_path / "x.db", **BY_PLAYER)) as sink:
        out = await feed(sink, [score("ann", 1, 1), tup(Other("a"), 7), score("ann", 2, 2)])
    assert (len(out.acked), [*out.failed.values()]) == (2, ["Other has no field 'player' for upsert mode"])


async def test_the_table_has_the_users_fields_as_its_primary_key_and_no_other_column(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await stored(SqliteSink(path, **BY_PLAYER), [score("ann", 1, 1), score("bob", 2, 1), score("ann", 3, 2)])
    with closing(sqlite3.connect(path)) as connection:
        columns = {row[1]: row[5] for row in connection.execute("PRAGMA table_xinfo(score)")}
    assert {name for name, place in columns.items() if place} == {"player", "game"}
    assert set(columns) == {field.name for field in msgspec.structs.fields(Score)}
    assert {row["player"]: row["points"] for row in sqlite_rows(path)} == {"ann": 3, "bob": 2}


async def test_an_append_table_is_not_taken_for_an_upsert_one_nor_the_other_way_round(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await stored(SqliteSink(path), [score("ann", 1, 1)])
    with pytest.raises(ConfigurationError, match="'player' is not part of the primary key"):
        async with opened(SqliteSink(path, records=(Score,), **BY_PLAYER)):
            pass
    await stored(SqliteSink(path, table="best", **BY_PLAYER), [score("ann", 1, 1)])
    with pytest.raises(ConfigurationError, match="has no column 'key'"):
        async with opened(SqliteSink(path, table="best", records=(Score,))):
            pass


async def test_what_is_stored_replaced_and_passed_over_is_counted(tmp_path: Path) -> None:
    async with opened(SqliteSink(tmp_path / "x.db", **BY_PLAYER)) as sink:
        await feed(sink, [score("ann", 1, 5), score("ann", 2, 6), score("ann", 9, 3), score("ann", 2, 6)])
        assert (sink.stored, sink.duplicates, sink.divergent) == (2, 2, 0)


async def test_b2_two_contents_of_one_revision_are_named_by_their_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(SqliteSink(tmp_path / "x.db", **BY_PLAYER)) as sink:
        await feed(sink, [score("ann", 1, 5), score("ann", 2, 5, number=2)])
    assert "1 outputs have the key and revision of a stored one and another content" in caplog.text
    assert "('ann', 'go')" in caplog.text
    assert [row["points"] for row in sqlite_rows(tmp_path / "x.db")] == [1]


async def test_f46_a_constraint_refuses_a_replacement_and_the_row_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await stored(SqliteSink(path, **BY_PLAYER), [score("ann", 1, 1)])
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TRIGGER no BEFORE UPDATE ON score WHEN new.points = 13 BEGIN SELECT RAISE(ABORT, 'unlucky'); END"
        )
    out = await stored(SqliteSink(path, **BY_PLAYER), [score("ann", 13, 2), score("bob", 5, 1), score("ann", 4, 1)])
    assert (len(out.acked), len(out.failed)) == (2, 1)
    assert "unlucky" in next(iter(out.failed.values()))
    assert {row["player"]: row["points"] for row in sqlite_rows(path)} == {"ann": 1, "bob": 5}


async def test_a_broken_trigger_of_the_users_fails_the_rows_and_is_not_taken_for_a_store_that_is_away(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.db"
    await stored(SqliteSink(path, **BY_PLAYER), [score("ann", 1, 1)])
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TRIGGER no AFTER INSERT ON score BEGIN INSERT INTO audit VALUES (new.player); END"
        )
    out = await stored(SqliteSink(path, **BY_PLAYER), [score("bob", 5, 1)])
    assert "audit" in next(iter(out.failed.values()))


async def test_the_newest_rows_are_told_by_their_revision(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await stored(SqliteSink(path, **BY_PLAYER), [score("ann", 1, 1), score("bob", 2, 2), score("ann", 3, 3)])
    lines = [*row_lines(path, "x.db", [SqliteTable(Score, None, Upsert(("player", "game"), "at"))])]
    assert [line.split()[0] for line in lines[1:]] == ["player", "bob", "ann"]


NAMES = st.one_of(
    st.sampled_from(["select", "key", "_key", "rowid", "excluded", "values", "größe", "table", "where"]),
    st.text(min_size=1, max_size=12).filter(str.isidentifier),
)


@settings(max_examples=100, deadline=None)
@given(
    names=st.lists(NAMES, min_size=3, max_size=3, unique_by=str.lower), table=st.sampled_from(["select", "x", "key"])
)
def test_s10_whatever_fields_are_called_the_key_and_the_revision_mean_these(names: list[str], table: str) -> None:
    key, revision, rest = names
    cls = msgspec.defstruct("Named", [(key, str), (revision, int), (rest, str)], bases=(Record,), array_like=True)
    made = SqliteTable(cls, table, Upsert((key,), revision))
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE witness (x)")
        connection.execute(made.create)
        for number, content in ((2, "second"), (3, "third"), (1, "first")):
            connection.execute(made.insert, *made.rows([tup(cls("a", number, content))]))
        assert connection.execute(made.known, ("a",)).fetchall() == [("a", 3, "third")]
        columns = connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
        assert [(found[1], bool(found[5])) for found in columns] == [(key, True), (revision, False), (rest, False)]
        assert made.differences(columns) == []
        assert connection.execute("SELECT count(*) FROM witness").fetchone() == (0,)
