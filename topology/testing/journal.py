"""What the kit's runs were, for whoever shows it beside a test that has failed: seeds, deaths, failures of bolts.

Knows no pytest: the plugin reads it. Runs are kept until `clear`, and RUNS_MAX of them at most.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from topology.runtime.failures import Failure

RUNS_MAX: Final = 10
FAILURES_MAX: Final = 3  # failures that are told with their traceback


@dataclass
class Entry:
    """One run. `str` is one line for each fact, `told` has the tracebacks of what bolts raised besides."""

    name: str
    seed: int | None
    ended: str = "is under way"
    in_flight: str = ""
    deaths: Sequence[str] = ()
    failures: Sequence[Failure] = field(default=())

    def __str__(self) -> str:
        lines = [f"kedge: {self.name}, seed {self.seed}: {self.ended}", *self.deaths]
        if self.in_flight:
            lines.append(f"in flight: {self.in_flight}")
        return "\n  ".join(lines)

    def told(self) -> str:
        """All that there is to tell."""
        lines = [str(self)]
        for failure in self.failures[:FAILURES_MAX]:
            lines += [f"  {failure}", *(f"    {line}" for line in failure.traceback().splitlines())]
        if len(self.failures) > FAILURES_MAX:
            lines.append(f"  and {len(self.failures) - FAILURES_MAX:,} failures more")
        return "\n".join(lines)


_runs: Final[deque[Entry]] = deque(maxlen=RUNS_MAX)


def begin(name: str, seed: int | None) -> Entry:
    """Takes note of a run that begins; what becomes of it is written into the entry."""
    _runs.append(Entry(name, seed))
    return _runs[-1]


def told() -> str:
    """All runs since `clear`, oldest first; empty where there were none."""
    return "\n".join(entry.told() for entry in _runs)


def clear() -> None:
    """Forgets them."""
    _runs.clear()
