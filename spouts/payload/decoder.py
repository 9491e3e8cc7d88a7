"""From a payload to a message: the record, its event time, and its id if a field has it; or `Malformed`.

Knows record classes and forms of bytes; must not know servers, ids of brokers or the loop.
"""

import hashlib
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic

import msgspec
from typing_extensions import TypeVar

from acker.identity import MessageId
from spouts.lines import Line, line_of
from spouts.payload.errors import wrong_payload_class
from spouts.payload.formats import Json, Msgpack, Payload, Value
from spouts.payload.object_form import ObjectForm, converter, has_default, in_utc, takes_none
from topology.clients.errors import invalid
from topology.clients.registry.values import RegistryValue
from topology.dead_letters import Malformed
from topology.errors import ConfigurationError, Reject
from topology.records import Record, field_types, is_record
from topology.text import printable

R = TypeVar("R", bound=Record, default=Line)

DIGEST_BYTES: Final = 16  # of what a message has


@dataclass(frozen=True)
class Decoded(Generic[R]):
    """A decoded payload. `id` is None if no field has it, or the payload is malformed."""

    record: R | Malformed
    at: datetime | None
    id: MessageId | None = None


class PayloadDecoder(Generic[R]):
    """Makes records of the payloads of one source.

    `offered` names the facts beside the payload that the source gives, without headers. `from_texts`: the values of the
    objects are texts, which become numbers and others as the record class has it. `fetches`: the source fetches schemas
    before it decodes, so `value` may be of a registry. Raises ConfigurationError, which begins with `source`, for a
    `value` that does not fit the record class or the source.
    """

    def __init__(
        self,
        source: str,
        value: Value[R] | RegistryValue[R],
        offered: frozenset[str] = frozenset(),
        *,
        from_texts: bool = False,
        fetches: bool = False,
    ) -> None:
        self._source = source
        self._strict = not from_texts
        self.names_messages = isinstance(value, Json) and value.id is not None
        given: Any = value
        if isinstance(value, RegistryValue) and not fetches:
            raise self._wrong("payloads of a schema registry are read by KafkaSource")
        is_form = isinstance(given, Json | RegistryValue)
        form: Json[Any] | RegistryValue[Any] | None = (
            Json(given) if inspect.isclass(given) else given if is_form else None
        )
        self.cls: Any = self._class_of_function(given) if form is None else self._record_class(form.cls)
        self._types = field_types(self.cls)
        beside = dict((form.fields if form is not None else None) or {})
        self._check(beside, offered)
        self._at = self._field("at", form.at if form is not None else None, (datetime,))
        self._id = self._field("id", form.id if form is not None else None, (str, int, bytes))
        self._beside = [(name, fact, converter(self._types[name])) for name, fact in beside.items()]
        function: Any = value
        self._read: Callable[[Payload], Any] = self._checked(function) if form is None else self._reader(form, given)

    def emits(self) -> tuple[type[Record], ...]:
        """Return the streams of the source."""
        return (self.cls, Malformed)

    def decode(self, payload: Payload) -> Decoded[R]:
        """Decode one payload. Never raises: what does not fit is `Malformed`."""
        try:
            record = self._read(payload)
            at = payload.at
            if self._at is not None and (at := getattr(record, self._at)) is not None:
                at = in_utc(at)
            return Decoded(record, at, None if self._id is None else getattr(record, self._id))
        except Exception as error:  # the user's function may raise anything; an error of ours here would be the data's
            return Decoded(malformed(payload, error), payload.at)

    # -- how payloads are read

    def _reader(self, form: Json[Any] | RegistryValue[Any], given: object) -> Callable[[Payload], Any]:
        if given is Line:
            return lambda payload: line_of(payload.data)
        objects = ObjectForm(self.cls, [name for name, _, _ in self._beside])
        decode: Callable[[bytes], Any]
        if isinstance(form, RegistryValue):
            decode = form.decode_as(objects.twin)
        else:
            decoder = msgspec.msgpack.Decoder if isinstance(form, Msgpack) else msgspec.json.Decoder
            decode = decoder(objects.twin, strict=self._strict).decode
        if not self._beside:
            return lambda payload: objects.record(decode(payload.data))
        beside = {name for name, _, _ in self._beside}
        defaults = {name for name in beside if has_default(self.cls, name)}
        nones = {name for name in beside - defaults if takes_none(self._types[name])}
        own = [name for name in self._types if name not in beside]

        def record(payload: Payload) -> Any:
            values = dict(zip(own, objects.values(decode(payload.data)), strict=True))
            for name, fact, convert in self._beside:
                if (value := payload.attributes.get(fact)) is not None:
                    values[name] = convert(value)
                elif name in nones:
                    values[name] = None
                elif name not in defaults:
                    raise Reject(f"it has no {fact.replace(':', ' ', 1)} for the field {name!r}")
            return self.cls(**values)

        return record

    def _checked(self, function: Callable[[Payload], Any]) -> Callable[[Payload], Any]:
        cls = self.cls

        def record(payload: Payload) -> Any:
            made = function(payload)
            if type(made) is not cls:
                raise TypeError(f"the function of `value` returned a {type(made).__name__}, not a {cls.__name__}")
            return made

        return record

    # -- what is wrong with `value`

    def _record_class(self, value: Any) -> Any:
        if is_record(value):
            return value
        shown = value.__name__ if inspect.isclass(value) else repr(value)
        raise self._wrong(f"value is a record class, Json(…), Msgpack(…) or a function, not {shown:.80}")

    def _class_of_function(self, value: Any) -> Any:
        if not callable(value):
            return self._record_class(value)
        try:
            found = typing.get_type_hints(value).get("return")
        except Exception as error:  # an annotation in quotes is the user's code
            raise self._wrong(f"the annotations of `value` cannot be resolved: {error}") from error
        if is_record(found):
            return found
        raise self._wrong("a function as `value` names the record class that it returns: def read(payload) -> Login")

    def _check(self, beside: Mapping[str, str], offered: frozenset[str]) -> None:
        for name, fact in beside.items():
            if name not in self._types:
                raise self._wrong(f"{self.cls.__name__} has no field {name!r:.80}")
            if fact not in offered and not fact.startswith("header:"):
                known = ", ".join(sorted(offered)) or "none"
                raise self._wrong(f"there is no {fact!r:.80} beside its payloads; there is {known}")

    def _field(self, argument: str, name: str | None, kinds: tuple[type, ...]) -> str | None:
        if name is None:
            return None
        if name not in self._types:
            raise self._wrong(f"{self.cls.__name__} has no field {name!r:.80} for {argument}")
        kind = self._types[name]
        parts = set(typing.get_args(kind) if typing.get_origin(kind) else (kind,)) - {type(None)}
        if not parts <= {*kinds} or (argument == "id" and kind not in kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise self._wrong(f"{argument} names a field of type {wanted}, and {name} is {kind}")
        if argument == "id" and has_default(self.cls, name):
            text = f"id names a field without a default, as messages that leave out {name!r:.80} would be one message"
            raise invalid(f"{self._source}: {text}")
        return name

    def _wrong(self, text: str) -> ConfigurationError:
        return wrong_payload_class(f"{self._source}: {text}")


def content_digest(*parts: bytes) -> bytes:
    """Return a short digest of a message's content. It differs if the parts are cut otherwise."""
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        found.update(b"%d:" % len(part))
        found.update(part)
    return found.digest()


def malformed(payload: Payload, error: BaseException | str) -> Malformed:
    """Return the record for a payload that could not be read, with the reason in one line."""
    if isinstance(error, str):
        reason = error
    elif isinstance(error, Reject | msgspec.MsgspecError | UnicodeDecodeError):
        reason = str(error)
    else:
        reason = f"{type(error).__name__}: {error}"
    attributes = tuple((name, str(value)) for name, value in payload.attributes.items())
    return Malformed(bytes(payload.data), printable(reason), attributes)
