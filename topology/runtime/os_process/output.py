"""Lines that a process writes to a pipe, for the part that shows them. Must not know what they say."""

import asyncio
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import IO, Final

LINE_BYTES_MAX: Final = 64 * 1024  # a longer line is passed on in pieces
_READ_BYTES: Final = 64 * 1024


@dataclass(frozen=True)
class Output:
    """The target for lines of workers: `on_line` gets the worker, the stream and each line of `streams`. Other streams
    are inherited."""

    on_line: Callable[[int, str, str], None]
    streams: Collection[str] = ("stdout", "stderr")


class OutputLines:
    """Read a pipe on the loop and call `on_line` with each line, without its end.

    A process that writes more than is read waits, as for a slow terminal. `ended` is set at the pipe's end, or some
    time after `end_soon`.
    """

    def __init__(self, pipe: IO[bytes], on_line: Callable[[str], None]) -> None:
        self.ended = asyncio.Event()
        self._pipe = pipe
        self._on_line = on_line
        self._rest = bytearray()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe, self._read)

    def end_soon(self, within_s: float) -> None:
        """Stop `within_s` after the process is gone. Its children may still have the pipe; they are read for so
        long."""
        if not self.ended.is_set():
            self._timer = self._loop.call_later(within_s, self._end)

    def _read(self) -> None:
        try:
            data = os.read(self._pipe.fileno(), _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        while len(rest) > LINE_BYTES_MAX:
            lines.append(rest[:LINE_BYTES_MAX])
            rest = rest[LINE_BYTES_MAX:]
        self._rest = rest
        for line in lines:
            self._tell(line)

    def _tell(self, line: bytearray) -> None:
        self._on_line(line.decode("utf-8", "backslashreplace"))

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.ended.is_set():
            self._loop.remove_reader(self._pipe)
            self._pipe.close()
            self.ended.set()
            if self._rest:
                self._tell(self._rest)
