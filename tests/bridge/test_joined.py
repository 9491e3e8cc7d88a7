"""`joined`: a stream with a table at rest, in Spark; the table read again; and what it refuses."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")
pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")

import pyarrow as pa
import pyarrow.parquet as pq
from queries_kit import Queries
from spark_kit import needs_spark

from bridge import Spark, Table, joined
from bridge.errors import UserError
from bridge.queries.joins import JoinQuery
from bridge.queries.query import pickled
from spouts import Items
from topology import ConfigurationError, Record, Topology

pytestmark = pytest.mark.timeout(300)

OWNERS = {"ip0": "mail", "ip1": "shop"}


class Seen(Record):
    number: int
    source_ip: str


class Known(Record):
    number: int
    source_ip: str
    owner: str | None


def seen(numbers: range) -> list[Seen]:
    return [Seen(one, f"ip{one % 3}") for one in numbers]


def by_number(results: list[Known]) -> dict[int, str | None]:
    assert len({one.number for one in results}) == len(results), "a record has two results"
    return {one.number: one.owner for one in results}


def expected(numbers: range, owners: dict[str, str]) -> dict[int, str | None]:
    return {one: owners.get(f"ip{one % 3}") for one in numbers}


def write_parquet(path: Path, owners: dict[str, Any], key: str = "source_ip") -> None:
    rows = {key: [*owners], "owner": [*owners.values()], "number": [-1] * len(owners)}
    beside = path.with_name("new")
    pq.write_table(pa.table(rows), beside)
    beside.replace(path)


def write_csv(path: Path, owners: dict[str, str]) -> None:
    path.write_text("\n".join(["source_ip,owner", *(f"{ip},{owner}" for ip, owner in owners.items())]) + "\n")


def write_lines(path: Path, owners: dict[str, str]) -> None:
    path.write_text("".join(json.dumps({"source_ip": ip, "owner": own}) + "\n" for ip, own in owners.items()))


@pytest.fixture
def queries(session: Any, tmp_path: Path) -> Iterator[Queries]:
    made = Queries(session, tmp_path / "query", Seen, Known)
    yield made
    for one in session.streams.active:
        one.stop()


def join(table: Table, how: str = "left", types: Any = None) -> JoinQuery:
    return JoinQuery(table, ("source_ip",), how, ("number", "source_ip", "owner"), types or {})


@needs_spark
@pytest.mark.parametrize(
    ("name", "write"), [("owners.parquet", write_parquet), ("owners.csv", write_csv), ("owners.jsonl", write_lines)]
)
def test_a_record_has_the_columns_of_its_row_and_none_where_there_is_none(
    queries: Queries, tmp_path: Path, name: str, write: Any
) -> None:
    write(tmp_path / name, OWNERS)
    queries.input.put(seen(range(50)))
    queries.input.put(seen(range(50, 90)), task=1)
    queries.input.end()
    queries.to_its_end(queries.begin(join(Table(tmp_path / name))))
    assert by_number(queries.results()) == expected(range(90), OWNERS)
    assert queries.said[0] == "the table has 2 rows"


@needs_spark
def test_a_table_is_read_again_and_stays_as_it_was_where_it_can_not_be(queries: Queries, tmp_path: Path) -> None:
    path = tmp_path / "owners.parquet"
    write_parquet(path, OWNERS)
    table = Table(path, refresh="1 second")
    table.refresh_s = 0.0  # with each batch
    running = queries.begin(join(table))
    changes = (
        lambda: None,
        lambda: path.write_text("no table"),
        lambda: write_parquet(path, OWNERS, "addresses"),  # of another version, or half of it
        lambda: write_parquet(path, dict.fromkeys(OWNERS, 7)),
        new_owner(path),
    )
    for at, change in enumerate(changes):
        change()
        part = range(10 * at, 10 * at + 10)
        before = len(queries.results())
        queries.input.put(seen(part))
        queries.until(running, lambda before=before: len(queries.results()) > before)  # type: ignore[misc]
    queries.input.end()
    queries.to_its_end(running)
    found = by_number(queries.results())
    assert found == expected(range(40), OWNERS) | expected(range(40, 50), {**OWNERS, "ip2": "new"})
    said = dict.fromkeys(one for one in queries.said if "could not be read again and stays as it was" in one)
    _, missing, kind = (one.partition("as it was: ")[2] for one in said)
    assert "the table has no column 'source_ip'; it has addresses, owner, number" in missing
    assert "'owner' is int64 now, but string is declared" in kind


def new_owner(path: Path) -> Any:
    return lambda: write_parquet(path, {**OWNERS, "ip2": "new"})


@needs_spark
def test_columns_of_a_csv_file_are_what_is_declared_and_those_that_nobody_wants_may_be_called_anything(
    queries: Queries, tmp_path: Path
) -> None:
    """All keys and owners look like numbers today, and 007 is not 7; the others would be ambiguous, or parts of one."""
    path = tmp_path / "owners.csv"
    path.write_text("source_ip,owner,Number,host.name,a`b\n007,01,x,y,z\n7,2,x,y,z\n")
    keys = ("007", "7", "07")
    queries.input.put([Seen(one, keys[one % 3]) for one in range(9)])
    queries.input.end()
    query = declare(table=Table(path))
    queries.to_its_end(queries.begin(query))
    owners = {"007": "01", "7": "2"}
    assert by_number(queries.results()) == {one: owners.get(keys[one % 3]) for one in range(9)}


@needs_spark
def test_a_function_may_give_the_table_and_inner_drops_what_it_does_not_have(queries: Queries) -> None:
    def owners(session: Any) -> Any:
        return session.createDataFrame([*OWNERS.items()], "source_ip string, owner string")

    queries.input.put(seen(range(30)))
    queries.input.end()
    queries.to_its_end(queries.begin(join(Table(owners), how="inner")))
    assert by_number(queries.results()) == {n: own for n, own in expected(range(30), OWNERS).items() if own is not None}


@needs_spark
def test_a_table_that_is_not_there_or_lacks_a_column_is_told_when_the_query_begins(
    queries: Queries, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="PATH_NOT_FOUND"):
        queries.begin(join(Table(tmp_path / "none.csv")))
    write_csv(tmp_path / "other.csv", {})
    (tmp_path / "other.csv").write_text("address,owner\nip0,mail\n")
    with pytest.raises(UserError, match="the table has no column 'source_ip'; it has address, owner"):
        queries.begin(join(Table(tmp_path / "other.csv")))
    (tmp_path / "numbers.jsonl").write_text('{"source_ip": 7, "owner": "mail"}\n')
    with pytest.raises(UserError, match="the stream's 'source_ip' is string, but the table's is bigint"):
        queries.begin(join(Table(tmp_path / "numbers.jsonl")))


@needs_spark
def test_a_function_that_gives_no_table_is_told_when_the_query_begins(queries: Queries) -> None:
    stream = queries.session.readStream.format("rate").load()
    for given, what in ((None, "a NoneType"), (["ip0"], "a list"), (stream, "a stream")):
        with pytest.raises(UserError, match=f"the function for the table returns {what}; it must return a DataFrame"):
            queries.begin(join(Table(lambda session, given=given: given)))  # type: ignore[misc]


def test_a_function_of_the_users_goes_to_the_driver_with_the_join() -> None:
    assert b"users own" in pickled(join(Table(lambda session: "users own")), "q")


# -- what is refused, when it is declared


class Other(Record):
    source_ip: str
    at: datetime


class Strict(Record):
    number: int
    owner: str


class Named(Record):
    number: str
    source_ip: str


def declare(**changes: Any) -> Any:
    """The query that is declared."""
    topology = Topology("t")
    stream = topology.spout("seen", Items(seen(range(1))))
    given = {"table": Table("owners.csv"), "on": "source_ip", "output": Known, **changes}
    joined(topology, "known", stream, **given)
    spark = topology.companions[0]
    assert isinstance(spark, Spark)
    return spark.queries[0].function


def test_a_join_is_declared_with_a_path_that_is_that_of_the_run() -> None:
    declare()
    assert Table("owners.csv").path == str(Path("owners.csv").absolute())
    assert Table("s3a://bucket/owners", format="parquet").path == "s3a://bucket/owners"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"table": "owners.csv"}, r"table must be a Table\(path or function\)"),
        ({"on": "ip"}, "Seen has no field 'ip'; it has number, source_ip"),
        ({"on": ()}, "on must name one or more columns"),
        ({"how": "outer"}, "how='outer' must be one of inner, left"),
        ({"output": Strict}, "Strict.owner is None if the table has no row: declare it as `… | None`"),
        ({"output": Named}, "Named.number is string, but the stream has int64"),
    ],
)
def test_what_can_not_be_joined_is_refused_with_the_reason(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        declare(**changes)


def test_a_table_of_unknown_form_and_a_refresh_that_is_no_span_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"or a name that ends in \.parquet"):
        Table("owners")
    with pytest.raises(ConfigurationError, match="refresh='often' is not a span"):
        Table("owners.csv", refresh="often")
    with pytest.raises(ConfigurationError, match="7 is neither a path nor a function"):
        Table(7)  # type: ignore[arg-type]
