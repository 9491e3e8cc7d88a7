"""`batch_joined`: join a stream's history with a table at rest or with another stream's history, in a batch job of
Spark. The job runs once or at intervals.

Declares the job. The same object is the job's function in the driver, and imports pyspark only there. Must not know how
a job runs, nor how a history is kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from bridge.arrow.schema import arrow_schema, fits
from bridge.files.history import Keeping
from bridge.queries.query import spark_query
from bridge.queries.tables import HOWS, Table, Types, join_of, problem_of, taken, types_of
from bridge.queries.windows import SPAN, seconds_of
from topology.codes.settings import INVALID_BATCH_JOIN
from topology.components import R
from topology.errors import ConfigurationError
from topology.graph import Stream
from topology.records import Record
from topology.topology import Topology

RETENTION: Final = "7 days"
RETENTION_BYTES: Final = 10 * 2**30  # bytes of one stream's history
RECORDS: Final = "records"
OTHER: Final = "other"


@dataclass(frozen=True)
class BatchJoin:
    """The job. `table`: None if the other side is a stream too."""

    table: Table | None
    on: tuple[str, ...]
    how: str
    output: tuple[str, ...]
    keeping: Keeping
    types: Types = field(default_factory=dict)  # column of the table → its declared type

    @property
    def uses(self) -> tuple[Callable[[Any], Any], ...]:
        """Return the user's functions that are sent to the driver with the job."""
        return (self.table.function,) if self.table is not None and self.table.function is not None else ()

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns that the job reads of its inputs."""
        return frozenset((*self.on, *self.output))

    def __call__(self, records: Any, other: Any = None) -> Any:
        """Return the join, with the table as it is now. Called in the driver, once per cut."""
        if self.table is not None:
            other = taken(self.table, records, self.on, self.output, self.types)
        return join_of(records, other, self.on, self.how, self.output)


def batch_joined(
    topology: Topology,
    name: str,
    stream: Stream[Any],
    *,
    on: str | Sequence[str],
    output: type[R],
    table: Table | None = None,
    other: Stream[Any] | None = None,
    how: Literal["inner", "left"] = "inner",
    every: str = "",
    retention: str = RETENTION,
    retention_bytes: int = RETENTION_BYTES,
    revision: str = "",
    tasks: int = 1,
) -> Stream[R]:
    """Join a stream's history with a table at rest, or with another stream's history, by the columns `on` that both
    sides have. A batch job joins all records that are kept; its results come as a stream.

        matched = batch_joined(topology, "matched", payments, other=orders, on="order_id", every="10 minutes",
                               output=Matched, revision="cut")

    `every` is a span. A job runs when the first record that no job has read is that old. Jobs therefore run at most
    that often, and not while nothing is new. When a bounded run ends, a last job reads everything that has come.
    Without `every` this is the only job, and a run that does not end has no results.

    Each job emits the whole join, so unchanged rows come again with the next job. `revision` names a field of `output`,
    an int that neither side has. It grows with each job, so a sink that updates rows by a key can use it. The rows with
    the newest revision are the present join. The fields of `output` are columns of both sides by name; if both sides
    have one, the stream's is taken. With how="left", a column that the other side lacks is None.

    A history keeps records for `retention` after they were handed over, and longer until a job has read them. If a
    stream's history exceeds `retention_bytes`, the oldest records that a job has read are removed sooner, and the run
    reports it. Each job reads the table again. If a process is killed, the repeated job reads the same history. Its
    results come once, all from one reading of the table.

    Raises ConfigurationError.
    """
    keys = (on,) if isinstance(on, str) else tuple(on)
    what = f"batch_joined {name!r:.80}"
    for problem in (_side(table, other), _spans(every, retention, retention_bytes), _keys(keys, how)):
        if problem:
            raise _refused(what, problem)
    keeping = Keeping(seconds_of(every) if every else 0, seconds_of(retention), retention_bytes)
    names = tuple(item for item in arrow_schema(output).names if item != revision)
    inputs = {RECORDS: stream} if other is None else {RECORDS: stream, OTHER: other}
    classes = [item.shuffle().cls for item in inputs.values() if isinstance(item, Stream)]
    given = [item for item in classes if item is not None]
    if len(given) == len(inputs):  # otherwise `spark_query` reports what is wrong with a stream
        problem = _columns(given, keys) or _fields(given, keys, how, output, names)
        if problem:
            raise _refused(what, problem)
    types = types_of(given[0], keys, output) if table is not None and given else {}
    job = BatchJoin(table, keys, how, names, keeping, types)
    return spark_query(topology, name, inputs, job, output=output, revision=revision, tasks=tasks)


def _side(table: object, other: object) -> str:
    """Return what is wrong with the other side; empty if nothing is."""
    if (table is None) == (other is None):
        return "pass either table=Table(…) or other=stream"
    if table is not None and not isinstance(table, Table):
        return f"table must be a Table(path or function), not {table!r:.80}"
    if isinstance(table, Table) and table.refresh_s != float("inf"):
        return "each job reads the table again: remove the table's refresh"
    return ""


def _spans(every: object, retention: object, retention_bytes: object) -> str:
    for name, span in (("every", every), ("retention", retention)):
        if (span != "" or name == "retention") and not (isinstance(span, str) and SPAN.fullmatch(span)):
            return f'{name}={span!r:.80} is not a span such as "10 minutes"'
    if type(retention_bytes) is not int or retention_bytes < 1:
        return f"retention_bytes={retention_bytes!r:.80} must be a whole number of at least 1"
    return ""


def _keys(keys: tuple[str, ...], how: object) -> str:
    if how not in HOWS:
        return f"how={how!r:.80} must be one of {', '.join(HOWS)}"
    return "" if keys else "on must name one or more columns that both sides have"


def _columns(given: Sequence[type[Record]], keys: Sequence[str]) -> str:
    """Return what is wrong with the keys: all sides that are streams must have them, with equal types."""
    for cls in given:
        there = arrow_schema(cls)
        for key in keys:
            if key not in there.names:
                return f"{cls.__name__} has no field {key!r}; it has {', '.join(there.names)}"
            mine, first = there.field(key).type, arrow_schema(given[0]).field(key).type
            if mine != first:
                return f"{given[0].__name__}.{key} is {first}, and {cls.__name__}.{key} is {mine}: they are never equal"
    return ""


def _fields(
    given: Sequence[type[Record]], keys: Sequence[str], how: str, output: type[Record], names: Sequence[str]
) -> str:
    """Return what keeps the join from being the output; with two streams this is known completely."""
    first, declared = arrow_schema(given[0]), arrow_schema(output)
    for cls in given[1:]:
        there = arrow_schema(cls)
        for name in [wanted for wanted in names if wanted not in first.names]:
            what, its = f"{output.__name__}.{name}", declared.field(name)
            if name not in there.names:
                return f"{what} is a field of neither {given[0].__name__} nor {cls.__name__}"
            if not fits(there.field(name).type, its.type):
                return f"{what} is {its.type}, but the join gives {there.field(name).type}"
            if there.field(name).nullable and not its.nullable:
                return f"{cls.__name__}.{name} may be None, but {what} may not: declare it as `… | None`"
    return problem_of(given[0], keys, how, output, names, given[1].__name__ if len(given) > 1 else "the table")


def _refused(what: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{what}: {why}", code=INVALID_BATCH_JOIN)
