"""The benchmark of the bridge: its rows and bars; a short hand-over, and in `make test-all` the ways through Spark too.
Speed is not judged here."""

import asyncio
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from test_benchmarks import ROOT, results_of

from benchmarks import bridge, handing_over
from benchmarks.rounds import Figures, Name
from benchmarks.through_spark import FIRST, HOUR, MEASURED, Gate, Logins, measured, warming

NAMES = ("handover-records-per-s", "roundtrip-p50-ms", "window-vs-spark")
UNITS = dict(zip(NAMES, ("records/s", "ms", "×"), strict=True))


def shown(name: str, figures: Figures) -> list[str]:
    return [*bridge.row(Name(name, UNITS[name]), figures, {})]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (NAMES[0], 149_999.0, ">= 150,000: MISSED"),
        (NAMES[0], 150_000.0, ">= 150,000: ok"),
        (NAMES[1], 400.0, "< 400: MISSED"),
        (NAMES[1], 399.9, "< 400: ok"),
        (NAMES[2], 0.499, ">= 0.5: MISSED"),
        (NAMES[2], 0.5, ">= 0.5: ok"),
    ],
)
def test_each_figure_has_its_bar(name: str, value: float, said: str) -> None:
    assert shown(name, {"value": value, "spark": 1.0})[-1] == said


def test_the_benchmark_has_the_figures_under_their_names() -> None:
    assert {name.name: name.unit for name in bridge.BENCHMARK.names} == UNITS


def test_shares_are_above_1_where_ours_is_the_faster_one() -> None:
    ours: Figures = {"value": 100.0}
    alone: Figures = {"value": 200.0}
    assert bridge.beside([ours, alone]) == {"value": 100.0, "spark": 200.0, "ratio": 0.5}
    assert bridge.sooner([ours, alone]) == {"value": 100.0, "spark": 200.0, "ratio": 2.0}
    told = bridge.ratio([ours, alone, {"value": 125.0}])
    assert told == {"value": 0.5, "ours": 100.0, "spark": 200.0, "spark_batches": 125.0, "like": 0.8}


def test_a_round_trip_is_told_in_its_parts() -> None:
    parts = {"segment": 10.4, "wait": 90.0, "batch": 80.0, "back": 5.0}
    row = shown(NAMES[1], {"value": 185.0, "p99": 300.0, **parts, "spark": 200.0, "ratio": 1.08})
    assert "segment 10, wait 90, batch 80, back 5" in row[3]


def test_the_record_that_closes_a_window_is_in_none_that_is_measured() -> None:
    for records, begins in ((warming(5), FIRST), (measured(5), MEASURED)):
        assert len(records) == 6
        assert all(begins <= one.at < begins + HOUR for one in records[:-1])
        assert records[-1].at > begins + HOUR


async def test_what_is_measured_is_emitted_once_all_results_of_the_warm_up_are_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Gate, "ready", True)
    monkeypatch.setattr(Gate, "counted", Counter({FIRST: 4}))
    monkeypatch.setattr(Gate, "started_at", 0.0)
    logins = Logins(5, 7)
    logins.phases = [warming(5), measured(7)]
    given = [*await logins.poll(4), *await logins.poll(4)]
    assert [one.record for one in given] == warming(5)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await logins.poll(100)
    assert not Gate.started_at
    Gate.counted[FIRST] = 5
    given += await logins.poll(100)
    assert [one.record for one in given[6:]] == measured(7)
    assert [one.id for one in given] == list(range(14))
    assert Gate.started_at
    assert not await logins.poll(100)


def test_a_hand_over_is_measured_by_what_is_acked_and_by_its_segments() -> None:
    one = handing_over.handed_over_a_second(0.3)
    assert one["value"] == pytest.approx(one["rows"] * one["commits"], rel=0.01)
    assert one["rows"] > 1
    assert 30 < one["bytes"] < 200
    assert one["cores"] > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_way_is_measured_beside_spark_alone() -> None:
    command = [sys.executable, "-m", "benchmarks.bridge", "--json", "--seconds", "2", "--rounds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800)
    results: dict[str, Any] = results_of(done)
    assert {name: one["unit"] for name, one in results.items()} == UNITS
    trip = results[NAMES[1]]
    assert trip["value"] == trip["p50"] <= trip["p99"]
    assert sum(trip[part] for part in bridge.PARTS) == pytest.approx(trip["p50"], rel=0.5)
    assert all(one["spark"] > 0 for one in results.values())
