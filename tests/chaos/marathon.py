"""`python tests/chaos/marathon.py`: one run in several lives, each killed as a whole, while workers are killed and
stopped all the time, and then a count of all that is stored. `make chaos` is this; the suite runs a short one. With
`--states` words are counted across all records, by a bolt with state.

A run that proves nothing fails as well: each kill has to have hit messages in flight, something has to have been
replayed or known already, and each life has to have gone on where the one before it was. One seed decides the whole
schedule; when each fault comes is counted in messages, so that a slow machine has the same run.
"""

import argparse
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

import tallied
from chaos_kit import HASTY, KEDGE, PATIENCE_S, Kill, Outcome, Run, resumed_at, running, surroundings
from counted import expected, rejected
from tallied_kit import tallied_exactly

T = TypeVar("T")

COUNTED: Final = Path(__file__).with_name("counted.py")
LIVES: Final = 3  # so that the whole of it is killed twice
EACH_S: Final = 1.0  # from one fault to the next, about
WORKERS: Final = 2


@dataclass(frozen=True)
class Fault:
    """What a worker is done to. `after`: messages done since the fault before; `place`: which worker, from 0 to 1."""

    after: int
    kind: str  # "kill"; "stop", and woken before anybody minds; "silence", stopped until it is replaced
    place: float
    for_s: float  # of a stop


def step_of(records: int, faults: int) -> int:
    """The most messages between two faults: when all are over, some seconds' worth is left to be read in peace."""
    step = records // (LIVES * (faults + 1) + 1)
    assert step >= 100, "there are too few records for so many faults"
    return step


def schedule(random: Random, records: int, faults: int) -> list[list[Fault]]:
    """The faults of each life: half of them are kills, one is a silence where there are six or more, the rest stops."""
    step = step_of(records, faults)
    kills, silences = (faults + 1) // 2, int(faults >= 6)
    kinds = ["kill"] * kills + ["silence"] * silences + ["stop"] * (faults - kills - silences)
    lives = []
    for _ in range(LIVES):
        random.shuffle(kinds)
        lives.append(
            [Fault(random.randint(step // 2, step), kind, random.random(), random.uniform(0.2, 1.5)) for kind in kinds]
        )
    return lives


class Marathon:
    """One run in its lives, on one folder. `run` does it, `exactly` and `letters` say what has come of it."""

    program = COUNTED

    def __init__(
        self, folder: Path, seed: int, records: int, faults: int, *, reject: int = 0, tasks: int = 1, each_s: float
    ) -> None:
        self.folder, self.records, self.reject, self.tasks = folder, records, reject, tasks
        self.lives = schedule(Random(seed), records, faults)
        self.rate = round(step_of(records, faults) / each_s)
        self.kills: list[Kill] = []
        self.stops: list[int] = []  # messages that were in flight at each stop
        self.whole: list[int] = []  # and as all were killed
        self.began = [0]  # where each life has
        self.read = 0  # messages, in all lives
        print(f"seed {seed}: {records:,} records, {self.rate:,} a second; {LIVES} lives of {faults} faults")

    def run(self) -> Outcome:
        """All lives. Returns how the last one has ended; fails where a fault has hit nothing, or a life has not gone on
        where the one before was."""
        for faults in self.lives[:-1]:
            self.live(faults, self.kill_whole)
        outcome = self.live(self.lives[-1], lambda run: run.ended(within_s=2 * PATIENCE_S + self.records / 500))
        planned = sum(fault.kind == "kill" for life in self.lives for fault in life)
        hits = [kill for kill in self.kills if kill.own + kill.told > 0]
        assert len(hits) >= planned, f"{len(hits)} of {planned} kills have hit messages in flight: {self.kills}"
        assert all(self.whole), f"nothing was in flight as everything was killed: {self.whole}"
        assert self.read > self.records, "nothing was read again"
        return outcome

    def live(self, faults: Sequence[Fault], end: Callable[[Run], T]) -> T:
        """One life, from where the one before was killed; returns what its end returns."""
        before = resumed_at(self.folder) if self.whole else []
        with self.started() as run:
            for fault in faults:
                self.inflict(fault, run)
            ended = end(run)
            self.read = run.read()
        if before:
            self.went_on(run.said(), before)
        return ended

    def started(self, *, reject: int | None = None) -> AbstractContextManager[Run]:
        """Starts it, on the state directory and the store that it always has."""
        return self.started_with(reject=self.reject if reject is None else reject)

    def started_with(self, *, config: Mapping[str, object] | None = None, **values: Any) -> AbstractContextManager[Run]:
        """With these values of its program and settings, beside those of every marathon."""
        return running(
            self.folder,
            program=self.program,
            command=HASTY,
            config={  # so that few are tried alone, if any
                "max_restarts": 1_000,
                "max_pending": max(100, self.rate // 5),
                **(config or {}),
            },
            count=self.records,
            rate=self.rate // self.tasks,
            tasks=self.tasks,
            **values,
        )

    # -- faults

    def inflict(self, fault: Fault, run: Run) -> None:
        """Waits until it is due, and does it to a worker while messages are in flight."""
        run.until_done(fault.after)
        pid = run.stopped_in_flight(lambda: self.victim(fault, run))
        pending = run.pending()
        print(f"  {fault.kind} after {fault.after:,} messages, with {pending:,} in flight: {pid}", flush=True)
        if fault.kind == "kill":
            self.kills.append(run.told(run.kill(pid)))
            return
        self.stops.append(pending)
        if fault.kind == "silence":
            run.until_said(rf"worker \d \(pid {pid}\) was killed, as it gave no sign of life for ", within_s=30)
        else:
            time.sleep(fault.for_s)
        with suppress(ProcessLookupError):  # it was replaced
            os.kill(pid, signal.SIGCONT)

    def victim(self, fault: Fault, run: Run) -> int:
        """The worker that it is for; 0 while one of them is on its way back."""
        workers = sorted(run.workers())
        return workers[int(fault.place * WORKERS)] if len(workers) == WORKERS and all(map(run.works, workers)) else 0

    def kill_whole(self, run: Run) -> None:
        """kill -9 to the supervisor and all workers, after some messages more, and while others are in flight."""
        run.until_done(step_of(self.records, len(self.lives[0])) // 2)
        self.whole.append(run.kill_all_in_flight())
        print(f"  all killed, with {self.whole[-1]:,} messages in flight", flush=True)

    # -- what has come of it

    def went_on(self, said: str, before: Sequence[int]) -> None:
        """Fails unless a life says where it goes on, which is further than the life before it has begun, and where no
        process went back, if one task has all positions; `before`: where tasks had begun until then."""
        found = re.search(r"resuming at 'numbers' ([\d,]+)", said)
        assert found, said
        at = int(found[1].replace(",", ""))
        mine = resumed_at(self.folder)[len(before) :]
        print(f"  a life resumed at {at:,}, its processes at {mine}")
        assert at > self.began[-1], f"it resumed at {at:,}, and the life before at {self.began[-1]:,}"
        assert min(mine) == at
        if self.tasks == 1:
            assert [*before, *mine] == sorted([*before, *mine]), f"a position went back: {before}, then {mine}"
        self.began.append(at)

    def exactly(self, reject: int) -> None:
        """Fails unless all numbers, less those that are rejected, have made their rows, each once."""
        words, addresses = expected(self.records, reject)
        with closing(sqlite3.connect(self.folder / "store.db")) as store:
            assert store.execute("PRAGMA quick_check").fetchone() == ("ok",)
            assert dict(store.execute("SELECT text, count(*) FROM word GROUP BY text")) == words
            assert dict(store.execute("SELECT address, count(*) FROM visit GROUP BY address")) == addresses
            rows, different = store.execute("SELECT count(*), count(DISTINCT n * 10 + place) FROM word").fetchone()
            visits, visitors = store.execute("SELECT count(*), count(DISTINCT n) FROM visit").fetchone()
        assert (rows, visits) == (different, visitors), "a record is there twice in place of another"
        print(f"exact: {rows:,} rows of words and {visits:,} of addresses")

    def letters(self) -> list[int]:
        """The numbers that are dead letters, as often as they are there."""
        told = self.dead("list", "--json", "--limit", str(self.records))
        return sorted(json.loads(line)["id"] for line in told.splitlines())

    def replayed(self) -> Outcome:
        """Has all dead letters replayed by a run of a topology that rejects nothing."""
        self.dead("replay", "--all")
        with self.started(reject=0) as run:
            return run.ended(within_s=PATIENCE_S).well()

    def dead(self, *arguments: str) -> str:
        """What `kedge dead` says to stdout."""
        done = subprocess.run(
            [*KEDGE, "dead", *arguments, "--state-dir", str(self.folder / "state")],
            cwd=self.folder,
            env=surroundings(self.folder, {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


class Tallied(Marathon):
    """The same, of a topology with state; `durability` is the run's."""

    program = Path(tallied.__file__)
    durability = "disk"

    def started(self, *, reject: int | None = None) -> AbstractContextManager[Run]:
        return self.started_with(config={"durability": self.durability})

    def exactly(self, reject: int = 0) -> None:
        tallied_exactly(self.folder, self.records)


def marathon_of_states(
    folder: Path, seed: int, records: int, faults: int, *, durability: str, tasks: int = 1, each_s: float = EACH_S
) -> None:
    """As `marathon`, of words that are counted across all records."""
    one = Tallied(folder, seed, records, faults, tasks=tasks, each_s=each_s)
    one.durability = durability
    one.run().well()
    one.exactly()


def marathon(
    folder: Path, seed: int, records: int, faults: int, *, reject: int = 0, tasks: int = 1, each_s: float = EACH_S
) -> None:
    """The whole of it: what is stored is exact, exactly the rejected are dead letters, once each, and once these are
    replayed by a topology that takes them nothing is missing."""
    one = Marathon(folder, seed, records, faults, reject=reject, tasks=tasks, each_s=each_s)
    outcome = one.run()
    if not reject:
        outcome.well()
        one.exactly(0)
        return
    assert outcome.status == 1, outcome.said
    assert one.letters() == [n for n in range(records) if rejected(n, reject)]
    one.exactly(reject)
    print(f"{records // reject:,} dead letters, each once")
    one.replayed()
    assert one.letters() == []
    one.exactly(0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Kills and stops workers, and twice the whole run; counts what is stored."
    )
    parser.add_argument("--seed", type=int, help="of the schedule; drawn unless given")
    parser.add_argument("--records", type=int, default=200_000, metavar="N", help="200,000 unless given")
    parser.add_argument("--faults", type=int, default=10, metavar="N", help="in each life; 10 unless given")
    parser.add_argument("--reject", type=int, default=1_000, metavar="N", help="one of N records is dead; 0: none")
    parser.add_argument("--tasks", type=int, default=1, metavar="N", help="of the source, on both workers if 2")
    parser.add_argument("--states", choices=("disk", "process"), help="words are counted, with this durability")
    given = parser.parse_args(arguments)
    seed = given.seed if given.seed is not None else Random().randrange(10**6)
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    for name in ("r", "books"):
        (folder / name).mkdir(mode=0o700)
    begun = time.monotonic()
    try:
        if given.states:
            marathon_of_states(folder, seed, given.records, given.faults, durability=given.states, tasks=given.tasks)
        else:
            marathon(folder, seed, given.records, given.faults, reject=given.reject, tasks=given.tasks)
    except AssertionError as error:
        print(f"FAILED: {error}\nwhat there is of it: {folder}\nonce more: make chaos SEED={seed}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    print(f"all is well, after {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
