"""`spark_query`: declare a stream that goes to Spark and comes back as another stream. `Spark`: the companion process
that runs the queries.

Only declares: nothing is started here, and pyspark is not imported before the run starts.
"""

import importlib
import importlib.machinery
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal

from bridge.arrow.schema import arrow_schema
from bridge.handover.bolt import HandOver
from bridge.handover.results import SparkResults
from bridge.missing_extra import missing
from bridge.queries.driver_spec import QuerySpec, Spec, schema_text, text_of
from bridge.queries.options import TRIGGER, refuse
from topology.codes.settings import INVALID_SPARK_MASTER, INVALID_SPARK_QUERY, UNPICKLABLE_SPARK_QUERY
from topology.companions import Companion, Launch
from topology.components import R
from topology.errors import ConfigurationError
from topology.graph import Input, Place, Stream
from topology.loading.hints import refuse_hidden
from topology.records import Record
from topology.topology import Topology
from topology.user_frames import HOME

MASTER: Final = "local[2]"
# The forms that Spark accepts. Spark itself checks the details, but takes an invalid local[…] for a cluster.
MASTERS: Final = re.compile(
    r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|yarn|[a-z][a-z0-9+.-]*://\S+",
    re.ASCII,
)
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)  # of a query or an input, which name folders
OURS: Final = ("engine", "java", "local", "warehouse")  # folders of ours beside the queries' folders
MODES: Final = ("append", "update")


@dataclass(frozen=True)
class Query:
    """One query as declared."""

    name: str
    inputs: Mapping[str, type[Record]]
    function: Callable[..., Any]
    output: type[Record]
    mode: str
    revision: str

    def spec(self) -> QuerySpec:
        """Return the query in the form that the driver reads. Raises ConfigurationError for a function that cannot be
        sent."""
        return QuerySpec(
            name=self.name,
            mode=self.mode,
            inputs={name: schema_text(arrow_schema(cls)) for name, cls in self.inputs.items()},
            output=schema_text(arrow_schema(self.output)),
            declares=self.output.__name__,
            function=text_of(pickled(self.function, self.name)),
            revision=self.revision,
        )


class Spark(Companion):
    """The companion process that runs the driver of all queries of a topology. `spark_query` declares it. To set
    another master or settings of Spark, declare it first:

        topology.companion(Spark("spark://host:7077", {"spark.executor.memory": "2g"}))

    These settings override Kedge's; `kedge run --spark` and `--spark-conf` override both. Raises ConfigurationError for
    an invalid master.
    """

    name = "spark"

    def __init__(self, master: str = MASTER, settings: Mapping[str, str] | None = None) -> None:
        self.master = _master(master, "Spark(…)")
        self.settings = dict(settings or {})
        self.queries: list[Query] = []

    def configure(self, name: str, value: str | Mapping[str, str], called: str) -> None:
        """Apply the options of `bridge.queries.options`."""
        if name == TRIGGER:
            refuse(called)
        if isinstance(value, str):
            self.master = _master(value, called)
        else:
            self.settings |= value

    def launch(self, folder: Path) -> Launch:
        """Return the driver's command. Raises ConfigurationError if pyspark is missing or a function cannot be sent."""
        queries = tuple(query.spec() for query in self.queries)
        spec = Spec("kedge", str(folder / "spark"), self.master, queries, self.settings)
        refuse_hidden()  # Spark's processes find our packages only by this path
        path = os.pathsep.join(
            [*(entry or os.getcwd() for entry in sys.path), str(HOME)]
        )  # Spark's own Python processes inherit it
        command = (sys.executable, "-P", "-m", "bridge.driver.main")
        return Launch(command, {**os.environ, "PYTHONPATH": path}, spec.to_bytes())


def spark_query(
    topology: Topology,
    name: str,
    inputs: Mapping[str, Stream[Any]],
    function: Callable[..., Any],
    *,
    output: type[R],
    mode: Literal["append", "update"] = "append",
    revision: str = "",
    tasks: int = 1,
) -> Stream[R]:
    """Hand streams over to Spark, and return the stream of the query's results.

        hourly = spark_query(topology, "hourly", {"failures": failures}, failures_by_hour, output=HourlyFailures)

    `function` takes one streaming DataFrame for each of `inputs`, in their order, with the record's fields as columns.
    It returns a DataFrame whose columns are the fields of `output`. It runs in the driver, so its imports happen there.
    In `append` mode a window's result comes when the watermark has passed the window; in `update` mode it comes at each
    change. `revision` names a field of `output`, an int that `function` does not give. It grows with each batch of
    results, so a sink that updates a row by its key can use it.

    For each input, `tasks` tasks of a bolt `NAME-INPUT` write the records that are handed over. Raises
    ConfigurationError.
    """
    place = _caller()
    read = {item: stream.shuffle() for item, stream in inputs.items() if isinstance(stream, Stream)}
    problem = _problem(topology, name, inputs, read, function, mode) or _no_revision(output, revision)
    if problem:
        raise ConfigurationError(f"spark_query {name!r:.80}: {problem}", code=INVALID_SPARK_QUERY)
    classes: dict[str, type[Record]] = {}
    for item, given in read.items():
        assert given.cls is not None
        classes[item] = given.cls
        topology.bolt(f"{name}-{item}", HandOver(given.cls, name, item), replace(given, place=place), tasks=tasks)
        topology.components[-1].place = place
    results: Stream[R] = topology.spout(name, SparkResults(output, name, [*read]))
    topology.components[-1].place = place
    spark = next((item for item in topology.companions if isinstance(item, Spark)), None)
    if spark is None:
        spark = Spark()
        topology.companion(spark)
        topology.companion_places[-1] = place
    spark.queries.append(Query(name, classes, function, output, mode, revision))
    return results


def _master(given: str, called: str) -> str:
    """Return the master if it has a valid form."""
    if not isinstance(given, str) or not MASTERS.fullmatch(given):
        text = f"{called}: {given!r:.80} is not a Spark master; use local[2], spark://HOST:PORT or sc://HOST:PORT"
        raise ConfigurationError(text, code=INVALID_SPARK_MASTER)
    return given


def _problem(
    topology: Topology,
    name: str,
    inputs: Mapping[str, object],
    read: Mapping[str, Input[Any]],
    function: object,
    mode: str,
) -> str:
    """Return what is wrong with the call; empty if nothing is."""
    for key in (name, *inputs):
        if not isinstance(key, str) or not NAME.fullmatch(key):
            return f"{key!r:.80} is not a valid name; use 1 to 64 of A-Z a-z 0-9 _ and -"
    if name in OURS:
        return f"{name!r} is a folder that Kedge uses itself; choose another name"
    if not inputs:
        return "it has no input; pass streams by name: {'failures': failures}"
    for key in inputs:
        if key not in read:
            return f"input {key!r} is not a stream; pass what topology.spout or topology.bolt returned"
        if read[key].topology is not topology:
            return f"input {key!r} is a stream of another topology"
        if read[key].cls is None:
            return f"input {key!r} has several classes, or none; choose one: stream[Class]"
    if mode not in MODES:
        return f"mode={mode!r:.80} must be one of {', '.join(MODES)}"
    if not callable(function):
        return "its query is not a function"
    return ""


def _no_revision(output: type[Record], revision: str) -> str:
    """Return what is wrong with the output's field for the batch's number; empty if nothing is."""
    if not revision or (revision in (names := arrow_schema(output)).names and names.field(revision).type == "int64"):
        return ""
    return f"revision={revision!r:.80} is not an int field of {output.__name__}"


def pickled(function: Callable[..., Any], query: str) -> bytes:
    """Return the function for the driver: by name if the driver can import it, otherwise with its code. Raises
    ConfigurationError, also if pyspark is missing."""
    try:
        cloudpickle: Any = importlib.import_module("pyspark.cloudpickle")
    except ImportError as error:
        raise missing(f"query {query!r}", error) from error
    all_of_them = (function, *getattr(function, "uses", ()))  # also the user's functions that a query of ours calls
    modules = {sys.modules.get(getattr(sent, "__module__", None) or "") for sent in all_of_them}
    by_value = [module for module in modules if module is not None and not _importable(module)]
    try:
        for module in by_value:
            cloudpickle.register_pickle_by_value(module)
        dumped: bytes = cloudpickle.dumps(function)
    except Exception as error:
        text = f"query {query!r} cannot be sent to the driver: {type(error).__name__}: {error}"
        raise ConfigurationError(text, code=UNPICKLABLE_SPARK_QUERY) from error
    finally:
        for module in by_value:
            cloudpickle.unregister_pickle_by_value(module)
    return dumped


def _importable(module: ModuleType) -> bool:
    """Return True if another process with the same path finds this module under its name."""
    name, file = module.__name__, getattr(module, "__file__", None)
    if name == "__main__" or file is None:
        return True  # cloudpickle handles these itself
    if "." in name:
        return True
    spec = importlib.machinery.PathFinder.find_spec(name)
    return spec is not None and spec.origin is not None and os.path.realpath(spec.origin) == os.path.realpath(file)


def _caller() -> Place:
    """Return the place that called `spark_query`, or the function of ours that declares one."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("bridge."):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
