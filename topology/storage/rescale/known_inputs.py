"""Inputs that are known, before a run of another plan: they move with their slots (D7).

An input is first added at its destination, durably, and then removed where it was. After a crash both stores may know
it, and it moves again. Must not know why anything moves.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

from topology.groupings import task_of_slot
from topology.storage.encoding.entries import NamedEntry, named, packed_named
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken
from topology.storage.values import Changes, EntryRow

Known = dict[tuple[str, int, int], NamedEntry]  # by component, origin and identity


def file_inputs(stores: Mapping[int, SqliteStore], number: int, placements: Mapping[str, Sequence[int]]) -> int:
    """Move the inputs in one store that belong to tasks of other workers; return their number. Inputs of components
    without a placement stay. Raises StoreFull, StoreBroken."""
    source = stores[number]
    leaving: dict[int, Known] = {}
    staying: Known = {}
    for key, one in known_in(source).items():
        placement = placements.get(key[0])
        home = number if placement is None else placement[task_of_slot(one.entry.slot, len(placement))]
        (staying if home == number else leaving.setdefault(home, {}))[key] = one
    for home, entries in leaving.items():
        stores[home].replace(Changes(), entries=rows_of(entries | known_in(stores[home])))
    if leaving:
        source.replace(Changes(), entries=rows_of(staying))
    return sum(map(len, leaving.values()))


def forget_inputs(stores: Iterable[SqliteStore], origins: Set[int]) -> None:
    """Forget the inputs that come from these messages, which can't come again. Raises StoreFull, StoreBroken."""
    for store in stores:
        known = known_in(store)
        left = {key: one for key, one in known.items() if one.entry.origin not in origins}
        if len(left) < len(known):
            store.replace(Changes(), entries=rows_of(left))


def known_in(store: SqliteStore) -> Known:
    """Return all inputs that a store knows. Raises StoreBroken."""
    try:
        return {(row.component, *entry.pair): entry for row in store.entries() for entry in named(row.entries)}
    except ValueError as error:
        raise StoreBroken(f"{store.path} is damaged: {error}", store.path) from error


def rows_of(known: Known) -> list[EntryRow]:
    """Return the rows of these inputs."""
    by_component: dict[str, list[NamedEntry]] = {}
    for (component, *_), one in known.items():
        by_component.setdefault(component, []).append(one)
    return [EntryRow(component, data) for component, entries in by_component.items() for data in packed_named(entries)]
