"""`windowed`: aggregates of a stream over windows of event time, by Spark, without writing Spark.

What Spark can't do on a stream is refused here, with the reason, when it is declared. Must not know how a query runs:
what is made here is the function of a `spark_query`. Imports pyspark only where that is called, in the driver.
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
BOUNDS: Final = ("start", "end")  # of a window, as fields of the output
COUNTS: Final = ("count", "approx_distinct")  # never None, whatever they are of
DISTINCT_ERROR: Final = 0.05  # of approx_distinct, relative: Spark's own default

_kinds = pa.types


@dataclass(frozen=True)
class Aggregate:
    """What becomes of the records of a window, or of one of their fields. Made by the functions below."""

    kind: str
    field: str = ""
    share: float = 0.0

    def column(self, at: str) -> Any:
        """As Spark has it. In the driver."""
        from pyspark.sql import functions as f

        one = f.col(self.field) if self.field else f.lit(1)
        match self.kind:
            case "earliest":
                return f.min_by(one, f.col(at))
            case "latest":
                return f.max_by(one, f.col(at))
            case "mean_of":
                return f.avg(one).cast("double")
            case "approx_distinct":
                return f.approx_count_distinct(one, DISTINCT_ERROR)
            case "approx_quantile":
                return f.percentile_approx(one, self.share, f.lit(10_000)).cast("double")
        return {"count": f.count, "sum_of": f.sum, "min_of": f.min, "max_of": f.max}[self.kind](one)

    def gives(self, of: "pa.DataType | None") -> "pa.DataType | None":
        """The type that it gives of a field's; None where it can't be made of that."""
        if self.kind in COUNTS:
            return pa.int64()
        assert of is not None, "all others are of a field"
        if self.kind in ("earliest", "latest"):
            return of
        if self.kind in ("min_of", "max_of"):
            ordered = _kinds.is_primitive(of) or _kinds.is_string(of) or _kinds.is_binary(of) or _kinds.is_decimal(of)
            return of if ordered else None
        if not (_kinds.is_integer(of) or _kinds.is_floating(of) or _kinds.is_decimal(of)):
            return None
        return of if self.kind == "sum_of" else pa.float64()


def count() -> Aggregate:
    """How many records. An int."""
    return Aggregate("count")


def sum_of(field: str) -> Aggregate:
    """The sum of a number, of the type that the field has. Beyond 64 bits the query fails."""
    return Aggregate("sum_of", field)


def min_of(field: str) -> Aggregate:
    """The least value of a number, time, str or bytes."""
    return Aggregate("min_of", field)


def max_of(field: str) -> Aggregate:
    """The greatest value, as `min_of`."""
    return Aggregate("max_of", field)


def mean_of(field: str) -> Aggregate:
    """The mean of a number, a float."""
    return Aggregate("mean_of", field)


def earliest(field: str) -> Aggregate:
    """The field of the record with the earliest event time; of several, any."""
    return Aggregate("earliest", field)


def latest(field: str) -> Aggregate:
    """The field of the record with the latest event time; of several, any."""
    return Aggregate("latest", field)


def approx_distinct(field: str) -> Aggregate:
    """About how many values there are, an int: HyperLogLog++, with a relative standard deviation of 5 %."""
    return Aggregate("approx_distinct", field)


def approx_quantile(field: str, share: float) -> Aggregate:
    """A float: about the value of a number that `share` of the records do not exceed, 0.5 for the median. Its rank is
    exact to 1 in 10,000. Raises ConfigurationError for a share that is not between 0 and 1."""
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:
        raise _refused("approx_quantile", f"a share is a number from 0 to 1, not {share!r:.80}")
    return Aggregate("approx_quantile", field, float(share))


def distinct(field: str) -> Aggregate:
    """Refused: raises ConfigurationError, which says why."""
    text = f"Spark does not count distinct values exactly on a stream; use approx_distinct({field!r}), within 5 %"
    raise _refused("distinct", text)


@dataclass(frozen=True)
class Windows:
    """The query: a function from a streaming DataFrame to another one. Pickled by its name, so it is plain data."""

    by: tuple[str, ...]
    at: str
    every: str
    slide: str
    gap: str
    watermark: str
    aggregates: Mapping[str, Aggregate]
    output: tuple[str, ...]

    counts_late: ClassVar[bool] = True  # its frame has `late.COLUMN`

    def __call__(self, frame: Any) -> Any:
        from pyspark.sql import functions as f

        at = f.col(self.at)
        window = f.session_window(at, self.gap) if self.gap else f.window(at, self.every, self.slide or None)
        marked = frame.withWatermark(self.at, self.watermark)
        if COLUMN in frame.columns:
            marked = counted(marked, self.at, *(seconds_of(one) for one in (self.every, self.slide, self.gap)))
        grouped = marked.groupBy(window.alias("window "), *self.by)
        made = grouped.agg(*[one.column(self.at).alias(f"{name} ") for name, one in self.aggregates.items()])
        columns = {**{bound: f"`window `.{bound}" for bound in BOUNDS}, **{name: f"`{name}`" for name in self.by}}
        columns |= {name: f"`{name} `" for name in self.aggregates}  # blanks: no field has them, so none is meant twice
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
    """Aggregates of a stream's records over windows of the event time `at`, a field, for each value of the fields `by`.

        hourly = windowed(topology, "hourly", failures, by="source_ip", at="at", every="1 hour",
                          watermark="5 minutes", aggregates={"failures": count()}, output=HourlyFailures)

    `every` is a window's length; with `slide` there is one that often, so that a record is in several. They are counted
    from 1970 on, in UTC: a day begins at midnight, a week on a Thursday. `gap` in place of `every`: sessions, which end
    where a key has nothing for that long. Spans are "10 minutes": a number and second(s), minute(s), hour(s), day(s) or
    week(s). The fields of `output` are those of `by`, the names of
    `aggregates`, and `start` and `end`, the window's bounds, where it has them.

    A result comes once no record is expected any more: when one has come that is `watermark` later than the window's
    end. What comes later than that is dropped, and told. With mode="update" one comes at each change, too; `revision`
    names a field of `output`, an int, that grows with them, for a sink that updates by the window's key.

    Raises ConfigurationError for what does not fit, or what Spark can't do.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    if problem := _no_aggregates(aggregates):
        raise _refused(f"windowed {name!r:.80}", problem)
    query = Windows(keys, at, every, slide, gap, watermark, dict(aggregates), _names(output, revision))
    given = stream.shuffle().cls if isinstance(stream, Stream) else None
    problem = _spans(query, mode)
    if not problem and given is not None:  # else `spark_query` says what is wrong with the stream
        problem = _problem(query, arrow_schema(given), arrow_schema(output), given.__name__, output.__name__)
    if problem:
        raise _refused(f"windowed {name!r:.80}", problem)
    inputs = {"records": stream}
    return spark_query(topology, name, inputs, query, output=output, mode=mode, revision=revision, tasks=tasks)


def _no_aggregates(given: object) -> str:
    """What is wrong with what should be aggregates by name; empty where nothing is."""
    if not isinstance(given, Mapping):
        return f'aggregates are given by the names of fields, {{"failures": count()}}, not {given!r:.80}'
    wrong = [name for name, one in given.items() if not isinstance(one, Aggregate)]
    return f"{wrong[0]!r:.80} is no aggregate: count(), sum_of(field) and so on make one" if wrong else ""


def _names(output: type[Any], revision: str) -> tuple[str, ...]:
    return tuple(one for one in arrow_schema(output).names if one != revision)


def _spans(query: Windows, mode: str) -> str:
    """What is wrong with the windows themselves; empty where nothing is."""
    if bool(query.every) == bool(query.gap):
        return 'every="1 hour" or gap="30 minutes" is wanted, and not both'
    if query.gap and query.slide:
        return "sessions do not slide: slide goes with every"
    if query.gap and mode == "update":
        return "Spark gives sessions in append mode alone: one may still grow together with another one"
    for name, span in (("every", query.every), ("slide", query.slide), ("gap", query.gap)):
        if span and not (isinstance(span, str) and SPAN.fullmatch(span)):
            return f'{name}={span!r:.80} is no span; "10 minutes" is one'
    if query.watermark != "0 seconds" and not (isinstance(query.watermark, str) and SPAN.fullmatch(query.watermark)):
        return f'watermark={query.watermark!r:.80} is no span; "10 minutes" is one'
    if query.slide and seconds_of(query.slide) > seconds_of(query.every):
        return f"slide={query.slide!r} is longer than every={query.every!r}: records between would be in no window"
    return ""


def _problem(query: Windows, given: pa.Schema, output: pa.Schema, source: str, gives: str) -> str:
    """What does not fit between the stream, the query and its output; empty where all does."""
    made: dict[str, pa.Field] = {one: pa.field(one, pa.timestamp("us", "UTC"), False) for one in BOUNDS}
    if twice := [name for name in query.by if query.by.count(name) > 1]:
        return f"{twice[0]!r} is a key twice"
    for field in (query.at, *query.by, *(one.field for one in query.aggregates.values() if one.field)):
        if field not in given.names:
            return f"{source} has no field {field!r}; it has {', '.join(given.names)}"
    if not _kinds.is_timestamp(given.field(query.at).type):
        return f"{source}.{query.at} is no datetime, so it can't be the event time"
    if given.field(query.at).nullable:
        return f"{source}.{query.at} may be None, and what has no event time is in no window: take it out before"
    made |= {name: given.field(name) for name in query.by}
    for name, one in query.aggregates.items():
        if name in made:
            return f"an aggregate can't be called {name!r}: that is {'a key' if name in query.by else 'the window'}"
        kind = one.gives(given.field(one.field).type if one.field else None)
        if kind is None:
            return f"{one.kind}({one.field!r}) can't be made of {given.field(one.field).type}"
        if name not in output.names:
            return f"{gives} has no field for the aggregate {name!r}"
        made[name] = pa.field(name, kind, one.kind not in COUNTS and given.field(one.field).nullable)
    for name in query.output:
        if name not in made:
            return f"{gives}.{name} is neither a key, nor an aggregate, nor start or end"
        if not fits(made[name].type, output.field(name).type):
            return f"{gives}.{name} is {output.field(name).type}, and {made[name].type} comes"
        if made[name].nullable and not output.field(name).nullable:
            return f"{gives}.{name} is None where what it is made of is: declare it as `… | None`"
    return ""


def seconds_of(span: str) -> int:
    """How long a SPAN is; 0 where there is none."""
    if not span:
        return 0
    found = SPAN.fullmatch(span)
    assert found is not None
    return int(found[1]) * UNITS[found[2]]


def _refused(what: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{what}: {why}", code=INVALID_WINDOW)
