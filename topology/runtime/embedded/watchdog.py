"""A thread beside the loop of a run in one process: says where the loop is blocked, and answers signals meanwhile.

Worker processes have this from their supervisor (`heartbeat`, `restarts`); here there is no other process, and what
shows the run is blocked with it. It changes nothing of the loop. Must not know what a run is made of, nor terminals.
"""

import asyncio
import contextlib
import logging
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Self

from topology.codes.runtime import EVENT_LOOP_BLOCKED
from topology.runtime.os_process.restarts import AGAIN_S, BLOCKED_S
from topology.runtime.worker import blocked_loop

LOOK_S: Final = 0.25  # between two looks, and two turns of the loop that are noted
ANSWER_S: Final = 1.0  # without a turn, after which a signal is answered for the loop
_READ_BYTES: Final = 4_096
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)

logger = logging.getLogger("kedge")


class Watchdog:
    """A context manager, entered on the loop that it watches, after what handles signals there; left before that.

    told    Is given a sentence for people, about a signal that the loop can't take.
    ends    Is called at the second one, if the loop has not turned since the first: ends the process, and says why it
            has done so with the words that it is given. What was not kept by then is lost, as at a crash.

    Both are called by the thread. Signals are seen where this is the main thread, which alone gets them.
    """

    def __init__(self, *, report: Callable[[str], None], ends: Callable[[str], None]) -> None:
        self._report = report
        self._ends = ends
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._turned = self._woke = self._loop.time()
        self._blocked_reported_at: float | None = None
        self._signals: list[float] = []  # when those came that the loop has not taken
        self._answered = False
        self._over = False
        self._former = -1  # where the system wrote signals' numbers before

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        with contextlib.suppress(ValueError):  # not the main thread
            self._former = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._turn()
        self._thread = threading.Thread(target=self._watch, name="kedge watchdog", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads: the run goes on without
            self._give_back()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._next.cancel()
        self._give_back()

    def _give_back(self) -> None:
        with contextlib.suppress(ValueError):
            if (now := signal.set_wakeup_fd(self._former)) != self._write:  # user code has taken it since
                signal.set_wakeup_fd(now)
        os.close(self._write)  # which the thread sees

    def _turn(self) -> None:
        self._turned = self._loop.time()
        self._next = self._loop.call_later(LOOK_S, self._turn)

    # -- the thread

    def _watch(self) -> None:
        while not self._over:
            ready, _, _ = select.select([self._read], [], [], LOOK_S)
            now = self._loop.time()
            if (
                now - self._woke > ANSWER_S + LOOK_S
            ):  # this thread was held up too: all of the process stood still (A10)
                self._turned = max(self._turned, now - LOOK_S)
            self._woke = now
            if ready:
                self._take(os.read(self._read, _READ_BYTES), now)
            self._look(now)
        os.close(self._read)

    def _take(self, numbers: bytes, now: float) -> None:
        """Passes signals on to the loop, and takes note of those that end a run."""
        if self._former >= 0 and numbers:
            with contextlib.suppress(OSError):
                os.write(self._former, numbers)
        self._signals += [now for number in numbers if number in _ENDING]

    def _look(self, now: float) -> None:
        blocked_s = now - self._turned
        if self._signals and self._turned > self._signals[0]:  # the loop has them
            self._signals.clear()
            self._answered = False
        if blocked_s > ANSWER_S and len(self._signals) > 1:
            self._ends(f"the event loop was blocked{self._where()}")
        if blocked_s > ANSWER_S and self._signals and not self._answered:
            self._answered = True
            free = "the run drains once that returns; once more ends the process now, with what is in flight unfinished"
            self._report(f"the event loop is blocked{self._where()}: {free}")
        if blocked_s <= BLOCKED_S:
            self._blocked_reported_at = None
        elif self._blocked_reported_at is None or now - self._blocked_reported_at >= AGAIN_S:
            self._blocked_reported_at = now
            text = "the event loop has been blocked for %.0f s%s: nothing else runs meanwhile (%s)"
            logger.warning(text, blocked_s, self._where(), EVENT_LOOP_BLOCKED)

    def _where(self) -> str:
        where = blocked_loop.where(self._thread_id, self._loop)
        return f", in {where}" if where else ""


def end_at_once(why: str) -> None:
    """Write the reason to stderr and end the process with status 1. A value for `ends`."""
    with contextlib.suppress(OSError):
        os.write(2, f"ended now; {why}\n".encode(errors="backslashreplace"))
    os._exit(1)


@contextlib.contextmanager
def watched(
    report: Callable[[str], None] = logger.warning, ends: Callable[[str], None] = end_at_once
) -> Iterator[None]:
    """The loop that runs is watched meanwhile."""
    with Watchdog(report=report, ends=ends):
        yield
