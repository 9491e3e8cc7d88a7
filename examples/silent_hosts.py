"""Tell when a host that used to log has said nothing for a while, once, and when it is heard again.

    kedge run examples/silent_hosts.py --set path=/var/log/syslog --set follow=true --set minutes=10

For a log that many hosts send their lines to. A timer is set for each host and moved by each of its lines, so it fires
only where none has come. It is a part of the host's state: both are kept, and it fires once, whatever dies meanwhile.
While the run is stopped nobody listens, so after a start every host has its full time to be heard.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from kedge import Bolt, ConfigurationError, FileTail, Line, Matching, Record, SqliteSink, State, Task, Topology

# `Dec  9 06:55:46 web1 sshd[1]: …`, or `2026-12-09T06:55:46.123456+00:00 web1 …`
LOGGED = re.compile(r"(?:[A-Z][a-z]{2} [ 123]\d [\d:]{8}|\d{4}-\d\d-\d\dT\S+) (?P<host>\S+) ")


class Heard(Record):
    """A host has logged a line."""

    host: str


class Silent(Record):
    """It has said nothing for a while."""

    host: str
    since: datetime  # UTC, as all times here: when its last line was read


class Back(Record):
    """It is heard again."""

    host: str
    at: datetime


class Last(Record):
    """A host's state."""

    at: datetime
    is_silent: bool = False  # and has been told so


class ParseHost(Bolt):
    """Line → Heard; what is no line of syslog yields nothing."""

    def __init__(self) -> None:
        self.matching = Matching("lines of syslog")

    def process(self, line: Line) -> Iterator[Heard]:
        match = LOGGED.match(line.text)
        if self.matching.seen(match, line.text) and match:
            yield Heard(match["host"])

    def close(self) -> None:
        self.matching.end()


class WatchHosts(Bolt):
    """Heard → Silent, Back, by turns."""

    def __init__(self, minutes: float = 10.0) -> None:
        if not 0 < minutes <= 525_600:
            raise ConfigurationError(f"minutes is a number above 0 and up to 525600, a year, not {minutes}")
        self.patience = timedelta(minutes=minutes)

    def open(self, task: Task) -> None:
        self.clock, self.listening_since = task.clock, task.clock.utc()

    def process(self, heard: Heard, state: State[Last]) -> Iterator[Back]:
        now, last = self.clock.utc(), state.get()
        state.set(Last(now))
        state.timer(now + self.patience)
        if last is not None and last.is_silent:
            yield Back(heard.host, now)

    def on_timer(self, key: tuple[str], name: str, state: State[Last]) -> Iterator[Silent]:
        last = state.get()
        if last is None:
            return
        if self.clock.utc() < (due := max(last.at, self.listening_since) + self.patience):
            state.timer(due)
            return
        state.set(Last(last.at, is_silent=True))
        yield Silent(key[0], last.at)


def topology(path: str = "syslog", store: str = "hosts.db", follow: bool = False, minutes: float = 10.0) -> Topology:
    topology = Topology("silent-hosts")
    lines = topology.spout("lines", FileTail(path, follow=follow))
    hosts = topology.bolt("hosts", ParseHost(), lines.shuffle())
    told = topology.bolt("watch", WatchHosts(minutes), hosts.fields("host"), tasks=2)
    topology.bolt("store", SqliteSink(store, records=[Silent, Back]), told[Silent].global_(), told[Back].global_())
    return topology
