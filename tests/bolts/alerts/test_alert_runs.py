"""Whole runs to each channel, whose workers are killed: no alert is lost, and who knows names gets each once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hook_kit import Posted, hook_server
from smtp_kit import smtp_server

from topology.testing import Crash, run_processes

FILE = Path(__file__).with_name("alert_topology.py")
COUNT = 1_000


def run(folder: Path, kind: str, port: int, when: Callable[[], bool]) -> None:
    report = run_processes(
        FILE,
        set={"kind": kind, "port": port, "count": COUNT},
        crashes=[Crash("channel"), Crash("pass"), Crash("channel")],
        when=when,
        state_dir=folder / "state",
        within_s=100,
    )
    assert report.exit_status == 0, report.output
    assert len(report.killed) == 3


def shown(text: str) -> list[int]:
    """The numbers of a text, one in a line."""
    lines = [line.removeprefix("• ") for line in text.splitlines() if "alerts*" not in line]
    return [int(line) for line in lines if line]


def seldom(posted: Posted, number: list[int] = [0]) -> int | None:  # noqa: B006  # counts over all requests
    number[0] += 1
    return 503 if number[0] % 50 == 0 else None


def bodies(posted: Sequence[Posted]) -> list[Any]:
    return [each.json for each in posted]


def test_slack_is_told_of_each_alert_though_workers_are_killed(tmp_path: Path) -> None:
    with hook_server(seldom) as server:
        run(tmp_path, "slack", server.port, lambda: len(server.stored) >= 5)
        texts = [body["text"] for body in bodies([*server.stored.values()])]
    numbers = [number for text in texts for number in shown(text)]
    assert {*numbers} == {*range(1, COUNT + 1)}
    assert len(texts) < COUNT * 0.8, "groups are messages"


def test_pagerduty_has_one_incident_of_each_alert_though_workers_are_killed(tmp_path: Path) -> None:
    with hook_server(seldom) as server:
        run(tmp_path, "pagerduty", server.port, lambda: len(server.stored) >= 50)
        events = bodies([*server.stored.values()])
    by_name = {event["dedup_key"]: int(event["payload"]["summary"]) for event in events}
    assert sorted(by_name.values()) == [*range(1, COUNT + 1)]


def test_alertmanager_has_each_alert_though_workers_are_killed(tmp_path: Path) -> None:
    with hook_server(seldom) as server:
        run(tmp_path, "alertmanager", server.port, lambda: len(server.stored) >= 5)
        alerts = [alert for body in bodies([*server.stored.values()]) for alert in body]
    assert {alert["labels"]["alertname"] for alert in alerts} == {f"n{number}" for number in range(1, COUNT + 1)}


def test_each_alert_is_in_a_mail_though_workers_are_killed(tmp_path: Path) -> None:
    with smtp_server() as server:
        run(tmp_path, "email", server.port, lambda: len(server.mails) >= 5)
        numbers = [number for mail in server.mails for number in shown(mail.text)]
    assert {*numbers} == {*range(1, COUNT + 1)}


@pytest.mark.parametrize("name", ["slack", "pagerduty", "alertmanager", "email", "channel"])
def test_a_channel_can_be_imported_without_its_client(name: str) -> None:
    import subprocess
    import sys

    code = (
        "import sys; sys.modules.update(aiohttp=None, aiosmtplib=None); import importlib; "
        f"importlib.import_module('bolts.alerts.{name}'); import bolts.sinks.http.webhook"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])
