"""docs/benchmarks.md is what its command makes of the results that are kept, and these tell of no machine's paths."""

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.charts import bars, percentiles
from benchmarks.kept import FOLDER, Kept, kind_of, load, revealing
from benchmarks.page import DRAWING, HEAD, IMAGES, NONE, PAGE, pages, write
from benchmarks.peers.catalogue import LEFT_OUT, PEERS
from benchmarks.peers.inputs import WORKLOADS
from benchmarks.peers.rounds import Cell, Comparison
from benchmarks.sections import number, table
from bridge.compare import environment, results
from topology.core import CORE
from topology.version import version

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MACHINE = {"system": "Linux-6.1-x86_64", "cpu": "Some CPU", "cores": 2, "load": [0.1, 0.2, 0.3]}
VERSIONS = {"python": "3.11.7", "kedge": "0.1.0"}
SETTINGS = {
    "rate": 1000.0,
    "seconds": 20.0,
    "warm_up_s": 5.0,
    "rounds": 2,
    "kill": True,
    "values": ["path"],
    "config": ["durability=process"],
}


def comparison() -> dict[str, Any]:
    """As `kedge compare --json` gives it, of values of its own."""
    fast = results.ModeResult("record", "Kedge, 2 workers", "each once", latencies=[0.2, 0.3, 1.5], arrivals=[0, 1, 2])
    fast.throughput_per_s, fast.cpu_seconds_per_million, fast.memory_mb, fast.start_s = 1000.0, 34.5, 120.0, 0.8
    slow = results.ModeResult(
        "spark:default", "Spark | default", "each once", latencies=[150.0, 180.0], arrivals=[0, 1]
    )
    slow.repeated, slow.kill = 3, results.Kill("the driver", 5.0, 21_000.0, 22_000.0, None)
    none = results.ModeResult("spark:real-time", "Spark, real-time", problem="there is no javac", feeder_limited=True)
    found = results.Comparison(
        "examples/ssh_alerts.py", SETTINGS, environment.machine(), environment.versions(), [fast, slow, none]
    )
    fast.settings = {"--workers": "2"}
    found.notes.append("messages were offered several times over")
    made: dict[str, Any] = json.loads(json.dumps(found.as_json()))
    return made


def peers() -> dict[str, Any]:
    cells = [
        Cell(workload, peer, 1_000, [0.4 + 0.05 * place], [0.2], [0.5], [40.0])
        for workload in WORKLOADS
        for place, peer in enumerate(PEERS)
    ]
    cells[2].problem = "the output differs from Kedge's: 1 row missing"
    return {
        "benchmark": "peers",
        "machine": {**MACHINE, "load_before": 0.05},
        "versions": VERSIONS,
        "settings": {"rounds": 3, "lines": {one.name: 1_000 for one in WORKLOADS}, "log": "made"},
        "workloads": {one.name: one.about for one in WORKLOADS},
        "left_out": LEFT_OUT,
        "interrupted": "",
        "results": Comparison(cells, 3).results(),
    }


def others() -> dict[str, Any]:
    named = [
        {"name": "alert-embedded-1k", "value": 0.0612, "unit": "ms", "p99": 0.2},
        {"name": "recovery-first-ack-ms", "value": 142.0, "unit": "ms", "cases": {"bolt-5k": {"rate": 5_000}}},
    ]
    return {"benchmark": "latency", "machine": MACHINE, "versions": VERSIONS, "results": named}


def kept(stem: str, found: dict[str, Any]) -> Kept:
    kind = kind_of(found)
    assert kind is not None
    return Kept(stem, kind, found)


# -- what is there


def test_the_page_and_its_drawings_are_what_the_command_makes_of_the_kept_results() -> None:
    made = pages(load([*FOLDER.glob("*.json")]))
    stale = [name for name, content in made.items() if (DOCS / name).read_text("utf-8") != content]
    assert stale == [], "make them anew: .venv/bin/python -m benchmarks.page"
    there = {f"{IMAGES}/{path.name}" for path in (DOCS / IMAGES).glob(f"{DRAWING}*.svg")}
    assert there == set(made) - {PAGE}


def test_what_is_kept_is_small_and_tells_of_no_machine() -> None:
    load([*FOLDER.glob("*.json")])


# -- what it makes


def test_without_results_the_page_says_how_to_take_them() -> None:
    assert pages([]) == {PAGE: f"{HEAD}{NONE}"}


def test_a_comparison_has_its_modes_with_percentiles_costs_guarantees_and_why_one_did_not_run() -> None:
    made = pages([kept("compare-1k", comparison())])
    page = made[PAGE]
    assert "## `examples/ssh_alerts.py`, 1,000/s, `durability=process`, with a kill\n" in page
    assert "| Kedge, 2 workers | 0.300 | 1.50 | 1.50 | 1.50 | 1.50 |" in page
    assert "| Spark, real-time | – | – | – | – | – | there is no javac; the feeder was the limit |" in page
    assert "| Kedge, 2 workers | 1,000 | 34.5 | 120 | 0.800 | yes | each once |" in page
    assert r"| Spark \| default | the driver | 21,000 | 22,000 | – | 3 | yes, once 3 repeats are dropped |" in page
    assert "Messages were offered several times over." in page
    assert "- **Kedge, 2 workers**: `--workers` 2" in page
    again = "`kedge compare examples/ssh_alerts.py --set path=… --config durability=process --modes "
    assert f"{again}record,spark:default,spark:real-time --rate 1000 --for 20 --warm-up 5 --rounds 2 --kill`" in page
    assert f"]({IMAGES}/{DRAWING}compare-1k.svg)" in page
    drawn = made[f"{IMAGES}/{DRAWING}compare-1k.svg"]
    assert "examples/ssh_alerts.py, 1,000/s, durability=process, with a kill: from the scheduled time" in drawn
    assert f"{environment.machine()['cores']} cores" in page
    assert f"kedge {version()}, core {CORE.lower()}, python {platform.python_version()}" in page


def test_a_mode_whose_slowest_results_are_not_its_alone_says_so_and_one_of_before_that_was_told_does_not() -> None:
    found = comparison()
    late, untold, *_ = found["modes"]
    late["late_in_tail"] = True
    del untold["late_in_tail"]
    page = pages([kept("compare-1k", found)])[PAGE]
    said = "the feeder was late by more than half of p99: the slowest results are not due to the mode alone"
    assert f"| Kedge, 2 workers | 0.300 | 1.50 | 1.50 | 1.50 | 1.50 | {said} |" in page
    assert page.count(said) == 1


def test_a_comparison_at_saturation_says_so() -> None:
    found = comparison()
    found["settings"]["rate"] = "max"
    made = pages([kept("compare-max", found)])
    assert "all messages at once" in made[PAGE]
    assert "Latency is from when all were due, at once: how long each waited, in ms." in made[PAGE]
    assert "messages/s" in made[f"{IMAGES}/{DRAWING}compare-max.svg"]


def test_peers_have_a_table_a_workload_with_guarantees_problems_and_who_is_left_out() -> None:
    made = pages([kept("peers", peers())])
    page = made[PAGE]
    assert len([name for name in made if name.startswith(f"{IMAGES}/{DRAWING}peers-")]) == len(WORKLOADS)
    assert "| asyncio queues | 5,000 | 1.00 | 500 | 0.200 | 40 | none |" in page
    assert "the output differs from Kedge's: 1 row missing |" in page
    for peer in PEERS:
        assert f"- **{peer.title}**, {peer.guarantee}: {peer.means}." in page
    assert "Quix Streams, which needs a Kafka broker" in page
    assert "Some CPU, 2 cores, Linux-6.1-x86_64, load 0.05 before; python 3.11.7, kedge 0.1.0" in page


def test_which_start_up_is_taken_off_is_said_of_figures_of_before_too() -> None:
    found = peers()
    assert "the least start-up of all rounds is taken off each" in pages([kept("peers", found)])[PAGE]
    for one in found["results"]:
        del one["starts"]
    page = pages([kept("peers", found)])[PAGE]
    assert "each round's own start-up is taken off" in page
    assert "the least start-up" not in page


def test_other_benchmarks_have_a_row_a_figure_and_a_table_of_their_cases() -> None:
    page = pages([kept("latency", others())])[PAGE]
    assert "| `alert-embedded-1k` | 0.061 | ms | 0.200 |" in page
    assert "`recovery-first-ack-ms`, case by case:\n\n|  | rate |\n| --- | --- |\n| `bolt-5k` | 5,000 |" in page
    assert "`.venv/bin/python -m benchmarks.latency`" in page


def test_a_figure_that_few_results_have_stands_behind_them_and_not_in_a_column_of_dashes() -> None:
    found = others()
    found["results"] = [
        {"name": "a", "value": 1, "unit": "ms", "p99": 2.5, "cores": 0.5},
        {"name": "b", "value": 2, "unit": "ms", "p99": 3.5},
        {"name": "c", "value": 3, "unit": "rows/s", "late_p99": 1.25, "rows": 1_000},
    ]
    page = pages([kept("latency", found)])[PAGE]
    assert "|  | value | unit | p99 | also |" in page
    assert "| `a` | 1 | ms | 2.50 | cores 0.500 |" in page
    assert "| `b` | 2 | ms | 3.50 |  |" in page
    assert "| `c` | 3 | rows/s | – | late p99 1.25, rows 1,000 |" in page


def test_a_bar_stands_last_and_what_is_not_measured_yet_is_a_dash() -> None:
    found = others()
    found["results"] = [
        {"name": "a", "value": 1, "unit": "ms", "bar": "< 5: ok"},
        {"name": "b", "value": None, "unit": "ms"},
    ]
    page = pages([kept("latency", found)])[PAGE]
    assert "|  | value | unit | bar |" in page
    assert "| `a` | 1 | ms | < 5: ok |" in page
    assert "| `b` | – | ms |  |" in page
    assert "A row with a dash is not measured yet." in page
    assert "not measured yet" not in pages([kept("latency", others())])[PAGE]


def test_latency_around_a_kill_is_drawn() -> None:
    found = {**others(), "benchmark": "recovery"}
    points = [[-10.0, 0.2, 0.5], [10.0, 150.0, 160.0], [30.0, 0.3, 0.4]]
    cases = {"bolt-5k": {"rate": 5_000, "median": 142.0, "drawn": points}, "spout-5k": {"rate": 5_000, "median": 150.0}}
    found["results"] = [{"name": "recovery-first-ack-ms", "value": 150.0, "unit": "ms", "cases": cases}]
    made = pages([kept("recovery", found)])
    assert "| `bolt-5k` | 5,000 | 142 |" in made[PAGE]
    assert f"]({IMAGES}/{DRAWING}recovery.svg)" in made[PAGE]
    drawn = made[f"{IMAGES}/{DRAWING}recovery.svg"]
    assert "bolt-5k: 5,000 records/s" in drawn
    assert "spout-5k" not in drawn


def test_comparisons_come_first_and_files_of_a_kind_in_the_order_of_their_names() -> None:
    found = [kept("peers", peers()), kept("b", comparison()), kept("a", comparison()), kept("latency", others())]
    page = pages(found)[PAGE]
    places = [page.index(text) for text in (f"{DRAWING}a.svg", f"{DRAWING}b.svg", "## Kedge and its", "## How soon")]
    assert places == sorted(places)


def test_drawings_that_no_section_has_any_more_are_taken_away_and_others_left(tmp_path: Path) -> None:
    images = tmp_path / IMAGES
    images.mkdir()
    for name in (f"{DRAWING}old.svg", "fraud.svg"):
        (images / name).write_text("")
    write(pages([kept("a", comparison())]), tmp_path)
    assert {path.name for path in images.iterdir()} == {f"{DRAWING}a.svg", "fraud.svg"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0.0612, "0.061"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234"), (7, "7"), (0.0, "0.000")],
)
def test_a_number_has_as_many_digits_as_are_worth_reading(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_a_column_that_is_empty_everywhere_is_left_out() -> None:
    assert table(("", "a", ""), [("x", "1", ""), ("y", "", "")]).splitlines()[0] == "|  | a |"
    assert table(("", ""), [("x", "why")]).splitlines()[0] == "|  |  |"


def test_drawings_are_well_formed_and_longer_bars_are_more() -> None:
    drawn = ElementTree.fromstring(bars("A & B", "lines/s", [("one", 100.0, "none", True), ("two", 50.0, "", False)]))
    widths = [float(one.get("width", "0")) for one in drawn.iter() if one.tag.endswith("rect")]
    assert widths[0] == 2 * widths[1]
    assert len(ElementTree.fromstring(percentiles("None", []))) > 1


@pytest.mark.parametrize("drawn", ["bars", "percentiles"])
def test_names_that_differ_at_their_ends_are_drawn_whole_and_inside_the_drawing(drawn: str) -> None:
    names = ["Spark micro-batch, as soon as it can, tuned", "Spark micro-batch, as soon as it can, Spark's defaults"]
    if drawn == "bars":
        root = ElementTree.fromstring(bars("T", "messages/s", [(name, 1.0, "", False) for name in names]))
    else:
        root = ElementTree.fromstring(percentiles("T", [(name, [1.0], False) for name in names]))
    begins = {one.text: float(one.get("x", "0")) for one in root.iter() if one.text in names}
    assert set(begins) == set(names)
    width = float(root.get("width", "0"))
    assert all(begin + 6.5 * len(name) < width for name, begin in begins.items()), "at 12 pixels a letter is up to 6.5"


@pytest.mark.parametrize("drawn", ["bars", "percentiles"])
def test_a_long_title_is_drawn_in_lines_inside_the_drawing(drawn: str) -> None:
    title = "examples/ssh_alerts.py, 10,000/s, durability=process, with a kill: from the scheduled time to the sink"
    root = ElementTree.fromstring(bars(title, "", []) if drawn == "bars" else percentiles(title, []))
    lines = [one.text or "" for one in root.iter() if one.tag.endswith("text") and one.get("font-size") == "14"]
    assert " ".join(lines) == title
    assert all(7.6 * len(one) < float(root.get("width", "0")) for one in lines), "at 14 pixels a letter is up to 7.6"


def test_modes_that_differ_in_their_trigger_alone_tell_their_settings_once_for_all_comparisons() -> None:
    found = comparison()
    for mode, trigger in zip(found["modes"][1:], ("default", "1s"), strict=True):
        mode["settings"] = {"--trigger": trigger, "spark.sql.shuffle.partitions": "2"}
    page = pages([kept("a", found), kept("b", found)])[PAGE]
    told = "**Spark | default** (`--trigger` default), **Spark, real-time** (`--trigger` 1s)"
    assert page.count(f"- {told}: `spark.sql.shuffle.partitions` 2\n") == 1
    assert page.count("shuffle.partitions") == 1
    assert page.count("[below](#what-each-mode-sets)") == 2


def test_a_mode_that_was_set_otherwise_in_another_comparison_says_in_which() -> None:
    one, other = comparison(), comparison()
    other["settings"] = {**other["settings"], "rate": 500.0}
    other["modes"][0]["settings"] = {"--workers": "3"}
    page = pages([kept("a", one), kept("b", other)])[PAGE]
    assert (
        "- **Kedge, 2 workers** in `examples/ssh_alerts.py`, 1,000/s, `durability=process`, with a kill: `--w" in page
    )
    assert "- **Kedge, 2 workers** in `examples/ssh_alerts.py`, 500/s, `durability=process`, with a kill: `--w" in page


def test_percentiles_stand_on_a_logarithmic_axis() -> None:
    drawn = ElementTree.fromstring(percentiles("T", [("one", [1.0, 10.0, 100.0], True)]))
    places = [float(one.get("cx", "0")) for one in drawn.iter() if one.tag.endswith("circle")]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.2)


# -- what is refused


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "no object of a benchmark's --json"),
        (json.dumps({"benchmark": "x", "results": [{"name": "read from /home/somebody/log"}]}), "tells of the machine"),
        (json.dumps({"benchmark": "x", "results": [], "a": "path=/srv/x.log"}), "tells of the machine"),
        (json.dumps({"benchmark": "x", "results": [], "a": "y" * 200_000}), "bytes, and may have 200,000"),
    ],
)
def test_a_file_that_may_not_be_kept_is_refused_with_a_sentence(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.page", str(path), "--docs", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / PAGE).exists()


def test_units_and_shares_are_no_paths_and_a_host_is_told_by_its_name() -> None:
    plain = {"unit": "roots/s", "a": "p99/max ms", "b": "benchmarks/results", "c": "1 / 2", "d": "Linux-6.1-x86_64"}
    assert list(revealing(plain, "some-host")) == []
    assert list(revealing({"system": "Linux some-host"}, "some-host")) == ["Linux some-host"]
