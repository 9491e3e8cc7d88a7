"""The host watch: its rule on made readings, its source on virtual time, and both on this machine."""

import itertools
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from example_kit import EXAMPLES, kedge

from examples.host_watch import READERS, Alert, Host, Reading, Watch, topology
from topology import ConfigurationError, Message, Task, Topology
from topology.storage.directory.state_dir import MemoryNotes
from topology.testing import Captured, Pause, ScriptedSpout, check_replays, run_bolt, run_topology, run_virtual

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def readings(percents: list[float], what: str = "cpu") -> list[Reading]:
    return [Reading(what, float(percent), START + timedelta(seconds=n)) for n, percent in enumerate(percents)]


@pytest.mark.parametrize(
    ("percents", "alerts"),
    [
        ([91, 91, 89, 91, 91], []),
        ([90, 90, 90, 90], []),  # at its limit is not over it
        ([91, 91, 91, 91, 91], [(True, 2)]),
        ([91, 91, 91, 85, 85, 85, 91, 91, 91], [(True, 2)]),  # under its limit, not well under it
        ([91, 91, 91, 80, 80, 81, 80, 80], [(True, 2)]),
        ([91, 91, 91, 80, 80, 80, 91, 91, 91], [(True, 2), (False, 5), (True, 8)]),
    ],
)
def test_an_alert_comes_after_three_readings_over_the_limit_and_another_after_three_well_under_it(
    percents: list[float], alerts: list[tuple[bool, int]]
) -> None:
    done = run_bolt(Watch(cpu=90.0), readings(percents), by=("what",))
    assert [(one.over, (one.at - START).seconds) for one in done.outputs] == alerts


def test_kinds_are_watched_apart_each_by_its_limit() -> None:
    mixed = [one for pair in zip(readings([50] * 3), readings([50] * 3, "disk"), strict=True) for one in pair]
    done = run_bolt(Watch(cpu=90.0, disk=40.0), mixed, by=("what",))
    assert [str(one) for one in done.outputs] == ["12:00:02 UTC  disk has been over its limit: 50 %"]


def test_b4_a_replay_of_every_reading_changes_no_alert() -> None:
    def make(sink: Captured[Alert]) -> Topology:
        script = [Pause(0.5), *readings([99, 99, 99, 99, 10, 10, 10]), Pause(1), *readings([99] * 3, "load")]
        topology = Topology("watching")
        stream = topology.spout("host", ScriptedSpout[Reading](script))
        alerts = topology.bolt("watch", Watch(cpu=90.0, load=90.0), stream.fields("what"), tasks=2)
        topology.bolt("sink", sink, alerts.global_())
        return topology

    alerts = check_replays(make).values()
    assert sorted((one.what, one.over) for one in alerts) == [("cpu", False), ("cpu", True), ("load", True)]


# -- the source


def watched(until_s: float, host: Host, tasks: int = 1) -> Captured[Reading]:
    captured = Captured[Reading]()
    topology = Topology("host")
    topology.bolt("captured", captured, topology.spout("host", host, tasks=tasks).global_())
    assert run_topology(topology, until_s=until_s, start=START).exit_status == 0
    return captured


def test_a_second_task_would_read_the_same_machine_and_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'host' reads one machine, so it has one task, not 2"):
        watched(1, Host(), tasks=2)


def test_each_kind_is_read_once_a_second() -> None:
    records = watched(5.5, Host()).records
    assert len(records) == 5 * len(READERS)
    for kind in READERS:
        times = [(one.at - START).total_seconds() for one in records if one.what == kind]
        assert [later - earlier for earlier, later in itertools.pairwise(times)] == pytest.approx([1.0] * 4)
    assert all(one.percent >= 0 for one in records)


class Still:
    """A clock that stands just before a full second."""

    def monotonic(self) -> float:
        return 0.9995

    def utc(self) -> datetime:
        return START


async def polled(positions: dict[str, int], limit: int) -> list[Message[Reading]]:
    """Two readings of each kind, in polls of so many."""
    host = Host()
    host.open(Task("watch", "host", 0, 1, Still(), Random(0), MemoryNotes()), positions)
    return [message for _ in range(2 * len(READERS) // limit) for message in await host.poll(limit)]


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_a_poll_for_less_than_there_is_leaves_the_rest_for_the_next_one(limit: int) -> None:
    messages = run_virtual(polled({}, limit))
    assert [one.record.what for one in messages] == [*READERS, *READERS]
    assert all(one.partition == one.record.what and one.at == one.record.at for one in messages)


def test_c2_ids_grow_though_the_clock_was_set_back_between_two_runs() -> None:
    before = int((START + timedelta(hours=1)).timestamp() * 1_000_000)
    messages = run_virtual(polled({"cpu": before, "disk": before - 7}, limit=4))
    for kind in READERS:
        first, second = (one.id for one in messages if one.partition == kind)
        assert isinstance(first, int)
        assert isinstance(second, int)
        assert before < first < second


def test_all_limits_can_be_set() -> None:
    (watch,) = (one.prototype for one in topology(1.0, 2.0, 3.0, 4.0).components if one.name == "watch")
    assert watch.limits == dict(zip(READERS, (1.0, 2.0, 3.0, 4.0), strict=True))


@pytest.mark.parametrize("limit", [float("nan"), -5.0])
def test_a_limit_that_is_no_percentage_is_refused(limit: float) -> None:
    with pytest.raises(ConfigurationError, match=f"a limit is a number of percent, 0 or more, not disk={limit}"):
        topology(disk=limit)


# -- this machine


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_limit_that_is_always_exceeded_is_told_of_once(tmp_path: Path, workers: str) -> None:
    limits = [f"--set={kind}=1e9" for kind in READERS if kind != "memory"]
    command = [sys.executable, "-m", "kedge", "run", str(EXAMPLES / "host_watch.py"), "--set=memory=0", *limits]
    with subprocess.Popen(
        [*command, "--for", "60", "--workers", workers], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        told = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        rest = running.stdout.read()
    assert "UTC  memory has been over its limit: " in told
    assert running.returncode == 0
    assert "memory" not in rest.split("host-watch")[0], "and not again"


def test_without_psutil_the_extra_to_install_is_named(tmp_path: Path) -> None:
    (tmp_path / "psutil.py").write_text("raise ModuleNotFoundError(\"No module named 'psutil'\", name='psutil')\n")
    ran = kedge("run", str(EXAMPLES / "host_watch.py"), cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert ran.returncode == 2
    assert "pip install 'kedge-streams[host]'" in ran.stderr
