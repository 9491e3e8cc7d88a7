"""Tables at rest, what a join takes of one, and the join itself, for `joined` and `batch_joined`.

Must not know when a table is read, nor what becomes of the result. Imports pyspark only in the driver.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from bridge.arrow.schema import arrow_schema, fits
from bridge.errors import UserError
from bridge.queries.windows import SPAN, seconds_of
from topology.codes.settings import INVALID_JOIN
from topology.errors import ConfigurationError
from topology.records import Record

FORMATS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
HOWS: Final = ("inner", "left")
CSV: Final = "csv"  # which knows no types: its columns are read as what is declared, whatever is in them today
OPTIONS: Final = {CSV: {"header": "true", "inferSchema": "false"}}

Types: TypeAlias = Mapping[str, pa.DataType]  # of columns of a table, as they are declared


class Table:
    """A table at rest: a file or a folder of Parquet, CSV with a header, or JSON Lines, by path or URL, which its name
    tells (`format` says it otherwise: one of Spark's); or a function that is given the SparkSession and returns a
    DataFrame, by JDBC say. `refresh`: after this long it is read again; "" reads it once a life of the driver.

    Columns of a CSV file are read as the types that the stream and the output declare, so that 007 stays a text where a
    text is declared. Raises ConfigurationError.
    """

    def __init__(
        self, source: "str | os.PathLike[str] | Callable[[Any], Any]", *, refresh: str = "", format: str = ""
    ) -> None:
        if refresh and not (isinstance(refresh, str) and SPAN.fullmatch(refresh)):
            raise refused("Table", f'refresh={refresh!r:.80} is no span; "10 minutes" is one')
        self.refresh_s = seconds_of(refresh) if refresh else float("inf")
        self.function: Callable[[Any], Any] | None = None
        self.path = self.format = ""
        if callable(source):
            self.function = source
            return
        if not isinstance(source, str | os.PathLike):
            raise refused("Table", f"{source!r:.80} is neither a path nor a function")
        path = os.fspath(source)
        self.format = format or FORMATS.get(Path(path).suffix.lower(), "")
        if not self.format:
            raise refused(
                "Table", f"what {path!r:.200} is can't be told: its name ends in none of {', '.join(FORMATS)}"
            )
        self.path = path if "://" in path else str(Path(path).absolute())

    def read(self, session: Any) -> Any:
        """A DataFrame. In the driver."""
        if self.function is not None:
            return self.function(session)
        return session.read.options(**OPTIONS.get(self.format, {})).format(self.format).load(self.path)


def types_of(given: type[Record], on: Sequence[str], output: type[Record]) -> Types:
    """As what the columns of a table are declared: its keys by the stream, all else by the output."""
    types = {one.name: one.type for one in arrow_schema(output)}
    return types | {one.name: one.type for one in arrow_schema(given) if one.name in on}


def taken(table: Table, frame: Any, on: Sequence[str], output: Sequence[str], types: Types) -> Any:
    """The columns of the table that its join with `frame` gives or goes by, read now: what else it has may be called
    anything. In the driver. Raises NeedsMending where it lacks a key, or is no table."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_type

    read = table.read(frame.sparkSession)
    if not isinstance(read, DataFrame) or read.isStreaming:
        what = "a stream" if isinstance(read, DataFrame) else f"a {type(read).__name__}"
        raise UserError(f"the function for the table returns {what}; a DataFrame at rest is wanted")
    if missing := [name for name in on if name not in read.columns]:
        raise UserError(f"the table has no column {missing[0]!r}; it has {', '.join(read.columns)}")
    streams = {name.lower() for name in frame.columns}  # Spark takes A and a for one
    names = [name for name in read.columns if name in on or (name in output and name.lower() not in streams)]
    columns = {name: f.col(f"`{name}`") for name in names}
    if table.format == CSV:
        columns |= {name: columns[name].cast(from_arrow_type(types[name])) for name in names if name in types}
    read = read.select(*[one.alias(name) for name, one in columns.items()])
    _check_keys(frame, read, on)
    return read


def misfits(now: Any, before: Any, on: Sequence[str], types: Types) -> list[str]:
    """Why a table that was read again can't be joined in place of what it was before, a clause each."""
    from pyspark.sql.pandas.types import to_arrow_schema

    there, was = (to_arrow_schema(one.schema, timezone="UTC") for one in (now, before))
    found = [f"there is no column {name!r} any more" for name in was.names if name not in there.names]
    for name in [one for one in was.names if one in there.names and one not in on]:
        kind, wanted = there.field(name).type, types.get(name, was.field(name).type)
        if not fits(kind, wanted):
            found.append(f"{name!r} is {kind} now, and {wanted} is declared")
    return found


def join_of(frame: Any, table: Any, on: Sequence[str], how: str, output: Sequence[str]) -> Any:
    """The join of two DataFrames by the columns `on`, with those of `output` that it has; where both have one that is
    no key, the first one's. In the driver."""
    own = [name for name in table.columns if name in on or name not in frame.columns]
    made = frame.join(table.select(*own), list(on), how)
    return made.select(*[name for name in output if name in made.columns])


def problem_of(
    given: type[Record], on: Sequence[str], how: str, output: type[Record], names: Sequence[str], table: str
) -> str:
    """What does not fit between a stream and these fields of a join's output; empty where all does. What the stream has
    not got comes from the other side, which is called `table`."""
    mine, declared = arrow_schema(given), arrow_schema(output)
    for name in names:
        what, field = f"{output.__name__}.{name}", declared.field(name)
        if name in mine.names:
            own: pa.Field = mine.field(name)
            if not fits(own.type, field.type):
                return f"{what} is {field.type}, and {own.type} comes"
            if own.nullable and not field.nullable and not (name in on and how == "inner"):
                return f"{given.__name__}.{name} may be None, and {what} may not: declare it as `… | None`"
        elif how == "left" and not field.nullable:
            return f"{what} is None where {table} has no row: declare it as `… | None`"
    return ""


def _check_keys(frame: Any, table: Any, on: Sequence[str]) -> None:
    """Raises NeedsMending where a text would be compared with something else: Spark makes a number of it, or fails."""
    from pyspark.sql.types import StringType

    for name in on:
        mine, its = frame.schema[name].dataType, table.schema[name].dataType
        if isinstance(mine, StringType) != isinstance(its, StringType):
            told = f"the stream's {name!r} is {mine.simpleString()}, and the table's is {its.simpleString()}"
            raise UserError(f"{told}: have the function, or who writes the table, give it as the stream has it")


def refused(what: str, why: str) -> ConfigurationError:
    """Of a table, or of a join with one, as it is declared."""
    return ConfigurationError(f"{what}: {why}", code=INVALID_JOIN)
