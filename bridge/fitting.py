"""Whether a query gives the columns that its `output` declares, and whether its rows can be records of that class.

Pure: Arrow's schemas and tables. The driver asks, before anything of a query is kept, so that who has written it learns
of it by name, and not who reads its results.
"""

from collections.abc import Iterator

import pyarrow as pa

from bridge.columns import PRESENT
from bridge.schema import fits


def mismatches(declared: pa.Schema, given: pa.Schema) -> list[str]:
    """What is wrong with the given columns, a clause each, naming them; empty where they fit, in whatever order."""
    found = [f"there is no column {name!r}" for name in declared.names if name not in given.names]
    found += [f"{name!r} is not declared" for name in dict.fromkeys(given.names) if name not in declared.names]
    found += [f"{name!r} is there twice" for name in dict.fromkeys(given.names) if given.names.count(name) > 1]
    for name in declared.names:
        if given.names.count(name) == 1 and not fits(given.field(name).type, declared.field(name).type):
            found.append(f"{name!r} is {given.field(name).type}, and {declared.field(name).type} is declared")
    return found


def fitted(table: pa.Table, declared: pa.Schema) -> pa.Table:
    """The rows, with the columns in the declared order. Raises ValueError for a NULL where none may be."""
    for field in declared:
        for where, count in _nulls(field, table.column(field.name).combine_chunks(), field.name):
            raise ValueError(f"{where!r} is NULL in {count:,} of {table.num_rows:,} rows; declare it as `… | None`")
    return table.select(declared.names)


def _nulls(field: pa.Field, array: pa.Array, where: str) -> Iterator[tuple[str, int]]:
    """Where there are NULLs that are not declared, parts of records and of tuples too."""
    if array.null_count and (not field.nullable or field.metadata == PRESENT):
        yield where, array.null_count
    if pa.types.is_struct(field.type):
        parts = array.drop_null()
        for name, part in zip([one.name for one in array.type], parts.flatten(), strict=True):
            yield from _nulls(field.type.field(name), part, f"{where}.{name}")
    elif pa.types.is_list(field.type):
        yield from _nulls(field.type.value_field, array.drop_null().flatten(), f"{where}[]")
