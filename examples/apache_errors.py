"""Alert when a client causes a burst of errors in Apache's error log: five within a minute.

    kedge run examples/apache_errors.py --set path=/var/log/apache2/error.log --set store=bursts.db

FileTail reads lines of Apache 2.2 or 2.4. ParseErrors finds the lines of level `error`. DetectBursts counts them per
client. SqliteSink stores a `burst` when it begins, and a `burst_over` when it has ended. A line without a client, for
example of a failing module, counts for `server`. `--set follow=true` waits for more at the file's end. Time is the time
of the lines: a burst is over at the client's next error, and the last bursts of a log stay open.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from kedge import Bolt, FileTail, Line, Matching, Record, Reject, SqliteSink, State, Topology

# `[Sun Dec 04 05:15:09 2005] [error] [client 192.0.2.7] …`. Since 2.4 there are also fractions of a second, the module,
# the process, the system's error before the client, and the client's port after it.
ERROR = re.compile(
    r"\[[A-Z][a-z]{2} (?P<day>[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8})(?:\.[0-9]+)? (?P<year>[0-9]{4})\] "
    r"\[(?:\w*:)?error\] (?P<pid>\[pid [^]]*\] )?(?:\([0-9]+\)[^[]*)?"
    r"(?:\[client (?P<client>[^] ]+?)(?(pid)(?::[0-9]+)?)\])?"
)


class Error(Record):
    """A line of level `error`."""

    at: datetime  # the server's local time, taken as UTC: the log does not name its zone
    client: str  # the client's address, or `server`


class Burst(Record):
    """A client has reached the limit of errors within the time."""

    client: str
    errors: int
    first_at: datetime
    last_at: datetime


class BurstOver(Burst):
    """A whole burst: all of the client's errors from one quiet time to the next."""


class Spell(Record):
    """A client's state: its errors since its last quiet time."""

    errors: int
    first_at: datetime
    newest: tuple[datetime, ...]  # at most `limit`, sorted: a busy server swaps lines within a second or two
    told: bool


class ParseErrors(Bolt):
    """Line → Error; other lines yield nothing. An error at an impossible time (`Feb 30`) is rejected."""

    def __init__(self) -> None:
        self.matching = Matching("errors")

    def process(self, line: Line) -> Iterator[Error]:
        if self.matching.seen(match := ERROR.match(line.text), line.text) and match:
            try:
                at = datetime.strptime(f"{match['day']} {match['year']} +0000", "%b %d %H:%M:%S %Y %z")
            except ValueError as error:
                raise Reject(f"an error at no time: {error}") from error
            yield Error(at, match["client"] or "server")

    def close(self) -> None:
        self.matching.end()


class DetectBursts(Bolt):
    """Error → Burst at the error that makes `limit` within `within_s` seconds, inclusive; then BurstOver at the first
    error that is more than `within_s` away from the newest one: after a quiet time, or after a clock was set back."""

    def __init__(self, limit: int = 5, within_s: float = 60.0) -> None:
        self.limit, self.within = limit, timedelta(seconds=within_s)

    def process(self, error: Error, state: State[Spell]) -> Iterator[Burst | BurstOver]:
        spell = state.get()
        if spell is None or abs(error.at - spell.newest[-1]) > self.within:
            if spell is not None and spell.told:
                yield BurstOver(error.client, spell.errors, spell.first_at, spell.newest[-1])
            spell = Spell(0, error.at, (), told=False)
        newest = tuple(sorted([*spell.newest, error.at])[-self.limit :])
        burst = len(newest) == self.limit and newest[-1] - newest[0] <= self.within
        if burst and not spell.told:
            yield Burst(error.client, len(newest), newest[0], newest[-1])
        state.set(Spell(spell.errors + 1, min(spell.first_at, error.at), newest, told=spell.told or burst))


def topology(path: str = "error.log", store: str = "bursts.db", follow: bool = False) -> Topology:
    topology = Topology("apache-errors")
    errors = topology.bolt("errors", ParseErrors(), topology.spout("lines", FileTail(path, follow=follow)).shuffle())
    bursts = topology.bolt("bursts", DetectBursts(), errors.fields("client"), tasks=2)
    sink = SqliteSink(store, records=[Burst, BurstOver])
    topology.bolt("store", sink, bursts[Burst].global_(), bursts[BurstOver].global_())
    return topology
