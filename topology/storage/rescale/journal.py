"""The journal between two runs: its entries move with their slots (D7), and nearly all are deleted if all input was
done when the last run ended (D4, E1).

A row has entries of several slots. Entries that move are first written to new rows at their destination, durably. Then
a row with the remaining entries replaces the old row. After a crash, two rows may hold the same entries; the code that
restores them takes the later. Must not know why anything moves.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

from topology.groupings import task_of_slot
from topology.storage.encoding.journal import JournalInput, packed, unpacked
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken
from topology.storage.values import Changes, JournalRow

ROWS_AT_ONCE: Final = 500  # rows of the journal in memory
BYTES_AT_ONCE: Final = 4 * 1024 * 1024  # bytes of them in memory, except for a single larger row

Homes = Callable[[str, JournalInput], int | None]  # the store that a component's entry belongs to; None: no store


def file_journal(stores: Mapping[int, SqliteStore], number: int, placements: Mapping[str, Sequence[int]]) -> int:
    """Move the entries in one store that belong to tasks of other workers; return their number. Entries of components
    without a placement stay. Raises StoreFull, StoreBroken."""

    def home(component: str, one: JournalInput) -> int:
        placement = placements.get(component)
        return number if placement is None else placement[task_of_slot(one.slot, len(placement))]

    return _filed(stores, number, home)


def empty_journal(stores: Mapping[int, SqliteStore]) -> None:
    """Delete the memory of inputs after a run that has done all of its input, but keep entries that may come again.
    Store the floors up to which all was done.

    Three kinds of entries may come again. Dead letters, whose origins may be in any store. Entries for several
    messages, of which it is unknown which one is dead. Emissions of a timer, which only the journal sends again. Raises
    StoreFull, StoreBroken.
    """
    dead = {origin for store in stores.values() for origin in store.loaded.dead_origins}
    for number, store in stores.items():

        def home(component: str, one: JournalInput, here: int = number) -> int | None:
            stays = one.timer or one.origin in dead or (dead and len(one.messages) > 1)
            return here if stays else None

        _filed(stores, number, home)
        if floors := store.loaded.floors:
            store.replace(Changes(), floors=floors)


def _filed(stores: Mapping[int, SqliteStore], number: int, home: Homes) -> int:
    source, moved = stores[number], 0
    for rows in _groups(source.journal()):
        split = {row.number: _split(source, row, number, home) for row in rows}
        changed = {at: parts for at, parts in split.items() if parts is not None}
        if not changed:
            continue
        for other, target in stores.items():
            if other != number:
                moved += _add(target, [parts[other] for parts in changed.values() if other in parts])
        staying = [parts[number] for parts in changed.values() if number in parts]
        source.commit(Changes(journal=_rows(source, staying), forgotten=[*changed]))
    return moved


_Part = tuple[str, bytes, int]  # of a row: the component, entries as bytes, and their number


def _split(source: SqliteStore, row: JournalRow, number: int, home: Homes) -> dict[int, _Part] | None:
    """Return the parts of a row by the stores that they belong to; None if all of it stays."""
    try:
        classes, entries = unpacked(row.entries)
    except ValueError as error:
        raise StoreBroken(f"{source.path} is damaged: {error}", source.path) from error
    parts: dict[int, list[JournalInput]] = {}
    for entry in entries:
        if (at := home(row.component, entry)) is not None:
            parts.setdefault(at, []).append(entry)
    if len(parts.get(number, ())) == len(entries):
        return None
    return {at: (row.component, packed(classes, some), len(some)) for at, some in parts.items()}


def _add(target: SqliteStore, parts: Sequence[_Part]) -> int:
    if parts:
        target.commit(Changes(journal=_rows(target, parts)))
    return sum(entries for _, _, entries in parts)


def _rows(store: SqliteStore, parts: Sequence[_Part]) -> list[JournalRow]:
    """Return rows with numbers that no row of this store has had."""
    numbers = count(store.reread().next_journal) if parts else count()
    return [JournalRow(next(numbers), component, entries) for component, entries, _ in parts]


def _groups(rows: Iterator[JournalRow]) -> Iterator[list[JournalRow]]:
    group: list[JournalRow] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row.entries)
        if len(group) >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group
