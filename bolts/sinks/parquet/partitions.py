"""The folder of a record below the sink's: by fields, as Hive and most readers name folders, or by a function.

Pure. Must not know files.
"""

import enum
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from bolts.sinks.values import BadValue, shown, text
from topology.clients.errors import invalid
from topology.records import Record, field_types

NAME_BYTES_MAX: Final = 200  # bytes of a folder's name; file systems take 255
PATH_BYTES_MAX: Final = 700  # bytes of the folder's path; S3 takes 1,024 for the sink's path, this one and the file
DEPTH_MAX: Final = 32  # folders, one in the other
NULL: Final = "__HIVE_DEFAULT_PARTITION__"  # how a folder's name says None
_ESCAPED: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\{\[\]^\x7f]""")

PartitionBy: TypeAlias = "str | Sequence[str] | Callable[[Any], str] | None"


class Partitions:
    """The facts that `partition_by` says. `fields` are those that folders' names have, and so files do not."""

    def __init__(self, given: PartitionBy) -> None:
        """Raises ConfigurationError."""
        self._function = given if callable(given) else None
        fields: Sequence[Any] = (
            () if given is None or callable(given) else (given,) if isinstance(given, str) else given
        )
        if not all(isinstance(field, str) and field for field in fields) or len({*fields}) != len(fields):
            raise invalid(
                f"ParquetSink: partition_by is a field, several, or a function of the record, not {given!r:.80}"
            )
        self.fields = tuple(fields)

    def check(self, cls: type[Record]) -> None:
        """Raise ConfigurationError if the class does not have these fields, or no others."""
        kinds = field_types(cls)
        for field in self.fields:
            if field not in kinds:
                raise invalid(f"ParquetSink: {cls.__name__} has no field {field!r} to partition by")
        if self.fields and len(kinds) == len(self.fields):
            raise invalid(f"ParquetSink: {cls.__name__} has no field but those that it is partitioned by")

    def folder(self, record: Any) -> str:
        """Return the path below the sink's folder, with slashes; empty if there are no partitions. Raises BadValue."""
        if self._function is None:
            return _whole([f"{field}={_named(field, getattr(record, field))}" for field in self.fields])
        try:
            made = self._function(record)
        except Exception as error:  # the user's code may raise anything
            raise BadValue(f"its partition could not be made: {type(error).__name__}: {error}") from error
        parts = made.split("/") if isinstance(made, str) else []
        good = bool(parts) and all(part and part[0] not in "._" and not set(part) & set("\\\0") for part in parts)
        if not good or not made.isprintable():
            raise BadValue(f"its partition is {shown(made)}, and a relative path is wanted, such as day=2026-03-01")
        return _whole([_short(part) for part in parts])


def _named(field: str, value: Any) -> str:
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None:
        return NULL
    if type(value) not in (int, str, bool) or value == "":
        wanted = "an int, a bool or a text that is not empty"
        raise BadValue(f"{field}: {shown(value)} names no folder; partition by {wanted}, or by a function")
    name = str(value).lower() if isinstance(value, bool) else text(str(value))
    return _short(_ESCAPED.sub(lambda mark: f"%{ord(mark[0]):02X}", name))


def _whole(parts: Sequence[str]) -> str:
    path = "/".join(parts)
    if len(path.encode()) > PATH_BYTES_MAX:
        raise BadValue(f"its partition {shown(path)} is too long: a path may have {PATH_BYTES_MAX} bytes")
    if len(parts) > DEPTH_MAX:
        raise BadValue(f"its partition {shown(path)} has more than {DEPTH_MAX} folders, one in the other")
    return path


def _short(name: str) -> str:
    if len(text(name).encode()) > NAME_BYTES_MAX:
        raise BadValue(f"{shown(name)} is too long for the name of a folder")
    return name
