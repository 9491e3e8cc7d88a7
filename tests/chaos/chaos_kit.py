"""Real runs of the real command, real faults, and counts by SQL: what the chaos tests share.

A run is `kedge run numbered.py --workers 2` in a session of its own. Faults are signals to its processes, which are
found in /proc: a worker that has a book (see `numbered.Book`) has a spout, who has the store open has the sink. That a
fault hit is proved by the books and by the supervisor's own lines.
"""

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from numbered import DIGITS, Book
from proc_kit import children, group_lives, is_guard, opened, state_of

KEDGE: Final = (str(Path(sys.executable).parent / "kedge"),)
# As a command, with the longest back-off shortened: workers that die again and again would else be away mostly.
HASTY: Final = (
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'kedge'; from topology.runtime.os_process import restarts; "
    "restarts.BACKOFF_MAX_S = 0.05; from kedge import main; main()",
)
NUMBERED: Final = Path(__file__).with_name("numbered.py")
RECORDS: Final = 200_000
ENDLESS: Final = 10**9  # more records than any of these runs reads
WORDS: Final = 2  # of each record
IN_FLIGHT: Final = 20  # more messages than a worker has at hand by chance, when another one stands still
DROPS: Final = "outputs were all stored before"  # what a sink's process says when it knows the first that it gets
PATIENCE_S: Final = 90.0  # for what takes some seconds on a quiet machine
ALL_GONE_S: Final = 10.0  # a supervisor's end: workers close for 2 s and end for 2, or a guard kills them after 2.5


def wait_for(condition: Callable[[], Any], what: str, within_s: float = PATIENCE_S) -> Any:
    """Waits until the condition is true; returns what it returned. Fails where it takes longer."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {within_s:g} s for {what}"
        time.sleep(0.01)
    return found


def seeded(seed: int) -> Random:
    """Chance for a schedule; the seed is shown where the test fails."""
    print(f"seed {seed}")
    return Random(seed)


# -- one run


@dataclass
class Outcome:
    """How a run ended."""

    status: int
    out: str
    said: str  # all that it wrote to stderr

    @property
    def figures(self) -> dict[str, Any]:
        """The JSON object that ends stdout."""
        found: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return found

    def total(self, name: str) -> int:
        """The sum of one figure over all spouts."""
        return sum(spout[name] for spout in self.figures["spouts"].values())

    @property
    def known(self) -> int:
        """Rows that came to the sink's last process though they were stored already."""
        found = re.search(r"^store: [\d,]+ stored, ([\d,]+) known already", self.said, re.MULTILINE)
        assert found, self.said
        return int(found[1].replace(",", ""))

    def well(self) -> "Outcome":
        """Fails unless it ended with status 0, and nothing was dead or left."""
        assert self.status == 0, self.said
        assert (self.total("dead"), self.total("pending")) == (0, 0), self.said
        assert "Traceback" not in self.said, self.said
        return self

    def sentence(self) -> str:
        """What it has said last, where it could not start: one sentence of the command, and no traceback."""
        errors = [line for line in self.said.splitlines() if line.startswith("kedge: ")]
        assert len(errors) == 1, self.said
        assert "Traceback" not in self.said, self.said
        return errors[0].removeprefix("kedge: ")


@dataclass
class Kill:
    """A worker that was killed: what was in flight, by its own book, and by the others that the supervisor told of."""

    pid: int
    own: int
    told: int = field(default=0)


class Run:
    """A run under way. Made by `running`."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]", number: int) -> None:
        self.folder, self.process = folder, process
        self._out, self._err = folder / f"stdout-{number}", folder / f"stderr-{number}"

    # -- what is seen of it

    def said(self) -> str:
        return self._err.read_text(errors="replace")

    def workers(self) -> list[int]:
        """The ids of its worker processes that live."""
        return [pid for pid in children(self.process.pid) if state_of(pid) not in ("", "Z", "X") and not is_guard(pid)]

    def guards(self) -> list[int]:
        """Of its workers; there is one."""
        return [pid for pid in children(self.process.pid) if state_of(pid) not in ("", "Z", "X") and is_guard(pid)]

    def books(self) -> dict[int, tuple[int, int, int]]:
        """pid → read, done, dead, of all processes that have or had a task of the spout."""
        found = {}
        for path in (self.folder / "books").iterdir():
            with contextlib.suppress(OSError):
                if len(data := path.read_bytes()) == Book.FORM.size:
                    found[int(path.name.rpartition("-")[2])] = Book.FORM.unpack(data)
        return found

    def done(self) -> int:
        """How many messages were done so far, by all processes that have lived: what is read again counts again."""
        return sum(done for _, done, _ in self.books().values())

    def read(self) -> int:
        """How many messages were read so far, as `done` counts them."""
        return sum(read for read, _, _ in self.books().values())

    def pending(self, *pids: int) -> int:
        """How many messages of these processes were read and are not done; of those that live, unless told."""
        books = self.books()
        return sum(read - done - dead for pid, (read, done, dead) in books.items() if pid in (pids or self.workers()))

    def with_spout(self) -> list[int]:
        books = self.books()
        return [pid for pid in self.workers() if pid in books]

    def with_sink(self) -> int:
        """The worker that has the store open; waits until there is one."""
        store = str(self.folder / "store.db")
        return int(wait_for(lambda: next((pid for pid in self.workers() if store in opened(pid)), 0), "the sink"))

    def without_spout(self) -> int:
        """The one worker that has no spout; waits until both are there."""
        wait_for(lambda: len(self.workers()) == 2 and self.with_spout(), "two workers")
        (found,) = set(self.workers()) - set(self.with_spout())
        return found

    def works(self, pid: int) -> bool:
        """Whether bolts of this process have taken a record; of topologies that tell (`numbered.works`)."""
        return (self.folder / "working" / str(pid)).exists()

    # -- waiting

    def until(self, condition: Callable[[], Any], what: str, within_s: float = PATIENCE_S) -> Any:
        """Waits for a condition; fails with all that was said where the run ends before."""

        def there() -> Any:
            found = condition()
            assert found or self.process.poll() is None, f"the run has ended before {what}:\n{self.said()}"
            return found

        try:
            return wait_for(there, what, within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said()}") from None

    def until_done(self, more: int) -> int:
        """Waits until so many more messages are done; returns how many are in all."""
        target = self.done() + more
        return int(self.until(lambda: (now := self.done()) >= target and now, f"{more:,} more messages"))

    def until_all_work(self, workers: int = 2) -> None:
        """Waits until so many workers are there, each of which has taken a record: replacements are back then."""
        self.until(lambda: len(there := self.workers()) == workers and all(map(self.works, there)), "all workers")

    def until_said(self, pattern: str, within_s: float = PATIENCE_S) -> "re.Match[str]":
        found = self.until(lambda: re.search(pattern, self.said(), re.MULTILINE), f"{pattern!r} on stderr", within_s)
        assert isinstance(found, re.Match)
        return found

    def ended(self, within_s: float = PATIENCE_S) -> Outcome:
        """Waits for its end."""
        try:
            status = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended within {within_s:g} s:\n{self.said()}") from None
        return Outcome(status, self._out.read_text(errors="replace"), self.said())

    def drained(self) -> Outcome:
        """Tells it to drain, and waits for its end. What was read is stored then, each word once: read by one task,
        whose process has lived all the time."""
        self.process.send_signal(signal.SIGTERM)
        outcome = self.ended().well()
        ((read, _, _),) = self.books().values()
        exactly(self.folder, read)
        return outcome

    def drained_or_read_again(self) -> Outcome:
        """As `drained`, also where the spout's process was killed: what was read by several was stored once. Nothing of
        what was done is missing."""
        self.process.send_signal(signal.SIGTERM)
        outcome = self.ended().well()
        exactly(self.folder, rows(self.folder) // WORDS)
        return outcome

    # -- faults

    def kill(self, pid: int) -> Kill:
        """kill -9, and what its own spouts had in flight at that moment."""
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: state_of(pid) in ("", "Z", "X"), "its end")
        return Kill(pid, self.pending(pid))

    def stopped_in_flight(self, pick: Callable[[], int]) -> int:
        """Stops the worker that `pick` names, which names 0 while there is none, at a moment when it works and messages
        are in flight: its own, or so many that wait for it; let go again where none are. What is pending while a
        replacement is on its way waits for that, and is not in flight."""

        def caught() -> int:
            pid = pick()
            if not (pid and self.works(pid)):
                return 0
            os.kill(pid, signal.SIGSTOP)
            wait_for(lambda: state_of(pid) == "T", "its stop")
            with contextlib.suppress(AssertionError):
                wait_for(lambda: self.pending(pid) > 0 or self.pending() >= IN_FLIGHT, "messages", within_s=0.5)
                time.sleep(0.05)  # the others may do without it all that they had then
                if self.pending(pid) > 0 or self.pending() >= IN_FLIGHT:
                    return pid
            os.kill(pid, signal.SIGCONT)
            return 0

        return int(self.until(caught, "messages in flight"))

    def kill_in_flight(self, pid: int) -> Kill:
        return self.kill(self.stopped_in_flight(lambda: pid))

    def told(self, kill: Kill) -> Kill:
        """Waits for the supervisor's line about this death, and takes what other workers had in flight from it."""
        line = self.until_said(rf"^.*worker \d+ \(pid {kill.pid}\) .*$")[0]
        found = re.search(r"; ([\d,]+) messages? in flight ha", line)
        kill.told = int(found[1].replace(",", "")) if found else 0
        return kill

    def kill_all_in_flight(self) -> int:
        """kill -9 to the supervisor and all workers, at a moment when messages are in flight: all are stopped first,
        and let go again where none is. Returns how many were."""

        def caught() -> list[int]:
            pids = self.workers() or [self.process.pid]
            self.signal_all(signal.SIGSTOP)
            wait_for(lambda: {state_of(pid) for pid in pids} <= {"T", "Z", ""}, "their stop")
            if self.pending(*pids) > 0:
                return pids
            self.signal_all(signal.SIGCONT)
            return []

        pids = self.until(caught, "messages in flight")
        self.kill_all()
        return self.pending(*pids)

    def kill_all(self) -> None:
        """kill -9 to the supervisor and all workers; returns once they are gone."""
        self.signal_all(signal.SIGKILL)
        self.process.wait()
        wait_for(lambda: not group_lives(self.process.pid), "the end of all")

    def signal_all(self, number: int) -> None:
        """To the supervisor and its workers, as a terminal does."""
        os.killpg(self.process.pid, number)


def hit(kills: list[Kill], outcome: Outcome, restarts: int | None = None) -> None:
    """Fails unless each of these kills hit messages in flight, each was a restart, and something was replayed, or came
    again to a sink that knew it: to the last process of the sink, which counts that, or to an earlier one.

    `restarts`: how many there were where there were more kills than these.
    """
    assert all(one.own + one.told > 0 for one in kills), f"kills that hit nothing: {kills}\n{outcome.said}"
    assert outcome.figures["restarts"] == (len(kills) if restarts is None else restarts), outcome.said
    assert outcome.total("replayed") > 0 or outcome.known > 0 or DROPS in outcome.said, outcome.said


@contextlib.contextmanager
def running(
    folder: Path,
    *options: str,
    command: tuple[str, ...] = KEDGE,
    state: str = "state",
    config: Mapping[str, object] | None = None,
    environment: Mapping[str, str | None] | None = None,
    prepare: Callable[[], None] | None = None,
    workers: int = 2,
    program: Path = NUMBERED,
    told_folder: bool = True,
    **values: object,
) -> Iterator[Run]:
    """Starts `kedge run` of this program; `values` are its parameters, with the folder unless told otherwise. Ends it
    by force where the test's body has not.

    `command`: what comes before "run"; `prepare` is called in the new process before it begins.
    """
    settings = [
        f"--set={name}={value}" for name, value in {**({"folder": folder} if told_folder else {}), **values}.items()
    ]
    settings += [f"--config={name}={value}" for name, value in (config or {}).items()]
    line = [*command, "run", str(program), *settings, "--state-dir", str(folder / state), "--json", *options]
    number = len(list(folder.glob("stderr-*")))
    with (folder / f"stdout-{number}").open("wb") as out, (folder / f"stderr-{number}").open("wb") as err:
        process = subprocess.Popen(
            [*line, "--workers", str(workers)] if workers else line,
            cwd=folder,
            env=surroundings(folder, environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=prepare,
        )
    try:
        yield Run(folder, process, number)
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(AssertionError):  # its workers end by themselves, and tidy up,
            wait_for(lambda: not group_lives(process.pid), "the end of its workers", within_s=ALL_GONE_S)
        with contextlib.suppress(ProcessLookupError):  # or are the reason why a test fails
            os.killpg(process.pid, signal.SIGKILL)


def surroundings(folder: Path, changes: Mapping[str, str | None]) -> dict[str, str]:
    """Our environment, with a place of the test's own for run directories, and without what changes the command."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KEDGE_", "PYTEST_"))}
    changed = {"XDG_RUNTIME_DIR": str(folder / "r"), "TMPDIR": str(folder / "r"), "NO_COLOR": "1", **changes}
    return {name: value for name, value in {**kept, **changed}.items() if value is not None}


# -- what is stored


def exactly(folder: Path, count: int = RECORDS) -> None:
    """Fails unless each word of each of the first `count` records is stored once, and nothing else."""
    with contextlib.closing(sqlite3.connect(folder / "store.db")) as store:
        store.create_function("named", 1, named, deterministic=True)

        def ask(sql: str) -> Any:
            return store.execute(sql).fetchone()

        assert ask("PRAGMA quick_check") == ("ok",)
        rows, records, occurrences, first, last = ask(
            "SELECT count(*), count(DISTINCT n), count(DISTINCT n * 10 + place), min(n), max(n) FROM word"
        )
        wrong = ask(
            "SELECT count(*) FROM word"
            " WHERE named(text) != CASE place WHEN 0 THEN n / 1000 WHEN 1 THEN n % 1000 ELSE -1 END"
        )
    found = (rows, occurrences, records, first, last, *wrong)
    assert found == (WORDS * count, WORDS * count, count, 0, count - 1, 0)


def resumed_at(folder: Path) -> list[int]:
    """The positions at which tasks of `Numbers` have begun, of all runs and processes, the latest last."""
    return [int(line.split()[1]) for line in (folder / "opened").read_text().splitlines()]


def named(text: str) -> int:
    """The number that a word names."""
    return int("".join(str(DIGITS.index(digit)) for digit in text.split("-")))


def rows(folder: Path) -> int:
    """How many rows there are at the moment."""
    with contextlib.closing(sqlite3.connect(folder / "store.db")) as store:
        try:
            (found,) = store.execute("SELECT max(rowid) FROM word").fetchone()
        except sqlite3.OperationalError:  # no table yet
            return 0
    return found or 0
