"""The SSH alerts of `ssh_alerts.py`, with Spark beside them: failures by address and hour, and failures of known hosts.

    kedge run examples/ssh_spark.py --set path=/var/log/auth.log --set hosts=examples/known_hosts.csv --set store=ssh.db

Alerts take milliseconds and never wait for Spark. Records are handed over to Spark from the first second on, and its
results come once it has started. Needs kedge-streams[spark], and Java or kedge-streams[spark-jre]; `make run-spark`
installs both.
"""

from datetime import datetime

from ssh_alerts import BruteForce, DetectBruteForce, ParseFailures  # beside this file

from bridge import Table, joined, sum_of, windowed
from kedge import FileTail, Paced, Record, SqliteSink, Topology


class HourlyFailures(Record):
    """The number of failed logins of an address within an hour."""

    start: datetime
    source_ip: str
    failures: int


class KnownFailure(Record):
    """A failure of a host in the table: a machine of ours with an old password, or under an attacker's control."""

    at: datetime
    host: str
    owner: str
    user: str


def topology(
    path: str = "auth.log",
    store: str = "ssh.db",
    hosts: str = "known_hosts.csv",
    reference: str = "",
    follow: bool = False,
    rate: float = 0.0,
    watermark: str = "6 hours",
) -> Topology:
    """`hosts`: a CSV file with the columns source_ip, host and owner, read again every ten minutes.

    `watermark`: how late a line may come and still count in its hour; the hour is stored that much later.
    """
    topology, tail = Topology("ssh-spark"), FileTail(path, follow=follow)
    lines = topology.spout("lines", Paced(tail, rate) if rate else tail)
    failures = topology.bolt("failures", ParseFailures(path, reference, follow), lines.shuffle())
    alerts = topology.bolt("alerts", DetectBruteForce(limit=5, within_s=60), failures.fields("source_ip"), tasks=2)
    hours = windowed(
        topology, "hours", failures, by="source_ip", at="at", every="1 hour", watermark=watermark,
        aggregates={"failures": sum_of("count")}, output=HourlyFailures,
    )  # fmt: skip
    known = joined(
        topology, "known", failures, table=Table(hosts, refresh="10 minutes"), on="source_ip", how="inner",
        output=KnownFailure,
    )  # fmt: skip
    sink = SqliteSink(store, records=[BruteForce, HourlyFailures, KnownFailure])
    topology.bolt("store", sink, alerts.global_(), hours.global_(), known.global_())
    return topology
