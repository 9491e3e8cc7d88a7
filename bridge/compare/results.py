"""The results of a comparison, as plain data: measured, shown, plotted and written as JSON. Pure.

Durations are milliseconds, memory is megabytes (10^6 bytes). CPU is seconds of all processes of the system under test
together, without the feeder.
"""

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

PERCENTS: Final[Mapping[str, float]] = {"p50": 50, "p90": 90, "p99": 99, "p999": 99.9}
# These modes do not run the topology itself, and their results have no identities by which a sink could know them.
JVM_ONLY: Final = frozenset({"spark:continuous", "spark:real-time", "spark:real-time-python"})
EDGES_MS: Final = tuple(0.01 * 10 ** (step / 20) for step in range(7 * 20 + 1))  # 10 µs to 100 s, 12 % apart


@dataclass(frozen=True)
class Kill:
    """The effects of a SIGKILL in the middle, of the mode's victim (`what`: "a worker", "the driver", …).

    gap_ms        the longest time without an arrival after the kill, minus the longest before it.
    recovered_ms  from the kill to the first arrival of a message that was due after it.
    replayed_ms   from the kill to the first ack of a replay; None if a mode does not report it.
    """

    what: str
    at_s: float  # after the first measured message was due
    gap_ms: float | None
    recovered_ms: float | None
    replayed_ms: float | None


@dataclass
class ModeResult:
    """One row of the table: the results of a mode in all of its rounds together.

    mode          as `--modes` names it; `title` as people read it.
    problem       why it did not run, or did not finish; "" if it did. Everything measured until then is kept.
    settings      settings beyond the defaults of the engine that runs the mode.
    latencies     one per result: time of arrival at the sink minus the time when its message was due; milliseconds.
    arrivals      for each of `latencies`, when its message was due, in seconds from the round's first measured one.
    untimed       results without a single message (joins), or of the warm-up.
    repeated      results that arrived more than once, by their identity; missing, extra: compared with most modes.
    feeder_lag    how late the feeder was, measured like `latencies`: p50, p99, max; `feeder_limited` if that is more
                  than a tenth of the mode's own p50, so that the feeder distorts the mode's figures.
    throughput_per_s  messages whose results have arrived, per second; at `--rate max` the mode's saturation.
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
        """True if the row's median is its own, and more than half of its 99th percentile is the feeder's lateness."""
        found = percentiles(self.latencies)
        return found is not None and not self.feeder_limited and self.feeder_lag.get("p99", 0.0) > found["p99"] / 2

    @property
    def exact(self) -> bool:
        """True if each result was there exactly once."""
        return not (self.missing or self.extra or self.repeated or self.problem)

    @property
    def exact_in_effect(self) -> bool:
        """True if each result was there at least once, so that a deduplicating sink has it once."""
        dropped = not self.repeated or self.mode not in JVM_ONLY
        return dropped and not (self.missing or self.extra or self.problem)

    def as_json(self) -> dict[str, Any]:
        """Return the object of `--json`: percentiles and a histogram instead of the single latencies, and derived
        figures."""
        plain = {name: value for name, value in asdict(self).items() if name not in ("latencies", "arrivals")}
        names = ("late_in_tail", "exact", "exact_in_effect")
        judged = {name: getattr(self, name) for name in names}
        return {**plain, **judged, "latency_ms": percentiles(self.latencies), "histogram": histogram(self)}


@dataclass
class Comparison:
    """All modes and the conditions. `settings`: rate, seconds, rounds, the topology and its own values.

    `notes`: facts that a reader has to know, one sentence each (a source that was offered several times over, results
    of several messages). `interrupted` if Ctrl-C ended the comparison early.
    """

    topology: str
    settings: dict[str, Any]
    machine: dict[str, Any]
    versions: dict[str, str]
    modes: list[ModeResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return one object; its modes are as `ModeResult.as_json` returns them."""
        return {**{name: value for name, value in vars(self).items() if name != "modes"}} | {
            "modes": [mode.as_json() for mode in self.modes]
        }


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the value that this share of a sorted, non-empty sequence does not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def percentiles(latencies: Sequence[float]) -> dict[str, float] | None:
    """Return p50, p90, p99, p999 and max; None for an empty sequence."""
    if not latencies:
        return None
    ordered = sorted(latencies)
    return {**{name: percentile(ordered, percent) for name, percent in PERCENTS.items()}, "max": ordered[-1]}


def histogram(result: ModeResult) -> list[tuple[float, int]]:
    """Return (upper edge in milliseconds, count) of the edges with a count; the last edge takes everything above."""
    places = sorted(min(bisect.bisect_left(EDGES_MS, latency), len(EDGES_MS) - 1) for latency in result.latencies)
    return [(EDGES_MS[place], len(list(same))) for place, same in itertools.groupby(places)]


class RoundProblem(Exception):
    """Ends one row's turn; the other rows continue. `result`: the round's results so far, if there are any."""

    def __init__(self, text: str, result: ModeResult | None = None) -> None:
        super().__init__(text)
        self.result = result
