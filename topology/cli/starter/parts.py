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
    receive     lines of feed.py that receive alerts, where no server does.
    parse       the bolt that makes readings of the source's own records; empty if the source makes them.
    refuses     True if the source refuses what is no reading, so that no stream has it.
    run         the command that runs the topology.
    runs_first  True if the topology has to run before readings are sent.
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
    receive: str = ""
    parse: str = ""
    refuses: bool = False
    run: str = "kedge run alerts.py"
    runs_first: bool = False
    is_piped: bool = False


def _service(name: str, image: str, port: int, ready: str, *, command: str = "", more: str = "") -> StarterService:
    """Return a server that only this machine reaches, and that is waited for until `ready`, a command, succeeds."""
    lines = [f"image: {image}", *([f"command: {command}"] * bool(command)), *([more] * bool(more))]
    lines += [f"ports: ['127.0.0.1:{port}:{port}']"]
    lines += [f"healthcheck: {{test: {ready}, interval: 1s, timeout: 5s, retries: 60}}"]
    return StarterService(name, "".join(f"    {line}\n" for line in lines))


NATS: Final = _service(
    "nats", "nats:2-alpine", 4222, "wget -q -O - http://127.0.0.1:8222/healthz", command="-js -m 8222"
)
REDIS: Final = _service("redis", "redis:7", 6379, "redis-cli ping", command="redis-server --appendonly yes")
RABBITMQ: Final = _service("rabbitmq", "rabbitmq:4", 5672, "rabbitmq-diagnostics -q check_port_connectivity")
MOSQUITTO: Final = _service(
    "mosquitto",
    "eclipse-mosquitto:2",
    1883,
    "mosquitto_pub -t ready -m yes",
    command="mosquitto -c /mosquitto-no-auth.conf",
)
KAFKA: Final = _service(
    "kafka",
    "apache/kafka:3.9.0",
    9092,
    "/opt/kafka/bin/kafka-topics.sh --bootstrap-server 127.0.0.1:9092 --list",
)
POSTGRES: Final = _service(
    "postgres",
    "postgres:17",
    5432,
    "pg_isready -h 127.0.0.1 -U postgres",
    more="environment: {POSTGRES_HOST_AUTH_METHOD: trust}",
)

DSN: Final = "postgresql://postgres@127.0.0.1:5432/postgres"
DSN_PARAMETER: Final = f'dsn: Secret = Secret("{DSN}")'
NATS_PARAMETER: Final = 'nats_url: str = "nats://127.0.0.1:4222"'
REDIS_PARAMETER: Final = 'redis_url: str = "redis://127.0.0.1:6379"'
AMQP_PARAMETER: Final = 'amqp_url: str = "amqp://guest:guest@127.0.0.1:5672"'
MQTT_PARAMETER: Final = 'mqtt_url: str = "mqtt://127.0.0.1:1883"'
KAFKA_PARAMETER: Final = 'brokers: str = "127.0.0.1:9092"'


def _with_nats(*lines: str) -> str:
    return (
        'import nats\n\nclient = await nats.connect("nats://127.0.0.1:4222")\n'
        + "".join(f"{line}\n" for line in lines)
        + "await client.close()\n"
    )


def _with_amqp(*lines: str) -> str:
    return (
        'import aio_pika\n\nasync with await aio_pika.connect("amqp://guest:guest@127.0.0.1:5672") as connection:\n'
        "    channel = await connection.channel()\n"
    ) + "".join(f"    {line}\n" for line in lines)


def _kafka_topic(name: str) -> str:
    return (
        "from confluent_kafka.admin import AdminClient, NewTopic\n\n"
        'admin = AdminClient({"bootstrap.servers": "127.0.0.1:9092"})\n'
        f'if "{name}" not in admin.list_topics(timeout=30).topics:\n'
        f'    admin.create_topics([NewTopic("{name}", 4, 1)])["{name}"].result()\n'
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
    "http": StarterPart(
        "posts to http://127.0.0.1:8080/readings",
        ("HttpIngest",),
        'HttpIngest(address, path="/readings", value=Reading)',
        'address: str = "127.0.0.1:8080"',
        "http",
        send=(
            "from urllib.request import Request, urlopen\n\n"
            'headers = {"Content-Type": "application/json"}\n'
            "for reading in readings:\n"
            '    post = Request("http://127.0.0.1:8080/readings?wait=ack", reading.encode(), headers)\n'
            "    with await asyncio.to_thread(urlopen, post) as answer:\n"
            "        print(answer.status, reading)\n"
        ),
        refuses=True,
        runs_first=True,
    ),
    "syslog": StarterPart(
        "syslog on TCP port 5140",
        ("Reject", "Syslog", "SyslogMessage", "bolt"),
        "Syslog(address)",
        'address: str = "tcp://127.0.0.1:5140"',
        parse=(
            "@bolt\n"
            "def parse(message: SyslogMessage) -> Iterator[Reading]:\n"
            '    sensor, _, celsius = message.text.partition(" ")\n'
            "    if message.at is None:\n"
            '        raise Reject("it has no time")\n'
            "    try:\n"
            "        yield Reading(message.at, sensor, float(celsius))\n"
            "    except ValueError:\n"
            '        raise Reject("its text is not SENSOR CELSIUS") from None\n'
        ),
        send=(
            '_, writer = await asyncio.open_connection("127.0.0.1", 5140)\n'
            "for reading in map(json.loads, readings):\n"
            "    text = f\"<13>1 {reading['at']} host sensors - - - {reading['sensor']} {reading['celsius']}\\n\"\n"
            "    writer.write(text.encode())\n"
            "writer.close()\n"
            "await writer.wait_closed()\n"
        ),
        runs_first=True,
    ),
    "kafka": StarterPart(
        "the topic readings of Kafka",
        ("KafkaSource",),
        'KafkaSource(brokers, "readings", value=Reading)',
        KAFKA_PARAMETER,
        "kafka",
        KAFKA,
        prepare=_kafka_topic("readings"),
        send=(
            "from confluent_kafka import Producer\n\n"
            'producer = Producer({"bootstrap.servers": "127.0.0.1:9092"})\n'
            "for reading in readings:\n"
            '    producer.produce("readings", reading, key=json.loads(reading)["sensor"])\n'
            "producer.flush()\n"
        ),
    ),
    "nats": StarterPart(
        "the stream READINGS of NATS",
        ("NatsSource",),
        'NatsSource(nats_url, "READINGS", subject="readings.*", value=Reading)',
        NATS_PARAMETER,
        "nats",
        NATS,
        prepare=_with_nats('await client.jetstream().add_stream(name="READINGS", subjects=["readings.*"])'),
        send=_with_nats(
            "stream = client.jetstream()",
            "for reading in readings:",
            """    await stream.publish(f"readings.{json.loads(reading)['sensor']}", reading.encode())""",
        ),
    ),
    "redis": StarterPart(
        "the stream readings of Redis",
        ("RedisStreamSource",),
        'RedisStreamSource(redis_url, "readings", value=Reading)',
        REDIS_PARAMETER,
        "redis",
        REDIS,
        send=(
            "from redis.asyncio import Redis\n\n"
            'async with Redis.from_url("redis://127.0.0.1:6379") as redis:\n'
            "    for reading in readings:\n"
            '        await redis.xadd("readings", {"data": reading})\n'
        ),
    ),
    "amqp": StarterPart(
        "the queue readings of RabbitMQ",
        ("AmqpSource",),
        'AmqpSource(amqp_url, "readings", value=Reading, requires_ids=True)',
        AMQP_PARAMETER,
        "amqp",
        RABBITMQ,
        prepare=_with_amqp('await channel.declare_queue("readings", durable=True)'),
        send=_with_amqp(
            "for reading in readings:",
            "    message = aio_pika.Message(reading.encode(), message_id=uuid4().hex)",
            '    await channel.default_exchange.publish(message, "readings")',
        ).replace("import aio_pika\n", "from uuid import uuid4\n\nimport aio_pika\n", 1),
    ),
    "mqtt": StarterPart(
        "the topics readings/+ of MQTT",
        ("MqttSource",),
        'MqttSource(mqtt_url, "readings/+", value=Reading)',
        MQTT_PARAMETER,
        "mqtt",
        MOSQUITTO,
        send=(
            "import aiomqtt\n\n"
            'async with aiomqtt.Client("127.0.0.1", 1883) as client:\n'
            "    for reading in readings:\n"
            "        await client.publish(f\"readings/{json.loads(reading)['sensor']}\", reading, qos=1)\n"
        ),
        runs_first=True,  # MQTT keeps messages for those that have subscribed
    ),
    "postgres": StarterPart(
        "the table readings of PostgreSQL",
        ("PostgresSource", "Secret"),
        'PostgresSource(dsn, table="readings", value=Reading)',
        DSN_PARAMETER,
        "postgres",
        POSTGRES,
        prepare=(
            "import psycopg\n\n"
            f'with psycopg.connect("{DSN}") as database:\n'
            "    database.execute(\n"
            '        "create table if not exists readings (id bigint generated always as identity primary key,"\n'
            '        " at timestamptz not null, sensor text not null, celsius float8 not null)"\n'
            "    )\n"
        ),
        send=(
            "import psycopg\n\n"
            f'with psycopg.connect("{DSN}") as database:\n'
            "    for reading in map(json.loads, readings):\n"
            '        row = "insert into readings (at, sensor, celsius) values (%(at)s, %(sensor)s, %(celsius)s)"\n'
            "        database.execute(row, reading)\n"
        ),
    ),
}

RECEIVED_AT: Final = "http://127.0.0.1:8473/alerts"
RECEIVE: Final = """from http.server import BaseHTTPRequestHandler, HTTPServer

class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        print(self.rfile.read(int(self.headers["Content-Length"])).decode(), flush=True)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

HTTPServer(("127.0.0.1", 8473), Receiver).serve_forever()
"""

SINKS: Final[Mapping[str, StarterPart]] = {
    "sqlite": StarterPart("the file alerts.db", ("SqliteSink",), "SqliteSink(store)", 'store: str = "alerts.db"'),
    "jsonlines": StarterPart(
        "the file alerts.jsonl", ("JsonLinesSink",), "JsonLinesSink(store)", 'store: str = "alerts.jsonl"'
    ),
    "print": StarterPart("the screen", ("Print",), "Print()"),
    "parquet": StarterPart(
        "Parquet files in the folder alerts",
        ("ParquetSink",),
        "ParquetSink(store)",
        'store: str = "alerts"',
        "parquet",
    ),
    "postgres": StarterPart(
        "the table too_hot of PostgreSQL",
        ("PostgresSink", "Secret"),
        "PostgresSink(dsn)",
        DSN_PARAMETER,
        "postgres",
        POSTGRES,
    ),
    "webhook": StarterPart(
        f"the web hook {RECEIVED_AT}",
        ("WebHook",),
        "WebHook(hook_url)",
        f'hook_url: str = "{RECEIVED_AT}"',
        "http",
        receive=RECEIVE,
    ),
    "slack": StarterPart(
        "a Slack channel",
        ("Secret", "Slack"),
        'Slack(slack_url, text="*{sensor}* is at {celsius} degrees", group_by="sensor")',
        f'slack_url: Secret = Secret("{RECEIVED_AT}")',
        "http",
        receive=RECEIVE,
    ),
    "kafka": StarterPart(
        "the topic alerts of Kafka",
        ("KafkaSink",),
        'KafkaSink(brokers, "alerts", key="sensor")',
        KAFKA_PARAMETER,
        "kafka",
        KAFKA,
        prepare=_kafka_topic("alerts"),
    ),
    "nats": StarterPart(
        "the subject alerts.heat of NATS",
        ("NatsSink",),
        'NatsSink(nats_url, "alerts.heat")',
        NATS_PARAMETER,
        "nats",
        NATS,
        prepare=_with_nats(
            'await client.jetstream().add_stream(name="ALERTS", subjects=["alerts.*"], duplicate_window=900)'
        ),
    ),
    "redis": StarterPart(
        "the stream alerts of Redis",
        ("RedisSink",),
        'RedisSink(redis_url, "alerts")',
        REDIS_PARAMETER,
        "redis",
        REDIS,
    ),
    "amqp": StarterPart(
        "the queue alerts of RabbitMQ",
        ("AmqpSink",),
        'AmqpSink(amqp_url, routing_key="alerts")',
        AMQP_PARAMETER,
        "amqp",
        RABBITMQ,
        prepare=_with_amqp('await channel.declare_queue("alerts", durable=True)'),
    ),
    "mqtt": StarterPart(
        "the topic alerts of MQTT",
        ("MqttSink",),
        'MqttSink(mqtt_url, "alerts", retain=True)',
        MQTT_PARAMETER,
        "mqtt",
        MOSQUITTO,
    ),
}
