"""The temperature example: its rule on made series, and the real one against the windows that people labelled."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean, pstdev

import pytest
from example_kit import DATA, rows, run_example
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import machine_temperature
from examples.machine_temperature import Cleared, Page, ParseRow, Reading, WatchBand, topology
from spouts import Items, Line
from topology import Config, Topology
from topology.testing import Captured, Pause, ScriptedSpout, check_replays, run_bolt, run_topology

SERIES = DATA / "nab/machine_temperature_system_failure.csv"
WINDOWS = DATA / "nab/combined_windows.json"
START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
real = pytest.mark.skipif(not SERIES.exists(), reason="the real series, ../shared/data/nab, is not here")


def readings(values: list[float], machine: str = "m") -> list[Reading]:
    return [Reading(machine, START + timedelta(minutes=5 * n), float(value)) for n, value in enumerate(values)]


def told(values: list[float]) -> list[tuple[str, int]]:
    """What is told, and at the how manyth reading, by a rule around 0 with a deviation of 1 and a patience of 3."""
    done = run_bolt(WatchBand(0.0, 1.0, patience=3), readings(values), by=("machine",))
    return [(type(one).__name__, int((one.at - START) / timedelta(minutes=5))) for one in done.outputs]


def told_at_one_go(values: list[float]) -> list[tuple[str, int]]:
    """The same from the whole series: looks for the next three readings in a row that call for a change."""
    found: list[tuple[str, int]] = []
    calls = {"Page": lambda value: abs(value) > 3, "Cleared": lambda value: abs(value) <= 2}
    since = 0
    while True:
        wanted = "Cleared" if found and found[-1][0] == "Page" else "Page"
        ends = (n for n in range(since + 2, len(values)) if all(map(calls[wanted], values[n - 2 : n + 1])))
        if (end := next(ends, None)) is None:
            return found
        found.append((wanted, end))
        since = end + 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        ([9, 9, 0, 9, 9, 0, 9, 9], []),  # never three in a row
        ([3, 3, 3, -3, -3, -3], []),  # on the threshold is not beyond it
        ([9, -9, 9], [("Page", 2)]),  # beyond is beyond, on either side
        ([9, 9, 9, 9, 9, 9, 9], [("Page", 2)]),
        ([9, 9, 9, 2.5, 2.5, 2.5, 2.5], [("Page", 2)]),  # between the bands nothing changes
        ([9, 9, 9, 2.5, 9, 9, 9, 2.5, 9, 9, 9], [("Page", 2)]),  # it trembles on the threshold, and pages once
        ([9, 9, 9, 0, 0, 2.5, 0, 0], [("Page", 2)]),
        ([9, 9, 9, 2, -2, 0, 9, 9, 9], [("Page", 2), ("Cleared", 5), ("Page", 8)]),
    ],
)
def test_a_page_is_raised_after_three_readings_beyond_and_cleared_after_three_well_inside(
    values: list[float], expected: list[tuple[str, int]]
) -> None:
    assert told(values) == expected == told_at_one_go(values)


VALUES = st.lists(st.sampled_from([0.0, 2.0, 2.5, -2.5, 3.0, 9.0, -9.0]), min_size=1, max_size=40)


@settings(deadline=None)
@given(VALUES)
def test_reading_by_reading_it_finds_what_a_search_of_the_whole_series_finds(values: list[float]) -> None:
    assert told(values) == told_at_one_go(values)


def test_machines_are_watched_apart() -> None:
    both = [one for pair in zip(readings([9.0] * 3, "a"), readings([0.0] * 3, "b"), strict=True) for one in pair]
    done = run_bolt(WatchBand(0.0, 1.0, patience=3), both, by=("machine",))
    assert [(type(one), one.machine) for one in done.outputs] == [(Page, "a")]
    assert done.state == {"a": (True, 0), "b": (False, 0)}


def watching(source: Items[Reading] | ScriptedSpout[Reading], config: Config, sink: Captured[Page]) -> Topology:
    topology = Topology("watching", config)
    stream = topology.spout("readings", source)
    pages = topology.bolt("pages", WatchBand(0.0, 1.0, patience=3), stream.fields("machine"), tasks=2)
    topology.bolt("sink", sink, pages[Page].global_())
    return topology


@settings(max_examples=25, deadline=None)
@given(VALUES, st.sets(st.integers(0, 40)), st.integers(1, 5))
def test_pages_do_not_depend_on_how_readings_are_batched_or_replayed(
    values: list[float], pauses: set[int], max_pending: int
) -> None:
    series = [one for pair in zip(readings(values, "a"), readings(values[::-1], "b"), strict=True) for one in pair]
    script: list[Reading | Pause] = []
    for number, reading in enumerate(series):
        script += [Pause(0.01), reading] if number in pauses else [reading]
    whole = check_replays(lambda sink: watching(Items(series), Config(), sink))
    pieces = Captured[Page]()
    run_topology(watching(ScriptedSpout[Reading](script, emits=[Reading]), Config(max_pending=max_pending), pieces))
    expected = {(one.machine, one.at) for one in whole.values()}
    assert {(one.machine, one.at) for one in pieces.records} == expected
    assert len(expected) == sum(name == "Page" for part in (values, values[::-1]) for name, _ in told_at_one_go(part))


@pytest.mark.parametrize(
    "row",
    ["", "2013-12-02 21:15:00", "2013-12-02 21:15:00,1,2", "21:15,1", "2013-12-02 21:15:00,warm", "value,timestamp"]
    + ["0001-01-01 00:00:00+05:00,80", "9999-12-31 23:59:59-12:00,80"]
    + [f"2013-12-02 21:15:00,{value}" for value in ("nan", "inf", "-inf", "")],
)
def test_what_is_no_row_is_rejected_with_the_reason(row: str) -> None:
    done = run_bolt(ParseRow("m"), [Line("timestamp,value"), Line(row), Line("2013-12-02 21:15:00,73.96732207")])
    assert [one.record for one in done.failed] == [Line(row)]
    assert "not a row of timestamp,value: " in done.failed[0].reason or "the value is " in done.failed[0].reason
    assert done.outputs == [Reading("m", datetime(2013, 12, 2, 21, 15, tzinfo=UTC), 73.96732207)]


def test_a_time_with_a_zone_is_that_moment_in_utc() -> None:
    done = run_bolt(ParseRow("m"), [Line("2013-12-02 21:15:00+05:00,80")])
    assert done.outputs == [Reading("m", datetime(2013, 12, 2, 16, 15, tzinfo=UTC), 80.0)]


def test_a_bad_row_ends_dead_and_the_rest_pages_all_the_same(tmp_path: Path) -> None:
    lines = [f"{START + timedelta(minutes=5 * n):%Y-%m-%d %H:%M:%S},{20 + n}" for n in range(12)]
    (tmp_path / "press.csv").write_text("\n".join(["timestamp,value", *lines[:5], "out of order", *lines[5:]]))
    report = topology(str(tmp_path / "press.csv"), str(tmp_path / "pages.db")).run(state_dir=tmp_path / "state")
    assert (report.exit_status, report.snapshot.total("dead")) == (1, 1)
    assert rows(tmp_path / "pages.db", "page") == [("press", "2026-03-01T00:55:00.000000Z", 31.0)]


# -- the real series

FOUND = ["1:55", "13:35", "24:15", "4:00"]  # hours after each window's start, at the first page in it
LEFT = ["45:15", "33:35", "22:55", "43:10"]  # and then to its end
FALSE = ["Jan 29 14:50", "Jan 30 18:20", "Feb 03 07:45"]


@dataclass(frozen=True)
class Outcome:
    """Pages compared with the windows: when a window was found after it had begun; pages in none of them."""

    found: list[timedelta | None]
    left: list[timedelta | None]  # until the window's end
    false: list[datetime]


def outcome(pages: list[datetime]) -> Outcome:
    text = json.loads(WINDOWS.read_text())["realKnownCause/machine_temperature_system_failure.csv"]
    windows = [[datetime.fromisoformat(time).replace(tzinfo=UTC) for time in window] for window in text]
    firsts = [next((page for page in pages if start <= page <= end), None) for start, end in windows]
    return Outcome(
        [first and first - start for first, (start, _) in zip(firsts, windows, strict=True)],
        [first and end - first for first, (_, end) in zip(firsts, windows, strict=True)],
        [page for page in pages if not any(start <= page <= end for start, end in windows)],
    )


def hours(time: timedelta | None) -> str | None:
    """As the docstring writes it."""
    return None if time is None else f"{time // HOUR}:{time % HOUR // timedelta(minutes=1):02}"


def real_readings() -> list[Reading]:
    parse = ParseRow("m")
    return [reading for line in SERIES.read_text().splitlines() for reading in parse.process(Line(line))]


@real
def test_mean_and_deviation_are_those_of_the_first_week_before_the_first_failure() -> None:
    series = real_readings()
    week = [one.value for one in series if one.at < series[0].at + timedelta(days=7)]
    rule = WatchBand()
    assert (rule.mean, rule.page_beyond / 3, rule.clear_within / 2) == pytest.approx(
        (round(mean(week), 1), round(pstdev(week), 1), round(pstdev(week), 1))
    )
    assert rule.patience * timedelta(minutes=5) == HOUR


@real
@pytest.mark.parametrize("workers", [1, 2])
def test_the_real_series_pages_seven_times_in_all_four_windows_and_falsely_three_times(
    tmp_path: Path, workers: int
) -> None:
    settings = ("--set", f"path={SERIES}", "--set", "store=pages.db")
    run_example("machine_temperature.py", *settings, cwd=tmp_path, workers=workers)
    pages = [datetime.fromisoformat(at) for _, at, _ in rows(tmp_path / "pages.db", "page")]
    assert len(pages) == 7
    assert len(rows(tmp_path / "pages.db", "cleared")) == 7
    compared = outcome(pages)
    assert (list(map(hours, compared.found)), list(map(hours, compared.left))) == (FOUND, LEFT)
    assert [f"{page:%b %d %H:%M}" for page in compared.false] == FALSE
    third_ends = datetime(2014, 1, 29, 13, 30, tzinfo=UTC)
    assert [hours(page - third_ends) for page in compared.false[:2]] == ["1:20", "28:50"]


@real
@pytest.mark.parametrize(("patience", "found", "false"), [(6, 4, 5), (12, 4, 3), (24, 3, 3)])
def test_the_patience_is_no_lucky_one(patience: int, found: int, false: int) -> None:
    done = run_bolt(WatchBand(patience=patience), real_readings(), by=("machine",))
    compared = outcome([page.at for page in done.of(Page)])
    assert (4 - compared.found.count(None), len(compared.false)) == (found, false)
    assert len(done.of(Page)) - len(done.of(Cleared)) in (0, 1)


def test_the_figures_of_the_docstring_are_those_that_are_tested() -> None:
    said = " ".join((machine_temperature.__doc__ or "").split())
    assert (
        "pages seven times. Four pages find the four windows, " + ", ".join(FOUND[:3]) + f" and {FOUND[3]} hours after"
        in said
    )
    assert "which is " + ", ".join(LEFT[:3]) + f" and {LEFT[3]} before they end" in said
    assert "Three are false: 1:20 and 28:50 hours after the third window" in said
    assert "With half the patience two more are false; with twice the patience the third window is missed." in said
