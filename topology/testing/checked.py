"""An outbox that encodes every record between tasks and checks it: embedded mode would let pass what workers would not.

A record must come back from its bytes as it was, to the exact types of its fields (B13); else the input that emitted it
fails, naming the emitter. Every delivery then carries a record of its own. Must not know ledgers or spouts.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from topology.codes.tuples import K617
from topology.components import Tuple
from topology.errors import RecordError
from topology.records import Record, decoder, encode
from topology.runtime.outbox import Outbox, Outlet, Staged

_PLAIN: Final = frozenset({int, str, bytes, bool, type(None)})  # what is the same where it is equal, and of one type

_decoders: dict[type[Record], Callable[[bytes], Record]] = {}


class CheckedOutbox(Outbox):
    """Takes the general way for every emission, and checks it there."""

    def __init__(self, component: str, outlets: list[Outlet]) -> None:
        super().__init__(component, outlets)
        self.plain = None

    def stage(
        self,
        staged: Staged,
        record: Record,
        origin: int,
        identity: int,
        root: int,
        others: tuple[int, ...],
        task: int | None = None,
    ) -> int:
        self.outlet(record)  # an undeclared class is said to be that, before anything else
        before = len(staged)
        value = super().stage(staged, record, origin, identity, root, others, task)
        copies = self._copies(record, len(staged) - before)
        for index, copied in enumerate(copies, before):
            queue, tup = staged[index]
            staged[index] = queue, _with_record(tup, copied)
        return value

    def _copies(self, record: Record, count: int) -> list[Record]:
        """Copies through the byte form; checked even where nobody reads them. Raises RecordError naming the emitter."""
        try:
            data = encode(record)
            decode = _decoders.get(type(record)) or _decoders.setdefault(type(record), decoder(type(record)))
            copies = [decode(data) for _ in range(count or 1)]
        except RecordError as error:
            raise RecordError(f"{self.component!r} emitted {record!r:.200}: {error}", code=K617) from None
        if not _same(record, copies[0]):
            problem = difference(record, copies[0], type(record).__name__)
            raise RecordError(f"{self.component!r} emitted {record!r:.200}: {problem}", code=K617)
        return copies[:count]


def _same(value: Any, again: Any) -> bool:
    """Whether `difference` finds none; nearly always so, and quickly seen."""
    kind = type(value)
    if kind is not type(again):
        return False
    if kind in _PLAIN:
        return bool(value == again)
    if kind is tuple:
        return len(value) == len(again) and all(map(_same, value, again))
    if issubclass(kind, Record):
        return all(_same(getattr(value, name), getattr(again, name)) for name in kind.__struct_fields__)
    return difference(value, again, "") is None


def difference(value: Any, again: Any, where: str) -> str | None:
    """What of a value its byte form does not keep, in one sentence; None where `again` is the same, types and all."""
    if type(value) is not type(again):
        return f"{where} holds {value!r:.80}, a {type(value).__name__}; by its annotation it is {again!r:.80}"
    if isinstance(value, Record):
        fields = value.__struct_fields__
        pairs = ((getattr(value, name), getattr(again, name), f"{where}.{name}") for name in fields)
        return next((found for pair in pairs if (found := difference(*pair))), None)
    if isinstance(value, tuple):
        pairs = ((one, other, f"{where}[{index}]") for index, (one, other) in enumerate(zip(value, again, strict=True)))
        return next((found for pair in pairs if (found := difference(*pair))), None)
    if isinstance(value, datetime) and value.utcoffset() != timedelta(0):
        return f"{where} holds {value!r}, which is not in UTC"
    if isinstance(value, frozenset):
        same = value == again and sorted(map(_kind, value)) == sorted(map(_kind, again))
    else:
        same = value == again or (value != value and again != again)  # NaN comes back as NaN
    return None if same else f"{where} holds {value!r:.80}, and comes back as {again!r:.80}"


def _kind(value: Any) -> str:
    return type(value).__name__


def _with_record(tup: Tuple[Any], record: Record) -> Tuple[Any]:
    return msgspec.structs.replace(tup, record=record)
