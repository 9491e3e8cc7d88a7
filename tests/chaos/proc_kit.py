"""What /proc tells of processes, and what they leave behind."""

import contextlib
import os
from pathlib import Path


def children(pid: int) -> list[int]:
    """Processes that this one has started, dead ones that are not reaped included."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def group_lives(group: int) -> bool:
    """Whether a process of this group is there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


def state_of(pid: int) -> str:
    """The letter of a process' state, "T" for stopped; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def opened(pid: int) -> set[str]:
    """What its descriptors are: paths, and "socket:[…]"."""
    found = set()
    with contextlib.suppress(OSError):
        for one in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(one.path))
    return found


def resident(pid: int) -> int:
    """The bytes of memory that a process has; 0 where it is gone."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def left_over(folder: Path) -> list[str]:
    """What is there of this folder's runs: processes, by their environment, and what is where run directories are."""
    marker = f"XDG_RUNTIME_DIR={folder / 'r'}".encode()
    found = [str(path) for path in (folder / "r").rglob("*")]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if marker in (entry / "environ").read_bytes().split(b"\0") and state_of(int(entry.name)) != "Z":
                    found.append(f"process {entry.name}: {(entry / 'cmdline').read_bytes()[:200]!r}")
    return found


def is_guard(pid: int) -> bool:
    """Whether it is the guard of a run's workers, and none of them."""
    with contextlib.suppress(OSError):
        return b"orphan_guard" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
