"""Alert once when a host has logged nothing for a while, and again when it logs its next line.

    kedge run examples/silent_hosts.py --set path=/var/log/syslog --set follow=true --set minutes=10

For a log to which many hosts send their lines. Each host has a timer, which each of its lines moves, so the timer fires
only if no line has come. The timer is part of the host's state. Both are kept, so it fires once, even if a process dies
meanwhile. A stopped run reads nothing, so after a start every host has its full time again.
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
    """A host has logged nothing for a while."""

    host: str
    since: datetime  # UTC, as all times here: when its last line was read


class Back(Record):
    """A silent host has logged a line."""

    host: str
    at: datetime


class Last(Record):
    """A host's state."""

    at: datetime
    is_silent: bool = False  # and has been reported


class ParseHost(Bolt):
    """Line → Heard; a line that is not syslog yields nothing."""

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
