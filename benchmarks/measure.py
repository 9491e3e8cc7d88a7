"""One measurement in a fresh process: the benchmarks start them one at a time, so that no heap affects another's
figures.

    python -m benchmarks.measure NAME SECONDS [NUMBER …]

Prints one object on stdout: {"value": …} and the further figures. Some measurements take further numbers.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from benchmarks import (
    alerts,
    baseline,
    connectors,
    counts,
    embedded,
    failing,
    filed,
    holding,
    kills,
    payments,
    pending,
    restart,
    stores,
    workers,
)
from bolts import JsonLinesSink, SqliteSink


def _module(name: str) -> Any:
    """Return a module of benchmarks that needs Arrow or Spark, which the other modules do not need."""
    return import_module(f"benchmarks.{name}")


MEASUREMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "baseline-asyncio": lambda seconds: {"value": asyncio.run(baseline.identity(seconds))},
    "identity-embedded-acked": lambda seconds: {
        "value": asyncio.run(embedded.acked_a_second(embedded.identity_topology(), seconds))
    },
    "identity-2w-acked": lambda seconds: {"value": asyncio.run(workers.acked_a_second(workers.identity, seconds))},
    "baseline-asyncio-wordcount": lambda seconds: {"value": asyncio.run(baseline.word_count(seconds))},
    "wordcount-embedded-acked": lambda seconds: {
        "value": asyncio.run(embedded.acked_a_second(embedded.word_count_topology(), seconds))
    },
    "wordcount-2w-acked": lambda seconds: {"value": asyncio.run(workers.acked_a_second(workers.word_count, seconds))},
    "pending-tracked": lambda _: {"value": asyncio.run(pending.grown_bytes("at-least-once")) / pending.TREES},
    "pending-untracked": lambda _: {"value": asyncio.run(pending.grown_bytes("at-most-once")) / pending.TREES},
    "idle-cpu": lambda seconds: {"value": asyncio.run(workers.idle_percent(seconds))},
    "alert-embedded-1k": lambda seconds: alerts.alert_latency(1_000, seconds),
    "alert-embedded-10k": lambda seconds: alerts.alert_latency(10_000, seconds),
    "alert-2w-1k": lambda seconds: alerts.alert_latency_of_workers(1_000, seconds),
    "alert-2w-10k": lambda seconds: alerts.alert_latency_of_workers(10_000, seconds),
    "alert-2w-none-1k": lambda seconds: alerts.alert_latency_of_workers(1_000, seconds),
    "alert-2w-none-10k": lambda seconds: alerts.alert_latency_of_workers(10_000, seconds),
    "alert-2w-checkpoint-1k": lambda seconds: alerts.alert_latency_of_workers(1_000, seconds, "checkpoint"),
    "alert-2w-checkpoint-10k": lambda seconds: alerts.alert_latency_of_workers(10_000, seconds, "checkpoint"),
    "alert-2w-process-1k": lambda seconds: alerts.alert_latency_of_workers(1_000, seconds, "process"),
    "alert-2w-process-10k": lambda seconds: alerts.alert_latency_of_workers(10_000, seconds, "process"),
    "alert-2w-disk-1k": lambda seconds: alerts.alert_latency_of_workers(1_000, seconds, "disk"),
    "alert-2w-disk-10k": lambda seconds: alerts.alert_latency_of_workers(10_000, seconds, "disk"),
    "saturation": lambda seconds, spouts: {"value": asyncio.run(kills.saturation(int(spouts), seconds))},
    "kill": lambda seconds, spouts, rate: kills.kill(int(spouts), rate, seconds),
    "postgres-sink": lambda seconds: stores.into_postgres(stores.stored_a_second, seconds),
    "sqlite-sink": lambda seconds: stores.into_file(SqliteSink, stores.stored_a_second, seconds),
    "jsonlines-sink": lambda seconds: stores.into_file(JsonLinesSink, stores.stored_a_second, seconds),
    "postgres-run": lambda seconds: stores.into_postgres(stores.run_a_second, seconds),
    "sqlite-run": lambda seconds: stores.into_file(SqliteSink, stores.run_a_second, seconds),
    "jsonlines-run": lambda seconds: stores.into_file(JsonLinesSink, stores.run_a_second, seconds),
    "state-none": lambda seconds: counts.counted_a_second("none", seconds),
    "state-checkpoint": lambda seconds: counts.counted_a_second("checkpoint", seconds),
    "state-process": lambda seconds: counts.counted_a_second("process", seconds),
    "state-disk": lambda seconds: counts.counted_a_second("disk", seconds),
    "state-disk-latency": lambda seconds: counts.count_latency("disk", seconds),
    "wordcount-file-none": lambda seconds: filed.lines_a_second("word_count", "none", seconds),
    "wordcount-file-checkpoint": lambda seconds: filed.lines_a_second("word_count", "checkpoint", seconds),
    "wordcount-file-process": lambda seconds: filed.lines_a_second("word_count", "process", seconds),
    "wordcount-file-disk": lambda seconds: filed.lines_a_second("word_count", "disk", seconds),
    "alerts-file-none": lambda seconds: filed.lines_a_second("ssh_alerts", "none", seconds),
    "alerts-file-checkpoint": lambda seconds: filed.lines_a_second("ssh_alerts", "checkpoint", seconds),
    "alerts-file-process": lambda seconds: filed.lines_a_second("ssh_alerts", "process", seconds),
    "alerts-file-disk": lambda seconds: filed.lines_a_second("ssh_alerts", "disk", seconds),
    "checkpoint-hold": holding.held_ms,
    "state-restart": restart.restarted_within,
    "recovery": lambda seconds: kills.recovered_s("checkpoint", seconds),
    "fraud-most": payments.at_most,
    "fraud-most-2w": lambda seconds: payments.at_most(seconds, 2),
    "fraud-alert-1k": lambda seconds: payments.latency(1_000, seconds),
    "fraud-alert-10k": lambda seconds: payments.latency(10_000, seconds),
    "fraud-alert-20k": lambda seconds: payments.latency(20_000, seconds),
    "fraud-alert-47k": lambda seconds: payments.latency(47_000, seconds),
    "fraud-alert-47k-2w": lambda seconds: payments.latency(47_000, seconds, 2),
    "fraud-profile": payments.profile,
    "bridge-handover": lambda seconds: _module("handing_over").handed_over_a_second(seconds),
    "bridge-roundtrip": lambda seconds: _module("through_spark").round_trip(seconds),
    "bridge-window": lambda seconds: _module("through_spark").windowed_a_second(seconds),
    "spark-read": lambda seconds: _module("spark_alone").read_a_second(seconds),
    "spark-roundtrip": lambda seconds: _module("spark_alone").round_trip(seconds),
    "spark-window": lambda seconds: _module("spark_alone").windowed_a_second(seconds),
    "spark-window-batches": lambda seconds: _module("spark_alone").windowed_a_second(
        seconds, files_each=_module("spark_alone").FILES_EACH
    ),
    "fail-all": lambda _, workers: asyncio.run(failing.blocked_ms(int(workers))),
}

for _part in (part for name in connectors.BENCHMARK.names for part in name.parts):
    MEASUREMENTS[_part] = lambda seconds, part=_part: _module("through_servers").measured(part, seconds)


if __name__ == "__main__":
    print(json.dumps(MEASUREMENTS[sys.argv[1]](*map(float, sys.argv[2:]))))
