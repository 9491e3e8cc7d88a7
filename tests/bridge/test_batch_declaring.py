"""`batch_joined`: what it declares and refuses, and what a task of its job writes. Spark itself is not started."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")
pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")

import pyarrow as pa

from bridge import Spark, Table, batch_joined
from bridge.driver.job_results import ResultWriter, Staged
from bridge.files.history import Keeping
from bridge.files.query import QueryFolder
from bridge.queries.batch_joins import BatchJoin
from bridge.queries.driver_spec import Spec, function_of
from bridge.queries.query import pickled
from spouts import Items
from topology import ConfigurationError, Record, Topology


class Seen(Record):
    number: int
    key: str


class Order(Record):
    key: str
    item: str


class Numbers(Record):
    key: int


class Ordered(Record):
    number: int
    item: str | None
    cut: int


class Maybe(Record):
    key: str
    item: str | None


class Strict(Record):
    number: int
    item: str


def declare(**changes: Any) -> Topology:
    topology = Topology("t")
    seen = topology.spout("seen", Items([Seen(1, "a")]))
    orders = topology.spout("orders", Items([Order("a", "x")]))
    given: dict[str, Any] = {"on": "key", "other": orders, "output": Ordered, "revision": "cut", "how": "left"}
    if changes.get("other") == "maybe":
        changes["other"] = topology.spout("maybe", Items([Maybe("a", None)]))
    if changes.get("other") == "numbers":
        changes["other"] = topology.spout("numbers", Items([Numbers(1)]))
    batch_joined(topology, "ordered", seen, **{**given, **changes})
    return topology


def test_a_batch_join_hands_both_streams_over_and_is_told_to_the_driver_with_what_it_keeps(tmp_path: Path) -> None:
    topology = declare(tasks=2, every="1 hour", retention="2 days", retention_bytes=5)
    names = [(one.kind, one.name, one.tasks) for one in topology.components[2:]]
    assert names == [("bolt", "ordered-records", 2), ("bolt", "ordered-other", 2), ("spout", "ordered", 1)]
    assert {one.place.file for one in topology.components} == {__file__}
    spark = topology.companions[0]
    assert isinstance(spark, Spark)
    one = Spec.of_bytes(spark.launch(tmp_path).given).queries[0]
    assert [*one.inputs] == ["records", "other"]
    job = function_of(one.function)
    assert job == BatchJoin(None, ("key",), "left", ("number", "item"), Keeping(3600, 172_800, 5))


def test_a_history_is_bounded_where_nothing_is_said_and_a_function_of_the_users_goes_with_the_job() -> None:
    topology = declare(other=None, table=Table(lambda session: "users own"))
    spark = topology.companions[0]
    assert isinstance(spark, Spark)
    job: Any = spark.queries[0].function
    assert job.keeping == Keeping(0, 7 * 86_400, 10 * 2**30)
    assert b"users own" in pickled(job, "q")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"other": None}, r"pass either table=Table\(…\) or other=stream"),
        ({"table": Table("owners.csv")}, r"pass either table=Table\(…\) or other=stream"),
        ({"other": None, "table": "owners.csv"}, r"table must be a Table\(path or function\)"),
        ({"other": None, "table": Table("o.csv", refresh="1 hour")}, "each job reads the table again"),
        ({"on": ()}, "on must name one or more columns"),
        ({"on": "ip"}, "Seen has no field 'ip'; it has number, key"),
        ({"on": ("key", "number")}, "Order has no field 'number'; it has key, item"),
        ({"other": "numbers"}, "Seen.key is string, and Numbers.key is int64: they are never equal"),
        ({"how": "outer"}, "how='outer' must be one of inner, left"),
        ({"every": "often"}, "every='often' is not a span"),
        ({"retention": ""}, "retention='' is not a span"),
        ({"retention": "0 days"}, "retention='0 days' is not a span"),
        ({"retention_bytes": 0}, "retention_bytes=0 must be a whole number"),
        ({"revision": ""}, "Ordered.cut is a field of neither Seen nor Order"),
        ({"output": Strict, "revision": ""}, "Strict.item is None if Order has no row: declare it as `… | None`"),
        (
            {"other": "maybe", "output": Strict, "revision": "", "how": "inner"},
            r"Maybe\.item may be None, but Strict\.item may not: declare it as `… \| None`",
        ),
        (
            {"other": None, "table": Table("owners.csv"), "output": Strict, "revision": ""},
            r"Strict\.item is None if the table has no row: declare it as `… \| None`",
        ),
    ],
)
def test_what_can_not_be_joined_is_refused_with_the_reason(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"batch_joined 'ordered': {why}"):
        declare(**changes)


def test_what_is_no_stream_is_refused_as_for_every_query() -> None:
    with pytest.raises(ConfigurationError, match="input 'other' is not a stream"):
        declare(other=3)


# -- what a task of the job writes


def writer(folder: Path, rows_max: int = 4) -> ResultWriter:
    wanted = pa.schema([pa.field("number", pa.int64(), nullable=False)])
    return ResultWriter(str(folder), wanted, ["number", "cut"], "cut", 7, rows_max)


def rows(*numbers: int | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int64())})


def told(made: ResultWriter, *batches: pa.RecordBatch) -> list[dict[str, Any]]:
    return [row for one in made(batches) for row in one.to_pylist()]


def test_rows_are_written_in_files_that_are_bounded_with_the_number_of_their_job(tmp_path: Path) -> None:
    found = told(writer(tmp_path), rows(*range(3)), rows(), rows(*range(3, 13)), rows(13))
    assert sum(one["rows"] for one in found) == 14
    assert max(one["rows"] for one in found) <= 4
    tables = [pa.ipc.open_file(pa.OSFile(str(tmp_path / one["name"]))).read_all() for one in found]
    assert [row for table in tables for row in table.to_pylist()] == [{"number": one, "cut": 7} for one in range(14)]
    assert told(writer(tmp_path)) == []


def test_what_does_not_fit_and_a_disk_without_room_are_told_and_not_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [one["misfit"] for one in told(writer(tmp_path), rows(1, None))] == [
        "'number' is NULL in 1 of 2 rows; declare it as `… | None`"
    ]

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert [one["room"] for one in told(writer(tmp_path), rows(1))] == ["No space left on device"]


def test_results_of_another_job_than_the_present_one_are_not_its_own(tmp_path: Path) -> None:
    staged = Staged(QueryFolder(tmp_path))
    folder = staged.begin()
    (folder / "a.arrow").write_bytes(b"rows")
    staged.settle(3, [f"{folder.name}/a.arrow"])
    assert staged.settled(2) is None
    assert staged.settled(3) == [f"{folder.name}/a.arrow"]
    staged.publish(5, [f"{folder.name}/a.arrow"])
    staged.publish(5, [f"{folder.name}/a.arrow"])
    assert QueryFolder(tmp_path).batches() == [5]
    staged.begin()
    assert staged.settled(3) is None
