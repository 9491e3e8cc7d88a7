"""`batch_joined`: a stream's kept history joined with a table at rest, or with another stream's history, as a batch job
of Spark, once or every so often.

Declares the job, and is its function in the driver, where alone pyspark is imported. Must not know how a job runs, nor
how a history is kept.
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
RETENTION_BYTES: Final = 10 * 2**30  # of one stream's history
RECORDS: Final = "records"
OTHER: Final = "other"


@dataclass(frozen=True)
class BatchJoin:
    """The job. `table`: None where the other side is a stream too."""

    table: Table | None
    on: tuple[str, ...]
    how: str
    output: tuple[str, ...]
    keeping: Keeping
    types: Types = field(default_factory=dict)  # of the table's columns

    @property
    def uses(self) -> tuple[Callable[[Any], Any], ...]:
        """Functions of the user's, which go to the driver with it."""
        return (self.table.function,) if self.table is not None and self.table.function is not None else ()

    @property
    def columns(self) -> frozenset[str]:
        """Of its inputs, those that are read."""
        return frozenset((*self.on, *self.output))

    def __call__(self, records: Any, other: Any = None) -> Any:
        """In the driver, for each cut: the table as it is then."""
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
    """A stream's history joined with a table at rest, or with the history of another stream, by columns `on` that both
    have: a batch job over all that is kept, whose results come as a stream.

        matched = batch_joined(topology, "matched", payments, other=orders, on="order_id", every="10 minutes",
                               output=Matched, revision="cut")

    With `every`, a span, a job runs when the first record that no job has had is that old, so that often at most, and
    not while nothing is new. Where a bounded run ends, a last job has all that has come; without `every` it is the
    only one, and a run that does not end gives nothing.

    Each job gives the whole join, so what has not changed comes again with the next one. The field `revision` of
    `output`, an int that neither side gives, grows with each job: a sink that updates rows by a key goes by it, and
    rows of the newest one alone are the join as it is now. The fields of `output` are columns of both by name; where
    both have one, the stream's. With how="left" what the other side does not have is None there.

    A history keeps records for `retention`, by when they were handed over, and longer until a job has had them; above
    `retention_bytes`, of each stream, the oldest that a job has had go sooner, which is told. The table is read anew by
    each job. Whatever is killed: a job that is repeated reads the same history, and its results come once, all from one
    reading of the table.

    Raises ConfigurationError.
    """
    keys = (on,) if isinstance(on, str) else tuple(on)
    what = f"batch_joined {name!r:.80}"
    for problem in (_side(table, other), _spans(every, retention, retention_bytes), _keys(keys, how)):
        if problem:
            raise _refused(what, problem)
    keeping = Keeping(seconds_of(every) if every else 0, seconds_of(retention), retention_bytes)
    names = tuple(one for one in arrow_schema(output).names if one != revision)
    inputs = {RECORDS: stream} if other is None else {RECORDS: stream, OTHER: other}
    classes = [one.shuffle().cls for one in inputs.values() if isinstance(one, Stream)]
    given = [one for one in classes if one is not None]
    if len(given) == len(inputs):  # else `spark_query` says what is wrong with a stream
        problem = _columns(given, keys) or _fields(given, keys, how, output, names)
        if problem:
            raise _refused(what, problem)
    types = types_of(given[0], keys, output) if table is not None and given else {}
    job = BatchJoin(table, keys, how, names, keeping, types)
    return spark_query(topology, name, inputs, job, output=output, revision=revision, tasks=tasks)


def _side(table: object, other: object) -> str:
    """What is wrong with the other side; empty where nothing is."""
    if (table is None) == (other is None):
        return "table=Table(…) or other=stream is wanted, and not both"
    if table is not None and not isinstance(table, Table):
        return f"table is a Table(path or function), not {table!r:.80}"
    if isinstance(table, Table) and table.refresh_s != float("inf"):
        return "each job reads the table anew: leave its refresh out"
    return ""


def _spans(every: object, retention: object, retention_bytes: object) -> str:
    for name, span in (("every", every), ("retention", retention)):
        if (span != "" or name == "retention") and not (isinstance(span, str) and SPAN.fullmatch(span)):
            return f'{name}={span!r:.80} is no span; "10 minutes" is one'
    if type(retention_bytes) is not int or retention_bytes < 1:
        return f"retention_bytes={retention_bytes!r:.80} is no number of bytes"
    return ""


def _keys(keys: tuple[str, ...], how: object) -> str:
    if how not in HOWS:
        return f"how={how!r:.80} is none of {', '.join(HOWS)}"
    return "" if keys else "on is the name of a column that both have, or several"


def _columns(given: Sequence[type[Record]], keys: Sequence[str]) -> str:
    """Whether all sides that are streams have the keys, of one type."""
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
    """Whether what is known of a join can be the output: of two streams all is."""
    first, declared = arrow_schema(given[0]), arrow_schema(output)
    for cls in given[1:]:
        there = arrow_schema(cls)
        for name in [one for one in names if one not in first.names]:
            what, its = f"{output.__name__}.{name}", declared.field(name)
            if name not in there.names:
                return f"{what} is no field of {given[0].__name__}, nor of {cls.__name__}"
            if not fits(there.field(name).type, its.type):
                return f"{what} is {its.type}, and {there.field(name).type} comes"
            if there.field(name).nullable and not its.nullable:
                return f"{cls.__name__}.{name} may be None, and {what} may not: declare it as `… | None`"
    return problem_of(given[0], keys, how, output, names, given[1].__name__ if len(given) > 1 else "the table")


def _refused(what: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{what}: {why}", code=INVALID_BATCH_JOIN)
