"""A supervisor in a few lines: starts one real worker process over a real socket pair, tells it things, and hears it.

Everything waits for conditions, within WAIT_S; what was started is killed at the end.
"""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, overload

import msgspec

from acker.roots import owner
from topology.runtime.control.completion import WorkerStatus as Standing
from topology.runtime.control.messages import (
    Begin,
    Close,
    Closed,
    Join,
    Linked,
    Order,
    PeerAt,
    Probe,
    Ready,
    SourcesEnded,
    Start,
    Status,
    Unpacker,
    Word,
    packed,
)
from topology.runtime.os_process.worker_command import command

WAIT_S = 30.0  # for what should come at once
HERE = Path(__file__).parent
KEY = b"a very secret key of 32 bytes...".ljust(32)

W = TypeVar("W", bound=Word)


class Words:
    """What comes out of a control socket."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._unpacker = Unpacker(orders=False)
        self._words: list[Any] = []

    @overload
    def heard(self, kind: type[W], such: Callable[[W], bool] = ...) -> W: ...
    @overload
    def heard(self, kind: None = None, such: Callable[[Any], bool] = ...) -> Any: ...
    def heard(self, kind: type[Any] | None = None, such: Callable[[Any], bool] = lambda word: True) -> Any:
        """The next word of this kind; the others before it are passed over. Raises EOFError at the socket's end."""
        until = time.monotonic() + WAIT_S
        while True:
            while self._words:
                word = self._words.pop(0)
                if (kind is None or isinstance(word, kind)) and such(word):
                    return word
            self.socket.settimeout(max(0.01, until - time.monotonic()))
            data = self.socket.recv(65536)
            if not data:
                raise EOFError(f"the worker is gone before it has said {kind.__name__ if kind else 'anything'}")
            self._words += self._unpacker.fed(data)


class WorkerAt(Words):
    """One worker process. `tell` it things, starting with `begin`."""

    def __init__(self, directory: Path, worker: int = 0, workers: int = 1, incarnation: int = 5) -> None:
        ours, theirs = socket.socketpair()
        super().__init__(ours)
        self.directory, self.worker, self.workers, self.incarnation = directory, worker, workers, incarnation
        self.owner = owner(worker, incarnation)
        self.written: tuple[str, str] | None = None  # to stdout and stderr
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))  # as a supervisor does it
        try:
            self.process = subprocess.Popen(
                command(theirs.fileno()),
                pass_fds=[theirs.fileno()],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def tell(self, *orders: Order) -> None:
        self.socket.sendall(b"".join(map(packed, orders)))

    def begin(
        self,
        loader: str,
        notes: dict[str, str] | None = None,
        keys: dict[int, tuple[bytes, bytes]] | None = None,
        **arguments: object,
    ) -> None:
        """Links are ipc, or with `keys` tcp."""
        public, secret = keys[self.worker] if keys else (b"", b"")
        if ":" not in loader:
            loader = f"process_topologies:{loader}"
        path = [str(HERE), *sys.path]
        spare = (self.incarnation, self.incarnation + 1)
        self.tell(
            Begin(
                self.worker,
                spare,
                run=77,
                workers=self.workers,
                loader=loader,
                arguments=arguments,
                sys_path=path,
                directory=str(self.directory),
                links="tcp://127.0.0.1" if keys else "ipc",
                public=public,
                secret=secret,
                keys={worker: pair[0] for worker, pair in (keys or {}).items()},
                key=KEY,
                notes=notes or {},
                seed=7,
            )
        )

    def ready(self) -> PeerAt:
        """Waits until it is; where it can be reached."""
        return PeerAt(self.worker, self.owner, self.heard(Ready).address)

    def run(self, loader: str, **arguments: object) -> None:
        """Begins, and starts, as the only worker of its run."""
        self.begin(loader, **arguments)
        self.ready()
        self.tell(Join(()))
        assert self.heard(Linked).peers == 0
        self.tell(Start())

    def status(self, number: int) -> Standing:
        self.tell(Probe(number))
        return msgspec.msgpack.decode(self.heard(Status, lambda word: word.number == number).status, type=Standing)

    def settled(self) -> None:
        """Waits until its sources have ended and nothing is under way."""
        self.heard(SourcesEnded)
        until = time.monotonic() + WAIT_S
        for number in range(1_000_000):
            now = self.status(number)
            if not (now.pending or now.busy or now.waits):
                return
            assert time.monotonic() < until, now
            time.sleep(0.01)

    def closed(self) -> Closed:
        self.tell(Close())
        word = self.heard(Closed)
        assert self.ended() == 0
        return word

    def ended(self, within_s: float = WAIT_S) -> int:
        """Its exit status; waits for it."""
        return self.process.wait(within_s)

    def leave(self) -> None:
        """As the socket of a supervisor that was killed."""
        self.socket.close()

    def stuck(self) -> None:
        """Waits until its socket takes no more, as nobody reads here."""
        before, found, until = -1, 0, time.monotonic() + WAIT_S
        while not found or found != before:
            assert time.monotonic() < until
            time.sleep(0.2)
            before, found = found, int.from_bytes(fcntl.ioctl(self.socket, termios.FIONREAD, bytes(4)), sys.byteorder)

    def kill(self) -> tuple[str, str]:
        """Ends it, whatever it does; what it has written to stdout and stderr. May be called twice."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        if self.written is None:
            out, err = self.process.communicate(timeout=WAIT_S)
            self.written = out.decode(errors="replace"), err.decode(errors="replace")
        self.socket.close()
        return self.written

    def links(self) -> list[str]:
        """What is in the run's directory."""
        return sorted(os.listdir(self.directory)) if self.directory.exists() else []


Spawn = Callable[..., WorkerAt]  # of a worker's number, and how many there are
