"""Tables at rest, the columns that a join takes of one, and the join itself, for `joined` and `batch_joined`.

Must not know when a table is read, nor where the result goes. Imports pyspark only in the driver.
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
CSV: Final = "csv"  # has no types: its columns are read as the declared types
OPTIONS: Final = {CSV: {"header": "true", "inferSchema": "false"}}

Types: TypeAlias = Mapping[str, pa.DataType]  # column of a table → its declared type


class Table:
    """A table at rest that a stream is joined with.

    source   A path or URL of a file or folder of Parquet, CSV with a header, or JSON Lines; the name's ending tells
             which. Or a function that takes the SparkSession and returns a DataFrame, for example by JDBC.
    refresh  A span such as "10 minutes", after which the table is read again. "" reads it once per life of the driver.
    format   The name of one of Spark's formats, if the path's ending does not tell it.

    Columns of a CSV file are read as the types that the stream and the output declare. A 007 therefore stays a text if
    a text is declared. Raises ConfigurationError.

        assets = Table("assets.parquet", refresh="10 minutes")
    """

    def __init__(
        self, source: "str | os.PathLike[str] | Callable[[Any], Any]", *, refresh: str = "", format: str = ""
    ) -> None:
        if refresh and not (isinstance(refresh, str) and SPAN.fullmatch(refresh)):
            raise refused("Table", f'refresh={refresh!r:.80} is not a span such as "10 minutes"')
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
                "Table", f"unknown format of {path!r:.200}: pass format=…, or a name that ends in {', '.join(FORMATS)}"
            )
        self.path = path if "://" in path else str(Path(path).absolute())

    def read(self, session: Any) -> Any:
        """Return the table as a DataFrame. Called in the driver."""
        if self.function is not None:
            return self.function(session)
        return session.read.options(**OPTIONS.get(self.format, {})).format(self.format).load(self.path)


def types_of(given: type[Record], on: Sequence[str], output: type[Record]) -> Types:
    """Return the declared types of a table's columns: those of its keys from the stream, all others from the output."""
    types = {field.name: field.type for field in arrow_schema(output)}
    return types | {field.name: field.type for field in arrow_schema(given) if field.name in on}


def taken(table: Table, frame: Any, on: Sequence[str], output: Sequence[str], types: Types) -> Any:
    """Return the columns of the table that its join with `frame` uses, read now. Other columns may have any name.
    Called in the driver. Raises UserError if the table lacks a key or is not a table."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_type

    read = table.read(frame.sparkSession)
    if not isinstance(read, DataFrame) or read.isStreaming:
        what = "a stream" if isinstance(read, DataFrame) else f"a {type(read).__name__}"
        raise UserError(f"the function for the table returns {what}; it must return a DataFrame that is not a stream")
    if missing := [name for name in on if name not in read.columns]:
        raise UserError(f"the table has no column {missing[0]!r}; it has {', '.join(read.columns)}")
    streams = {name.lower() for name in frame.columns}  # Spark treats A and a as the same name
    names = [name for name in read.columns if name in on or (name in output and name.lower() not in streams)]
    columns = {name: f.col(f"`{name}`") for name in names}
    if table.format == CSV:
        columns |= {name: columns[name].cast(from_arrow_type(types[name])) for name in names if name in types}
    read = read.select(*[column.alias(name) for name, column in columns.items()])
    _check_keys(frame, read, on)
    return read


def misfits(now: Any, before: Any, on: Sequence[str], types: Types) -> list[str]:
    """Return why a table that was read again cannot replace the one before, one clause per reason."""
    from pyspark.sql.pandas.types import to_arrow_schema

    there, was = (to_arrow_schema(item.schema, timezone="UTC") for item in (now, before))
    found = [f"the column {name!r} is missing now" for name in was.names if name not in there.names]
    for name in [item for item in was.names if item in there.names and item not in on]:
        kind, wanted = there.field(name).type, types.get(name, was.field(name).type)
        if not fits(kind, wanted):
            found.append(f"{name!r} is {kind} now, but {wanted} is declared")
    return found


def join_of(frame: Any, table: Any, on: Sequence[str], how: str, output: Sequence[str]) -> Any:
    """Return the join of two DataFrames by the columns `on`, with the columns of `output` that it has. If both have a
    column that is not a key, the first one's is taken. Called in the driver."""
    own = [name for name in table.columns if name in on or name not in frame.columns]
    made = frame.join(table.select(*own), list(on), how)
    return made.select(*[name for name in output if name in made.columns])


def problem_of(
    given: type[Record], on: Sequence[str], how: str, output: type[Record], names: Sequence[str], table: str
) -> str:
    """Return what does not fit between a stream and these fields of a join's output; empty if all fits. Fields that the
    stream lacks come from the other side, which messages call `table`."""
    mine, declared = arrow_schema(given), arrow_schema(output)
    for name in names:
        what, field = f"{output.__name__}.{name}", declared.field(name)
        if name in mine.names:
            own: pa.Field = mine.field(name)
            if not fits(own.type, field.type):
                return f"{what} is {field.type}, but the stream has {own.type}"
            if own.nullable and not field.nullable and not (name in on and how == "inner"):
                return f"{given.__name__}.{name} may be None, but {what} may not: declare it as `… | None`"
        elif how == "left" and not field.nullable:
            return f"{what} is None if {table} has no row: declare it as `… | None`"
    return ""


def _check_keys(frame: Any, table: Any, on: Sequence[str]) -> None:
    """Raises UserError if a text would be compared with another type: Spark would convert it to a number, or fail."""
    from pyspark.sql.types import StringType

    for name in on:
        mine, its = frame.schema[name].dataType, table.schema[name].dataType
        if isinstance(mine, StringType) != isinstance(its, StringType):
            text = f"the stream's {name!r} is {mine.simpleString()}, but the table's is {its.simpleString()}"
            raise UserError(f"{text}: change the table, or its function, so that both have the same type")


def refused(what: str, why: str) -> ConfigurationError:
    """Return the error for an invalid declaration of a table, or of a join with one."""
    return ConfigurationError(f"{what}: {why}", code=INVALID_JOIN)
