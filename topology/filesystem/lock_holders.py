"""Finds the processes that have a lock on a file, from /proc/locks of Linux; on other systems it finds none.

Opens nothing: to close a file would give back the locks that this process has on it. Must not know what the processes
are.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

_LOCKS: Final = Path("/proc/locks")
_SHOWN: Final = 40  # characters of a command, in a sentence


def holders(path: Path) -> list[int]:
    """The ids of processes that hold a lock on it, in order, without this one."""
    try:
        found, lines = path.stat(), _LOCKS.read_text().splitlines()
    except OSError:
        return []
    pids = set()
    for line in lines:
        parts = line.split()
        if "->" in parts or len(parts) < 8:  # it only waits for one
            continue
        pid, (major, minor, inode) = int(parts[4]), parts[5].split(":")
        if int(inode) == found.st_ino and pid > 0 and pid != os.getpid():
            device = os.makedev(int(major, 16), int(minor, 16))
            if device == found.st_dev or _has_open(pid, found):  # some file systems have devices of their own there
                pids.add(pid)
    return sorted(pids)


def _has_open(pid: int, file: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                opened = os.stat(entry.path)
                if (opened.st_dev, opened.st_ino) == (file.st_dev, file.st_ino):
                    return True
    return False


def named(path: Path) -> str:
    """Return the holders for a sentence: " (pid 123: python3)"; empty if none is known."""
    processes = []
    for pid in holders(path):
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text("utf-8", "backslashreplace").strip()[:_SHOWN]
            processes.append(f"pid {pid}: {name}")
    return f" ({', '.join(processes)})" if processes else ""
