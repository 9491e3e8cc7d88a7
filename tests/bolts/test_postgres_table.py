"""PostgreSQL tables of record classes, without a server: identifiers are validated and quoted, values are never in SQL
(S10); whose fault an error is; a client that is not installed.
"""

import re
import sys
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sink_kit import Alert, alert, opened

from bolts import PostgresSink
from bolts.sinks.postgres.errors import Fault, fault_of, loses_connection
from bolts.sinks.postgres.table import NAME_BYTES_MAX, PostgresTable, checked_name, quoted
from bolts.sinks.upsert import Upsert
from topology.errors import ConfigurationError
from topology.records import Record

QUOTED = re.compile(r'"(?:[^"]|"")*"')


@given(st.text(min_size=1).filter(lambda text: "\0" not in text))
def test_s10_whatever_a_name_is_it_is_one_identifier(name: str) -> None:
    made = quoted(name)
    assert QUOTED.fullmatch(made)
    assert made[1:-1].replace('""', '"') == name


@given(st.text())
def test_s10_a_table_is_called_by_an_identifier_that_the_server_does_not_cut_or_it_is_refused(name: str) -> None:
    try:
        assert checked_name(name, "table") == name
    except ConfigurationError:
        return
    assert name.isidentifier()
    assert len(name.encode()) <= NAME_BYTES_MAX


@pytest.mark.parametrize(
    "name", ['a"; drop table x;--', "a b", "", "1a", "a" * 64, "ü" * 32, "pg_class", "PG_x", "a.b"]
)
def test_s10_names_that_are_none_are_refused(name: str) -> None:
    for settings in ({"table": name}, {"schema": name}):
        with pytest.raises(ConfigurationError, match="can't be a"):
            PostgresSink("postgresql://", **settings)


@given(st.lists(st.from_regex(r"_?[a-zA-Z][a-zA-Z0-9_]{0,20}", fullmatch=True), min_size=1, max_size=5, unique=True))
def test_s10_statements_have_each_field_quoted_and_one_parameter(fields: list[str]) -> None:
    cls: Any = msgspec.defstruct("Made", [(field, int) for field in fields], bases=(Record,), frozen=True)
    try:
        table = PostgresTable(cls)
    except ConfigurationError:
        assert {"xmin", "xmax", "cmin", "cmax", "ctid", "tableoid"} & set(fields)
        return
    outside = QUOTED.sub("", table.insert)
    assert outside.count("$") == 1
    assert all(f'"{field}"' in table.insert and f'"{field}" bigint NOT NULL' in table.create for field in fields)


@pytest.mark.parametrize("upsert", [None, Upsert(("source_ip",), "failures")], ids=["append", "upsert"])
def test_c10_a_row_whose_key_is_there_is_skipped_by_the_statement_itself(upsert: Upsert | None) -> None:
    """A look before the insert would miss the row of another task, or of a commit whose answer was lost."""
    table = PostgresTable(Alert, upsert=upsert)
    (key,) = table.key
    wanted = "DO NOTHING" if upsert is None else "DO UPDATE SET"
    assert f'ON CONFLICT ("{key}") {wanted}' in table.insert


def test_s10_values_are_in_the_parameter_and_nowhere_else() -> None:
    table = PostgresTable(Alert)
    (row,) = table.rows([alert(1, "'; DROP TABLE alert; --")])
    assert "DROP" in table.batch([row])
    assert "DROP" not in table.insert


@pytest.mark.parametrize("field", ["xmin", "ctid", "tableoid", "f" * 64, "ü" * 32])
def test_a_field_that_the_server_has_no_name_for_is_refused(field: str) -> None:
    cls: Any = msgspec.defstruct("Made", [(field, int)], bases=(Record,), frozen=True)
    with pytest.raises(ConfigurationError, match="can't be a column"):
        PostgresTable(cls)


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        *[("22003", Fault.ROW), ("23505", Fault.ROW), ("23514", Fault.ROW), ("22P05", Fault.ROW), ("P0001", Fault.ROW)],
        *[("KE001", Fault.ROW), ("54000", Fault.ROW), ("44000", Fault.ROW), ("40002", Fault.ROW)],
        *[("42P01", Fault.TABLE), ("42703", Fault.TABLE), ("42804", Fault.TABLE), ("0A000", Fault.TABLE)],
        *[("40001", Fault.AWAY), ("40P01", Fault.AWAY), ("57014", Fault.AWAY), ("57P01", Fault.AWAY)],
        *[("53100", Fault.AWAY), ("53300", Fault.AWAY), ("55P03", Fault.AWAY), ("25006", Fault.AWAY)],
        *[("42501", Fault.AWAY), ("58030", Fault.AWAY), ("XX001", Fault.AWAY), ("08006", Fault.AWAY)],
    ],
)
def test_whose_fault_an_error_is_goes_by_its_sqlstate(state: str, fault: Fault) -> None:
    error = type("Made", (psycopg.Error,), {"sqlstate": state})()
    assert fault_of(error) is fault
    assert loses_connection(error) == (state[:2] in ("08", "25", "58", "XX") or state == "57P01")


def test_an_error_without_a_state_is_the_lines() -> None:
    assert fault_of(psycopg.OperationalError("gone")) is Fault.AWAY
    assert loses_connection(psycopg.OperationalError("gone"))
    assert fault_of(psycopg.DataError("a NUL")) is Fault.ROW


async def test_a_client_that_is_not_installed_is_said_when_the_sink_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = PostgresSink("postgresql://")
    for name in [name for name in sys.modules if name == "psycopg" or name.startswith(("psycopg.", "bolts.postgres_"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match="needs psycopg") as error:
        async with opened(sink):
            raise AssertionError("opened")
    assert error.value.code is not None
    assert error.value.code.name == "K352"
