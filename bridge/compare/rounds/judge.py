"""The figures of a run, and the comparison of all rounds' rows with one another. Pure.

A result is known by its identity, which is the same in all modes, and its message by its origin. Times are nanoseconds
of the monotonic clock, which is one for all processes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from acker.identity import message_pair, partition_seed
from bridge.compare.job import ComparisonRow
from bridge.compare.results import Kill, ModeResult, percentile
from bridge.compare.workload.script import Script

FEEDER_SHARE: Final = 0.1  # share of the mode's own p50 from which on the feeder's lag is too large
MS: Final = 1e6  # nanoseconds
S: Final = 1e9


class Arrival(NamedTuple):
    """One result at one sink."""

    sink: str
    origin: int
    identity: int
    at_ns: int


Name = tuple[str, int]  # a result: its sink and its identity


@dataclass
class MeasuredRound:
    """One round of one row, as it was observed.

    start_ns     when the first measured message was due; 0 if the round did not get there.
    killed_ns    when its victim was killed.
    replayed_ms  as in `Kill`.
    """

    arrivals: list[Arrival] = field(default_factory=list)
    problem: str = ""
    interrupted: bool = False
    released: int = 0
    start_ns: int = 0
    start_s: float | None = None
    lag: dict[str, float] = field(default_factory=dict)
    cpu_s: float | None = None
    memory_mb: float | None = None
    killed_ns: int = 0
    victim: str = ""
    replayed_ms: float | None = None
    notes: list[str] = field(default_factory=list)


def origins_of(script: Script) -> dict[int, int]:
    """Return origin → number, for all messages."""
    seeds = [partition_seed(script.topology, source.known_as, "", "") for source in script.sources]
    if len(seeds) == 1:
        return {message_pair(number, seeds[0])[0]: number for number in range(script.count)}
    spouts = [script.messages.spout(number) for number in range(script.held)]
    return {message_pair(number, seeds[spouts[number % script.held]])[0]: number for number in range(script.count)}


def figures(row: ComparisonRow, trial: MeasuredRound, script: Script, origins: Mapping[int, int]) -> ModeResult:
    """Return one round as a result; `agreed` later decides `missing` and `extra`."""
    made = ModeResult(row.mode, row.title, row.guarantee, trial.problem, dict(row.settings), rounds=1)
    made.start_s, made.memory_mb, made.feeder_lag = trial.start_s, trial.memory_mb, dict(trial.lag)
    seen: dict[Name, Arrival] = {}
    for arrived_result in sorted(trial.arrivals, key=lambda arrival: arrival.at_ns):
        if seen.setdefault((arrived_result.sink, arrived_result.identity), arrived_result) is not arrived_result:
            made.repeated += 1
    if not trial.start_ns:
        return made
    made.offered = max(0, trial.released - script.warm)
    last_number, last_ns = script.warm - 1, trial.start_ns
    timed: list[tuple[int, int]] = []  # when its message was due, when it arrived
    for arrived_result in seen.values():
        number = origins.get(arrived_result.origin)
        if number is None or number < script.warm:
            made.untimed += number is not None or arrived_result.at_ns >= trial.start_ns
            continue
        due = script.due_ns(number, trial.start_ns)
        timed.append((due, arrived_result.at_ns))
        last_number, last_ns = max(last_number, number), max(last_ns, arrived_result.at_ns)
    timed.sort()
    made.latencies = [(at - due) / MS for due, at in timed]
    made.arrivals = [(due - trial.start_ns) / S for due, _ in timed]
    made.arrived = len(timed)
    if timed and last_ns > trial.start_ns:
        made.throughput_per_s = (last_number - script.warm + 1) / ((last_ns - trial.start_ns) / S)
    if trial.cpu_s is not None and made.offered:
        made.cpu_seconds_per_million = trial.cpu_s / made.offered * 1e6
    made.feeder_limited = limited(made)
    if trial.killed_ns:
        made.kill = killed(trial, timed)
    return made


def limited(result: ModeResult) -> bool:
    """Return True if the feeder was so late that it distorts the mode's figures."""
    if not result.latencies or "p50" not in result.feeder_lag:
        return False
    p50 = percentile(sorted(result.latencies), 50)
    return result.feeder_lag["p50"] > FEEDER_SHARE * p50


def killed(trial: MeasuredRound, timed: Sequence[tuple[int, int]]) -> Kill:
    """Return the effects of the SIGKILL, from (due, arrived) of each result."""
    kill = trial.killed_ns
    times = sorted(at for _, at in timed)
    before = [trial.start_ns, *(at for at in times if at <= kill)]
    after = [before[-1], *(at for at in times if at > kill)]
    gap = None
    if len(after) > 1:
        gap = max(0.0, (_longest(after) - _longest(before)) / MS)
    recovered = [at for due, at in timed if due > kill and at > kill]
    recovered_ms = (min(recovered) - kill) / MS if recovered else None
    return Kill(trial.victim, (kill - trial.start_ns) / S, gap, recovered_ms, trial.replayed_ms)


def _longest(times: Sequence[int]) -> int:
    return max((later - earlier for earlier, later in pairwise(times)), default=0)


def merged(first: ModeResult, second: ModeResult) -> ModeResult:
    """Merge two rounds of one row: samples together, counts added, other figures as a mean, the longer of two gaps."""
    made = ModeResult(first.mode, first.title, first.guarantee, first.problem or second.problem, dict(first.settings))
    made.latencies, made.arrivals = first.latencies + second.latencies, first.arrivals + second.arrivals
    for name in ("offered", "arrived", "untimed", "repeated", "missing", "extra", "rounds"):
        setattr(made, name, getattr(first, name) + getattr(second, name))
    for name in ("throughput_per_s", "cpu_seconds_per_million", "memory_mb", "start_s"):
        setattr(made, name, _mean(getattr(first, name), first.rounds, getattr(second, name), second.rounds))
    made.feeder_lag = _larger(first.feeder_lag, second.feeder_lag)
    made.feeder_limited = limited(made)
    kills = [result.kill for result in (first, second) if result.kill is not None]
    made.kill = max(kills, key=lambda kill: kill.gap_ms if kill.gap_ms is not None else float("inf"), default=None)
    return made


def _mean(first: float | None, rounds: int, second: float | None, others: int) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return (first * rounds + second * others) / (rounds + others)


def _larger(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: max(shares.get(name, 0.0) for shares in (first, second)) for name in {**first, **second}}


def names_of(trial: MeasuredRound, origins: Mapping[int, int]) -> frozenset[Name]:
    """Return the results that have arrived, repeated or not, warm-up included.

    Results of several messages and of timers are left out: they depend on what came together when, and differ in each
    run.
    """
    return frozenset((arrival.sink, arrival.identity) for arrival in trial.arrivals if arrival.origin in origins)


def agreed(runs: Sequence[frozenset[Name]]) -> set[Name]:
    """Return the results that at least half of these runs have given: each run should have them."""
    counts: Counter[Name] = Counter()
    for run in runs:
        counts.update(run)
    return {name for name, count in counts.items() if 2 * count >= len(runs)}
