"""Lines on their way to a stderr that is slow, or that nobody reads: who has something to say never waits for it (F60).

A pipe that has room is none of its business: there lines are written at once, in order with what others print. Where
there is no room a thread takes them, within a bound, until it has caught up. Knows descriptors, and not what lines say.
"""

import contextlib
import os
import select
import stat
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

PENDING_BYTES_MAX: Final = 4 * 1024 * 1024  # that may wait; further lines are left out, and counted
WHOLE_BYTES: Final = select.PIPE_BUF  # what a pipe that has room takes without waiting
ROOM_MS: Final = 10  # that one line may wait; those behind it do not


class OutputBuffer:
    """One descriptor. Any thread may call. `left_out` makes the line that says how many had no room."""

    def __init__(self, descriptor: int, left_out: Callable[[int], bytes]) -> None:
        self._descriptor = descriptor
        self._left_out_line = left_out
        self._changed = threading.Condition()  # reentrant: what is said may come from `__del__`
        self._waiting: deque[bytes] = deque()  # the first one is being written
        self._bytes = 0
        self._left_out = 0
        self._thread: threading.Thread | None = None
        self._broken = False

    def has_room(self, size: int) -> bool:
        """Whether so many bytes can be written now, in front of nothing. Waits ROOM_MS at most for a reader that is a
        little slower, so that lines keep their order beside those of others."""
        if self._waiting or size > WHOLE_BYTES:
            return False
        room = select.poll()  # one for each call: none serves two threads
        room.register(self._descriptor, select.POLLOUT)
        return bool(room.poll(ROOM_MS))

    def put(self, line: bytes) -> None:
        """Has the thread write it, or leaves it out where too much waits."""
        with self._changed:
            if self._broken:
                return
            if self._waiting and self._bytes + len(line) > PENDING_BYTES_MAX:
                self._left_out += 1
                return
            self._waiting.append(line)
            self._bytes += len(line)
            if self._thread is None:
                thread = threading.Thread(target=self._write, name="kedge stderr", daemon=True)
                with contextlib.suppress(RuntimeError):  # no more threads: the next line tries again
                    thread.start()
                    self._thread = thread
            self._changed.notify_all()

    def written(self, within_s: float) -> bool:
        """Waits until nothing is left to write, at most so long. Whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, within_s)

    def _write(self) -> None:
        """Blocks as the descriptor does; uses no lock of Python's streams, which the interpreter wants at exit."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                line = self._waiting[0]
            try:
                while line:
                    line = line[os.write(self._descriptor, line) :]
            except OSError:  # its reader is gone
                self._give_up()
                return
            with self._changed:
                self._bytes -= len(self._waiting.popleft())
                if self._left_out and self._bytes < PENDING_BYTES_MAX // 2:
                    told = self._left_out_line(self._left_out)
                    self._left_out = 0
                    self._waiting.append(told)
                    self._bytes += len(told)
                self._changed.notify_all()

    def _give_up(self) -> None:
        with self._changed:
            self._broken = True
            self._waiting.clear()
            self._changed.notify_all()


def may_be_slow(descriptor: int) -> bool:
    """Whether somebody has to read what is written there: a pipe or a socket, and no file or terminal."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
