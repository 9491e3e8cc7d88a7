"""The recovery benchmark, with one kill of each kind: its figures, its drawing, and that what it counts is so."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.kills import _Acked, _in_flight
from benchmarks.plot import svg
from benchmarks.schedule import LANES, TASKS, Log, Scheduled, lane_of, scheduled
from topology import Task
from topology.groupings import Fields
from topology.plan import plan
from topology.runtime.clock import LoopClock
from topology.storage.directory.state_dir import MemoryNotes

ROOT = Path(__file__).resolve().parents[2]
CASES = ["bolt-5k", "spout-5k", "bolt-80", "fail-all-2w"]
FIGURES = {"recovery-first-ack-ms": CASES[:3], "recovery-all-ms": CASES[:3], "fail-all-ms": CASES[3:]}


def run(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks.recovery", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)


@dataclass
class Done:
    results: dict[str, Any]
    drawing: ElementTree.Element


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    drawing = tmp_path_factory.mktemp("plot") / "recovery.svg"
    done = run("--json", "--kills", "1", "--seconds", "0.2", "--plot", str(drawing), *CASES)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert list(results) == ["benchmark", "machine", "versions", "results"]
    return Done({one["name"]: one for one in results["results"]}, ElementTree.parse(drawing).getroot())


# -- the command


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["bolt-6k"], "there is no 'bolt-6k'; the names are bolt-5k, "),
        (["--kills", "0"], "at least one kill"),
        (["--seconds", "nan"], "more than 0 seconds"),
        (["--plot", "x.svg", "fail-all-2w"], "something to draw for bolt-5k, "),
        (["--plot", "no-such-folder/x.svg"], "in a folder that is not there"),
    ],
)
def test_a_wrong_option_ends_with_status_2_and_a_sentence(options: Sequence[str], said: str) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert said in done.stderr
    assert not done.stdout


@pytest.mark.slow
def test_one_object_has_all_figures_each_the_highest_of_its_cases(done: Done) -> None:
    assert list(done.results) == list(FIGURES)
    for name, one in done.results.items():
        assert list(one["cases"]) == FIGURES[name]
        assert one["unit"] == "ms"
        assert 0 < one["value"] == max(case["median"] for case in one["cases"].values()) <= one["worst"]


@pytest.mark.slow
def test_all_that_was_due_is_acked_after_the_first_that_needed_the_dead_worker(done: Done) -> None:
    first, every = (done.results[f"recovery-{which}-ms"]["cases"] for which in ("first-ack", "all"))
    for case in CASES[:3]:
        assert 10 < first[case]["median"] <= every[case]["median"]  # no process starts faster: these were replays
        assert first[case]["in_flight"] >= 1
        assert first[case]["failed"] >= 1


@pytest.mark.slow
def test_the_second_rate_is_a_share_of_a_saturation_that_was_measured(done: Done) -> None:
    case = done.results["recovery-all-ms"]["cases"]["bolt-80"]
    assert case["rate"] == pytest.approx(0.8 * case["saturation"], abs=1)
    assert case["rate"] > 0


@pytest.mark.slow
def test_failing_all_trees_is_the_failing_and_the_replaying(done: Done) -> None:
    case = done.results["fail-all-ms"]["cases"]["fail-all-2w"]
    assert case["median"] == pytest.approx(case["fail"] + case["replay"], abs=0.02)


@pytest.mark.slow
def test_the_drawing_has_a_panel_a_case_and_names_its_axes_with_their_units(done: Done) -> None:
    texts = [one.text or "" for one in done.drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("latency, ms") == 3
    assert texts.count("when the record was due, s from the kill") == 3
    assert [text.split(":")[0] for text in texts if text.endswith("records/s")] == CASES[:3]
    assert {"median", "highest", "the kill"} <= set(texts)


@pytest.mark.slow
def test_the_object_has_what_is_drawn_of_each_case_for_the_page(done: Done) -> None:
    for case in done.results["recovery-first-ack-ms"]["cases"].values():
        times = [point[0] for point in case["drawn"]]
        assert times == sorted(times)
        assert times[0] < 0 < times[-1]
        assert all(0 <= median <= highest for _, median, highest in case["drawn"])


def test_people_get_a_table() -> None:
    done = run("--kills", "1", "--seconds", "0.2", "fail-all-2w")
    assert done.returncode == 0, done.stderr
    assert "fail-all-ms: median" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("fail-all-2w ")


# -- the drawing


def test_everything_drawn_is_inside_the_drawing_whatever_the_latency() -> None:
    points = [(-1000.0, 0.0, 0.001), (0.0, 5.0, 90_000.0), (2990.0, 1.0, 2.0)]
    root = ElementTree.fromstring(svg("a < b & c", "the event", [("one", points), ("two", points), ("three", [])]))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    pairs = [one.split(",") for line in root.iter("{http://www.w3.org/2000/svg}polyline") for one in _points(line)]
    assert len(pairs) == 2 * 2 * len(points)
    assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in pairs)


def _points(line: ElementTree.Element) -> list[str]:
    return line.attrib["points"].split()


# -- what is run


def test_the_killed_worker_has_a_task_of_the_bolt_and_where_that_is_wanted_a_spout() -> None:
    for spouts in (1, 2):
        placed = plan(scheduled("log", spouts, 10, 1.0), 2).placement
        there = [at for at, worker in placed.items() if worker == 1]
        assert there == [*([("records", 1)] if spouts == 2 else []), ("marks", 1)]


def test_half_of_each_spouts_records_need_the_killed_worker() -> None:
    for spouts in (1, 2):
        for task in range(spouts):
            lanes = [lane_of(n, spouts) for n in range(task, 12, spouts)]
            assert lanes == [0, 1] * (len(lanes) // 2)
    choose = Fields(("lane",)).one(TASKS, (), Random(0))
    message = Scheduled("", 2, 10, 1.0)
    message.index = 0
    assert [choose(message._message(own).record, 0) for own in range(4)] == [0, 1, 0, 1]
    assert len(set(LANES)) == TASKS


def spout_of(path: Path, spouts: int, task: int, rate: float = 1e9, capacity: int = 10) -> Scheduled:
    spout = Scheduled(str(path), spouts, capacity, rate)
    clock = LoopClock(asyncio.get_running_loop())
    spout.open(Task("schedule", "records", task, spouts, clock, Random(0), MemoryNotes()), {})
    return spout


async def test_a_spout_whose_worker_was_killed_goes_on_with_what_is_not_acked(tmp_path: Path) -> None:
    log = Log.make(tmp_path / "log", 2, 10)
    log.start[0] = time.perf_counter()
    first = spout_of(tmp_path / "log", 2, 1)
    given = [message.id for message in await first.poll(6)]
    assert given == [1, 3, 5, 7, 9, 11]
    for number in (1, 3, 7):
        first.ack(number)
    second = spout_of(tmp_path / "log", 2, 1)
    assert [message.id for message in await second.poll(2)] == [5, 9]
    assert [message.id for message in await second.poll(9)] == [11]
    assert [message.id for message in await second.poll(2)] == [13, 15]
    assert log.given[1] == 8
    assert log.given[0] == 0


async def test_no_record_comes_before_it_is_due(tmp_path: Path) -> None:
    log = Log.make(tmp_path / "log", 1, 1_000)
    spout = spout_of(tmp_path / "log", 1, 0, rate=1_000.0, capacity=1_000)
    start = log.start[0] = time.perf_counter() + 0.02
    count = 0
    while count < 20:
        count += len(await spout.poll(1_000))
        assert (count - 1) / 1_000.0 <= time.perf_counter() - start


def test_in_flight_is_what_was_polled_is_not_acked_and_needs_the_killed_worker(tmp_path: Path) -> None:
    log = Log.make(tmp_path / "log", 2, 10)
    log.given[0], log.given[1] = 6.0, 4.0
    for own in (0, 1, 4):
        log.acked[0][own] = 1.0
    assert _in_flight(log, 2) == [6, 10, 3, 7]  # of the first spout the records 0, 2, 8 are acked
    assert log.open_of(0, 0, 10) == [2, 3, 5, 6, 7, 8, 9]


def test_all_are_acked_once_none_below_the_count_is_missing(tmp_path: Path) -> None:
    log = Log.make(tmp_path / "log", 2, 10)
    acked = _Acked(log, 2, 5)  # 0, 2, 4 of the first spout, 1 and 3 of the second
    for number in (0, 1, 2, 4):
        assert not acked()
        log.acked[number % 2][number // 2] = 1.0
    assert not acked()
    log.acked[1][1] = 1.0
    assert acked()


def test_the_log_shows_at_once_what_another_process_has_written_before_it_was_killed(tmp_path: Path) -> None:
    log = Log.make(tmp_path / "log", 1, 10)
    code = (
        "import os, signal, sys; from benchmarks.schedule import Log; "
        "Log(sys.argv[1], 1, 10).acked[0][3] = 7.5; os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "log")], cwd=ROOT)
    assert done.returncode == -9
    assert log.acked[0][3] == 7.5
