"""Counters and latencies of a run, as one snapshot value. Knows no other module; the worker fills it in."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from topology.runtime.telemetry.histogram import Histogram

# Events that should hardly ever happen, counted so that people can see them (A3, A5, A10, D5): the name in
# `Snapshot.rare` → the words for a single event.
RARE: Final = {
    "late or unknown acks": "late or unknown ack",  # acks, fails and touches for trees that are not open
    "stalls of the loop": "stall of the loop",  # the loop did not turn for longer than a second
    # tuples of finished messages, rejected by bolts with state and other executors
    "stale tuples refused": "stale tuple refused",
    "acts on finished tuples": "act on a finished tuple",  # emits, acks and fails of a finished tuple: errors in a bolt
    "abandoned inputs": "abandoned input",  # failed inputs that still run: their bolt ignores the cancellation
    "repeated frames": "repeated frame",  # frames that arrived twice over a link, and were dropped
    "foreign frames": "foreign frame",  # frames of a session or worker that has ended, or of another run; dropped too
    "malformed frames": "malformed frame",  # frames that could not be read; dropped too
    "strangers": "stranger",  # connections to a worker's socket that did not become a peer's
    # messages that a source emitted again while they were in flight (F59)
    "messages given again": "message given again",
    "overlooked frames": "overlooked frame",  # frames that no event announced, found late: an error in Kedge
}


@dataclass(frozen=True)
class SpoutCounts:
    """Counters of a spout: `emitted` messages, `acked`, `failed` and `replayed` trees, `dead` messages, and `pending`
    messages now.

    At every moment: emitted = acked + dead + pending, and every failed tree is replayed, dead or waiting for a replay.
    So `acked` falls if the run goes back to a checkpoint: messages that were done are pending again.
    With at-most-once, no tree is tracked. Messages are then emitted, or failed if they cannot be emitted; nothing else
    is counted.
    """

    emitted: int = 0
    acked: int = 0
    failed: int = 0
    replayed: int = 0
    dead: int = 0
    pending: int = 0
    paused_s: float = 0.0  # seconds, over all tasks, of waiting for acks, at max_pending, or for queues to drain


@dataclass(frozen=True)
class BoltCounts:
    """Counters of a bolt: `executed` inputs, `emitted` records, `failed` inputs, and inputs `queued` and `held` now.
    `busy_s` are the seconds for which all its tasks kept their loop.

    An input that is not done when its call returns is `held`, because it awaits something or the bolt keeps it. Later
    it counts in `waited`, and the seconds from its start to its ack or failure count in `waited_s`.

    `taken_s` are task seconds in which the bolt's places for inputs in flight were taken. A task with 8 places, 4 of
    which wait, adds half a second per second.

    `keys` have a state now. `remembered` are the inputs that the bolt remembers now because their messages are not
    done. `remembered_bytes` is about what these inputs and their outputs take.
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
class CheckpointFigures:
    """The checkpoints of a run that keeps something. `number`, `bytes` and `seconds` are those of the last decided one:
    what all workers wrote for it, and how long it took. `age_s` seconds ago it was decided, or nothing had changed
    since it was. This run has decided `taken` ones; the largest had `bytes_max`, and the slowest took `seconds_max`.
    """

    number: int
    age_s: float
    bytes: int
    seconds: float
    taken: int
    bytes_max: int
    seconds_max: float


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment. `latencies` are those of each spout's whole trees, from emission to the last ack, including
    replays. `latency` has all of them.

    `rare` has every name of RARE, with 0 for what has not happened; it is empty if nothing was counted. `letters` are
    the dead letters that are stored now, including those of earlier runs. `held_by` says why a spout reads nothing now,
    if the reason is neither a queue nor max_pending; for example, the state cannot be written. `checkpoint` is None if
    the run keeps nothing, or has decided none yet; and in the snapshot of one worker.
    """

    topology: str
    seconds: float
    workers: int
    spouts: dict[str, SpoutCounts]
    bolts: dict[str, BoltCounts]
    latencies: dict[str, Histogram] = field(default_factory=dict)
    limit: str = ""  # why nothing was acked recently; empty while messages are acked
    rare: dict[str, int] = field(default_factory=dict)
    letters: int = 0
    held_by: dict[str, str] = field(default_factory=dict)
    checkpoint: CheckpointFigures | None = None

    def total(self, name: str) -> int:
        """Return the sum of one counter over all spouts."""
        return sum(getattr(counts, name) for counts in self.spouts.values())

    @cached_property
    def latency(self) -> Histogram:
        """Return the latencies of all spouts' trees."""
        return together(self.latencies.values())

    @property
    def remembered(self) -> tuple[int, int]:
        """Return how many inputs all bolts remember, and how many bytes that takes, about."""
        bolts = self.bolts.values()
        return sum(bolt.remembered for bolt in bolts), sum(bolt.remembered_bytes for bolt in bolts)

    def latency_ms(self) -> dict[str, float | None]:
        """Return percentiles in milliseconds; None if nothing was acked."""
        return percentiles_ms(self.latency)

    def as_json(self) -> dict[str, Any]:
        """Return the object that `kedge run --json` prints.

        topology, seconds, workers   Its name, how long it has run, and on how many workers.
        spouts   For each: the counters of `SpoutCounts`; `paused_s`, the seconds for which its tasks were held back;
                 `latency_ms`, percentiles of its trees as below.
        bolts    For each: executed, emitted, failed; keys, remembered and remembered_bytes, as in `BoltCounts`;
                 `busy_s`, the seconds for which its tasks kept their loop; `input_ms`, the mean time of an input in the
                 bolt (None without an input).
        latency_ms   p50, p99 and max of all trees, in milliseconds, from emission to the last ack; None if nothing was
                     acked.
        dead_letters   How many are stored, including those of earlier runs.
        checkpoint   The last decided one: `number`, `age_s`, `bytes`, `seconds`; and of all of this run: how many were
                     `taken`, `bytes_max`, `seconds_max`. None if nothing is kept, or none was decided.

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
            "checkpoint": _rounded(self.checkpoint) if self.checkpoint is not None else None,
        }


def _rounded(figures: CheckpointFigures) -> dict[str, float]:
    return {name: round(value, 6) for name, value in asdict(figures).items()}


def percentiles_ms(histogram: Histogram) -> dict[str, float | None]:
    """Return p50, p99 and max in milliseconds; None for an empty histogram."""
    return {
        "p50": _ms(histogram.percentile(50)),
        "p99": _ms(histogram.percentile(99)),
        "max": _ms(histogram.highest if histogram.total else None),
    }


def input_s(counts: BoltCounts) -> float | None:
    """Return the mean time of an input in a bolt, in seconds; None without an input.

    The time is from the input's start to its ack or failure if inputs wait there, else that of the call alone.
    """
    if counts.waited:
        return counts.waited_s / counts.waited
    return counts.busy_s / counts.executed if counts.executed else None


def _ms(seconds: float | None, digits: int = 3) -> float | None:
    return None if seconds is None else round(seconds * 1000, digits)


_encode = msgspec.msgpack.Encoder(enc_hook=lambda histogram: histogram.parts()).encode
_decode = msgspec.msgpack.Decoder(Snapshot, dec_hook=lambda kind, parts: kind.of(parts)).decode


def packed(snapshot: Snapshot) -> bytes:
    """Return the byte form that crosses between processes."""
    return _encode(snapshot)


def unpacked(data: bytes) -> Snapshot:
    """Return the snapshot that `packed` packed. Raises msgspec.DecodeError for anything else."""
    return _decode(data)


C = TypeVar("C", SpoutCounts, BoltCounts)


def merged(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Return one snapshot for several workers': counters are added up."""
    first = snapshots[0]
    rare = Counter[str]()
    for snapshot in snapshots:
        rare.update(snapshot.rare)
    return Snapshot(
        first.topology,
        max(snapshot.seconds for snapshot in snapshots),
        len(snapshots),
        {name: added(SpoutCounts, [snapshot.spouts[name] for snapshot in snapshots]) for name in first.spouts},
        {name: added(BoltCounts, [snapshot.bolts[name] for snapshot in snapshots]) for name in first.bolts},
        {
            name: together(snapshot.latencies[name] for snapshot in snapshots if name in snapshot.latencies)
            for name in dict.fromkeys(name for snapshot in snapshots for name in snapshot.latencies)
        },
        " ".join(dict.fromkeys(snapshot.limit for snapshot in snapshots if snapshot.limit)),
        dict(rare),
        sum(snapshot.letters for snapshot in snapshots),
        {name: why for snapshot in snapshots for name, why in snapshot.held_by.items()},
    )


_values: Final = {kind: attrgetter(*(column.name for column in fields(kind))) for kind in (SpoutCounts, BoltCounts)}


def added(kind: type[C], counts: Sequence[C]) -> C:
    """Return the sum of some counts, at least one."""
    return counts[0] if len(counts) == 1 else kind(*map(sum, zip(*map(_values[kind], counts), strict=True)))


def together(histograms: Iterable[Histogram]) -> Histogram:
    """Return one histogram with everything that these have counted."""
    whole = Histogram()
    for histogram in histograms:
        whole.merge(histogram)
    return whole
