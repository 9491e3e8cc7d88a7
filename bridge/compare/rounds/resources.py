"""The CPU time and the memory of a process and of all its descendants, dead or alive, by psutil."""

import threading
import time
from typing import Final

import psutil  # type: ignore[import-untyped]  # it has no stubs

LOOK_S: Final = 0.5  # seconds between two looks: the CPU time between the last look and a death is not seen
MB: Final = 1e6


class Usage:
    """Watches a tree of processes from `begin` to `end`, in a thread. A dead process counts with its last observed
    use."""

    def __init__(self, pid: int, look_s: float = LOOK_S) -> None:
        self._root, self._look_s = pid, look_s
        self._used: dict[tuple[int, float], float] = {}  # (process, its start time) → CPU seconds
        self._looks: list[tuple[float, float]] = []  # time, and CPU seconds of all processes
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Count from now on."""
        self.look()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
        self._thread.start()

    def follow(self, pid: int) -> None:
        """Follow another process, which takes the place of the first one after its death."""
        self._root = pid

    def end(self, at: float | None = None) -> tuple[float, float]:
        """Return CPU seconds from `begin` until `at` (monotonic clock), or until now; and megabytes of memory in use
        now.

        Shared memory counts once if the system reports it (Linux); otherwise once for each process.
        """
        self.look()
        self.close()
        first_at = self._looks[0][1]
        until = next((used for when, used in self._looks if at is not None and when >= at), self._looks[-1][1])
        return until - first_at, sum(map(_memory, self._tree())) / MB

    def close(self) -> None:
        """Stop watching. May be called twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def look(self) -> None:
        """Note the CPU time used until now."""
        for process in self._tree():
            try:
                key, times = (process.pid, process.create_time()), process.cpu_times()
            except psutil.Error:
                continue
            self._used[key] = max(self._used.get(key, 0.0), times.user + times.system)
        self._looks.append((time.monotonic(), sum(self._used.values())))

    def _run(self) -> None:
        while not self._stop.wait(self._look_s):
            self.look()

    def _tree(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self._root)
            return [root, *root.children(recursive=True)]
        except psutil.Error:
            return []


def _memory(process: psutil.Process) -> float:
    try:
        full = process.memory_full_info()
        return float(getattr(full, "pss", 0) or full.rss)
    except psutil.Error:
        return 0.0
