"""Give each worker process its settings and keys at its start, and later incarnations and notes on request.

With a state directory, incarnations and notes are durable: the supervisor is their only writer. Must not know what a
worker does with them.
"""

import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from acker.identity import KEY_BYTES
from topology.codes.settings import NON_UTF8_WORKER_PATH, WORKER_PORTS_EXHAUSTED
from topology.errors import ConfigurationError, NotesAway, StartError
from topology.runtime.control.messages import Begin
from topology.runtime.links.zeromq import new_keys
from topology.storage.directory.state_dir import StateDir

RUN_BITS: Final = 63  # size of the run's number, which each frame carries
PORT_MAX: Final = 65_535


class Provisions:
    """Make a `Begin` for each process.

    Raises StartError if the links need keys that this libzmq cannot make. Raises ConfigurationError for a path that is
    not valid UTF-8, because such a path cannot be passed to workers.
    """

    def __init__(
        self,
        *,
        workers: int,
        numbers: Iterable[int],
        loader: str,
        arguments: Mapping[str, Any],
        links: str,
        directory: Path,
        state: StateDir | None,
        random: Random,
        log_level: int,
        topology_id: str = "",
        stores: Mapping[int, Path] = MappingProxyType({}),
        folder: Path,
    ) -> None:
        self._workers = workers
        self._loader = loader
        self._arguments = dict(arguments)
        self._links = links
        self._numbers = list(numbers)
        self._directory = directory
        self._state = state
        self._random = random
        self._log_level = log_level
        self._topology_id = topology_id
        self._stores = dict(stores)
        self._folder = folder
        self._key = state.key if state is not None else random.randbytes(KEY_BYTES)
        self._run = random.getrandbits(RUN_BITS)
        self._incarnation = random.getrandbits(12)  # for a run without a state directory
        self._notes: dict[str, str] = dict(state.notes) if state is not None else {}
        self._keys = {} if links == "ipc" else new_keys(self._numbers)
        for path in (*sys.path, str(directory), str(folder)):
            if not _is_text(path):
                raise ConfigurationError(
                    f"{path!r} cannot be passed to workers: it is not valid UTF-8", code=NON_UTF8_WORKER_PATH
                )

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that workers get in addition to ours: sets iterate in the same order in all
        workers and runs (B5)."""
        return {"PYTHONHASHSEED": str(hash_seed(self._key))}

    def begin(self, worker: int, *, generation: int = 1, decided: int = 0, logged: bool = True) -> Begin:
        """Return the `Begin` of a new process, with its incarnation and a spare one: of this generation of the run, and
        as of the checkpoint that was decided last. `logged` is as there. Raises StartError if the incarnations cannot
        be stored."""
        public, secret = self._keys.get(worker, (b"", b""))
        return Begin(
            worker=worker,
            incarnations=(self.next_incarnation(), self.next_incarnation()),
            run=self._run,
            workers=self._workers,
            loader=self._loader,
            arguments=self._arguments,
            sys_path=list(sys.path),
            directory=str(self._directory),
            links=address_of(self._links, self._numbers.index(worker)),
            key=self._key,
            notes=self._notes,
            seed=self._random.getrandbits(64),
            public=public,
            secret=secret,
            keys={number: pair[0] for number, pair in self._keys.items()},
            log_level=self._log_level,
            topology_id=self._topology_id,
            store=str(self._stores.get(worker, "")),
            folder=str(self._folder),
            generation=generation,
            decided=decided,
            logged=logged,
        )

    def next_incarnation(self) -> int:
        """Return a new incarnation. Blocks for an fsync. Raises StartError."""
        if self._state is not None:
            return self._state.next_incarnation()
        self._incarnation += 1
        return self._incarnation

    def keep(self, name: str, text: str) -> tuple[str, bool]:
        """Keep a note. Return the reason if it could not be kept, else an empty text; and True if the worker may try
        again. Blocks for an fsync."""
        if self._state is not None:
            try:
                self._state.set(name, text)
            except StartError as error:
                return str(error), isinstance(error, NotesAway)
        self._notes[name] = text
        return "", False


def address_of(links: str, position: int) -> str:
    """Return the address that a worker binds. Each worker has its own port, counted from the given one.

    Raises ConfigurationError if there is no such port.
    """
    parts = urlsplit(links)
    if parts.scheme != "tcp" or not parts.port:
        return links
    port = parts.port + position
    if port > PORT_MAX:
        raise ConfigurationError(
            f"--links {links}: worker {position} would have port {port}", code=WORKER_PORTS_EXHAUSTED
        )
    return f"tcp://{parts.netloc.rpartition(':')[0]}:{port}"


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def hash_seed(key: bytes) -> int:
    """Return the seed of str hashes that belongs to a state directory. It is secret (S20), and never 0, which would
    turn hash randomisation off."""
    digest = hashlib.blake2b(key, digest_size=8, person=b"kedge hash seed").digest()
    return 1 + int.from_bytes(digest, "little") % (2**32 - 1)
