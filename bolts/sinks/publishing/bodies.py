"""Bodies of messages: a record as a JSON object, or what a function of the user's makes of it.

Pure. Must not know where a body goes.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from bolts.sinks.keys import sink_keys
from bolts.sinks.publishing.publisher import Outgoing
from bolts.sinks.rows import places_by_class
from bolts.sinks.values import BadValue, plain, plain_columns
from topology.clients.registry.bodies import RegistryBody
from topology.core.tuples import Tuple
from topology.records import Record, field_types

Body: TypeAlias = Callable[[Any], "bytes | str"]  # makes the body of a record

_encode: Final = msgspec.json.Encoder().encode


class BodyEncoder:
    """Makes the messages of tuples. `body`: the user's function; None: a JSON object of the record's fields, with times
    in ISO 8601, bytes as base64, Decimals as texts."""

    def __init__(self, body: Body | None = None) -> None:
        self._body = body
        self._shapes: dict[type[Record], Callable[[Sequence[Any]], list[bytes]]] = {}

    async def open(self) -> None:
        """Register the schema, if bodies have one. May be called again. Raises ServerAway, and ConfigurationError for
        what the user has to fix."""
        if isinstance(self._body, RegistryBody):
            await self._body.open()

    def messages(self, tuples: Sequence[Tuple[Any]], refused: dict[int, str]) -> list[tuple[int, Outgoing]]:
        """Return place and message of each tuple, in their order. Enters the reason for each that has none into
        `refused`."""
        bodies: dict[int, bytes] = {}
        for cls, places in places_by_class(tuples).items():
            self._encode(cls, tuples, places, bodies, refused)
        order = [*range(len(tuples))] if len(bodies) == len(tuples) else sorted(bodies)
        chosen = [tuples[place] for place in order]
        keys = sink_keys(chosen, [bodies[place] for place in order])
        return [
            (place, Outgoing(key.hex(), bodies[place], tup.record))
            for place, key, tup in zip(order, keys, chosen, strict=True)
        ]

    def _encode(
        self,
        cls: type[Record],
        tuples: Sequence[Tuple[Any]],
        places: list[int],
        bodies: dict[int, bytes],
        refused: dict[int, str],
    ) -> None:
        """Encode the records at these places, which are of one class; each by itself if one is refused."""
        try:
            made = self._bodies(cls, [tuples[place].record for place in places])
        except BadValue as error:
            if len(places) == 1:
                refused[places[0]] = str(error)
                return
            for place in places:
                self._encode(cls, tuples, [place], bodies, refused)
            return
        bodies.update(zip(places, made, strict=True))

    def _bodies(self, cls: type[Record], records: Sequence[Any]) -> list[bytes]:
        if self._body is not None:
            return [encoded_by(self._body, record) for record in records]
        shape = self._shapes.get(cls)
        if shape is None:
            shape = self._shapes[cls] = _shape(cls)
        return shape(records)


def encoded_by(function: Body, record: Any) -> bytes:
    """Return what the user's function makes of the record, as bytes. Raises BadValue with the function's error."""
    try:
        made = function(record)
    except Exception as error:  # the user's code may raise anything
        raise BadValue(f"its body could not be made: {type(error).__name__}: {error}") from error
    if isinstance(made, str):
        try:
            return made.encode()
        except UnicodeEncodeError as error:
            raise BadValue(f"its body has a lone surrogate: {error}") from error
    if not isinstance(made, bytes):
        raise BadValue(f"its body is bytes or str, and the function returned a {type(made).__name__}")
    return made


def _shape(cls: type[Record]) -> Callable[[Sequence[Any]], list[bytes]]:
    """Return the function that encodes records of this class. Raises BadValue, and so does the function."""
    fields = msgspec.structs.fields(cls)
    try:
        converts = {name: plain(annotation) for name, annotation in field_types(cls).items()}
    except BadValue as error:
        raise BadValue(f"{cls.__name__}: {error}") from error
    names = {field.name: field.encode_name for field in fields}
    shape = msgspec.defstruct(cls.__name__, [field.name for field in fields], rename=names, gc=False)

    def encode(records: Sequence[Any]) -> list[bytes]:
        columns = plain_columns(cls, converts, records)
        objects = [*map(shape, *columns)] if columns else [shape()] * len(records)
        return [*map(_encode, objects)]

    return encode
