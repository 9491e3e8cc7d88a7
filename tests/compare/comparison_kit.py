"""Comparisons as a run of `kedge compare` gives them, drawn by a seed: figures to be shown."""

from random import Random
from typing import Any

from bridge.compare.results import Comparison, Kill, ModeResult

CPU = 42.5
SETTINGS = {"rate": 1000.0, "seconds": 20.0, "warm_up_s": 5.0, "rounds": 2, "kill": False, "set": {"path": "a b.log"}}


def result(mode: str = "record", title: str = "", **changes: Any) -> ModeResult:
    """A row with 40 results whose p50 is about `ms`, and with what is asked for besides."""
    count, ms = changes.pop("count", 40), changes.pop("ms", 0.3)
    drawn = Random(f"{mode}{title}{count}")
    made = ModeResult(
        mode,
        title or mode,
        guarantee="exactly once",
        latencies=[ms * drawn.lognormvariate(0, 0.6) for _ in range(count)],
        arrivals=sorted(drawn.uniform(0, 20) for _ in range(count)),
        offered=40_000,
        arrived=count,
        rounds=2,
        throughput_per_s=1000.0,
        cpu_seconds_per_million=CPU,
        memory_mb=210.0,
        start_s=0.8,
        feeder_lag={"p50": 0.01, "p99": 0.08, "max": 0.4},
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def failed(mode: str, problem: str) -> ModeResult:
    """A row that could not be measured."""
    return ModeResult(mode, mode, guarantee="at least once", problem=problem)


def comparison(*modes: ModeResult, **changes: Any) -> Comparison:
    made = Comparison(
        "ssh-alerts",
        dict(SETTINGS),
        {"system": "Linux x86_64", "cores": 2, "memory_gb": 24.0},
        {"kedge": "0.1.0", "python": "3.11.2"},
        list(modes),
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def everything() -> Comparison:
    """A row of each kind: few results and many, a kill, a feeder that was late, one that did not run, one cut short."""
    default = "spark:default, Spark's own settings"
    return comparison(
        result("record", ms=0.31, kill=Kill("a worker", 10.0, 120.0, 180.0, 95.0)),
        result("embedded", ms=0.2, count=900),
        result(
            "spark:default",
            default,
            ms=640.0,
            cpu_seconds_per_million=1840.0,
            memory_mb=2130.0,
            guarantee="exactly once",
        ),
        result("spark:default", "spark:default, Kedge's settings", ms=410.0, repeated=2, missing=1),
        result("spark:1s", ms=1200.0, feeder_limited=True, problem="the driver has died (exit status 1)"),
        failed("spark:continuous", "there is no javac here to compile its source with"),
        notes=["the source ended after 1,200 messages, so they were offered 17 times, each time under new ids"],
    )
