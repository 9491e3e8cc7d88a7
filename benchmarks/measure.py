"""One measurement in a fresh process: what the benchmarks start, one at a time, so that no heap weighs on another's.

    python -m benchmarks.measure NAME SECONDS

Prints one object on stdout: {"value": …} and, for latencies, what belongs to it.
"""

import asyncio
import json
import sys
from collections.abc import Callable

from benchmarks import alerts, baseline, embedded, pending

MEASUREMENTS: dict[str, Callable[[float], dict[str, float]]] = {
    "baseline-asyncio": lambda seconds: {"value": asyncio.run(baseline.identity(seconds))},
    "identity-embedded-acked": lambda seconds: {
        "value": asyncio.run(embedded.acked_a_second(embedded.identity_topology(), seconds))
    },
    "baseline-asyncio-wordcount": lambda seconds: {"value": asyncio.run(baseline.word_count(seconds))},
    "wordcount-embedded-acked": lambda seconds: {
        "value": asyncio.run(embedded.acked_a_second(embedded.word_count_topology(), seconds))
    },
    "pending-tracked": lambda _: {"value": asyncio.run(pending.grown_bytes("at-least-once")) / pending.TREES},
    "pending-untracked": lambda _: {"value": asyncio.run(pending.grown_bytes("at-most-once")) / pending.TREES},
    "alert-embedded-1k": lambda seconds: alerts.alert_latency(1_000, seconds),
    "alert-embedded-10k": lambda seconds: alerts.alert_latency(10_000, seconds),
}


if __name__ == "__main__":
    print(json.dumps(MEASUREMENTS[sys.argv[1]](float(sys.argv[2]))))
