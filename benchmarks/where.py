"""The parts of the code where a process spends its CPU time: a sampling profiler of a few lines, at almost no cost.

The kernel sends SIGPROF at a fixed interval of CPU time. The handler adds the main thread's CPU time since the last
signal to the current part. The CPU time of all other threads is known exactly. Knows nothing of what is measured.
"""

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, Self

EVERY_S: Final = 0.002  # seconds of the process's CPU time between two samples
ROOT: Final = str(Path(__file__).resolve().parent.parent) + "/"


class Where:
    """The profiler: a context manager for the main thread, as signals come there.

    `parts`: name → prefixes of file paths, below the root of the project. The innermost frame of the project's own
    decides; a frame in no part counts as `rest`. The CPU time of other threads counts as `others`. `seconds` and
    `cpu_s` are set at the end.
    """

    def __init__(self, parts: Mapping[str, Sequence[str]], *, rest: str, others: str) -> None:
        self._parts = {name: tuple(ROOT + path for path in paths) for name, paths in parts.items()}
        self._rest, self._others = rest, others
        self.seconds = dict.fromkeys((*parts, rest, others), 0.0)  # of CPU time, by part
        self.cpu_s = 0.0  # of all parts

    def __enter__(self) -> Self:
        self._started_at, self._main_started_at = time.process_time(), time.thread_time()
        self._last = self._main_started_at
        self._before = signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
        return self

    def __exit__(self, *raised: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, self._before)
        self.cpu_s = time.process_time() - self._started_at
        self.seconds[self._others] += self.cpu_s - (time.thread_time() - self._main_started_at)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        now = time.thread_time()
        self.seconds[self._part_of(frame)] += now - self._last
        self._last = now

    def _part_of(self, frame: FrameType | None) -> str:
        while frame is not None and not _is_ours(frame.f_code.co_filename):
            frame = frame.f_back
        at = frame.f_code.co_filename if frame is not None else ""
        return next((name for name, paths in self._parts.items() if at.startswith(paths)), self._rest)


def _is_ours(path: str) -> bool:
    return path.startswith(ROOT) and "/site-packages/" not in path
