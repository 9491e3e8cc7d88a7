"""A store's state, the known inputs, and the number of each component in it. They are read as a whole, in pages or row
by row, and written within a transaction.

Next to a component's number, the store notes the placement for which its rows were last filed (`partition`), as opaque
bytes. Two kinds of rows have names that no component can have: staged rows, which will replace a component's rows, and
replaced rows until they are removed. Must not know workers, nor what a key or a value means.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from topology.storage.encoding import packing
from topology.storage.sqlite import state_table, tables
from topology.storage.sqlite.database import Damaged, Database
from topology.storage.values import EntryRow, LoadedStates, StateChange, StateRow

STAGED: Final = "\0new "  # prefix of a component's name: rows that will become its own, all at once
REPLACED: Final = "\0old "  # prefix of a component's name: rows that were its own


_ENTRIES_KEY: Final = 4  # bytes


class StateComponent(NamedTuple):
    """The store's data about a component."""

    number: int  # its rows of state begin with it
    filed: bytes = b""  # the placement that they are filed for; empty: unknown


class StateRows:
    """The state of one open file. Methods that read raise Damaged, ValueError, StoreBroken. `known`: by component."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.components, self.entries = tables.RowTable("components"), tables.RowTable("entries")
        self.known: dict[str, StateComponent] = {}
        self._is_whole = False  # True once a check has found that no row of state is missing

    def load(self, *, entries: bool) -> None:
        """Read the components' numbers, and the keys of the rows of known inputs if there is a table of them. The
        contents are read later."""
        for key, body in tables.loaded(self._database, self.components):
            self.known[packing.component_of(key)] = StateComponent(int.from_bytes(body[:2], "big"), body[2:])
        for _ in tables.known(self._database, self.entries) if entries else ():
            pass

    def all(self, digest: int) -> LoadedStates:
        """Return everything, in one pass; `digest` is that of all rows of state."""
        entries = self.entry_rows()
        names = {entry.number: own_name(name) for name, entry in self.known.items()}
        rows, sums = state_table.read(self._database, names)
        if sums != digest:
            raise Damaged("rows of state are missing, or are older than others")
        return LoadedStates(rows, entries)

    def page(self, component: str, slots: range, after: StateRow | None, digest: int) -> list[StateRow]:
        """Return the first rows of these slots, or those after `after`, by slot and key; empty if there are no more.
        `digest` is that of all rows of state: a missing row is found before any row moves elsewhere (F22)."""
        self._check(digest)
        one = self.known.get(component)
        if one is None:
            return []
        return state_table.page(self._database, one.number, own_name(component), slots, after)

    def row(self, component: str, slot: int, key: bytes, digest: int) -> StateRow | None:
        """Return the row of one key; None if it has no data. `digest` as for `page`."""
        self._check(digest)
        one = self.known.get(component)
        if one is None:
            return None
        return state_table.row(self._database, one.number, own_name(component), slot, key)

    def _check(self, digest: int) -> None:
        if not self._is_whole and state_table.digest(self._database) != digest:
            raise Damaged("rows of state are missing, or are older than others")
        self._is_whole = True

    def there(self, component: str, rows: Iterable[StateRow]) -> set[tuple[int, bytes]]:
        """Return (slot, key) of each given row that this store already holds, whatever its value."""
        one = self.known.get(component)
        return set() if one is None else state_table.there(self._database, one.number, rows)

    def of_keys(self, component: str, places: Sequence[tuple[int, bytes]]) -> list[StateRow]:
        """Return the rows of these keys, each (slot, key), that have data."""
        one = self.known.get(component)
        if one is None:
            return []
        return state_table.of_keys(self._database, one.number, own_name(component), places)

    def entry_rows(self) -> list[EntryRow]:
        """Return all rows of known inputs."""
        return [packing.entries_of(tables.read(self._database, self.entries, key)) for key in sorted(self.entries.rows)]

    # -- within a transaction

    def put_states(self, writing: tables.Writing, known: dict[str, StateComponent], change: StateChange) -> None:
        """Write changed rows. `known` is the state of the components after the transaction."""
        one = self._known(writing, known, change.component)
        state_table.write(self._database, one.number, change.rows)

    def put_entries(self, writing: tables.Writing, rows: Sequence[EntryRow]) -> None:
        """Replace all rows of known inputs."""
        keys = [number.to_bytes(_ENTRIES_KEY, "big") for number in range(len(rows))]
        for key, row in zip(keys, rows, strict=True):
            writing.put(self.entries, key, packing.packed_entries(row))
        writing.remove_all(self.entries, self.entries.rows.keys() - {*keys})

    def put_filed(
        self, writing: tables.Writing, known: dict[str, StateComponent], filed: Mapping[str, bytes | None]
    ) -> None:
        """Set the placement that these components' rows are filed for; None: the component has no rows, and will have
        none."""
        for name, what in filed.items():
            if what is None:
                self._drop(writing, known, name)
                continue
            self._note(writing, known, name, self._known(writing, known, name)._replace(filed=what))

    def put_in_place(
        self, writing: tables.Writing, known: dict[str, StateComponent], component: str, filed: bytes
    ) -> None:
        """Make the staged rows of a component its own; its former rows become replaced ones."""
        before = known.get(component)
        after = self._known(writing, known, STAGED + component)
        self._drop(writing, known, STAGED + component)
        self._note(writing, known, component, after._replace(filed=filed))
        if before is not None:
            self._note(writing, known, REPLACED + component, StateComponent(before.number))

    def _known(self, writing: tables.Writing, known: dict[str, StateComponent], name: str) -> StateComponent:
        if name not in known:
            self._note(
                writing, known, name, StateComponent(max((entry.number for entry in known.values()), default=0) + 1)
            )
        return known[name]

    def _drop(self, writing: tables.Writing, known: dict[str, StateComponent], name: str) -> None:
        writing.remove(self.components, packing.component_key(name))
        known.pop(name, None)

    def _note(self, writing: tables.Writing, known: dict[str, StateComponent], name: str, one: StateComponent) -> None:
        writing.put(self.components, packing.component_key(name), one.number.to_bytes(2, "big") + one.filed)
        known[name] = one


def own_name(name: str) -> str:
    """Return the component's name, for staged or replaced rows too: their checksums begin with it."""
    return name.removeprefix(STAGED).removeprefix(REPLACED)
