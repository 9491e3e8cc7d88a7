"""The CPU time and the memory of a process and of all that it has started, dead or alive, by psutil."""

import threading
import time
from typing import Final

import psutil  # type: ignore[import-untyped]  # it has no stubs

LOOK_S: Final = 0.5  # between two looks: what a process has used within one before it dies is not seen
MB: Final = 1e6


class Usage:
    """Looks at a tree of processes from `begin` to `end`, in a thread. What has died counts with what it had used."""

    def __init__(self, pid: int, look_s: float = LOOK_S) -> None:
        self._root, self._look_s = pid, look_s
        self._used: dict[tuple[int, float], float] = {}  # (process, when it began) → CPU seconds
        self._looks: list[tuple[float, float]] = []  # when, and CPU seconds of all
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Counts from now on."""
        self.look()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
        self._thread.start()

    def follow(self, pid: int) -> None:
        """Another process takes the place of the first one, which has died."""
        self._root = pid

    def end(self, at: float | None = None) -> tuple[float, float]:
        """CPU seconds from `begin` until `at`, of the monotonic clock, or until now; and megabytes of memory that are
        taken now. Memory that several share counts once where the system tells (Linux); else for each of them."""
        self.look()
        self.close()
        begun = self._looks[0][1]
        until = next((used for when, used in self._looks if at is not None and when >= at), self._looks[-1][1])
        return until - begun, sum(map(_memory, self._tree())) / MB

    def close(self) -> None:
        """Looks no more. May be called twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def look(self) -> None:
        """Notes what has been used until now."""
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
