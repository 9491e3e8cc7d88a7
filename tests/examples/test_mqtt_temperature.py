"""The example on MQTT: alarms of sensors that are hot or silent, on virtual time and through a real server."""

import contextlib
import json
import secrets
from pathlib import Path

import pytest
from example_kit import EXAMPLES
from server_kit import Listener, forget, live, mqtt_reached, publish, until

from examples.mqtt_temperature import Alarm, Reading, WatchSensors
from topology import Topology
from topology.testing import Captured, Pause, ScriptedSpout, run_topology


def alarms(*script: float | Pause) -> list[tuple[str, float]]:
    """The alarms of a sensor's readings, with a limit of 80 degrees and ten minutes of patience."""
    topology, captured = Topology("sensors"), Captured[Alarm]()
    topic = "sensors/boiler/temperature"
    steps = [step if isinstance(step, Pause) else Reading(topic, str(n), float(step)) for n, step in enumerate(script)]
    readings = topology.spout("readings", ScriptedSpout[Reading](steps))
    topology.bolt(
        "captured", captured, topology.bolt("watch", WatchSensors(80.0, 10.0), readings.fields("topic")).global_()
    )
    assert run_topology(topology, limit_s=1e6).exit_status == 0
    assert {alarm.sensor for alarm in captured.records} <= {"boiler"}
    return [(alarm.state, alarm.celsius) for alarm in captured.records]


def test_the_third_hot_reading_in_a_row_is_an_alarm_once() -> None:
    assert alarms(81, 81, 82, 83, 84, 85, 86) == [("hot", 82)]
    assert alarms(81, 81, 80, 81, 81) == []


def test_a_hot_sensor_is_fine_after_three_readings_well_below_the_limit() -> None:
    assert alarms(81, 81, 81, 78, 78, 78, 75, 75, 74) == [("hot", 81), ("fine", 74)]
    assert alarms(81, 81, 81, 75, 76, 75, 76, 75) == [("hot", 81)]


def test_a_sensor_that_sends_nothing_for_ten_minutes_is_silent_until_it_sends_again() -> None:
    assert alarms(70, Pause(599), 71, Pause(601), 72) == [("silent", 71), ("fine", 72)]


def test_a_hot_sensor_that_was_silent_is_hot_again_after_three_readings() -> None:
    assert alarms(81, 81, 81, Pause(601), 82, 82, 82) == [("hot", 81), ("silent", 81), ("fine", 82), ("hot", 82)]


@pytest.mark.timeout(150)
def test_the_newest_alarm_of_each_sensor_is_a_retained_message(tmp_path: Path) -> None:
    try:
        mqtt_reached()
    except Exception as error:
        pytest.skip(f"no MQTT server to test with ({error}); CONTRIBUTING.md says how to start one")
    session, sensor = "kedge-mqtt-temperature-readings", f"boiler-{secrets.token_hex(4)}"

    def send(*readings: float) -> None:
        bodies = [json.dumps({"id": secrets.token_hex(8), "celsius": celsius}).encode() for celsius in readings]
        publish(f"sensors/{sensor}/temperature", bodies)

    def alarm() -> str:
        with Listener(f"alarms/{sensor}").there() as listener:
            found = listener.messages()
        return str(json.loads(found[-1].payload)["state"]) if found else ""

    forget(session)
    try:
        with live(EXAMPLES / "mqtt_temperature.py", tmp_path) as run:

            def is_hot() -> bool:
                send(90, 90, 90)  # those that come before the run has subscribed are gone
                return alarm() == "hot"

            until(is_hot, "an alarm")
            run.kill_worker()
            send(70, 70, 70)
            until(lambda: alarm() == "fine", "the end of the alarm")
            run.stop()
    finally:
        publish(f"alarms/{sensor}", [b""], retain=True)
        with contextlib.suppress(Exception):
            forget(session)
