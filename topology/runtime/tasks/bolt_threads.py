"""Threads for bolts that block (`Bolt.blocking`): a bounded number, made as they are needed, gone when idle.

Daemons, unlike those of `concurrent.futures`: a call that never returns keeps no process from its end. Must not know
what is called.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, TypeVar

IDLE_S: Final = 10.0  # after which a thread that has nothing to do ends

T = TypeVar("T")


class Daemons(Executor):
    """At most `most` threads. What is submitted beyond that waits; its caller bounds how much that may be."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._open = 0  # calls that are submitted and have not ended

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Raises RuntimeError where no thread can be made and none is there."""
        future: Future[T] = Future()
        with self._lock:
            if self._open >= self._threads and self._threads < self._most:
                try:
                    threading.Thread(target=self._run, name=self._name, daemon=True).start()
                    self._threads += 1
                except RuntimeError:
                    if not self._threads:
                        raise
            self._open += 1
        self._work.put((future, lambda: fn(*args, **kwargs)))
        return future

    def _run(self) -> None:
        while True:
            try:
                future, call = self._work.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._open:
                        continue
                    self._threads -= 1
                    return
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            with self._lock:
                self._open -= 1
