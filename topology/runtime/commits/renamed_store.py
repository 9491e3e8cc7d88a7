"""A worker's store, as a run sees it in which components have other names than they had: what is filed by the tasks of
spouts (marks, letters, trials) goes in under the names that these are known as, and comes out under their present ones.

So people are shown present names, and nothing that was kept is lost. State and journal pass as they are: their
checksums have the name in them, and the parts that make those file them under `known_as`. Must not know what a store is
made of, nor who asks it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from topology.storage.store import Store
from topology.storage.values import Begun, Changes, Letter, LoadedStates, Mark, Trial

T = TypeVar("T", Mark, Begun, Letter, Trial)


class KnownNames(Protocol):
    """A plan, as far as it is seen from here."""

    @property
    def known_as(self) -> Mapping[str, str]: ...


def by_present_names(store: Store | None, plan: KnownNames) -> Store | None:
    """The store as this plan names its components; itself where none was renamed."""
    renamed = {name: known_as for name, known_as in plan.known_as.items() if name != known_as}
    return RenamedStore(store, renamed) if store is not None and renamed else store


class RenamedStore:
    """A `Store`. `known_as`: of the components that have other names now, present name → the one that is filed."""

    def __init__(self, store: Store, known_as: Mapping[str, str]) -> None:
        self._store = store
        self._known_as = known_as
        self._names = {known: name for name, known in known_as.items()}
        loaded = store.loaded
        self.loaded = replace(
            loaded,
            marks=tuple(_as(loaded.marks, self._names)),
            begun=tuple(_as(loaded.begun, self._names)),
            trials=tuple(_as(loaded.trials, self._names)),
        )

    @property
    def path(self) -> Path:
        return self._store.path

    @property
    def commits(self) -> int:
        return self._store.commits

    @property
    def is_short(self) -> bool:
        return self._store.is_short

    @property
    def is_long(self) -> bool:
        return self._store.is_long

    def commit(self, changes: Changes) -> None:
        """As a store does; `changes` stays as it is."""
        known_as = self._known_as
        self._store.commit(
            replace(
                changes,
                marks=_as(changes.marks, known_as),
                over=_as(changes.over, known_as),
                begun=_as(changes.begun, known_as),
                letters=_as(changes.letters, known_as),
                trials=_as(changes.trials, known_as),
                acquitted=_as(changes.acquitted, known_as),
            )
        )

    def sync(self) -> None:
        self._store.sync()

    def shorten(self) -> None:
        self._store.shorten()

    def states(self) -> LoadedStates:
        return self._store.states()

    def letters(self, names: Sequence[str] | None = None, after: str = "", limit: int = 1_000) -> list[Letter]:
        return _as(self._store.letters(names, after, limit), self._names)

    def listed(self, after: str = "", limit: int = 1_000) -> list[Letter]:
        return _as(self._store.listed(after, limit), self._names)

    def names(self) -> list[str]:
        return self._store.names()

    def ended_in_order(self) -> None:
        self._store.ended_in_order()

    def close(self) -> None:
        self._store.close()


def _as(values: Iterable[T], names: Mapping[str, str]) -> list[T]:
    """The same, of components of these names, where they have others."""
    return [_of(names[value.component], value) if value.component in names else value for value in values]


def _of(component: str, one: T) -> T:
    fields = {name: getattr(one, name) for name in one.__struct_fields__}
    return type(one)(**{**fields, "component": component})
