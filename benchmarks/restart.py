"""A restart with much state: seconds from a process's start to its first finished input, and the process's memory.

`kedge run` in a process of its own, over a state directory whose store has a million keys: it is written as a worker
writes it, though not by a million inputs. The file is in the system's cache, as after the death of a process; after a
loss of power the disk has to be read too. Memory is that of the process when the first count arrives behind the bolt,
beside that of the same run with one key. Must not know a benchmark's bars.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from benchmarks.rounds import ROOT
from topology import Bolt, Message, Record, Spout, State, Topology
from topology.groupings import key_bytes
from topology.records import encoded
from topology.runtime.state.key_values import KeyValues
from topology.storage.directory.state_dir import StateDir
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Changes

KEYS: Final = 1_000_000
AT_ONCE: Final = 100_000  # keys per commit
INPUTS: Final = 100  # number of inputs after which the run ends
HELD: Final = 41  # the count of each key; an int of one byte, as most are
TIMEOUT_S: Final = 60.0
SHORTEST_S: Final = 1.0  # with less time for it, a store of FEW keys is measured
FEW: Final = 20_000


class User(Record):
    name: str


class Counted(Record):
    name: str
    count: int


class Few(Spout):
    """Inputs for some of `keys` keys, with ids from `first` on; if there are no keys yet, for a key of its own."""

    def __init__(self, first: int, keys: int) -> None:
        step = max(1, keys // INPUTS)
        self.left = [
            Message(User(_name(number * step % keys) if keys else "nobody"), first + number) for number in range(INPUTS)
        ]

    async def poll(self, limit: int) -> Sequence[Message[User]]:
        given, self.left = self.left[:limit], self.left[limit:]
        return given


class Count(Bolt):
    def process(self, user: User, state: State[int]) -> Iterator[Counted]:
        count = state.get(0) + 1
        state.set(count)
        yield Counted(user.name, count)


class First(Bolt):
    """Writes the first count's time, its value, and the process's memory into a file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.seen = False

    def process(self, counted: Counted) -> None:
        if not self.seen:
            self.seen = True
            at = time.perf_counter()  # one clock for all processes
            import psutil  # type: ignore[import-untyped]  # it has no stubs; not all environments have it

            found = {"at": at, "count": counted.count, "memory": psutil.Process().memory_info().rss}
            Path(self.path).write_text(json.dumps(found))


def topology(path: str, first: int = 0, keys: int = 0) -> Topology:
    made = Topology("restart")
    users = made.spout("users", Few(first, keys))
    counts = made.bolt("count", Count(), users.fields("name"))
    made.bolt("first", First(path), counts.global_())
    return made


def restarted_within(seconds: float) -> dict[str, float]:
    """Measure with all keys; with less than SHORTEST_S, with a few."""
    return restarted(KEYS if seconds >= SHORTEST_S else FEW)


def restarted(keys: int = KEYS) -> dict[str, float]:
    """Return `value`: seconds from the start of the process to the arrival of the first count.

    `empty`: the same with almost no state; `memory` and `memory_empty` in MB; `bytes` of memory per key; `file`: MB of
    the store; `keys`.

    Raises RuntimeError if the run fails, or the first count does not continue the kept ones; ModuleNotFoundError if
    there is no psutil, which the run needs.
    """
    import psutil  # noqa: F401  (in the run, the bolt's failure would only be replayed)

    with tempfile.TemporaryDirectory() as folder:
        state_dir = Path(folder) / "state"
        empty_s, _, empty = _first_input(state_dir, first=0, keys=0)
        file = written(state_dir, keys)
        took_s, count, memory = _first_input(state_dir, first=INPUTS, keys=keys)
    if count != HELD + 1:
        raise RuntimeError(f"the first count is {count}, and {HELD} was kept")
    figures = {"value": took_s, "empty": empty_s, "memory": memory / 1e6, "memory_empty": empty / 1e6}
    return {**figures, "bytes": (memory - empty) / keys, "file": file / 1e6, "keys": keys}


def written(state_dir: Path, keys: int) -> int:
    """Put `keys` keys into the store of a state directory whose last run has ended; return its bytes."""
    with closing(StateDir(state_dir, "restart")) as directory:
        directory.check_files()
        (name,) = directory.known_files
        store = SqliteStore(directory.files, state_dir / name, checked=True)
        with closing(store):
            for first in range(0, keys, AT_ONCE):
                group = KeyValues("count", encoded)
                for number in range(first, min(keys, first + AT_ONCE)):
                    group.put(key_bytes(_name(number)), HELD)
                group.gather()
                change = group.pack()
                assert change is not None, "each of them is new"
                store.replace(Changes(states=[change]))
            directory.record({name: store.commits})
    return sum(path.stat().st_size for path in state_dir.glob(f"{name}*"))  # its log too


def _first_input(state_dir: Path, *, first: int, keys: int) -> tuple[float, int, int]:
    """Run it to its end. Return the seconds until the first count came in, that count, and the memory then."""
    path = state_dir.parent / f"first-{first}"
    command = [sys.executable, "-m", "kedge", "run", "benchmarks.restart", "--state-dir", str(state_dir)]
    for text in (f"path={path}", f"first={first}", f"keys={keys}"):
        command += ["--set", text]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started_at = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise RuntimeError(f"the run ended with status {done.returncode}:\n{done.stderr}")
    found = json.loads(path.read_text())
    return found["at"] - started_at, found["count"], found["memory"]


def _name(number: int) -> str:
    return f"user-{number:015d}"  # 20 bytes
