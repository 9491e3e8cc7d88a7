"""A buffer for lines to a stderr that is slow or not read, so that no writer ever waits for its reader (F60).

If the pipe has room, lines are written at once, in order with the output of other code. If it has none, a thread writes
them, up to a limit, until it has caught up. Knows descriptors, and not the content of lines.
"""

import contextlib
import os
import select
import stat
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

PENDING_BYTES_MAX: Final = 4 * 1024 * 1024  # bytes that may wait; further lines are left out, and counted
WHOLE_BYTES: Final = select.PIPE_BUF  # bytes that a pipe with room takes without blocking
ROOM_MS: Final = 10  # milliseconds that one line may wait for room; later lines do not wait


class OutputBuffer:
    """The buffer of one descriptor. Any thread may call it. `left_out` makes the line that reports dropped lines."""

    def __init__(self, descriptor: int, left_out: Callable[[int], bytes]) -> None:
        self._descriptor = descriptor
        self._left_out_line = left_out
        self._changed = threading.Condition()  # reentrant: a `__del__` may write a line too
        self._waiting: deque[bytes] = deque()  # the first one is being written
        self._bytes = 0
        self._left_out = 0
        self._thread: threading.Thread | None = None
        self._broken = False

    def has_room(self, size: int) -> bool:
        """Return True if nothing waits and `size` bytes can be written now. Waits at most ROOM_MS for a slightly slow
        reader, so that lines keep their order relative to the output of other code."""
        if self._waiting or size > WHOLE_BYTES:
            return False
        room = select.poll()  # one per call, because threads cannot share it
        room.register(self._descriptor, select.POLLOUT)
        return bool(room.poll(ROOM_MS))

    def put(self, line: bytes) -> None:
        """Pass the line to the thread, or drop it if too much waits."""
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
                with contextlib.suppress(RuntimeError):  # no thread can be started: the next line tries again
                    thread.start()
                    self._thread = thread
            self._changed.notify_all()

    def written(self, within_s: float) -> bool:
        """Wait until nothing is left to write, at most `within_s` seconds. Return True if nothing is left."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, within_s)

    def _write(self) -> None:
        """Write the waiting lines. Blocks as the descriptor does; uses no lock of Python's streams, which the
        interpreter takes at exit."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                line = self._waiting[0]
            try:
                while line:
                    line = line[os.write(self._descriptor, line) :]
            except OSError:  # the reader is gone
                self._give_up()
                return
            with self._changed:
                self._bytes -= len(self._waiting.popleft())
                if self._left_out and self._bytes < PENDING_BYTES_MAX // 2:
                    notice = self._left_out_line(self._left_out)
                    self._left_out = 0
                    self._waiting.append(notice)
                    self._bytes += len(notice)
                self._changed.notify_all()

    def _give_up(self) -> None:
        with self._changed:
            self._broken = True
            self._waiting.clear()
            self._changed.notify_all()


def may_be_slow(descriptor: int) -> bool:
    """Return True if writes may wait for a reader: for a pipe or a socket, but not for a file or terminal."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
