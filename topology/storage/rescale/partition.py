"""Operations on stored state, after the primitives of Castro Fernandez et al. (SEEP, SIGMOD 2013): `checkpoint` reads
all data of a component, `restore` replaces it, and `partition` moves it so that each store has the slots of its own
worker's tasks (D7).

All operations work on the stores of a state directory that no run uses, opened together. Each may be interrupted, and
the next call completes it (F56). Memory is bounded by a page of rows. Must not know the plan, nor what a key or a value
means.

A store notes the placement for which its rows were last filed, once all of them are. If nothing moves, only this note
is read. Before anything moves the note is removed, so no store ever claims a placement that does not hold.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import pack
from typing import Final, NamedTuple

from topology.groupings import SLOTS
from topology.storage.encoding import state
from topology.storage.rescale.known_inputs import file_inputs
from topology.storage.sqlite.state_rows import REPLACED, STAGED
from topology.storage.sqlite.state_table import PAGE_BYTES, PAGE_ROWS
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Changes, StateChange, StateRow

Placement = Sequence[int]  # the worker of each of a component's tasks
Stores = Mapping[int, SqliteStore]  # worker → its store

IN_PLACE: Final = b"\0"  # in place of a placement: rows here replace all others of the component, in other stores too


class KeptKey(NamedTuple):
    """The stored data of one key: its value as `topology.records.encoded` returns it, or None; its timers, name → due
    time in microseconds since 1970 (UTC); and how many outputs its inputs and its timers have had, if these are named
    by their count."""

    slot: int
    key: bytes
    value: bytes | None
    timers: Mapping[str, int]
    outputs: int = 0
    timer_outputs: int = 0


class Twice(Exception):
    """A key that came a second time. `at`: the index of its row, from 0."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


# -- checkpoint


def checkpoint(stores: Stores, component: str) -> Iterator[KeptKey]:
    """Yield all stored data of a component, store by store, in the order of slots and keys. Raises StoreBroken."""
    for store in stores.values():
        for row in _rows(store, component):
            yield kept_of(row)


def found(stores: Stores, component: str, slot: int, key: bytes) -> KeptKey | None:
    """Return the stored data of one key, or None. Raises StoreBroken."""
    rows = (store.row(component, slot, key) for store in stores.values())
    return next((kept_of(row) for row in rows if row is not None), None)


def count(stores: Stores, component: str) -> int:
    """Return the number of keys with stored data. Raises StoreBroken."""
    return sum(1 for store in stores.values() for _ in _rows(store, component))


def kept_of(row: StateRow) -> KeptKey:
    """Return a row's data. Raises ValueError for an invalid body."""
    content = state.content_of(row.body[state.SUM_BYTES :])
    return KeptKey(row.slot, row.key, *content)


def _rows(store: SqliteStore, component: str) -> Iterator[StateRow]:
    after = None
    while page := store.page(component, range(SLOTS), after):
        yield from page
        after = page[-1]


# -- restore


def restore(stores: Stores, components: Iterable[tuple[str, Iterable[KeptKey]]]) -> dict[str, int]:
    """Replace all stored data of these components by the given data; return the number of keys of each. All or nothing:
    the change takes effect with one commit of one store. The next `partition` moves the rows to their stores.

    Raises Twice, StoreFull, StoreBroken, and any exception of the iteration over the rows; the old data is then
    unchanged.
    """
    complete(stores)
    store = stores[min(stores)]
    try:
        counts = {component: _staged(store, component, rows) for component, rows in components}
        store.put_in_place(counts, IN_PLACE)
    except BaseException:
        complete(stores)  # removes the staged rows
        raise
    complete(stores)
    return counts


def _staged(store: SqliteStore, component: str, rows: Iterable[KeptKey]) -> int:
    name, count = STAGED + component, 0
    store.replace(Changes(), filed={name: b""}, lasting=False)
    for group in _groups(component, rows):
        if (second := _second(group, store.there(name, group))) is not None:
            raise Twice(count + second)
        _put(store, name, group)
        count += len(group)
    return count


def _groups(component: str, rows: Iterable[KeptKey]) -> Iterator[list[StateRow]]:
    group: list[StateRow] = []
    size = 0
    for slot, key, value, timers, outputs, timer_outputs in rows:
        content = state.packed(value, timers, outputs, timer_outputs)
        body = state.body_of(state.seed_of(component, slot), key, content)
        group.append(StateRow(slot, key, body))
        size += len(body) + len(key)
        if len(group) >= PAGE_ROWS or size >= PAGE_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _second(group: Sequence[StateRow], there: set[tuple[int, bytes]]) -> int | None:
    """Return the index of the first row of a group whose key is there already, or is a duplicate within the group; None
    for none."""
    for at, row in enumerate(group):
        if (row.slot, row.key) in there:
            return at
        there.add((row.slot, row.key))
    return None


def complete(stores: Stores) -> None:
    """Complete an interrupted `restore`: delete rows that were staged and not put in place, and rows that were
    replaced. Costs nothing if there are none. Raises StoreFull, StoreBroken."""
    for store in stores.values():
        for name, known in list(store.known.items()):
            if name.startswith((STAGED, REPLACED)):
                _remove(store, name, None)
            elif known.filed == IN_PLACE:
                for other in stores.values():
                    if other is not store and name in other.known:
                        _remove(other, name, b"")
        done = {name: b"" for name, known in store.known.items() if known.filed == IN_PLACE}
        if done:
            store.replace(Changes(), filed=done)


def _remove(store: SqliteStore, name: str, filed: bytes | None) -> None:
    while page := store.page(name, range(SLOTS)):
        _take(store, name, page)
    store.replace(Changes(), filed={name: filed})


# -- partition


def partition(stores: Stores, placements: Mapping[str, Placement]) -> int:
    """Move the state and the known inputs of these components, so that each store has exactly the slots whose
    tasks are placed on its worker. Return the number of moved rows.

    Each row is copied, durably, before it is removed from its old store. After a crash two stores may have the same
    row, and it is moved again. The store of a worker without a task gives all rows away. Reads nothing if nothing
    moves.

    Raises StoreFull, StoreBroken.
    """
    complete(stores)
    wanted = {component: _filed(placement) for component, placement in placements.items()}
    unfiled = {number: _unfiled(store, wanted) for number, store in stores.items()}
    for number, store in stores.items():
        if claims := [
            component for component in unfiled[number] if component in store.known and store.known[component].filed
        ]:
            store.replace(Changes(), filed=dict.fromkeys(claims, b""))
    moved = 0
    for number, store in stores.items():
        if components := unfiled[number]:
            moved += sum(_move_state(stores, number, component, placements[component]) for component in components)
            moved += file_inputs(stores, number, {component: placements[component] for component in components})
            store.replace(Changes(), filed={component: wanted[component] for component in components})
    return moved


def _unfiled(store: SqliteStore, wanted: Mapping[str, bytes]) -> list[str]:
    known = store.known
    return [
        component for component, filed in wanted.items() if component not in known or known[component].filed != filed
    ]


def _filed(placement: Placement) -> bytes:
    return pack(f">{len(placement)}H", *placement)


def _move_state(stores: Stores, number: int, component: str, placement: Placement) -> int:
    source, moved = stores[number], 0
    for slots, home in slots_of(placement):
        if home == number:
            continue
        target = stores[home]
        while page := source.page(component, slots):
            there = target.there(component, page)
            if missing := [row for row in page if (row.slot, row.key) not in there]:
                _put(target, component, missing)
            _take(source, component, page)
            moved += len(page)
    return moved


def slots_of(placement: Placement) -> Iterator[tuple[range, int]]:
    """Yield the slots of each task (`groupings.task_of_slot`), and its worker."""
    tasks = len(placement)
    for task, worker in enumerate(placement):
        yield range(-(-task * SLOTS // tasks), -(-(task + 1) * SLOTS // tasks)), worker


# -- commits of rows


def _put(store: SqliteStore, component: str, rows: Sequence[StateRow]) -> None:
    """Add rows that are not there yet."""
    store.commit(Changes(states=[StateChange(component, rows, _digest(rows))]))


def _take(store: SqliteStore, component: str, rows: Sequence[StateRow]) -> None:
    """Remove rows that are there. The removal is lasting with the next lasting commit; until then the rows are in two
    places, and equal."""
    gone = [StateRow(slot, key, b"") for slot, key, _ in rows]
    store.replace(Changes(states=[StateChange(component, gone, _digest(rows))]), lasting=False)


def _digest(rows: Iterable[StateRow]) -> int:
    digest = 0
    for row in rows:
        digest ^= state.sum_of(row.body)
    return digest
