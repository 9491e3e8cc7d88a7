"""State as a bolt with state hands it to its store: rows with their checksums, and the digest of what they replace."""

from pathlib import Path

from topology.storage.encoding import state
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Changes, JournalRow, KeptFloor, StateChange, StateRow

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


def held_by(store: SqliteStore) -> Held:
    """What it has of state."""
    loaded = store.states()
    return {(name, one.slot, one.key): one.body for name, rows in loaded.rows.items() for one in rows}


def remembered(number: int, *, size: int = 40) -> JournalRow:
    return JournalRow(number, "count", str(number).encode() * size)


def together(held: Held, number: int, *, lasting: bool = True) -> Changes:
    """All that a commit of a bolt with state may have: keys that are new, changed and gone, a row of the journal, an
    older one that is forgotten, and how far the home was then."""
    rows = [row("n", number), row(f"k{number}", "x" * 300), row(f"k{number - 2}", None)]
    return Changes(
        states=[change(held, *rows), change(held, row("sum", number, 3, "other"), component="other")],
        journal=[remembered(number)],
        forgotten=[number - 2] if number > 2 else [],
        floors=[KeptFloor(0, str(number).encode())],
        lasting=lasting,
    )


def reached(store: SqliteStore) -> int:
    """The number of the last of the commits of `together` that it has; asserts that it has it as a whole."""
    loaded, found = store.loaded, store.states()
    number = loaded.next_journal - 1
    expected: Held = {}
    for one in range(1, number + 1):
        together(expected, one)
    assert held_by(store) == expected
    assert found.journal == [remembered(one) for one in (number - 1, number) if one > 0]
    assert loaded.floors == ((KeptFloor(0, str(number).encode()),) if number else ())
    return number


def files_of(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir() if file.is_file()}
