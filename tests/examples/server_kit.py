"""Real servers for the examples that need one, and a run of an example that a test ends."""

import sys
from pathlib import Path

for _folder in ("services", "bolts/http"):
    sys.path.insert(0, str(Path(__file__).parents[1] / _folder))

from hook_kit import HookServer, hook_server  # noqa: E402
from http_kit import asked_now, free_port  # noqa: E402
from kafka_kit import KafkaCluster, NoMock, all_messages, put  # noqa: E402
from live_run import LiveRun, live, until  # noqa: E402
from mqtt_kit import Listener, forget, publish  # noqa: E402
from mqtt_kit import reached as mqtt_reached  # noqa: E402

__all__ = [
    "HookServer",
    "KafkaCluster",
    "Listener",
    "LiveRun",
    "NoMock",
    "all_messages",
    "asked_now",
    "forget",
    "free_port",
    "hook_server",
    "live",
    "mqtt_reached",
    "publish",
    "put",
    "until",
]
