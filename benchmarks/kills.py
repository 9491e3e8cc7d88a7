"""One SIGKILL of a worker of a running topology, and its effects, record by record.

Each kill has a run of its own: a second kill within a minute would measure the back-off before the restart. The victim
is worker 1, which has a task of the bolt, and with `spouts=2` a spout too. All times are from just before the signal.
"""

import asyncio
import math
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.embedded import WARM_UP_S
from benchmarks.schedule import Durability, Log, lane_of, scheduled
from benchmarks.workers import Running

VICTIM: Final = 1  # number of the worker, and of the bolt's task in it
RATE: Final = 5_000.0  # records per second of `recovered_s`
LEAD_S: Final = 0.2  # seconds from the start command to the first record
AFTER_S: Final = 3.0  # seconds after the kill that are drawn
BEFORE_S: Final = 1.0  # seconds before the kill that are drawn, at most
BIN_S: Final = 0.02  # seconds of one bin of the drawing
RECOVERY_S: Final = 60.0  # seconds after the kill for which the log has room
SATURATED: Final = 1e9  # records per second: all are always due
FASTEST: Final = 1_000_000  # records per second that no machine reaches
TRIES: Final = 5  # attempts at a kill that finds a record in flight


async def saturation(spouts: int, seconds: float) -> float:
    """Return acked records per second if all are due at once."""
    capacity = int(FASTEST * (seconds + 10)) // spouts
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        log = Log.make(path, spouts, capacity)
        async with Running(scheduled, path=str(path), spouts=spouts, capacity=capacity, rate=SATURATED) as running:
            log.start[0] = time.perf_counter()
            return await running.acked_a_second(seconds)


def recovered_s(durability: Durability, seconds: float) -> dict[str, float]:
    """Return `value`: seconds from the kill of the worker without a spout, at RATE, to the first replayed ack; `all`:
    until all that was due before is acked. State is kept so."""
    found = kill(1, RATE, seconds, durability)
    return {"value": found["first_ack"] / 1000, "all": found["all"] / 1000, "failed": found["failed"]}


def kill(spouts: int, rate: float, seconds: float, durability: Durability | None = None) -> dict[str, Any]:
    """Kill once after `seconds` at this rate; with a `durability` the bolt has state that is kept so, else nothing is.

    Return `first_ack` and `all` in milliseconds, the records `in_flight` that needed the dead worker, `failed` trees,
    and `latency` around the kill: [ms from the kill, median ms, highest ms] of records due then.

    Raises RuntimeError if everything in flight was acked in spite of the kill, several times over.
    """
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(_killed(Path(folder), spouts, rate, seconds, durability))
        if found is not None:
            return found
    raise RuntimeError(f"{TRIES} kills met nothing in flight that needed the worker")


async def _killed(
    folder: Path, spouts: int, rate: float, seconds: float, durability: Durability | None
) -> dict[str, Any] | None:
    path, state_dir = folder / "log", str(folder / "state") if durability else None
    capacity = math.ceil(rate * (WARM_UP_S + seconds + RECOVERY_S) / spouts)
    log = Log.make(path, spouts, capacity)
    arguments: dict[str, Any] = {"path": str(path), "spouts": spouts, "capacity": capacity, "rate": rate}
    async with Running(scheduled, state_dir=state_dir, durability=durability, **arguments) as running:
        await running.until(lambda: all(log.polled[task] for task in range(spouts)), "all spouts were polled")
        start = log.start[0] = time.perf_counter() + LEAD_S
        await asyncio.sleep(LEAD_S + WARM_UP_S + seconds)
        victim = running.run.processes()[VICTIM]
        os.kill(victim, signal.SIGSTOP)  # otherwise it would finish them all while they are looked for
        flying = _in_flight(log, spouts)
        at = time.perf_counter()
        os.kill(victim, signal.SIGKILL)
        running.kills += 1
        before = math.ceil((at - start) * rate)  # records due before the kill
        drawn = math.ceil((at + AFTER_S - start) * rate)
        await asyncio.sleep(AFTER_S)
        await running.until(_Acked(log, spouts, drawn), f"all records due {AFTER_S:g} s after the kill were acked")
    assert running.report is not None
    # by the victim's second life: no other process writes more than 1
    replayed = [n for n in flying if log.marks[n] > 1]
    if not replayed:
        return None
    acked = [log.acked[n % spouts][n // spouts] - at for n in replayed]
    if running.report.snapshot.total("replayed") == 0:
        raise RuntimeError("nothing was replayed")
    return {
        "first_ack": 1000 * min(acked),
        "all": 1000 * (max(log.acked[n % spouts][n // spouts] for n in range(before)) - at),
        "in_flight": len(replayed),
        "failed": running.report.snapshot.total("failed"),
        "latency": _latency(log, spouts, start, rate, at, drawn),
    }


def _in_flight(log: Log, spouts: int) -> list[int]:
    """Return records that were polled, are not acked, and must be processed by the victim.

    Looks until a survivor has one in flight: the victim may finish its own before the signal arrives.
    """
    low = [0] * spouts
    deadline = time.perf_counter() + 1.0
    while True:
        flying: list[int] = []
        for task in range(spouts):
            end = int(log.given[task])
            unacked = log.open_of(task, low[task], end)
            low[task] = unacked[0] if unacked else end
            flying += (own * spouts + task for own in unacked)
        needing = [n for n in flying if lane_of(n, spouts) == VICTIM]
        if any(n % spouts != VICTIM for n in needing) or time.perf_counter() > deadline:
            return needing


class _Acked:
    """A repeated check whether all records below `count` are acked. Looks at each record only once."""

    def __init__(self, log: Log, spouts: int, count: int) -> None:
        self._log = log
        self._ends = [len(range(task, count, spouts)) for task in range(spouts)]
        self._low = [0] * spouts

    def __call__(self) -> bool:
        for task, end in enumerate(self._ends):
            left = self._log.open_of(task, self._low[task], end)
            self._low[task] = left[0] if left else end
        return self._low == self._ends


def _latency(log: Log, spouts: int, start: float, rate: float, at: float, end: int) -> list[tuple[float, float, float]]:
    """Return bins by the time when records were due: [ms from the kill, median ms, highest ms]."""
    bins: dict[int, list[float]] = {}
    for n in range(max(0, math.ceil((at - BEFORE_S - start) * rate)), end):
        due = start + n / rate
        bins.setdefault(math.floor((due - at) / BIN_S), []).append(log.acked[n % spouts][n // spouts] - due)
    return [
        (1000 * BIN_S * (index + 0.5), round(1000 * statistics.median(late), 3), round(1000 * max(late), 3))
        for index, late in sorted(bins.items())
    ]
