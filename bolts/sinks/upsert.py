"""Upsert mode: one row per key of the user's fields, which holds the highest revision (C8). Checks the user's options.

Pure. Must not know any store. A row is replaced only by a row of a higher revision. So a late attempt, for example of a
worker that was replaced, cannot undo a newer row. Without a revision nothing could decide which of two rows is newer:
neither the order of arrival nor that of identities is the order of events. So a revision is required.
"""

import enum
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from bolts.sinks.values import without_none
from topology.codes.settings import INVALID_SINK_MODE, INVALID_UPSERT_RECORD
from topology.errors import ConfigurationError, did_you_mean
from topology.records import Record, field_types

Mode: TypeAlias = Literal["append", "upsert"]

# equality of these types is the same in every store; that of float and Decimal is not
_KEYS: Final = (int, str, bytes, bool, datetime)
_REVISIONS: Final = (int, datetime)


@dataclass(frozen=True)
class Upsert:
    """The fields whose values name a row, and the field whose highest value wins.

    Two records of one key and revision with other contents are divergent: the stored one stays.
    """

    key: tuple[str, ...]
    revision: str

    def check(self, cls: type[Record]) -> None:
        """Raises ConfigurationError if this class cannot be stored in upsert mode."""
        fields = field_types(cls)
        for name in (*self.key, self.revision):
            if name not in fields:
                text = f"{cls.__name__} has no field {name!r} for upsert mode{did_you_mean(name, fields)}"
                raise ConfigurationError(text, code=INVALID_UPSERT_RECORD)
        for name in self.key:
            kind, optional = without_none(fields[name])
            if optional or not _is_key(kind):
                raise ConfigurationError(
                    f"{cls.__name__}.{name} can't be part of a key: that is an int, str, bytes, bool, datetime, enum "
                    f"or Literal, and never None",
                    code=INVALID_UPSERT_RECORD,
                )
        kind, optional = without_none(fields[self.revision])
        if optional or kind not in _REVISIONS:
            text = f"{cls.__name__}.{self.revision} can't be the revision: that is an int or a datetime, and never None"
            raise ConfigurationError(text, code=INVALID_UPSERT_RECORD)


def upsert_of(sink: str, mode: Mode, key: Sequence[str], revision: str | None) -> Upsert | None:
    """Return the upsert options of a sink, None in append mode. Raises ConfigurationError."""
    if mode not in typing.get_args(Mode):
        raise ConfigurationError(f"{sink}: mode is 'append' or 'upsert', not {mode!r}", code=INVALID_SINK_MODE)
    if mode == "append":
        if key or revision is not None:
            raise ConfigurationError(f"{sink}: key and revision belong to mode='upsert'", code=INVALID_SINK_MODE)
        return None
    if isinstance(key, str) or not key or not all(isinstance(name, str) for name in key):
        raise ConfigurationError(
            f"{sink}: upsert mode needs key=(…), the names of fields, not {key!r}", code=INVALID_SINK_MODE
        )
    if not isinstance(revision, str):
        raise ConfigurationError(f"{sink}: upsert mode needs revision='…', the name of a field", code=INVALID_SINK_MODE)
    if len(set(key)) < len(key) or revision in key:
        text = f"{sink}: key={tuple(key)!r} and revision={revision!r} name a field twice"
        raise ConfigurationError(text, code=INVALID_SINK_MODE)
    return Upsert(tuple(key), revision)


def _is_key(kind: Any) -> bool:
    if typing.get_origin(kind) is Literal:
        return all(type(value) in _KEYS for value in typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return all(type(member.value) in _KEYS for member in kind)
    return kind in _KEYS
