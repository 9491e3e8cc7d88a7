"""Tell a Slack channel of a service that reports five errors within a minute, once per burst.

    kedge run examples/http_to_slack.py --set slack=env:SLACK_URL --set token=env:REPORT_TOKEN

Services post what happened, with the token, to http://127.0.0.1:8080/reports:

    curl 'http://127.0.0.1:8080/reports?wait=ack' -H "Authorization: Bearer $REPORT_TOKEN" -d \
        '{"id": "7f1", "service": "shop", "at": "2026-03-02T08:30:00Z", "level": "error", "text": "no stock"}'

The answer is 200 when the report counts, and 400 if it is no report. A service that gets no answer posts the same
report again: its `id` names it, so it counts once. Bursts that several services begin within ten seconds are one
message.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from kedge import Burst, CountWithin, HttpIngest, Json, Record, Secret, Slack, Topology, bolt

NOWHERE = Secret("http://127.0.0.1:8473/services/none")


class Report(Record):
    """A post of a service."""

    id: str
    service: str
    at: datetime
    level: Literal["info", "error"]
    text: str


class Error(Record):
    service: str
    at: datetime


class Failing(Record):
    """A service that fails: the number of errors when the burst began, and the time of the first."""

    service: str
    errors: int
    since: datetime


@bolt
def errors(report: Report) -> Iterator[Error]:
    if report.level == "error":
        yield Error(report.service, report.at)


class DetectBurst(CountWithin[Error, Failing]):
    """Error → Failing, where a burst begins. Reports may come five seconds out of order."""

    def at(self, error: Error) -> datetime:
        return error.at

    def raised(self, error: Error, burst: Burst) -> Failing:
        return Failing(error.service, burst.count, burst.first_at)


def topology(
    slack: Secret = NOWHERE,
    token: Secret | None = None,
    address: str = "127.0.0.1:8080",
    limit: int = 5,
    within_s: float = 60.0,
    group_wait_s: float = 10.0,
) -> Topology:
    topology = Topology("http-to-slack")
    reports = topology.spout(
        "reports", HttpIngest(address, path="/reports", value=Json(Report, at="at", id="id"), token=token)
    )
    found = topology.bolt("errors", errors, reports.shuffle())
    failing = topology.bolt("bursts", DetectBurst(limit, within_s, lateness_s=5.0), found.fields("service"), tasks=2)
    text = "*{service}* has failed {errors} times since {since}"
    channel = Slack(slack, text=text, group_by=lambda failing: "all", group_wait_s=group_wait_s)
    topology.bolt("slack", channel, failing.global_())
    return topology
