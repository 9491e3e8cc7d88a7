"""The types of `kedge`, for mypy and pyright: a module that is one file can't say that it has types (PEP 561)."""

from bolts import (
    Burst,
    CountWithin,
    JsonLinesSink,
    PostgresSink,
    Print,
    SqliteSink,
)
from bolts.alerts.alertmanager import Alertmanager
from bolts.alerts.email import Email
from bolts.alerts.pagerduty import PagerDuty
from bolts.alerts.slack import Slack
from bolts.sinks.http.retries import Retries
from bolts.sinks.http.webhook import WebHook
from bolts.sinks.kafka.sink import KafkaSink
from bolts.sinks.parquet.sink import ParquetSink
from bolts.sinks.redis.sink import RedisSink
from bolts.sinks.servers.amqp import AmqpSink
from bolts.sinks.servers.mqtt import MqttSink
from bolts.sinks.servers.nats import NatsSink
from spouts import (
    FileTail,
    Items,
    Line,
    Matching,
    Paced,
    SyslogTimes,
    Tick,
    Ticker,
    first_mtime,
)
from spouts.directory.spout import Directory
from spouts.http.ingest import HttpIngest
from spouts.http.sse import SseSource
from spouts.http.websocket import WebSocketSource
from spouts.kafka.source import KafkaSource
from spouts.listeners.lines import Socket
from spouts.listeners.syslog import Syslog
from spouts.listeners.syslog_format import SyslogMessage
from spouts.payload.formats import Json, Msgpack, Payload
from spouts.postgres.source import PostgresSource
from spouts.servers.amqp import AmqpSource
from spouts.servers.mqtt import MqttSource
from spouts.servers.nats import NatsSource
from spouts.servers.redis import RedisStreamSource
from spouts.stdin import Stdin
from topology import (
    Bolt,
    Collector,
    Companion,
    Config,
    ConfigurationError,
    DeadLetter,
    DeclarationError,
    EmitError,
    FunctionBolt,
    Grouping,
    Input,
    KedgeError,
    Launch,
    Malformed,
    Message,
    Notes,
    NotYet,
    Positions,
    Record,
    RecordError,
    Reject,
    Secret,
    Spout,
    StartError,
    State,
    Stream,
    Task,
    Topology,
    Tuple,
    TupleStateError,
    bolt,
)
from topology.clients.registry.registry import SchemaRegistry
from topology.clients.tls import Tls

__all__ = [
    "Alertmanager",
    "AmqpSink",
    "AmqpSource",
    "Bolt",
    "Burst",
    "Collector",
    "Companion",
    "Config",
    "ConfigurationError",
    "CountWithin",
    "DeadLetter",
    "DeclarationError",
    "Directory",
    "Email",
    "EmitError",
    "FileTail",
    "FunctionBolt",
    "Grouping",
    "HttpIngest",
    "Input",
    "Items",
    "Json",
    "JsonLinesSink",
    "KafkaSink",
    "KafkaSource",
    "KedgeError",
    "Launch",
    "Line",
    "Malformed",
    "Matching",
    "Message",
    "MqttSink",
    "MqttSource",
    "Msgpack",
    "NatsSink",
    "NatsSource",
    "NotYet",
    "Notes",
    "Paced",
    "PagerDuty",
    "ParquetSink",
    "Payload",
    "Positions",
    "PostgresSink",
    "PostgresSource",
    "Print",
    "Record",
    "RecordError",
    "RedisSink",
    "RedisStreamSource",
    "Reject",
    "Retries",
    "SchemaRegistry",
    "Secret",
    "Slack",
    "Socket",
    "Spout",
    "SqliteSink",
    "SseSource",
    "StartError",
    "State",
    "Stdin",
    "Stream",
    "Syslog",
    "SyslogMessage",
    "SyslogTimes",
    "Task",
    "Tick",
    "Ticker",
    "Tls",
    "Topology",
    "Tuple",
    "TupleStateError",
    "WebHook",
    "WebSocketSource",
    "bolt",
    "first_mtime",
]

__version__: str

def main() -> None: ...
