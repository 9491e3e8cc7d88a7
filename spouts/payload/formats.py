"""The forms of payloads that a source can be given as `value`: a record class, `Json`, `Msgpack`, or a function.

Values; must not know how bytes are decoded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeAlias

from typing_extensions import TypeVar

from spouts.lines import Line
from topology.records import Record

R = TypeVar("R", bound=Record, default=Line)


@dataclass(frozen=True)
class Payload:
    """A message as a source has it before it is decoded.

    attributes  The facts beside the payload, such as its topic; each source's docstring names its own. Headers are
                under `header:NAME`.
    at          The time that the server gives for it, in UTC, or None.
    """

    data: bytes
    attributes: Mapping[str, Any]
    at: datetime | None = None


@dataclass(frozen=True)
class Json(Generic[R]):
    """Payloads that are JSON objects, whose keys are the record's fields. Keys that are no field are ignored.

        MqttSource("mqtt://broker", "sensors/+", value=Json(Reading, fields={"sensor": "topic"}, at="measured_at"))

    A field may be under another key: `user: str = msgspec.field(name="userName")`. Times are ISO 8601 with a zone,
    bytes are base64, Decimals texts or numbers.

    cls     The record class.
    fields  Record fields that are facts beside the payload, and not in it: {"sensor": "topic"}. If a message does not
            have the fact, such as a header, the field has its default, or None if its type has None. Otherwise the
            message is malformed.
    at      The field that has the event time. None: the time that the server gives, if it gives one.
    id      The field that names the message, for a source whose server has no names. It has no default. Another
            content under a name that the source remembers is malformed.
    """

    cls: type[R]
    fields: Mapping[str, str] | None = None
    at: str | None = None
    id: str | None = None


@dataclass(frozen=True)
class Msgpack(Json[R]):
    """Payloads that are msgpack maps, whose keys are the record's fields. As `Json` otherwise; bytes are bytes."""


# `Login` is `Json(Login)`, and `Line` the text. A function makes the record of its annotation: an exception of the
# function makes the message malformed.
Value: TypeAlias = type[R] | Json[R] | Callable[[Payload], R]
