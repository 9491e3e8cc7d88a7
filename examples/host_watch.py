"""Watch this machine: CPU, memory, disk and load, once per second; alert when one is over its limit for a while.

    kedge run examples/host_watch.py --for 60 --set cpu=20

Needs psutil: pip install 'kedge-streams[host]'. `Host` is an example of a source of your own. The run prints an alert
when a figure was over its limit, in percent, three times in a row, and another when it was well under it as often.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

import psutil  # type: ignore[import-untyped]  # it has no stubs

from kedge import Bolt, ConfigurationError, Message, Print, Record, Spout, State, Task, Topology

READERS: dict[str, Callable[[], float]] = {  # name → function that returns its figure now, in percent
    "cpu": psutil.cpu_percent,  # busy since the last call
    "memory": lambda: psutil.virtual_memory().percent,
    "disk": lambda: psutil.disk_usage(".").percent,
    "load": lambda: 100 * psutil.getloadavg()[0] / (psutil.cpu_count() or 1),  # of the last minute, per core
}


class Reading(Record):
    """One figure of this machine."""

    what: str
    percent: float
    at: datetime  # UTC


class Alert(Record):
    """A figure has been over its limit for a while, or is well under it again."""

    what: str
    over: bool
    percent: float
    at: datetime

    def __str__(self) -> str:
        said = "has been over its limit" if self.over else "is fine again"
        return f"{self.at:%H:%M:%S} UTC  {self.what} {said}: {self.percent:.0f} %"


class Host(Spout):
    """A Reading of each kind every `every_s` seconds, from the machine that it runs on. A kind is a partition. An id is
    the time in microseconds, which grows and never comes again, so a partition has one epoch for ever."""

    given_again = "never"  # unfinished messages of a run are gone: a machine cannot repeat its past

    def __init__(self, every_s: float = 1.0) -> None:
        self.every_s = every_s
        self.due: list[Message[Reading]] = []  # read, and not polled yet

    def open(self, task: Task, positions: Mapping[str, int | str | bytes]) -> None:
        if task.tasks != 1:
            raise ConfigurationError(f"{task.component!r} reads one machine, so it has one task, not {task.tasks}")
        self.clock, self.epochs = task.clock, dict.fromkeys(READERS, "")
        self.last = max([0, *map(int, positions.values())])  # ids grow even if the clock was set back
        psutil.cpu_percent()  # its first answer is always 0

    async def poll(self, limit: int) -> list[Message[Reading]]:
        """Wait for the next time. If it is cancelled meanwhile, it loses nothing."""
        if not self.due:
            await asyncio.sleep(self.every_s - self.clock.monotonic() % self.every_s)
            at = self.clock.utc()
            self.last = max(self.last + 1, int(at.timestamp() * 1_000_000))
            self.due = [Message(Reading(what, read(), at), self.last, what, at) for what, read in READERS.items()]
        return [self.due.pop(0) for _ in self.due[:limit]]

    def partitions(self) -> Mapping[str, str]:
        return self.epochs


class Watch(Bolt):
    """Reading → Alert. The state of a kind: whether it is over its limit, and how many readings in a row disagree."""

    def __init__(self, patience: int = 3, **limits: float) -> None:
        if wrong := [f"{what}={limit}" for what, limit in limits.items() if not limit >= 0]:
            raise ConfigurationError(f"a limit is a number of percent, 0 or more, not {', '.join(wrong)}")
        self.patience, self.limits = patience, limits  # readings; kind → percent

    def process(self, reading: Reading, state: State[tuple[bool, int]]) -> Iterator[Alert]:
        (over, in_a_row), limit = state.get((False, 0)), self.limits[reading.what]
        in_a_row = in_a_row + 1 if (reading.percent < 0.9 * limit if over else reading.percent > limit) else 0
        if in_a_row == self.patience:
            over, in_a_row = not over, 0
            yield Alert(reading.what, over, reading.percent, reading.at)
        state.set((over, in_a_row))


def topology(cpu: float = 90.0, memory: float = 90.0, disk: float = 95.0, load: float = 150.0) -> Topology:
    topology = Topology("host-watch")
    readings = topology.spout("host", Host())
    alerts = topology.bolt("watch", Watch(cpu=cpu, memory=memory, disk=disk, load=load), readings.fields("what"))
    topology.bolt("print", Print(), alerts.shuffle())
    return topology
