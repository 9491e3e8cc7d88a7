"""`windowed`: aggregate a stream over windows of event time, in Spark, without writing Spark code.

A declaration that Spark cannot run on a stream raises an error with the reason. Must not know how a query runs: this
module makes the function of a `spark_query`. Imports pyspark only where that function is called, in the driver.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa

from bridge.arrow.schema import arrow_schema, fits
from bridge.queries.late_records import COLUMN, counted
from bridge.queries.query import spark_query
from topology.codes.settings import INVALID_WINDOW
from topology.components import R
from topology.errors import ConfigurationError
from topology.graph import Stream
from topology.topology import Topology

UNITS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
SPAN: Final = re.compile(rf"([1-9][0-9]{{0,8}}) ({'|'.join(UNITS)})s?", re.ASCII)
BOUNDS: Final = ("start", "end")  # bounds of a window, as fields of the output
COUNTS: Final = ("count", "approx_distinct")  # aggregates that are never None
DISTINCT_ERROR: Final = 0.05  # relative error of approx_distinct: Spark's default

_kinds = pa.types


@dataclass(frozen=True)
class Aggregate:
    """A function of the records of a window, or of one of their fields. Made by the functions below."""

    kind: str
    field: str = ""
    share: float = 0.0

    def column(self, at: str) -> Any:
        """Return the aggregate as a column of Spark. Called in the driver."""
        from pyspark.sql import functions as f

        value = f.col(self.field) if self.field else f.lit(1)
        match self.kind:
            case "earliest":
                return f.min_by(value, f.col(at))
            case "latest":
                return f.max_by(value, f.col(at))
            case "mean_of":
                return f.avg(value).cast("double")
            case "approx_distinct":
                return f.approx_count_distinct(value, DISTINCT_ERROR)
            case "approx_quantile":
                return f.percentile_approx(value, self.share, f.lit(10_000)).cast("double")
        return {"count": f.count, "sum_of": f.sum, "min_of": f.min, "max_of": f.max}[self.kind](value)

    def gives(self, of: "pa.DataType | None") -> "pa.DataType | None":
        """Return the type of the result for a field of type `of`, or None if the aggregate does not work on it."""
        if self.kind in COUNTS:
            return pa.int64()
        assert of is not None, "all other aggregates have a field"
        if self.kind in ("earliest", "latest"):
            return of
        if self.kind in ("min_of", "max_of"):
            ordered = _kinds.is_primitive(of) or _kinds.is_string(of) or _kinds.is_binary(of) or _kinds.is_decimal(of)
            return of if ordered else None
        if not (_kinds.is_integer(of) or _kinds.is_floating(of) or _kinds.is_decimal(of)):
            return None
        return of if self.kind == "sum_of" else pa.float64()


def count() -> Aggregate:
    """The number of records, an int."""
    return Aggregate("count")


def sum_of(field: str) -> Aggregate:
    """The sum of a numeric field, with the field's type. The query fails if the sum exceeds 64 bits."""
    return Aggregate("sum_of", field)


def min_of(field: str) -> Aggregate:
    """The smallest value of a number, time, str or bytes."""
    return Aggregate("min_of", field)


def max_of(field: str) -> Aggregate:
    """The greatest value of a number, time, str or bytes."""
    return Aggregate("max_of", field)


def mean_of(field: str) -> Aggregate:
    """The mean of a numeric field, a float."""
    return Aggregate("mean_of", field)


def earliest(field: str) -> Aggregate:
    """The field's value in the record with the earliest event time; if several records have it, any of them."""
    return Aggregate("earliest", field)


def latest(field: str) -> Aggregate:
    """The field's value in the record with the latest event time; if several records have it, any of them."""
    return Aggregate("latest", field)


def approx_distinct(field: str) -> Aggregate:
    """The approximate number of distinct values, an int (HyperLogLog++; relative standard deviation 5 %)."""
    return Aggregate("approx_distinct", field)


def approx_quantile(field: str, share: float) -> Aggregate:
    """The approximate value, a float, that the share `share` of the records does not exceed: 0.5 is the median. Its
    rank is exact to 1 in 10,000. Raises ConfigurationError for a share that is not between 0 and 1."""
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:
        raise _refused("approx_quantile", f"share must be a number from 0 to 1, not {share!r:.80}")
    return Aggregate("approx_quantile", field, float(share))


def distinct(field: str) -> Aggregate:
    """Always raises ConfigurationError, which gives the reason: Spark has no exact count of distinct values on a
    stream."""
    text = f"Spark cannot count distinct values exactly on a stream; use approx_distinct({field!r}), within 5 %"
    raise _refused("distinct", text)


@dataclass(frozen=True)
class Windows:
    """The query: a function from one streaming DataFrame to another. It is pickled by its name, so it holds plain data
    only."""

    by: tuple[str, ...]
    at: str
    every: str
    slide: str
    gap: str
    watermark: str
    aggregates: Mapping[str, Aggregate]
    output: tuple[str, ...]

    counts_late: ClassVar[bool] = True  # its frame has `late_records.COLUMN`

    def __call__(self, frame: Any) -> Any:
        from pyspark.sql import functions as f

        at = f.col(self.at)
        window = f.session_window(at, self.gap) if self.gap else f.window(at, self.every, self.slide or None)
        marked = frame.withWatermark(self.at, self.watermark)
        if COLUMN in frame.columns:
            marked = counted(marked, self.at, *(seconds_of(item) for item in (self.every, self.slide, self.gap)))
        grouped = marked.groupBy(window.alias("window "), *self.by)
        made = grouped.agg(*[item.column(self.at).alias(f"{name} ") for name, item in self.aggregates.items()])
        columns = {**{bound: f"`window `.{bound}" for bound in BOUNDS}, **{name: f"`{name}`" for name in self.by}}
        columns |= {
            name: f"`{name} `" for name in self.aggregates
        }  # no field's name contains a blank, so no name is ambiguous
        return made.select(*[f.col(columns[name]).alias(name) for name in self.output])


def windowed(
    topology: Topology,
    name: str,
    stream: Stream[Any],
    *,
    at: str,
    aggregates: Mapping[str, Aggregate],
    output: type[R],
    by: str | Sequence[str] = (),
    every: str = "",
    slide: str = "",
    gap: str = "",
    watermark: str = "0 seconds",
    mode: Literal["append", "update"] = "append",
    revision: str = "",
    tasks: int = 1,
) -> Stream[R]:
    """Aggregate a stream's records over windows of the event time `at`, a field, for each value of the fields `by`.

        hourly = windowed(topology, "hourly", failures, by="source_ip", at="at", every="1 hour",
                          watermark="5 minutes", aggregates={"failures": count()}, output=HourlyFailures)

    `every` is a window's length. With `slide`, a window starts that often, so that a record is in several. Windows are
    counted from 1970 in UTC: a day begins at midnight, a week on a Thursday. `gap`, instead of `every`, makes sessions:
    a session ends when its key has no record for that long. A span is a number and second(s), minute(s), hour(s),
    day(s) or week(s), such as "10 minutes". The fields of `output` are those of `by`, the names of `aggregates`, and,
    if declared, `start` and `end`, the window's bounds.

    A result comes once no more records are expected: when a record has come that is `watermark` later than the window's
    end. Records that come later than that are dropped, and the run reports them. With mode="update" a result also comes
    at each change. `revision` names a field of `output`, an int that grows with each batch of results, for a sink that
    updates by the window's key.

    Raises ConfigurationError for a declaration that does not fit, or that Spark cannot run.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    if problem := _no_aggregates(aggregates):
        raise _refused(f"windowed {name!r:.80}", problem)
    query = Windows(keys, at, every, slide, gap, watermark, dict(aggregates), _names(output, revision))
    given = stream.shuffle().cls if isinstance(stream, Stream) else None
    problem = _spans(query, mode)
    if not problem and given is not None:  # otherwise `spark_query` reports what is wrong with the stream
        problem = _problem(query, arrow_schema(given), arrow_schema(output), given.__name__, output.__name__)
    if problem:
        raise _refused(f"windowed {name!r:.80}", problem)
    inputs = {"records": stream}
    return spark_query(topology, name, inputs, query, output=output, mode=mode, revision=revision, tasks=tasks)


def _no_aggregates(given: object) -> str:
    """Return what is wrong with the aggregates; empty if nothing is."""
    if not isinstance(given, Mapping):
        return f'aggregates must map names of fields to aggregates, {{"failures": count()}}, not {given!r:.80}'
    wrong = [name for name, value in given.items() if not isinstance(value, Aggregate)]
    return f"{wrong[0]!r:.80} is not an aggregate, such as count() or sum_of(field)" if wrong else ""


def _names(output: type[Any], revision: str) -> tuple[str, ...]:
    return tuple(name for name in arrow_schema(output).names if name != revision)


def _spans(query: Windows, mode: str) -> str:
    """Return what is wrong with the windows themselves; empty if nothing is."""
    if bool(query.every) == bool(query.gap):
        return 'pass either every="1 hour" or gap="30 minutes"'
    if query.gap and query.slide:
        return "sessions do not slide: slide needs every"
    if query.gap and mode == "update":
        return "Spark has sessions only in append mode, because two sessions can still merge"
    for name, span in (("every", query.every), ("slide", query.slide), ("gap", query.gap)):
        if span and not (isinstance(span, str) and SPAN.fullmatch(span)):
            return f'{name}={span!r:.80} is not a span such as "10 minutes"'
    if query.watermark != "0 seconds" and not (isinstance(query.watermark, str) and SPAN.fullmatch(query.watermark)):
        return f'watermark={query.watermark!r:.80} is not a span such as "10 minutes"'
    if query.slide and seconds_of(query.slide) > seconds_of(query.every):
        return f"slide={query.slide!r} is longer than every={query.every!r}: some records would be in no window"
    return ""


def _problem(query: Windows, given: pa.Schema, output: pa.Schema, source: str, gives: str) -> str:
    """Return what does not fit between the stream, the query and its output; empty if all fits."""
    made: dict[str, pa.Field] = {item: pa.field(item, pa.timestamp("us", "UTC"), False) for item in BOUNDS}
    if twice := [name for name in query.by if query.by.count(name) > 1]:
        return f"by has {twice[0]!r} twice"
    for field in (query.at, *query.by, *(item.field for item in query.aggregates.values() if item.field)):
        if field not in given.names:
            return f"{source} has no field {field!r}; it has {', '.join(given.names)}"
    if not _kinds.is_timestamp(given.field(query.at).type):
        return f"{source}.{query.at} is not a datetime, so it cannot be the event time"
    if given.field(query.at).nullable:
        return (
            f"{source}.{query.at} may be None, but a record without event time is in no window; filter such records out"
        )
    made |= {name: given.field(name) for name in query.by}
    for name, item in query.aggregates.items():
        if name in made:
            return f"an aggregate cannot be named {name!r}: that is {'a key' if name in query.by else 'the window'}"
        kind = item.gives(given.field(item.field).type if item.field else None)
        if kind is None:
            return f"{item.kind}({item.field!r}) does not work on {given.field(item.field).type}"
        if name not in output.names:
            return f"{gives} has no field for the aggregate {name!r}"
        made[name] = pa.field(name, kind, item.kind not in COUNTS and given.field(item.field).nullable)
    for name in query.output:
        if name not in made:
            return f"{gives}.{name} is neither a key, nor an aggregate, nor start or end"
        if not fits(made[name].type, output.field(name).type):
            return f"{gives}.{name} is {output.field(name).type}, but the query gives {made[name].type}"
        if made[name].nullable and not output.field(name).nullable:
            return f"{gives}.{name} is None if its field is None: declare it as `… | None`"
    return ""


def seconds_of(span: str) -> int:
    """Return the length of a SPAN in seconds; 0 if it is empty."""
    if not span:
        return 0
    found = SPAN.fullmatch(span)
    assert found is not None
    return int(found[1]) * UNITS[found[2]]


def _refused(what: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{what}: {why}", code=INVALID_WINDOW)
