"""A worker's store, as a run sees it in which components have other names than they had: what is filed by the tasks of
spouts (marks, letters, trials) goes in under the names that these are known as, and comes out under their present ones.

So people are shown present names, and nothing that was kept is lost. State and entries pass as they are: their
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
    def log_bytes(self) -> int:
        return self._store.log_bytes

    @property
    def is_owing(self) -> bool:
        return self._store.is_owing

    def prepare(self, checkpoint: int, changes: Changes) -> None:
        self._store.prepare(checkpoint, self._known(changes))

    def decided(self, checkpoint: int) -> None:
        self._store.decided(checkpoint)

    def conclude(self, checkpoint: int, changes: Changes) -> None:
        self._store.conclude(checkpoint, self._known(changes))

    def _known(self, changes: Changes) -> Changes:
        """Return the changes by the names that are filed; `changes` stays as it is."""
        known_as = self._known_as
        return replace(
            changes,
            marks=_as(changes.marks, known_as),
            over=_as(changes.over, known_as),
            begun=_as(changes.begun, known_as),
            letters=_as(changes.letters, known_as),
            trials=_as(changes.trials, known_as),
            acquitted=_as(changes.acquitted, known_as),
        )

    def append(self, records: Sequence[bytes]) -> int:
        return self._store.append(records)

    def sync(self) -> int:
        return self._store.sync()

    def mark(self, checkpoint: int) -> None:
        self._store.mark(checkpoint)

    def states(self) -> LoadedStates:
        return self._store.states()

    def letters(self, names: Sequence[str] | None = None, after: str = "", limit: int = 1_000) -> list[Letter]:
        return _as(self._store.letters(names, after, limit), self._names)

    def listed(self, after: str = "", limit: int = 1_000) -> list[Letter]:
        return _as(self._store.listed(after, limit), self._names)

    def names(self) -> list[str]:
        return self._store.names()

    def copy_to(self, path: Path) -> int:
        return self._store.copy_to(path)

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
