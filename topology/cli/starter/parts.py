"""The parts of a starter for `kedge new --from SOURCE --to SINK`: the text for each source and each sink.

Text only; the templates are in `topology/cli/starter`. Must not know how files are written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class StarterService:
    """A server that a starter needs: its name, and its lines in compose.yaml."""

    name: str
    lines: str


@dataclass(frozen=True)
class StarterPart:
    """One source or one sink of a starter.

    title       what it is, in a sentence.
    names       the names to import from kedge.
    code        the expression that makes it. `url` and others are parameters of the function.
    parameters  the parameters of the function, with their defaults.
    extra       the extra of kedge-streams that it needs; empty if it needs none.
    service     the server that it needs.
    prepare     lines of feed.py that make what has to exist; they may use await.
    send        lines of feed.py that send `readings`, a list of JSON texts; they may use await.
    run         the command that runs the topology.
    is_server   True if the topology itself is the server, so that it runs before readings are sent.
    is_piped    True if the command sends the readings itself.
    """

    title: str
    names: tuple[str, ...]
    code: str
    parameters: str = ""
    extra: str = ""
    service: StarterService | None = None
    prepare: str = ""
    send: str = ""
    run: str = "kedge run alerts.py"
    is_server: bool = False
    is_piped: bool = False


NATS: Final = StarterService("nats", "    image: nats:2\n    command: -js\n    ports: ['4222:4222']\n")
REDIS: Final = StarterService(
    "redis", "    image: redis:7\n    command: redis-server --appendonly yes\n    ports: ['6379:6379']\n"
)
RABBITMQ: Final = StarterService("rabbitmq", "    image: rabbitmq:4\n    ports: ['5672:5672']\n")
MOSQUITTO: Final = StarterService(
    "mosquitto",
    "    image: eclipse-mosquitto:2\n    command: mosquitto -c /mosquitto-no-auth.conf\n    ports: ['1883:1883']\n",
)
KAFKA: Final = StarterService("kafka", "    image: apache/kafka:3.9.0\n    ports: ['9092:9092']\n")
POSTGRES: Final = StarterService(
    "postgres",
    "    image: postgres:17\n    environment: {POSTGRES_HOST_AUTH_METHOD: trust}\n    ports: ['5432:5432']\n",
)

SOURCES: Final[Mapping[str, StarterPart]] = {
    "stdin": StarterPart(
        "its standard input",
        ("Stdin",),
        "Stdin(value=Reading)",
        send="for reading in readings:\n    print(reading)\n",
        run="python feed.py | kedge run alerts.py",
        is_piped=True,
    ),
    "nats": StarterPart(
        "the stream READINGS of NATS",
        ("NatsSource",),
        'NatsSource(nats_url, "READINGS", subject="readings.*", value=Reading)',
        'nats_url: str = "nats://127.0.0.1:4222"',
        "nats",
        NATS,
        prepare=(
            "import nats\n\n"
            'client = await nats.connect("nats://127.0.0.1:4222")\n'
            'await client.jetstream().add_stream(name="READINGS", subjects=["readings.*"])\n'
            "await client.close()\n"
        ),
        send=(
            "import nats\n\n"
            'client = await nats.connect("nats://127.0.0.1:4222")\n'
            "stream = client.jetstream()\n"
            "for reading in readings:\n"
            '    await stream.publish("readings.oven", reading.encode())\n'
            "await client.close()\n"
        ),
    ),
}

SINKS: Final[Mapping[str, StarterPart]] = {
    "sqlite": StarterPart("the file alerts.db", ("SqliteSink",), "SqliteSink(store)", 'store: str = "alerts.db"'),
    "jsonlines": StarterPart(
        "the file alerts.jsonl", ("JsonLinesSink",), "JsonLinesSink(store)", 'store: str = "alerts.jsonl"'
    ),
    "print": StarterPart("the screen", ("Print",), "Print()"),
    "postgres": StarterPart(
        "the table too_hot of PostgreSQL",
        ("PostgresSink", "Secret"),
        "PostgresSink(dsn)",
        'dsn: Secret = Secret("postgresql://postgres@127.0.0.1:5432/postgres")',
        "postgres",
        POSTGRES,
    ),
    "nats": StarterPart(
        "the subject alerts.heat of NATS",
        ("NatsSink",),
        'NatsSink(nats_url, "alerts.heat")',
        'nats_url: str = "nats://127.0.0.1:4222"',
        "nats",
        NATS,
        prepare=(
            "import nats\n\n"
            'client = await nats.connect("nats://127.0.0.1:4222")\n'
            'await client.jetstream().add_stream(name="ALERTS", subjects=["alerts.*"], duplicate_window=900)\n'
            "await client.close()\n"
        ),
    ),
}
