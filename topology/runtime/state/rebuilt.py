"""The executor of a bolt with `recovery = "replay"`: its state is in memory alone, and rebuilt from its inputs.

An input of a key stays unacked until that key is cleared, so that its source gives it again after a crash (A19). Its
outputs leave at once, anchored to it. How many are held is bounded: there the sources wait. Must not know stores.
"""

from collections.abc import Sequence
from typing import Any

from topology.core.tuples import Tuple
from topology.records import Record
from topology.runtime.state.keyed_executor import messages_of
from topology.runtime.state.known_input import ENTRY_BYTES, KnownInput
from topology.runtime.state.lookups import Pair
from topology.runtime.state.state_executor import StateExecutor
from topology.runtime.state.state_value import StateValue


class RebuiltStateExecutor(StateExecutor):
    """As StateExecutor without a log, but for when it acks."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._held: dict[bytes, dict[Pair, tuple[Tuple[Any], int]]] = {}  # key → its inputs, and what each has sent
        self._count = 0
        self._inputs.takes = self.done

    def done(self, tup: Tuple[Any], records: Sequence[Record], state: StateValue | None) -> None:
        assert state is not None, "a bolt without state has nothing to rebuild"
        held = state.held(0) if state.changed else None
        sent = self.outbox.emit(records, tup) if records else 0
        if state.changed:
            self.keys.put(state.key, held)
        if tup.root:
            self.known.now[tup.origin, tup.identity] = KnownInput(messages_of(tup), state.key, records)
            self.known.bytes += ENTRY_BYTES
            self._hold(state.key, tup, sent)
        if not self._has(state.key):
            self._release(state.key)

    def ack_input(self, tup: Tuple[Any], sent: int) -> None:
        """Of an input that is known. While its key has a state it is held again, in place of the attempt before, whose
        tree is over."""
        key = tup.source.key(tup.record) if tup.source.key is not None else b""
        if tup.root and self._has(key):
            self._hold(key, tup, sent)
        else:
            super().ack_input(tup, sent)

    def _has(self, key: bytes) -> bool:
        """Return True if the key has a state."""
        held = self.keys.get(key)
        return type(held) is not bytes or bool(held)

    def _hold(self, key: bytes, tup: Tuple[Any], sent: int) -> None:
        held = self._held.setdefault(key, {})
        pair = tup.origin, tup.identity
        self._count += pair not in held
        held[pair] = tup, sent

    def _release(self, key: bytes) -> None:
        held = self._held.pop(key, {})
        self._count -= len(held)
        for tup, sent in held.values():
            super().ack_input(tup, sent)
        if self.waiting_room.futures and not self.full:
            self.waiting_room.let_in()

    def go_back(self) -> None:
        """As for all, and what is not known any more is not held: it comes again, perhaps under another key."""
        super().go_back()
        for key, held in [*self._held.items()]:
            kept = {pair: one for pair, one in held.items() if self.known.get(pair) is not None}
            self._count -= len(held) - len(kept)
            self._held[key] = kept
            if not kept:
                del self._held[key]

    def inputs_ended(self) -> None:
        """Nothing that is held matters any more."""
        for key in [*self._held]:
            self._release(key)

    @property
    def full(self) -> bool:
        return super().full or self._count >= self.bolt.holds_max

    @property
    def why_full(self) -> str:
        held = f"{self._count:,} inputs that it holds until their keys are cleared (holds_max)"
        return held if self._count >= self.bolt.holds_max else super().why_full

    def held(self) -> list[Tuple[Any]]:
        return [*super().held(), *(tup for held in self._held.values() for tup, _ in held.values())]
