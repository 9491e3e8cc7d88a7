"""`spark_query`: a stream that goes to Spark, and comes back as another one. And `Spark`, the companion that does it.

Declares; nothing is started here, and pyspark is not imported before the run begins.
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
# What Spark takes; it says itself what is wrong further in.
MASTERS: Final = re.compile(r"local(-cluster)?(\[[^\]]+\])?|yarn|([a-z][a-z0-9+.-]*)://\S+", re.ASCII)
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)  # of a query or an input: folders are called so
OURS: Final = ("engine", "java", "local", "warehouse")  # folders beside those of queries
MODES: Final = ("append", "update")


@dataclass(frozen=True)
class Query:
    """One query, as it was declared."""

    name: str
    inputs: Mapping[str, type[Record]]
    function: Callable[..., Any]
    output: type[Record]
    mode: str
    revision: str

    def spec(self) -> QuerySpec:
        """As the driver is told of it. Raises ConfigurationError for a function that can't be sent there."""
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
    """The driver of all queries of a topology, in a process of its own. `spark_query` declares it; declared before, by
    `topology.companion(Spark(…))`, it may have another master, and settings of Spark's, which come before ours. What
    `kedge run --spark` and `--spark-conf` say comes before both. Raises ConfigurationError for what is no master."""

    name = "spark"

    def __init__(self, master: str = MASTER, settings: Mapping[str, str] | None = None) -> None:
        self.master = _master(master, "Spark(…)")
        self.settings = dict(settings or {})
        self.queries: list[Query] = []

    def configure(self, name: str, value: str | Mapping[str, str], called: str) -> None:
        """What the options of `bridge.queries.options` say."""
        if name == TRIGGER:
            refuse(called)
        if isinstance(value, str):
            self.master = _master(value, called)
        else:
            self.settings |= value

    def launch(self, folder: Path) -> Launch:
        """The driver's command. Raises ConfigurationError where there is no pyspark, or a function can't be sent."""
        queries = tuple(query.spec() for query in self.queries)
        spec = Spec("kedge", str(folder / "spark"), self.master, queries, self.settings)
        refuse_hidden()  # Spark's processes find our packages by this path alone
        path = os.pathsep.join(
            [*(one or os.getcwd() for one in sys.path), str(HOME)]
        )  # Spark's own Python processes have it from us
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
    """Hands streams over to Spark, and returns the stream of what a query makes of them.

    `function` takes a streaming DataFrame for each of `inputs`, in their order, with the record's fields as columns,
    and returns one whose columns are the fields of `output`. It runs in the driver, so what it uses is imported there.
    In `append` mode a window's result comes when the watermark has passed it, in `update` mode at each change. The
    field `revision` of `output`, an int that `function` does not give, grows with each batch of results: a sink that
    updates a row by its key goes by it.
    `tasks` tasks of a bolt `NAME-INPUT` write what is handed over. Raises ConfigurationError.

        hourly = spark_query(topology, "hourly", {"failures": failures}, failures_by_hour, output=HourlyFailures)
    """
    place = _caller()
    read = {one: stream.shuffle() for one, stream in inputs.items() if isinstance(stream, Stream)}
    problem = _problem(topology, name, inputs, read, function, mode) or _no_revision(output, revision)
    if problem:
        raise ConfigurationError(f"spark_query {name!r:.80}: {problem}", code=INVALID_SPARK_QUERY)
    classes: dict[str, type[Record]] = {}
    for one, given in read.items():
        assert given.cls is not None
        classes[one] = given.cls
        topology.bolt(f"{name}-{one}", HandOver(given.cls, name, one), replace(given, place=place), tasks=tasks)
        topology.components[-1].place = place
    results: Stream[R] = topology.spout(name, SparkResults(output, name, [*read]))
    topology.components[-1].place = place
    spark = next((one for one in topology.companions if isinstance(one, Spark)), None)
    if spark is None:
        spark = Spark()
        topology.companion(spark)
        topology.companion_places[-1] = place
    spark.queries.append(Query(name, classes, function, output, mode, revision))
    return results


def _master(given: str, called: str) -> str:
    """A master that may be one."""
    if not isinstance(given, str) or not MASTERS.fullmatch(given):
        text = f"{called}: {given!r:.80} is no master of Spark's; local[2], spark://HOST:PORT and sc://HOST:PORT are"
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
    """What is wrong with the call; empty where nothing is."""
    for one in (name, *inputs):
        if not isinstance(one, str) or not NAME.fullmatch(one):
            return f"{one!r:.80} is no name for a folder: 1 to 64 of A-Z a-z 0-9 _ and -"
    if name in OURS:
        return f"{name!r} is a folder of Spark's own"
    if not inputs:
        return "it has no input; give it streams by name: {'failures': failures}"
    for one in inputs:
        if one not in read:
            return f"input {one!r} is no stream; give what topology.spout or topology.bolt has returned"
        if read[one].topology is not topology:
            return f"input {one!r} is a stream of another topology"
        if read[one].cls is None:
            return f"input {one!r} has several classes, or none; choose one: stream[Class]"
    if mode not in MODES:
        return f"mode={mode!r:.80} is none of {', '.join(MODES)}"
    if not callable(function):
        return "its query is no function"
    return ""


def _no_revision(output: type[Record], revision: str) -> str:
    """What is wrong with the field of the output that is to have the number of its batch."""
    if not revision or (revision in (names := arrow_schema(output)).names and names.field(revision).type == "int64"):
        return ""
    return f"revision={revision!r:.80} is no field of {output.__name__} that is an int"


def pickled(function: Callable[..., Any], query: str) -> bytes:
    """The function for the driver: by its name where that can import it, else with its code. Raises
    ConfigurationError, also where there is no pyspark."""
    try:
        cloudpickle: Any = importlib.import_module("pyspark.cloudpickle")
    except ImportError as error:
        raise missing(f"query {query!r}", error) from error
    all_of_them = (function, *getattr(function, "uses", ()))  # those that one of ours calls
    modules = {sys.modules.get(getattr(one, "__module__", None) or "") for one in all_of_them}
    by_value = [module for module in modules if module is not None and not _importable(module)]
    try:
        for module in by_value:
            cloudpickle.register_pickle_by_value(module)
        dumped: bytes = cloudpickle.dumps(function)
    except Exception as error:
        text = f"query {query!r} can't be sent to the driver: {type(error).__name__}: {error}"
        raise ConfigurationError(text, code=UNPICKLABLE_SPARK_QUERY) from error
    finally:
        for module in by_value:
            cloudpickle.unregister_pickle_by_value(module)
    return dumped


def _importable(module: ModuleType) -> bool:
    """Whether another process with the same path finds this module under its name."""
    name, file = module.__name__, getattr(module, "__file__", None)
    if name == "__main__" or file is None:
        return True  # cloudpickle knows these
    if "." in name:
        return True
    spec = importlib.machinery.PathFinder.find_spec(name)
    return spec is not None and spec.origin is not None and os.path.realpath(spec.origin) == os.path.realpath(file)


def _caller() -> Place:
    """Who has called `spark_query`, or what of ours declares one."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("bridge."):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
