"""What a run tells about itself: one snapshot value of counters and latencies. Knows nobody; the worker fills it in."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from topology.runtime.histogram import Histogram

# What should hardly ever happen, and is counted so that people can tell (A3, A5, A10, D5): as it is called in
# `Snapshot.rare`, and when it has happened once.
RARE: Final = {
    "late or unknown acks": "late or unknown ack",  # acks, fails and touches for trees that are not open
    "stalls of the loop": "stall of the loop",  # it stood still for longer than a second
    "stale tuples refused": "stale tuple refused",  # of messages that were done, by bolts with state
    "acts on finished tuples": "act on a finished tuple",  # emits, acks and fails: mistakes in a bolt
    "abandoned inputs": "abandoned input",  # failed, and still run at this moment: their bolt ignores the cancellation
    "repeated frames": "repeated frame",  # that came over a link, and were dropped
    "foreign frames": "foreign frame",  # of a session or worker that is over, or of another run; dropped as well
    "malformed frames": "malformed frame",  # that could not be read, dropped as well
    "strangers": "stranger",  # connections to a worker's socket that did not become a peer's
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
    """`executed` inputs, `emitted` records, `failed` inputs; `queued` at this moment; `busy_s` of all its tasks."""

    executed: int = 0
    emitted: int = 0
    failed: int = 0
    queued: int = 0
    held: int = 0
    busy_s: float = 0.0


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment. Latencies are of whole trees, from emission to the last ack, replays included.

    `rare` has every name of RARE, with 0 where it has not happened, or is empty where nobody has counted.
    """

    topology: str
    seconds: float
    workers: int
    spouts: dict[str, SpoutCounts]
    bolts: dict[str, BoltCounts]
    latency: Histogram = field(default_factory=Histogram)
    limit: str = ""  # why nothing was acked of late; empty while something is
    rare: dict[str, int] = field(default_factory=dict)

    def total(self, name: str) -> int:
        """The sum of one counter over all spouts."""
        return sum(getattr(counts, name) for counts in self.spouts.values())

    def latency_ms(self) -> dict[str, float | None]:
        """Percentiles in milliseconds; None where nothing was acked."""

        def ms(seconds: float | None) -> float | None:
            return None if seconds is None else round(seconds * 1000, 3)

        histogram = self.latency
        return {
            "p50": ms(histogram.percentile(50)),
            "p99": ms(histogram.percentile(99)),
            "max": ms(histogram.highest if histogram.total else None),
        }

    def as_json(self) -> dict[str, Any]:
        """The object that `kedge run --json` prints."""
        spouts = ("emitted", "acked", "failed", "replayed", "dead", "pending")
        bolts = ("executed", "emitted", "failed")
        return {
            "topology": self.topology,
            "seconds": round(self.seconds, 3),
            "workers": self.workers,
            "spouts": {name: {key: getattr(counts, key) for key in spouts} for name, counts in self.spouts.items()},
            "bolts": {name: {key: getattr(counts, key) for key in bolts} for name, counts in self.bolts.items()},
            "latency_ms": self.latency_ms(),
        }


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
    latency, rare = Histogram(), Counter[str]()
    for one in snapshots:
        latency.merge(one.latency)
        rare.update(one.rare)
    return Snapshot(
        first.topology,
        max(one.seconds for one in snapshots),
        len(snapshots),
        {name: _added(SpoutCounts, [one.spouts[name] for one in snapshots]) for name in first.spouts},
        {name: _added(BoltCounts, [one.bolts[name] for one in snapshots]) for name in first.bolts},
        latency,
        " ".join(dict.fromkeys(one.limit for one in snapshots if one.limit)),
        dict(rare),
    )


def _added(kind: type[C], counts: list[C]) -> C:
    return kind(*(sum(values) for values in zip(*map(astuple, counts), strict=True)))
