"""Sensors on MQTT: an alarm for each that is too hot or silent, as a retained message that its next state replaces.

    kedge run examples/mqtt_temperature.py --set url=mqtt://127.0.0.1:1883 --set limit=80

A sensor publishes {"id": "boiler-41", "celsius": 71.5} to sensors/NAME/temperature with QoS 1; no other message has
that id. The topic alarms/NAME has the newest alarm of each sensor: {"sensor": …, "state": "hot", "celsius": …}. Three
readings in a row above the limit are hot, three in a row five degrees below it are fine again, and a sensor that sends
nothing for ten minutes is silent.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Literal

from kedge import Bolt, Json, MqttSink, MqttSource, Print, Record, State, Task, Topology


class Reading(Record):
    """A message; the source adds its topic."""

    topic: str
    id: str
    celsius: float


class Alarm(Record):
    """A sensor's state has changed. `celsius` is its last reading."""

    sensor: str
    state: Literal["hot", "fine", "silent"]
    celsius: float


class Seen(Record):
    """The state of a sensor: its state, its last reading, and how many readings in a row ask for a change."""

    state: Literal["hot", "fine", "silent"] = "fine"
    celsius: float = 0.0
    in_a_row: int = 0


class WatchSensors(Bolt):
    """Reading → Alarm. Between the two limits nothing changes, so a value that trembles on one of them alarms once."""

    def __init__(self, limit: float, minutes: float) -> None:
        self.limit, self.patience = limit, timedelta(minutes=minutes)

    def open(self, task: Task) -> None:
        self.clock = task.clock

    def process(self, reading: Reading, state: State[Seen]) -> Iterator[Alarm]:
        seen = state.get(Seen())
        state.timer(self.clock.utc() + self.patience)  # in place of the last one
        is_silent, now = seen.state == "silent", reading.celsius
        asks = now <= self.limit - 5 if seen.state == "hot" else now > self.limit
        in_a_row, status = (seen.in_a_row + 1 if asks else 0), seen.state
        if in_a_row == 3:
            status, in_a_row = ("fine" if seen.state == "hot" else "hot"), 0
        elif is_silent:
            status = "fine"
        state.set(Seen(status, now, in_a_row))
        if status != seen.state:
            yield Alarm(name_of(reading.topic), status, now)

    def on_timer(self, key: tuple[str], name: str, state: State[Seen]) -> Iterator[Alarm]:
        seen = state.get(Seen())
        state.set(Seen("silent", seen.celsius))
        yield Alarm(name_of(key[0]), "silent", seen.celsius)


def name_of(topic: str) -> str:
    return topic.split("/")[1]


def alarm_topic(alarm: Alarm) -> str:
    return f"alarms/{alarm.sensor}"


def topology(url: str = "mqtt://127.0.0.1:1883", limit: float = 80.0, minutes: float = 10.0) -> Topology:
    topology = Topology("mqtt-temperature")
    value = Json(Reading, fields={"topic": "topic"}, id="id")
    readings = topology.spout("readings", MqttSource(url, "sensors/+/temperature", value=value))
    alarms = topology.bolt("watch", WatchSensors(limit, minutes), readings.fields("topic"), tasks=2)
    topology.bolt("alarms", MqttSink(url, alarm_topic, retain=True), alarms.fields("sensor"))
    topology.bolt("malformed", Print(), readings.malformed.shuffle())
    return topology
