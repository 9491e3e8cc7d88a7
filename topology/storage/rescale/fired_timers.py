"""The progress of timers before a run: the furthest of all stores is stored in each of them, because keys may move to
any. Must not know who fires timers."""

from collections.abc import Mapping

from topology.storage.encoding.fired_timers import OF, have_fired, marks_of
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Changes


def shared(stores: Mapping[int, SqliteStore]) -> None:
    """Store the furthest progress of all stores in each of them. Raises StoreFull, StoreBroken."""
    held = {number: store.reread().marks for number, store in stores.items()}
    every = [mark for marks in held.values() for mark in marks if mark.component.startswith(OF)]
    for component in {mark.component for mark in every}:
        known_as = component.removeprefix(OF)
        furthest = have_fired(every, known_as)
        for number, store in stores.items():
            if have_fired(held[number], known_as) != furthest:
                store.commit(Changes(marks=marks_of(known_as, 0, furthest)))
