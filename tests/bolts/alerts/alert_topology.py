"""Numbered incidents to a channel, for runs whose workers are killed."""

from collections.abc import AsyncIterator

from bolts.alerts.alertmanager import Alertmanager
from bolts.alerts.email import Email
from bolts.alerts.pagerduty import PagerDuty
from bolts.alerts.slack import Slack
from spouts import Paced
from topology import Bolt, Config, Message, Positions, Record, Spout, Task, Topology


class NumberedIncident(Record):
    number: int
    service: str


class Incidents(Spout):
    """1 … count, from where it was left."""

    def __init__(self, count: int) -> None:
        self.count = count

    def open(self, task: Task, positions: Positions) -> None:
        at = positions.get("", 1)
        assert isinstance(at, int)
        self.first = at

    async def records(self) -> AsyncIterator[Message[NumberedIncident]]:
        for number in range(self.first, self.count + 1):
            yield Message(NumberedIncident(number, f"s{number % 20}"), number)


class PassOn(Bolt):
    """Puts a link between two workers on the way."""

    def process(self, incident: NumberedIncident) -> list[NumberedIncident]:
        return [incident]


def channel_of(kind: str, port: int) -> Bolt:
    url = f"http://127.0.0.1:{port}"
    if kind == "slack":
        return Slack(f"{url}/services/T/B/X", text="{number}", group_by="service", group_wait_s=0.2, per_minute=None)
    if kind == "pagerduty":
        return PagerDuty("abcdef0123456789", summary="{number}", source="{service}", url=url)
    if kind == "alertmanager":
        return Alertmanager(url, labels={"alertname": "n{number}"})
    return Email(
        "127.0.0.1",
        port=port,
        tls=None,
        sender="kedge@example.org",
        to="ops@example.org",
        subject="{service}",
        text="{number}",
        group_by="service",
        per_minute=None,
    )


def topology(kind: str, port: int, count: int = 1_000, rate: float = 250.0) -> Topology:
    topology = Topology("alert-runs", Config(max_pending=200))
    incidents = topology.spout("incidents", Paced(Incidents(count), rate))
    passed = topology.bolt("pass", PassOn(), incidents.shuffle(), tasks=2)
    topology.bolt("channel", channel_of(kind, port), passed.shuffle())
    return topology
