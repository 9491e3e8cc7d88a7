"""The kit's runs, to be shown beside a failed test: seeds, deaths, failures of bolts.

Knows no pytest: the plugin reads it. Runs are kept until `clear`, at most RUNS_MAX of them.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

RUNS_MAX: Final = 10
LINES_MAX: Final = 10  # deaths, and failures, that are shown of one run


@dataclass
class RunHistory:
    """One run. `str` has a line for each fact. Tracebacks are in the log, which pytest shows too."""

    name: str
    seed: int | None
    ended: str = "is under way"
    in_flight: str = ""
    deaths: Sequence[str] = ()
    failures: Sequence[str] = ()

    def __str__(self) -> str:
        seed = "no seed" if self.seed is None else f"seed {self.seed}"
        lines = [f"kedge: {self.name}, {seed}: {self.ended}"]
        for facts in (self.deaths, self.failures):
            lines += facts[:LINES_MAX]
            if len(facts) > LINES_MAX:
                lines.append(f"and {len(facts) - LINES_MAX:,} more")
        if self.in_flight:
            lines.append(f"in flight: {self.in_flight}")
        return "\n  ".join(lines)


_runs: Final[deque[RunHistory]] = deque(maxlen=RUNS_MAX)


def begin(name: str, seed: int | None) -> RunHistory:
    """Note a run that begins. Its result is written into the returned entry."""
    _runs.append(RunHistory(name, seed))
    return _runs[-1]


def summary() -> str:
    """Return all runs since `clear`, oldest first; empty if there were none."""
    return "\n".join(map(str, _runs))


def clear() -> None:
    """Forget all runs."""
    _runs.clear()
