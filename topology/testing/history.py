"""What the kit's runs were, for whoever shows it beside a test that has failed: seeds, deaths, failures of bolts.

Knows no pytest: the plugin reads it. Runs are kept until `clear`, and RUNS_MAX of them at most.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

RUNS_MAX: Final = 10
LINES_MAX: Final = 10  # deaths, and failures, that are told of one run


@dataclass
class RunHistory:
    """One run. `str` has a line for each fact; tracebacks are in the log, which pytest shows as well."""

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
    """Takes note of a run that begins; what becomes of it is written into the entry."""
    _runs.append(RunHistory(name, seed))
    return _runs[-1]


def told() -> str:
    """All runs since `clear`, oldest first; empty where there were none."""
    return "\n".join(map(str, _runs))


def clear() -> None:
    """Forgets them."""
    _runs.clear()
