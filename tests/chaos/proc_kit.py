"""What /proc tells of processes, and what they leave behind."""

import contextlib
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple


class Freezer(NamedTuple):
    """How one version of cgroups freezes a group. `places`: where it may be mounted."""

    places: tuple[str, ...]
    file: str
    freeze: str
    thaw: str
    events: str
    frozen: str


# A killed process of a frozen group ends at once in the second version, and when it is thawed in the first.
FREEZERS: Final = {
    1: Freezer(("/sys/fs/cgroup/freezer",), "freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"),
    2: Freezer(("/sys/fs/cgroup/unified", "/sys/fs/cgroup"), "cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"),
}


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


class Cgroup:
    """A cgroup of its own, whose processes can be frozen."""

    def __init__(self, path: Path, how: Freezer) -> None:
        self.path, self.how = path, how

    def freeze(self, pids: Sequence[int]) -> None:
        for pid in pids:
            (self.path / "cgroup.procs").write_text(str(pid))
        (self.path / self.how.file).write_text(self.how.freeze)

    @property
    def frozen(self) -> bool:
        """Whether all of them stand still."""
        return self.how.frozen in (self.path / self.how.events).read_text()

    def thaw(self) -> None:
        (self.path / self.how.file).write_text(self.how.thaw)


def made_cgroup(version: int) -> Cgroup | None:
    """None where the system has none of this version that we may write."""
    how = FREEZERS[version]
    for place in how.places:
        path = Path(place, f"kedge-test-{uuid.uuid4().hex}")
        with contextlib.suppress(OSError):
            path.mkdir()
            if (path / how.file).exists():
                return Cgroup(path, how)
            path.rmdir()  # a plain folder: no file system of cgroups is here
    return None


@contextlib.contextmanager
def cgroup_of(version: int) -> Iterator[Cgroup | None]:
    """As `made_cgroup`; at the end it is thawed, and removed, as its processes are gone then."""
    made = made_cgroup(version)
    try:
        yield made
    finally:
        if made is not None:
            made.thaw()
            with contextlib.suppress(OSError):
                made.path.rmdir()
