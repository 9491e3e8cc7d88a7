"""What a run tells about itself: one snapshot value of counters and latencies. Knows nobody; the worker fills it in."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from topology.runtime.telemetry.histogram import Histogram

# What should hardly ever happen, and is counted so that people can tell (A3, A5, A10, D5): as it is called in
# `Snapshot.rare`, and when it has happened once.
RARE: Final = {
    "late or unknown acks": "late or unknown ack",  # acks, fails and touches for trees that are not open
    "stalls of the loop": "stall of the loop",  # it stood still for longer than a second
    "stale tuples refused": "stale tuple refused",  # of messages that were done, by bolts with state and above
    "acts on finished tuples": "act on a finished tuple",  # emits, acks and fails: mistakes in a bolt
    "abandoned inputs": "abandoned input",  # failed, and still run at this moment: their bolt ignores the cancellation
    "repeated frames": "repeated frame",  # that came over a link, and were dropped
    "foreign frames": "foreign frame",  # of a session or worker that is over, or of another run; dropped as well
    "malformed frames": "malformed frame",  # that could not be read, dropped as well
    "strangers": "stranger",  # connections to a worker's socket that did not become a peer's
    "messages given again": "message given again",  # by their source, while they were under way (F59)
    "overlooked frames": "overlooked frame",  # that no event had announced, and were found late: a mistake of ours
}


@dataclass(frozen=True)
class SpoutCounts:
    """`emitted` messages, `acked` trees, `failed` trees, `replayed` ones, `dead` messages, `pending` at this moment.

    At every moment: emitted = acked + dead + pending, and every failed tree is replayed, dead or waiting for a replay.
    At-most-once no tree is followed: messages are emitted, or failed where they can't be, and nothing else is counted.
    """

    emitted: int = 0
    acked: int = 0
    failed: int = 0
    replayed: int = 0
    dead: int = 0
    pending: int = 0
    paused_s: float = 0.0  # of all its tasks: waiting for acks, at max_pending, or for queues to drain


@dataclass(frozen=True)
class BoltCounts:
    """`executed` inputs, `emitted` records, `failed` inputs; `queued` and `held` ones at this moment; `busy_s` of all
    its tasks: seconds in which they kept their loop.

    Inputs that were not done when their call returned, as they await something or the bolt keeps them, are `held`, and
    later counted in `waited`, with the seconds from their start to their ack or failure. `taken_s`: task seconds in
    which a bolt's places for inputs under way were taken, so that a task with 8 places of which 4 wait adds half a
    second each second. `keys` that have a state; `remembered` inputs, whose messages are not done, and the
    `remembered_bytes` that they and what they have put out take, about: all at this moment.
    """

    executed: int = 0
    emitted: int = 0
    failed: int = 0
    queued: int = 0
    held: int = 0
    busy_s: float = 0.0
    waited: int = 0
    waited_s: float = 0.0
    taken_s: float = 0.0
    keys: int = 0
    remembered: int = 0
    remembered_bytes: int = 0


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment. `latencies` are those of each spout's whole trees, from emission to the last ack, replays
    included; `latency` has all of them.

    `rare` has every name of RARE, with 0 where it has not happened, or is empty where nobody has counted. `letters` are
    the dead letters that are kept at this moment, with those of earlier runs. `held_by`: why spouts read nothing now,
    where that is neither a queue nor max_pending, as when the state can't be written.
    """

    topology: str
    seconds: float
    workers: int
    spouts: dict[str, SpoutCounts]
    bolts: dict[str, BoltCounts]
    latencies: dict[str, Histogram] = field(default_factory=dict)
    limit: str = ""  # why nothing was acked of late; empty while something is
    rare: dict[str, int] = field(default_factory=dict)
    letters: int = 0
    held_by: dict[str, str] = field(default_factory=dict)

    def total(self, name: str) -> int:
        """The sum of one counter over all spouts."""
        return sum(getattr(counts, name) for counts in self.spouts.values())

    @cached_property
    def latency(self) -> Histogram:
        """The latencies of all spouts' trees."""
        return together(self.latencies.values())

    def latency_ms(self) -> dict[str, float | None]:
        """Percentiles in milliseconds; None where nothing was acked."""
        return percentiles_ms(self.latency)

    def as_json(self) -> dict[str, Any]:
        """The object that `kedge run --json` prints.

        topology, seconds, workers   Its name, for how long it ran, on how many workers.
        spouts   Of each: the counters of `SpoutCounts`; `paused_s`, the seconds that its tasks were held back;
                 `latency_ms`, percentiles of its trees as below.
        bolts    Of each: executed, emitted, failed; keys, remembered and remembered_bytes, as in `BoltCounts`;
                 `busy_s`, the seconds that its tasks kept their loop; `input_ms`, the mean time of one input in the
                 bolt (None where there was none).
        latency_ms   p50, p99 and max of all trees, in milliseconds, from emission to the last ack; None where nothing
                     was acked.
        dead_letters   How many are kept, with those of earlier runs.

        The command adds `restarts`: how often a worker was replaced.
        """
        spouts = ("emitted", "acked", "failed", "replayed", "dead", "pending")
        bolts = ("executed", "emitted", "failed", "keys", "remembered", "remembered_bytes")
        nothing = Histogram()
        return {
            "topology": self.topology,
            "seconds": round(self.seconds, 3),
            "workers": self.workers,
            "spouts": {
                name: {
                    **{key: getattr(counts, key) for key in spouts},
                    "paused_s": round(counts.paused_s, 3),
                    "latency_ms": percentiles_ms(self.latencies.get(name, nothing)),
                }
                for name, counts in self.spouts.items()
            },
            "bolts": {
                name: {
                    **{key: getattr(counts, key) for key in bolts},
                    "busy_s": round(counts.busy_s, 6),
                    "input_ms": _ms(input_s(counts), 6),
                }
                for name, counts in self.bolts.items()
            },
            "latency_ms": self.latency_ms(),
            "dead_letters": self.letters,
        }


def percentiles_ms(histogram: Histogram) -> dict[str, float | None]:
    """p50, p99 and max in milliseconds; None where there is nothing."""
    return {
        "p50": _ms(histogram.percentile(50)),
        "p99": _ms(histogram.percentile(99)),
        "max": _ms(histogram.highest if histogram.total else None),
    }


def input_s(counts: BoltCounts) -> float | None:
    """The mean time of one input in a bolt, in seconds: from its start to its ack or failure, where inputs wait there,
    else that of its call alone. None where there was no input."""
    if counts.waited:
        return counts.waited_s / counts.waited
    return counts.busy_s / counts.executed if counts.executed else None


def _ms(seconds: float | None, digits: int = 3) -> float | None:
    return None if seconds is None else round(seconds * 1000, digits)


_encode = msgspec.msgpack.Encoder(enc_hook=lambda histogram: histogram.parts()).encode
_decode = msgspec.msgpack.Decoder(Snapshot, dec_hook=lambda kind, parts: kind.of(parts)).decode


def packed(snapshot: Snapshot) -> bytes:
    """The byte form, between processes."""
    return _encode(snapshot)


def unpacked(data: bytes) -> Snapshot:
    """What `packed` has packed. Raises msgspec.DecodeError for anything else."""
    return _decode(data)


C = TypeVar("C", SpoutCounts, BoltCounts)


def merged(snapshots: Sequence[Snapshot]) -> Snapshot:
    """One snapshot of several workers': counters are added up."""
    first = snapshots[0]
    rare = Counter[str]()
    for one in snapshots:
        rare.update(one.rare)
    return Snapshot(
        first.topology,
        max(one.seconds for one in snapshots),
        len(snapshots),
        {name: added(SpoutCounts, [one.spouts[name] for one in snapshots]) for name in first.spouts},
        {name: added(BoltCounts, [one.bolts[name] for one in snapshots]) for name in first.bolts},
        {
            name: together(one.latencies[name] for one in snapshots if name in one.latencies)
            for name in dict.fromkeys(name for one in snapshots for name in one.latencies)
        },
        " ".join(dict.fromkeys(one.limit for one in snapshots if one.limit)),
        dict(rare),
        sum(one.letters for one in snapshots),
        {name: why for one in snapshots for name, why in one.held_by.items()},
    )


_values: Final = {kind: attrgetter(*(one.name for one in fields(kind))) for kind in (SpoutCounts, BoltCounts)}


def added(kind: type[C], counts: Sequence[C]) -> C:
    """The sum of some counts, at least one."""
    return counts[0] if len(counts) == 1 else kind(*map(sum, zip(*map(_values[kind], counts), strict=True)))


def together(histograms: Iterable[Histogram]) -> Histogram:
    """All that they have counted."""
    whole = Histogram()
    for one in histograms:
        whole.merge(one)
    return whole
