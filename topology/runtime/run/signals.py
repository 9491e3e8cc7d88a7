"""Signals that end a run: the first one drains it, a second one ends it now. Must not know what a run is made of."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Protocol


class Endable(Protocol):
    """A run, as signals see it."""

    def drain(self) -> None: ...
    def abort(self) -> None: ...


@contextlib.contextmanager
def handled_signals(run: Endable, report: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Drain the run on SIGINT and SIGTERM, and end it at once on a second one. Works only in the main thread, where
    signals arrive. Afterwards the former handlers are back."""
    loop = asyncio.get_running_loop()
    count = 0

    def received(number: int) -> None:
        nonlocal count
        count += 1
        name = signal.Signals(number).name
        if count == 1:
            report(f"{name}: draining; once more ends it now")
            run.drain()
        else:
            report(f"{name} again: ending now")
            run.abort()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    installed = []
    for number in before:
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):  # not the main thread, or Windows
            loop.add_signal_handler(number, received, number)
            installed.append(number)
    try:
        yield
    finally:
        for number in installed:
            loop.remove_signal_handler(number)
            # None: the former handler was not a Python one, and can't be set
            signal.signal(number, before[number] or signal.SIG_DFL)
