"""Page when a machine's temperature leaves its band for an hour, once, until it has been well inside for an hour.

    kedge run examples/machine_temperature.py --set path=machine_temperature_system_failure.csv --set store=pages.db

The file is of the Numenta Anomaly Benchmark (github.com/numenta/NAB, data/realKnownCause): a reading every five minutes
from December to February, in which people labelled four windows of about two days around failures.

The rule has two thresholds and a patience, none of them fitted to the failures. Mean and deviation are those of the
first week, before any failure. 3 deviations hardly ever happen, 2 are well inside, and one cold hour is longer than a
restart. So it pages seven times. Four pages find the four windows, 1:55, 13:35, 24:15 and 4:00 hours after they begin,
which is 45:15, 33:35, 22:55 and 43:10 before they end. Three are false: 1:20 and 28:50 hours after the third window,
when the machine had hardly recovered, and on the third of February. With half the patience two more are false; with
twice the patience the third window is missed.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path

from kedge import Bolt, FileTail, Line, Record, Reject, SqliteSink, State, Topology

HEADER = "timestamp,value"


class Reading(Record):
    """A reading of a machine's sensor."""

    machine: str
    at: datetime  # UTC, from the row
    value: float  # in the sensor's unit, apparently Fahrenheit


class Page(Record):
    """The temperature has been outside its band for a while: wake the operator. `value` is the deciding reading."""

    machine: str
    at: datetime
    value: float


class Cleared(Record):
    """The temperature has been well inside its band for as long: the alarm is over."""

    machine: str
    at: datetime
    value: float


class ParseRow(Bolt):
    """Line → Reading. A row that is not a time and a number is rejected: it becomes a dead letter, and the run reports
    it."""

    def __init__(self, machine: str) -> None:
        self.machine = machine

    def process(self, line: Line) -> Iterator[Reading]:
        if line.text == HEADER:
            return
        try:
            at, value = line.text.split(",")
            time = datetime.fromisoformat(at)
            # the benchmark's times have no zone
            time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
            reading = Reading(self.machine, time, float(value))
        except (ValueError, OverflowError) as error:
            raise Reject(f"not a row of {HEADER}: {error}") from error
        if not isfinite(reading.value):
            raise Reject(f"the value is {value}")
        yield reading


class WatchBand(Bolt):
    """Reading → Page, Cleared, by turns. A machine's state: whether it is paged, and how many readings in a row ask for
    a change. Between the two bands nothing changes, so a value that trembles on a threshold pages once."""

    def __init__(self, mean: float = 80.1, deviation: float = 8.8, patience: int = 12) -> None:
        self.mean, self.page_beyond, self.clear_within = mean, 3 * deviation, 2 * deviation
        self.patience = patience  # readings

    def process(self, reading: Reading, state: State[tuple[bool, int]]) -> Iterator[Page | Cleared]:
        paged, in_a_row = state.get((False, 0))
        away = abs(reading.value - self.mean)
        in_a_row = in_a_row + 1 if (away <= self.clear_within if paged else away > self.page_beyond) else 0
        if in_a_row == self.patience:
            paged, in_a_row = not paged, 0
            yield (Page if paged else Cleared)(reading.machine, reading.at, reading.value)
        state.set((paged, in_a_row))


def topology(path: str = "machine_temperature_system_failure.csv", store: str = "pages.db") -> Topology:
    topology = Topology("machine-temperature")
    lines = topology.spout("lines", FileTail(path))
    readings = topology.bolt("readings", ParseRow(Path(path).stem), lines.shuffle())
    pages = topology.bolt("pages", WatchBand(), readings.fields("machine"))
    topology.bolt("store", SqliteSink(store, records=[Page, Cleared]), pages[Page].global_(), pages[Cleared].global_())
    return topology
