"""`spark_query`: what it declares, what it refuses, and what the driver is told. Spark itself is not started."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")
pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")

from bolts import Print
from bridge import Spark, spark_query
from bridge.arrow.schema import arrow_schema
from bridge.queries.driver_spec import Spec
from spouts import Items
from topology import ConfigurationError, Record, Topology
from topology.cli.companion_options import configure
from topology.codes.settings import INVALID_SPARK_MASTER
from topology.loading.load import load, target_of


class Given(Record):
    number: int


class Other(Record):
    text: str


class Found(Record):
    count: int


def query(given: Any) -> Any:
    return given


def declared() -> tuple[Topology, Any]:
    topology = Topology("t")
    return topology, topology.spout("given", Items([Given(1)]))


def test_a_query_is_a_hand_over_for_each_input_a_source_of_results_and_one_companion_for_all() -> None:
    topology, given = declared()
    found = spark_query(topology, "found", {"numbers": given}, query, output=Found, tasks=3)
    again = spark_query(topology, "again", {"found": found, "numbers": given}, query, output=Found, mode="update")
    topology.bolt("print", Print(), again.shuffle())
    names = [(one.kind, one.name, one.tasks) for one in topology.components]
    assert names == [
        ("spout", "given", 1),
        ("bolt", "found-numbers", 3),
        ("spout", "found", 1),
        ("bolt", "again-found", 1),
        ("bolt", "again-numbers", 1),
        ("spout", "again", 1),
        ("bolt", "print", 1),
    ]
    assert [one.name for one in topology.companions] == ["spark"]
    assert {one.place.file for one in topology.components} == {__file__}
    topology.validate()


def test_the_driver_is_told_of_all_queries_with_their_schemas_and_code(tmp_path: Path) -> None:
    topology, given = declared()
    spark = Spark("local[1]", {"spark.sql.shuffle.partitions": "3"})
    topology.companion(spark)
    spark_query(topology, "found", {"numbers": given}, query, output=Found)
    launch = spark.launch(tmp_path)
    spec = Spec.of_bytes(launch.given)
    assert (spec.master, spec.settings, spec.folder) == (
        "local[1]",
        {"spark.sql.shuffle.partitions": "3"},
        str(tmp_path / "spark"),
    )
    assert spec.queries[0].input_schema("numbers") == arrow_schema(Given)
    assert spec.queries[0].output_schema() == arrow_schema(Found)
    assert launch.command[0] == sys.executable
    json.loads(launch.given)


@pytest.mark.parametrize(
    ("name", "inputs", "mode", "wrong"),
    [
        ("a/b", ["given"], "append", "'a/b' is not a valid name"),
        ("found", ["../x"], "append", "'../x' is not a valid name"),
        ("local", ["given"], "append", "'local' is a folder that Kedge uses itself"),
        ("java", ["given"], "append", "'java' is a folder that Kedge uses itself"),
        ("found", [], "append", "it has no input"),
        ("found", ["given"], "complete", "mode='complete' must be one of append, update"),
    ],
)
def test_what_can_be_no_query_is_refused_with_what_to_write(
    name: str, inputs: list[str], mode: Any, wrong: str
) -> None:
    topology, given = declared()
    with pytest.raises(ConfigurationError, match="spark_query ") as caught:
        spark_query(topology, name, dict.fromkeys(inputs, given), query, output=Found, mode=mode)
    assert wrong in str(caught.value)


def test_an_input_is_one_stream_of_one_class_of_the_same_topology() -> None:
    topology, given = declared()
    both = topology.spout("both", Items([Given(1), Other("x")]))
    with pytest.raises(ConfigurationError, match=r"'both' has several classes, or none; choose one: stream\[Class\]"):
        spark_query(topology, "found", {"both": both}, query, output=Found)
    spark_query(topology, "found", {"both": both[Other]}, query, output=Found)
    with pytest.raises(ConfigurationError, match="'given' is a stream of another topology"):
        spark_query(Topology("else"), "found", {"given": given}, query, output=Found)
    with pytest.raises(ConfigurationError, match="'given' is not a stream"):
        spark_query(topology, "found", {"given": given.shuffle()}, query, output=Found)  # type: ignore[dict-item]
    with pytest.raises(ConfigurationError, match="its query is not a function"):
        spark_query(topology, "found", {"given": given}, "select 1", output=Found)  # type: ignore[arg-type]


def test_a_function_that_can_not_be_sent_to_the_driver_is_told_before_anything_starts(tmp_path: Path) -> None:
    topology, given = declared()
    lock = threading.Lock()
    spark_query(topology, "found", {"given": given}, lambda frame: lock, output=Found)
    with pytest.raises(ConfigurationError, match="query 'found' cannot be sent to the driver: TypeError"):
        topology.companions[0].launch(tmp_path)


SCRIPT = """
from bolts import Print
from bridge import spark_query
from spouts import Items
from topology import Record, Topology


class Given(Record):
    number: int


LIMIT = 7


def query(given):
    return (given, LIMIT)


topology = Topology("script")
given = topology.spout("given", Items([Given(1)]))
found = spark_query(topology, "found", {"given": given}, query, output=Given)
topology.bolt("print", Print(), found.shuffle())
"""

CALLED = """
import sys
from bridge.queries.driver_spec import function_of
from bridge.queries.driver_spec import Spec
print(function_of(Spec.of_bytes(sys.stdin.buffer.read()).queries[0].function)("it"))
"""


@pytest.mark.parametrize("name", ["found_by_name.py", "not-a-name.py"])
def test_the_driver_has_the_function_of_a_file_whether_that_can_be_imported_or_not(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / name).write_text(SCRIPT)
    launch = load(target_of(str(tmp_path / name)), {}).companions[0].launch(tmp_path)
    done = subprocess.run(
        [sys.executable, "-P", "-c", CALLED], input=launch.given, env=dict(launch.environment), capture_output=True
    )
    assert done.stdout.decode().strip() == "('it', 7)", done.stderr.decode()


def test_a_topology_with_a_query_is_declared_without_importing_spark(tmp_path: Path) -> None:
    (tmp_path / "declared.py").write_text(SCRIPT)
    code = "import declared, sys; declared.topology.validate(); sys.exit('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def launched(topology: Topology, folder: Path) -> Spec:
    (spark,) = topology.companions
    return Spec.of_bytes(spark.launch(folder).given)


def test_what_the_command_line_says_of_spark_comes_before_what_was_declared(tmp_path: Path) -> None:
    topology, given = declared()
    topology.companion(Spark("local[4]", {"spark.a": "declared", "spark.b": "declared"}))
    spark_query(topology, "found", {"numbers": given}, query, output=Found)
    configure(topology, {"spark": "spark://127.0.0.1:7077", "spark_conf": ["spark.b=given", "spark.c=x=y"]})
    spec = launched(topology, tmp_path)
    assert spec.master == "spark://127.0.0.1:7077"
    assert spec.settings == {"spark.a": "declared", "spark.b": "given", "spark.c": "x=y"}


@pytest.mark.parametrize("master", ["", "foo", "local[", "spark:/host", "spark://", "spark://host port"])
def test_a_master_that_can_be_none_is_refused(master: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a Spark master") as refused:
        Spark(master)
    assert refused.value.code == INVALID_SPARK_MASTER


@pytest.mark.parametrize("master", ["local[x]", "local[]", "local[2,x]", "local-cluster", "local-cluster[2]"])
def test_a_local_master_that_spark_takes_for_a_cluster_is_refused(master: str) -> None:
    """Spark asks for a secret then, and does not say that the master is invalid."""
    with pytest.raises(ConfigurationError, match=r"is not a Spark master; use local\[2\]") as refused:
        Spark(master)
    assert refused.value.code == INVALID_SPARK_MASTER


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[*]", "local[2,4]", "local[*, 4]", "local-cluster[2,1,512]"),
        *("spark://a:1,b:2", "sc://a:1/;token=x", "yarn", "k8s://https://a:1"),
    ],
)
def test_a_master_that_spark_may_know_is_passed_on(master: str) -> None:
    assert Spark(master).master == master
