"""A record of a worker's log: what some inputs of one task have changed, as bytes.

A record says what is, not what to do: a redo of records that the store has already changes nothing. One record has the
inputs of one slice, because their columns cost less together. Pure; must not know tasks, nor the log.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

Held = bytes | int | float | bool | None


class LoggedInput(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False, eq=False):
    """The effect of one input.

    key       The key of its state, or what it goes by; None if it goes by its identity.
    held      What the key has now: the bytes of `encoding.state`, empty if it has nothing, or a plain value as it is;
              None if the input has not changed it.
    origin, identity  What the input is known by; zeros if it can't come again.
    messages  The trees that it came in: roots without their attempts. One of them stands alone.
    outputs   Its outputs: (number of the class among the record's, bytes).
    first     The count of the first output, if they are named by their count; else -1.
    slot      -1 if it follows from the key, or else from the identity.
    timer     True for a timer that has fired.
    fired     Of a timer: task, latest due time, and how many were set back (`encoding.fired_timers`).
    """

    key: bytes | None
    held: Held
    origin: int
    identity: int
    messages: int | list[int]
    outputs: list[tuple[int, bytes]] = []
    first: int = -1
    slot: int = -1
    timer: bool = False
    fired: tuple[int, int, int] | None = None


class LogRecord(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False, eq=False):
    """The effects of some inputs of a component, as it is known in storage, in their order. `classes`: those of its
    outputs, (name, number of its fields as in `entries.OutputClass`)."""

    component: str
    classes: list[tuple[str, int]]
    inputs: list[LoggedInput]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(LogRecord).decode


def pack(component: str, classes: Sequence[tuple[str, int]], inputs: Sequence[tuple[Any, ...]]) -> bytes:
    """Return a record. Each input is a tuple of the fields of `LoggedInput`; the last ones may be left out."""
    return _encode((component, classes, inputs))


def unpack(data: bytes) -> LogRecord:
    """Return the record in these bytes. Raises ValueError for others."""
    try:
        record = _decode(data)
    except msgspec.MsgspecError as error:
        raise ValueError(f"a record of the log can't be read: {error}") from None
    if any(number >= len(record.classes) or number < 0 for logged in record.inputs for number, _ in logged.outputs):
        raise ValueError("a record of the log can't be read: an output of no class")
    return record
