"""The public names of Kedge: `from kedge import Bolt, FileTail, Record`; and the command, by `python -m kedge`.

All public names of `topology`, `spouts` and `bolts` are here, and each is imported when it is first used. Once this
module is imported, those packages and what they import are found beside this file. A user's file or folder with one of
these everyday names never takes their place, nor does a folder that an earlier install has left.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bolts import Burst, CountWithin, JsonLinesSink, PostgresSink, Print, SqliteSink
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
    from spouts import FileTail, Items, Line, Matching, Paced, SyslogTimes, Tick, Ticker, first_mtime
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

    __version__: str

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

_HOME: Final = Path(__file__).resolve().parent
_PACKAGES: Final = ("acker", "bolts", "bridge", "spouts", "topology")
_WHERE: Final = {
    "Burst": "bolts",
    "CountWithin": "bolts",
    "JsonLinesSink": "bolts",
    "PostgresSink": "bolts",
    "Print": "bolts",
    "SqliteSink": "bolts",
    "FileTail": "spouts",
    "Items": "spouts",
    "Line": "spouts",
    "Matching": "spouts",
    "Paced": "spouts",
    "SyslogTimes": "spouts",
    "Tick": "spouts",
    "Ticker": "spouts",
    "first_mtime": "spouts",
    # each from its own file: a program loads those that it uses
    "Json": "spouts.payload.formats",
    "Msgpack": "spouts.payload.formats",
    "KafkaSource": "spouts.kafka.source",
    "KafkaSink": "bolts.sinks.kafka.sink",
    "PostgresSource": "spouts.postgres.source",
    "HttpIngest": "spouts.http.ingest",
    "WebSocketSource": "spouts.http.websocket",
    "SseSource": "spouts.http.sse",
    "Stdin": "spouts.stdin",
    "Socket": "spouts.listeners.lines",
    "Syslog": "spouts.listeners.syslog",
    "SyslogMessage": "spouts.listeners.syslog_format",
    "NatsSink": "bolts.sinks.servers.nats",
    "RedisStreamSource": "spouts.servers.redis",
    "RedisSink": "bolts.sinks.redis.sink",
    "Directory": "spouts.directory.spout",
    "ParquetSink": "bolts.sinks.parquet.sink",
    "NatsSource": "spouts.servers.nats",
    "Payload": "spouts.payload.formats",
    "SchemaRegistry": "topology.clients.registry.registry",
    "Tls": "topology.clients.tls",
    "Alertmanager": "bolts.alerts.alertmanager",
    "Email": "bolts.alerts.email",
    "PagerDuty": "bolts.alerts.pagerduty",
    "Slack": "bolts.alerts.slack",
    "WebHook": "bolts.sinks.http.webhook",
    "Retries": "bolts.sinks.http.retries",
    "AmqpSink": "bolts.sinks.servers.amqp",
    "MqttSink": "bolts.sinks.servers.mqtt",
    "AmqpSource": "spouts.servers.amqp",
    "MqttSource": "spouts.servers.mqtt",
}  # all other names are in `topology`


class _Beside:
    """Finds our packages and their modules beside this file, whatever the import path has before it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in _PACKAGES:
            return None
        return PathFinder.find_spec(name, [str(_HOME)] if "." not in name else path, target)


def _begin() -> None:
    """Let our packages be found from now on. A second import of this file, under another name, changes nothing."""
    if not any(
        type(finder).__qualname__ == _Beside.__qualname__ and type(finder).__module__ in ("kedge", "__main__")
        for finder in sys.meta_path
    ):
        sys.meta_path.insert(0, _Beside())


def _strangers() -> str:
    """Return an error text if another module has been imported under the name of one of our packages, else ""."""
    for name in _PACKAGES:
        module = sys.modules.get(name)
        found = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
        if module is None or (found is not None and Path(found).resolve().is_relative_to(_HOME / name)):
            continue
        path = Path(found or name)
        what = path.parent if path.name == "__init__.py" else path
        return (
            f"{what} has been imported as {name!r}, which is the name of a package of Kedge's own: "
            f"rename your {what.name}, or import kedge before it"
        )
    return ""


def __getattr__(name: str) -> Any:
    """Return a public name, or `kedge.__version__`. It is looked up late, so that `import kedge` takes no time.

    Raises ImportError if a module of the user's is already imported under the name of one of our packages.
    """
    if name == "__version__":
        from topology.version import version

        return version()
    if name not in __all__:
        raise AttributeError(f"module 'kedge' has no attribute {name!r}")
    from importlib import import_module

    if wrong := _strangers():
        raise ImportError(wrong, name="kedge")
    found = globals()[name] = getattr(import_module(_WHERE.get(name, "topology")), name)
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__", "main"]


def _interrupted(number: int, frame: object) -> None:
    """End on a signal that comes before there is a run to drain: print one sentence, not a traceback of an import."""
    import os

    text, terminal = "kedge: interrupted before anything ran", sys.modules.get("topology.cli.output.terminal")
    if terminal is not None and terminal.VOICE.as_event is not None:
        text = terminal.VOICE.as_event("error", text, {})
    os.write(2, f"{text}\n".encode())
    os._exit(1)


def main() -> None:
    """The command. By `python -m` the current folder is first on the import path, and none of its files replaces
    ours."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    sys.modules.setdefault(
        "kedge", sys.modules[__name__]
    )  # `python -m` names this module "__main__"; user code must import the same module
    if wrong := _strangers():
        print(f"kedge: {wrong}   (K130: `kedge explain K130`)", file=sys.stderr)
        sys.exit(2)
    try:
        from topology.text import open_standard_streams
    except ImportError as error:
        if error.name != "KEDGE_CORE":
            raise
        print(f"kedge: {error}", file=sys.stderr)
        sys.exit(2)

    open_standard_streams()
    from topology.cli.main import main as command

    command()


_begin()

if __name__ == "__main__":
    main()
