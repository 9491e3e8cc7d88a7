"""Sources and sinks on servers, each beside plain code of its client.

    .venv/bin/python -m benchmarks.connectors [--json] [--seconds S] [--rounds N] [NAME …]

`…-source` are messages per second that a topology in one process reads, decodes and processes, with a state directory,
from the connection to the last message; those of the last checkpoint are confirmed a moment later. `…-sink` are those
that it encodes and sends, until the last is acked. `bare` is plain code of the client with the same messages: it
decodes them too and confirms each, or encodes them and waits for each confirmation. Bar: 0.6 of it. CPU is that of the
process, in microseconds a message, for both; the server's own is not in it. One message a request over HTTP. Kafka's
brokers are librdkafka's own mock brokers. Servers have to listen on their standard ports.
"""

import sys
from pathlib import Path

if not __package__:  # started by its path: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.rounds import Benchmark, Figures, Name, Row, verdict

LEAST = 0.6  # of the bare client
SERVERS = ("nats", "kafka", "redis", "amqp", "mqtt", "postgres", "http")
ONLY_SOURCES = {"postgres"}  # its sink is in `benchmarks.state`


def beside(figures: list[Figures]) -> Figures:
    """Return our figures with those of the bare client."""
    ours, bare = figures
    return {
        "value": ours["value"],
        "bare": bare["value"],
        "ratio": ours["value"] / bare["value"],
        "cpu_us": ours["cpu_us"],
        "bare_cpu_us": bare["cpu_us"],
    }


def row(name: Name, figures: Figures, results: dict[str, Figures]) -> Row:
    cpu = f"{figures['cpu_us']:.0f} µs, bare {figures['bare_cpu_us']:.0f}"
    reached = f">= {LEAST} ×: {verdict(figures['ratio'] >= LEAST)}"
    return name.name, f"{figures['value']:,.0f}", f"{figures['bare']:,.0f}", f"{figures['ratio']:.2f} ×", cpu, reached


def _names() -> tuple[Name, ...]:
    names = [f"{server}-source" for server in SERVERS]
    names += [f"{server}-sink" for server in SERVERS if server not in ONLY_SOURCES]
    return tuple(Name(name, "messages/s", 4, (name, f"{name}-bare"), beside) for name in names)


BENCHMARK = Benchmark(
    name="connectors",
    about="Sources and sinks on servers, each beside plain code of its client.",
    names=_names(),
    seconds=3.0,
    rounds=3,
    heading=("", "messages/s", "bare", "share", "CPU", "bar"),
    row=row,
    has_bars=True,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
