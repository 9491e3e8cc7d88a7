"""What a comparison has found, as plain data: what is measured, shown, plotted and written as JSON. Pure.

Durations are milliseconds, memory is megabytes (10^6 bytes), CPU is seconds of all processes of the system under test
together, without the feeder.
"""

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

PERCENTS: Final[Mapping[str, float]] = {"p50": 50, "p90": 90, "p99": 99, "p999": 99.9}
# What these run is not the topology itself, and its results have no identities that a sink could know them by.
JVM_ONLY: Final = frozenset({"spark:continuous", "spark:real-time", "spark:real-time-python"})
EDGES_MS: Final = tuple(0.01 * 10 ** (step / 20) for step in range(7 * 20 + 1))  # 10 µs to 100 s, 12 % apart


@dataclass(frozen=True)
class Kill:
    """What a SIGKILL in the middle cost: of the mode's victim (`what`, "a worker", "the driver", …).

    `gap_ms`: the longest time without an arrival after it, less that of before; `recovered_ms`: from the kill to the
    first arrival of a message that was due after it; `replayed_ms`: to the first ack of a replay, None where a mode
    does not tell.
    """

    what: str
    at_s: float  # after the first measured message was due
    gap_ms: float | None
    recovered_ms: float | None
    replayed_ms: float | None


@dataclass
class ModeResult:
    """One row of the table: what a mode did in all of its rounds together.

    mode          as `--modes` names it; `title` as people read it.
    problem       why it did not run, or did not end; "" where it did. What was measured until then is kept.
    settings      that the mode ran with, beyond the defaults of what runs it.
    latencies     one a result: when it arrived at the sink, less when its message was due; milliseconds.
    arrivals      for each of `latencies`, when its message was due, in seconds from the round's first measured one.
    untimed       results that no single message can be named of (joins), or of the warm-up.
    repeated      results that arrived more than once, by their identity; missing, extra: against what most modes gave.
    feeder_lag    how late the feeder was, in the same way as `latencies`: p50, p99, max; `feeder_limited` where that
                  is more than a tenth of the mode's own p50, so that the mode's figures are not its own.
    throughput_per_s  messages whose results have arrived, a second; at `--rate max` the mode's saturation.
    start_s       from its start to its first result or ack.
    """

    mode: str
    title: str
    guarantee: str = ""
    problem: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    offered: int = 0
    arrived: int = 0
    untimed: int = 0
    repeated: int = 0
    missing: int = 0
    extra: int = 0
    rounds: int = 0
    throughput_per_s: float | None = None
    cpu_seconds_per_million: float | None = None
    memory_mb: float | None = None
    start_s: float | None = None
    feeder_lag: dict[str, float] = field(default_factory=dict)
    feeder_limited: bool = False
    kill: Kill | None = None

    @property
    def late_in_tail(self) -> bool:
        """Whether the row's median is its own, and more than half of its 99th percentile the feeder's lateness."""
        found = percentiles(self.latencies)
        return found is not None and not self.feeder_limited and self.feeder_lag.get("p99", 0.0) > found["p99"] / 2

    @property
    def exact(self) -> bool:
        """Whether each result was there, once."""
        return not (self.missing or self.extra or self.repeated or self.problem)

    @property
    def exact_in_effect(self) -> bool:
        """Whether each result was there, and a sink that drops what is repeated has it once."""
        dropped = not self.repeated or self.mode not in JVM_ONLY
        return dropped and not (self.missing or self.extra or self.problem)

    def as_json(self) -> dict[str, Any]:
        """As `--json` gives it: percentiles and a histogram in place of the single latencies, and what follows."""
        plain = {name: value for name, value in asdict(self).items() if name not in ("latencies", "arrivals")}
        names = ("late_in_tail", "exact", "exact_in_effect")
        judged = {name: getattr(self, name) for name in names}
        return {**plain, **judged, "latency_ms": percentiles(self.latencies), "histogram": histogram(self)}


@dataclass
class Comparison:
    """All modes, and under which conditions. `settings`: rate, seconds, rounds, the topology and its own values.

    `notes`: what a reader has to know, a sentence each (a source that was offered several times over, results that are
    of several messages); `interrupted` where Ctrl-C ended it early.
    """

    topology: str
    settings: dict[str, Any]
    machine: dict[str, Any]
    versions: dict[str, str]
    modes: list[ModeResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False

    def as_json(self) -> dict[str, Any]:
        """One object; its modes as `ModeResult.as_json` says."""
        return {**{name: value for name, value in vars(self).items() if name != "modes"}} | {
            "modes": [mode.as_json() for mode in self.modes]
        }


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value that this share of a sorted, non-empty sequence does not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def percentiles(latencies: Sequence[float]) -> dict[str, float] | None:
    """p50, p90, p99, p999 and max; None of nothing."""
    if not latencies:
        return None
    ordered = sorted(latencies)
    return {**{name: percentile(ordered, percent) for name, percent in PERCENTS.items()}, "max": ordered[-1]}


def histogram(result: ModeResult) -> list[tuple[float, int]]:
    """(upper edge in milliseconds, how many), of the edges that have any; the last edge takes all that is above."""
    places = sorted(min(bisect.bisect_left(EDGES_MS, one), len(EDGES_MS) - 1) for one in result.latencies)
    return [(EDGES_MS[place], len(list(same))) for place, same in itertools.groupby(places)]


class RoundProblem(Exception):
    """Ends one row's turn; the others go on. `result`: what its round has come to, where it has come to anything."""

    def __init__(self, text: str, result: ModeResult | None = None) -> None:
        super().__init__(text)
        self.result = result
