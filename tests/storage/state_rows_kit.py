"""State as a bolt with state hands it to its store: rows with their checksums, and the digest of what they replace."""

from pathlib import Path
from typing import Protocol

from topology.storage.encoding import state
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Changes, EntryRow, Loaded, LoadedStates, Mark, Span, StateChange, StateRow

Held = dict[tuple[str, int, bytes], bytes]  # component, slot, key → body: what a bolt has in memory


def row(key: str, value: object, slot: int = 7, component: str = "count") -> StateRow:
    """`value` None: nothing is kept of the key any more."""
    content = state.packed(None if value is None else str(value).encode(), {})
    name = key.encode()
    return StateRow(slot, name, state.body_of(state.seed_of(component, slot), name, content) if content else b"")


def change(held: Held, *rows: StateRow, component: str = "count") -> StateChange:
    """These rows, which `held` has from now on."""
    digest = 0
    for one in rows:
        place = component, one.slot, one.key
        digest ^= state.sum_of(held.pop(place, b"")) ^ state.sum_of(one.body)
        if one.body:
            held[place] = one.body
    return StateChange(component, rows, digest)


class Content(Protocol):
    """What a store has, whichever it is."""

    @property
    def loaded(self) -> Loaded: ...

    def states(self) -> LoadedStates: ...


def held_by(store: Content) -> Held:
    """What it has of state."""
    loaded = store.states()
    return {(name, one.slot, one.key): one.body for name, rows in loaded.rows.items() for one in rows}


def remembered(number: int, *, size: int = 40) -> EntryRow:
    return EntryRow("count", str(number).encode() * size)


def together(held: Held, number: int) -> Changes:
    """All that a checkpoint of a bolt with state may have: keys that are new, changed and gone, the inputs that are
    known, and how far a home was."""
    rows = [row("n", number), row(f"k{number}", "x" * 300), row(f"k{number - 2}", None)]
    return Changes(
        marks=[Mark("lines", 0, "p", "e", number, (Span(number, number),), number)],
        states=[change(held, *rows), change(held, row("sum", number, 3, "other"), component="other")],
        entries=[remembered(one) for one in (number - 1, number) if one > 0],
    )


def put(store: SqliteStore, changes: Changes, *, lasting: bool = True) -> None:
    """Commits all of it at once."""
    store.replace(changes, entries=changes.entries, lasting=lasting)


def reached(store: Content) -> int:
    """The number of the last of the commits of `together` that it has; asserts that it has it as a whole."""
    loaded, found = store.loaded, store.states()
    number = max((int(mark.position) for mark in loaded.marks if mark.component == "lines"), default=0)
    expected: Held = {}
    for one in range(1, number + 1):
        together(expected, one)
    assert held_by(store) == expected
    assert found.entries == [remembered(one) for one in (number - 1, number) if one > 0]
    return number


def files_of(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir() if file.is_file()}
