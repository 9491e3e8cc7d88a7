"""The state in a directory that no run uses: read it, export it as lines, and replace it by other state.

For commands. Everything blocks. Must not know how anything is shown, nor where lines come from or go.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from topology.codes.declarations import COMPONENT_WITHOUT_STATE, IMPORTED_STATE_TYPE_MISMATCH
from topology.codes.startup import STATE_IMPORT_FAILED, STATE_NOT_DRAINED
from topology.errors import ConfigurationError, StartError, did_you_mean
from topology.storage.directory.shape import ComponentShape, components_in, left_in, with_components
from topology.storage.directory.state_dir import StateDir
from topology.storage.offline.export import Header, Reading, header_line, row_line
from topology.storage.rescale import partition
from topology.storage.rescale.assign import opened_stores
from topology.storage.rescale.partition import KeptKey, Twice
from topology.storage.sqlite.errors import start_error
from topology.storage.store import StoreBroken, StoreFull
from topology.text import printable

LISTED_MAX: Final = 20  # components that a sentence names


class HeldState:
    """The open directory with its stores; no other process can use them then, and `with` closes them.

    `topology`: the topology that the directory is made for, if it does not exist yet. Raises StartError, as a run does
    that begins. Only `restore` changes anything.
    """

    def __init__(self, directory: Path, topology: str | None = None) -> None:
        with contextlib.ExitStack() as closing:
            self._state = closing.enter_context(contextlib.closing(StateDir(directory, topology)))
            self._state.check_files()
            if not self._state.known_files and topology is not None:
                self._state.make_stores([0])
            self._stores = closing.enter_context(opened_stores(self._state))
            with self._store_errors():
                partition.complete(self._stores)  # of an interrupted import
            self._closing = closing.pop_all()
        kept = {name: component for name, component in self._noted().items() if component.get("kept")}
        self.components = left_in(self._state.shape) | kept

    def __enter__(self) -> "HeldState":
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def topology(self) -> str:
        return self._state.topology

    def known_as(self, name: str) -> str:
        """Return the name that this component is known as. Raises ConfigurationError if it has no stored state."""
        names = {component.get("name", known_as): known_as for known_as, component in self.components.items()}
        if name in names:
            return names[name]
        if name in self.components:
            return name
        there = ", ".join([*names][:LISTED_MAX]) or "nothing"
        text = f"no state is kept of a component {printable(name)!r:.80}{did_you_mean(name, names)}"
        raise _without_state(f"{text}; there is state of {there}")

    def found(self, component: str, slot: int, key: bytes) -> KeptKey | None:
        """Return the stored data of one key, or None."""
        with self._store_errors():
            return partition.found(self._stores, component, slot, key)

    # -- out

    def lines(self, components: Sequence[str]) -> Iterator[str]:
        """Yield all stored data of these components, by the names that they are known as; of all components if none is
        named. Raises StartError if the last run was interrupted."""
        self._check_drained("can't be written out")
        with self._store_errors():
            for component in components or self.components:
                keys = partition.count(self._stores, component)
                schema = self.components[component]
                yield header_line(Header(self._state.topology, self._state.run_id, component, keys, schema))
                for kept in partition.checkpoint(self._stores, component):
                    yield row_line(kept)

    # -- in

    def restore(self, reading: Reading, declared: Mapping[str, ComponentShape] | None = None) -> dict[str, int]:
        """Replace the state of the components that are read; return the number of keys of each. All or nothing.

        `declared`: the components of the present topology, if it is known. Raises ConfigurationError for invalid input,
        StartError if the last run was interrupted, or if the disk fails.
        """
        self._check_drained("can't be replaced")
        headers: list[Header] = []
        try:
            counts = partition.restore(self._stores, self._taken(reading, declared, headers))
        except Twice as error:
            reading.twice(error.at)
        except (StoreFull, StoreBroken) as error:
            if isinstance(error, StoreBroken) and error.damaged is not None:
                raise start_error(error.damaged, error) from None
            raise _not_put(str(error)) from None
        self._note(headers, declared)
        return counts

    def _taken(
        self, reading: Reading, declared: Mapping[str, ComponentShape] | None, headers: list[Header]
    ) -> Iterator[tuple[str, Iterable[KeptKey]]]:
        noted = self._noted() | self.components
        for header, rows in reading.sections():
            known = declared if declared is not None else noted
            if known:  # otherwise the directory is new, and all components in the file are accepted
                _check_type(header, known.get(header.component))
            headers.append(header)
            yield header.component, rows

    def _note(self, headers: Iterable[Header], declared: Mapping[str, ComponentShape] | None) -> None:
        """Record the types of the stored state, which the next run compares with its own."""
        noted, left = self._noted(), left_in(self._state.shape)
        changed = dict(noted)
        for header in headers:
            name = header.component
            now = declared[name] if declared is not None else header.schema
            if name in left:
                left[name] = now
            elif name not in noted:
                changed[name] = now
            elif declared is not None:
                other: ComponentShape = {
                    **noted[name],
                    "state": now["state"],
                    "kept": True,
                    "older": now.get("older", []),
                }
                changed[name] = other
        if changed != noted or left != left_in(self._state.shape):
            self._state.set_shape(with_components(self._state.shape, changed, left))

    def _noted(self) -> dict[str, ComponentShape]:
        return components_in(self._state.shape)

    def _check_drained(self, what: str) -> None:
        if not self._state.clean:
            text = f"the last run of {self._state.topology!r} was interrupted, so its state {what}"
            raise StartError(text, code=STATE_NOT_DRAINED)

    @contextlib.contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except StoreFull as error:
            raise _not_put(f"of an interrupted import: {error}") from None
        except StoreBroken as error:
            raise start_error(self._state.path, error) from error


def _without_state(text: str) -> ConfigurationError:
    return ConfigurationError(text, code=COMPONENT_WITHOUT_STATE)


def _not_put(why: str) -> StartError:
    return StartError(f"the state could not be put in place: {why}", code=STATE_IMPORT_FAILED)


def _check_type(header: Header, expected: ComponentShape | None) -> None:
    if expected is None or not expected.get("kept"):
        raise _without_state(f"no state is kept of a component {printable(header.component)!r:.80}, which the file has")
    given, wanted = header.schema["state"], expected["state"]
    if given != wanted and given not in expected.get("older", ()):
        text = f"the file has state of type {given or 'none'} for {header.component!r}, and the topology {wanted}"
        raise ConfigurationError(printable(text), code=IMPORTED_STATE_TYPE_MISMATCH)
