"""Packs the outputs of an input to bytes and back: each record with the number that its class has among
the bolt's.

Classes that an earlier version of the bolt has emitted have numbers too, so that what is remembered of them stays what
it was. Must not know inputs, rows, nor where an output goes.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from topology.codes.tuples import REPLAYED_OUTPUT_UNDECLARED
from topology.errors import RecordError
from topology.records import Record, decoder, encode, schema
from topology.runtime.state.known_input import ENTRY_BYTES
from topology.runtime.tasks.outbox import Outbox
from topology.storage.encoding.entries import OutputClass, output_class

Outputs = Sequence[tuple[int, bytes]]
NOTHING: Final[tuple[Outputs, int]] = (), ENTRY_BYTES


class PackedOutputs:
    """Of one task. `classes`: by number."""

    def __init__(self, component: str, outbox: Outbox) -> None:
        self._component = component
        self._outbox = outbox
        classes = [*outbox.classes.values()]
        self._numbers = {cls: number for number, cls in enumerate(classes)}
        self.classes: list[OutputClass] = [output_class(cls.__name__, schema(cls)) for cls in classes]
        self._decoders: list[Callable[[bytes], Record]] = [decoder(cls) for cls in classes]

    def number_of(self, cls: OutputClass) -> int:
        """The number of a class that something was encoded as; a new one, where that is no class of this bolt now."""
        if cls not in self.classes:
            self.classes.append(cls)
            self._decoders.append(partial(_unreadable, self._component, cls))
        return self.classes.index(cls)

    def packed(self, records: Sequence[Record]) -> tuple[Outputs, int]:
        """As bytes, and how many bytes of memory an input takes with that, about.

        Raises EmitError for a record of a class that is not declared, RecordError for one without a byte form.
        """
        if len(records) == 1 and (number := self._numbers.get(type(record := records[0]))) is not None:
            data = encode(record)
            return ((number, data),), 2 * ENTRY_BYTES + len(data)  # the usual case
        size, outputs = ENTRY_BYTES, []
        for record in records:
            number = self._numbers.get(type(record))
            if number is None:
                self._outbox.outlet(record)  # raises
                raise AssertionError("a class with an outlet has a number")
            data = encode(record)
            size += len(data) + ENTRY_BYTES
            outputs.append((number, data))
        return outputs, size

    def unpacked(self, outputs: Iterable[tuple[int, bytes]]) -> Sequence[Record]:
        """The reverse. Raises RecordError for what an earlier version of a class has encoded."""
        return [self._decoders[number](data) for number, data in outputs]


def _unreadable(component: str, cls: OutputClass, data: bytes) -> Record:
    text = f"{component!r} had emitted a {cls.name} that it does not emit any more, or whose fields have changed"
    raise RecordError(text, code=REPLAYED_OUTPUT_UNDECLARED)
