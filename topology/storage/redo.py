"""Redoes the records of a log over a store: what they have changed since the checkpoint that the store has.

Records say what is, so the last one of a key, an input or a timer counts, and a second redo changes nothing. Must not
know where the records come from.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from topology.groupings import slot_of, slot_of_identity
from topology.records import encoded
from topology.storage.encoding import state
from topology.storage.encoding.entries import KnownEntry, NamedEntry, OutputClass, named, packed_named
from topology.storage.encoding.fired_timers import HaveFired, marks_of
from topology.storage.encoding.log_records import LoggedInput, LogRecord, unpack
from topology.storage.encoding.packing import mark_key
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken
from topology.storage.values import Changes, EntryRow, LoadedStates, Mark, StateChange, StateRow

UNNAMED: Final = (0, 0)  # origin and identity of an input that can't come again


class Redone:
    """The changes that records of a log have made since the content of `store`, which is only read. Holds all of them
    in memory. Raises ValueError for a record that is none, StoreBroken."""

    def __init__(self, store: SqliteStore, records: Iterable[bytes]) -> None:
        self._bodies: dict[str, dict[tuple[int, bytes], bytes]] = {}  # by component, slot and key
        self._fired: dict[bytes, Mark] = {}
        self._entries: dict[str, dict[tuple[int, int], NamedEntry]] = {}  # by component and pair: all that are known
        self.count = 0  # records
        self._seeds: dict[tuple[str, int], int] = {}
        self._load_entries(store)
        for record in records:
            self._take(unpack(record))
            self.count += 1
        self._states = [self._change(store, component) for component in self._bodies]

    def _load_entries(self, store: SqliteStore) -> None:
        for row in store.entries():
            known = self._entries.setdefault(row.component, {})
            try:
                known.update({entry.pair: entry for entry in named(row.entries)})
            except ValueError as error:
                raise StoreBroken(f"{store.path} is damaged: {error}", store.path) from error

    def _take(self, record: LogRecord) -> None:
        classes = [OutputClass(*names) for names in record.classes]
        known = self._entries.setdefault(record.component, {})
        for logged in record.inputs:
            self._take_input(record.component, classes, known, logged)

    def _take_input(
        self, component: str, classes: Sequence[OutputClass], known: dict[tuple[int, int], NamedEntry], one: LoggedInput
    ) -> None:
        slot = one.slot
        if slot < 0:
            slot = slot_of_identity(one.identity) if one.key is None else slot_of(one.key)
        if one.key is not None and one.held is not None:
            content = one.held if isinstance(one.held, bytes) else state.packed(encoded(one.held), {})
            seed = self._seeds.get((component, slot))
            if seed is None:
                seed = self._seeds[component, slot] = state.seed_of(component, slot)
            body = state.body_of(seed, one.key, content) if content else b""
            self._bodies.setdefault(component, {})[slot, one.key] = body
        pair = one.origin, one.identity
        if pair != UNNAMED:
            messages = (one.messages,) if isinstance(one.messages, int) else tuple(one.messages)
            key = one.key if one.first >= 0 and one.key is not None else b""
            entry = KnownEntry(slot, *pair, messages, (), one.timer, key, one.first)
            known[pair] = NamedEntry(entry, tuple([(classes[number], data) for number, data in one.outputs]))
        if one.fired is not None:
            task, *progress = one.fired
            self._fired |= {mark_key(mark): mark for mark in marks_of(component, task, HaveFired(*progress))}

    def _change(self, store: SqliteStore, component: str) -> StateChange:
        bodies = self._bodies[component]
        digest = 0
        for before in store.rows_of(component, [*bodies]):
            digest ^= state.sum_of(before.body)
        for body in bodies.values():
            digest ^= state.sum_of(body)
        return StateChange(component, [StateRow(slot, key, body) for (slot, key), body in bodies.items()], digest)

    @property
    def changes(self) -> Changes:
        """All that has changed, with all inputs that are known now."""
        return Changes(marks=[*self._fired.values()], states=[*self._states], entries=self._entry_rows())

    def over(self, base: LoadedStates) -> LoadedStates:
        """Return what a store has, and after it these changes."""
        rows = dict(base.rows)
        for component, bodies in self._bodies.items():
            same = [row for row in rows.get(component, ()) if (row.slot, row.key) not in bodies]
            rows[component] = same + [StateRow(slot, key, body) for (slot, key), body in bodies.items() if body]
        return LoadedStates(rows, self._entry_rows())

    def marks_over(self, base: Iterable[Mark]) -> list[Mark]:
        """Return a store's marks, and after them the progress of timers."""
        return [*({mark_key(mark): mark for mark in base} | self._fired).values()]

    def under(self, later: Changes) -> Changes:
        """Return these changes and later ones as one. The later ones replace what was there after the redo."""
        marks = self._fired | {mark_key(mark): mark for mark in later.marks}
        for mark in later.over:
            marks.pop(mark_key(mark), None)
        states = {change.component: change for change in self._states}
        for change in later.states:
            before = states.get(change.component)
            states[change.component] = change if before is None else _joined(before, change)
        return Changes(
            [*marks.values()],
            later.over,
            later.begun,
            later.letters,
            later.gone,
            later.trials,
            later.acquitted,
            [*states.values()],
            later.entries,
        )

    def _entry_rows(self) -> list[EntryRow]:
        return [
            EntryRow(component, data)
            for component, known in self._entries.items()
            for data in packed_named(known.values())
        ]


def _joined(one: StateChange, later: StateChange) -> StateChange:
    rows = {(row.slot, row.key): row for row in (*one.rows, *later.rows)}
    return StateChange(one.component, [*rows.values()], one.digest ^ later.digest)
