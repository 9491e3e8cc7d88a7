"""The example of timers: hosts fall silent and come back on virtual time, and each is told of once, whatever dies."""

import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from example_kit import run_example

from examples.silent_hosts import Back, Heard, ParseHost, Silent, WatchHosts, topology
from spouts import Line
from topology import ConfigurationError, Topology
from topology.testing import Captured, Crash, Pause, ScriptedSpout, Wait, run_bolt, run_topology
from topology.testing.virtual_time.loop import START

Script = Sequence[Heard | Pause | Wait]
A, B = Heard("a"), Heard("b")
Told = list[tuple[str, int]]  # host, and the second of the time that is told


def watching(script: Script) -> tuple[Topology, Captured[Silent], Captured[Back]]:
    silent, back, watched = Captured[Silent](), Captured[Back](), Topology("watching")
    heard = watched.spout("heard", ScriptedSpout[Heard](script))
    told = watched.bolt("watch", WatchHosts(10 / 60), heard.fields("host"), tasks=2)
    watched.bolt("silent", silent, told[Silent].global_())
    watched.bolt("back", back, told[Back].global_())
    return watched, silent, back


def told(silent: Captured[Silent], back: Captured[Back]) -> tuple[Told, Told]:
    """Each once, as a sink that drops replays has it."""
    return (
        sorted((one.host, round((one.since - START) / timedelta(seconds=1))) for one in silent.distinct.values()),
        sorted((one.host, round((one.at - START) / timedelta(seconds=1))) for one in back.distinct.values()),
    )


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ([A, Pause(9), A, Pause(9), A, Pause(9)], ([], [])),  # each line moves it
        ([A, Pause(60)], ([("a", 0)], [])),  # told once, and not each ten seconds
        ([A, B, Pause(8), A, Pause(8)], ([("b", 0)], [])),  # hosts are watched apart
        ([A, Pause(15), A, Pause(0.5), A, Pause(5)], ([("a", 0)], [("a", 15)])),  # back is told once
        ([A, Pause(15), A, Pause(15)], ([("a", 0), ("a", 15)], [("a", 15)])),
        ([A, Pause(9.9), A], ([], [])),  # what is not due when the log ends waits for the next run
    ],
)
def test_a_host_is_told_once_when_it_falls_silent_and_once_when_it_is_back(
    tmp_path: Path, script: Script, expected: tuple[Told, Told]
) -> None:
    watched, silent, back = watching(script)
    assert run_topology(watched, state_dir=tmp_path).exit_status == 0
    assert told(silent, back) == expected


@pytest.mark.parametrize("seed", range(3))
def test_whichever_worker_dies_each_is_told_once_b10_d1(tmp_path: Path, seed: int) -> None:
    hosts = [Heard(f"h{n}") for n in range(20)]
    script: Script = [*hosts, Pause(5), *hosts[:10], Pause(8), *hosts[10:], Pause(20)]
    watched, silent, back = watching(script)
    crashes = [Crash(0, acked=25), Crash(1, acked=35)]
    report = run_topology(watched, seed=seed, workers=2, state_dir=tmp_path, crashes=crashes)
    assert (report.exit_status, report.restarts) == (0, 2)
    found_silent, found_back = told(silent, back)
    assert {host for host, _ in found_silent} == {one.host for one in hosts}
    assert len(found_silent) == len({*found_silent})
    assert [host for host, _ in found_back] == sorted({host for host, at in found_silent if at == 0})


def test_after_a_stop_a_host_has_its_full_time_to_be_heard_and_then_is_told(tmp_path: Path) -> None:
    first, silent, back = watching([A, B, Wait()])
    run_topology(first, state_dir=tmp_path, until_s=1)
    assert told(silent, back) == ([], [])
    hours = timedelta(hours=5)
    second, silent, back = watching([A, B, Pause(9), A, Pause(9)])  # A and B are passed over: done
    run_topology(second, state_dir=tmp_path, start=START + hours)
    assert silent.records == [Silent("b", START)]
    assert [round(at) for at in silent.times] == [10]
    assert back.records == []


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        ("Dec  9 06:55:46 web1 sshd[1]: hello", ["web1"]),
        ("Dec 19 06:55:46 web1 sshd[1]: hello", ["web1"]),
        ("2026-12-09T06:55:46.123456+00:00 db-2.example kernel: hello", ["db-2.example"]),
        ("Dec  9 06:55:46 web1", []),  # cut off
        ("  at web1 something.py", []),
        ("", []),
    ],
)
def test_the_host_is_found_in_both_forms_of_syslog_and_other_lines_say_nothing(line: str, hosts: list[str]) -> None:
    assert [one.host for one in run_bolt(ParseHost(), [Line(line)]).well().outputs] == hosts


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan"), float("inf")])
def test_a_patience_that_is_none_is_refused(minutes: float) -> None:
    with pytest.raises(ConfigurationError, match="minutes is a number above 0"):
        topology(minutes=minutes)


@pytest.mark.slow
def test_a_log_is_read_and_a_next_run_tells_of_the_hosts_that_were_in_it(tmp_path: Path) -> None:
    (tmp_path / "syslog").write_text("".join(f"Dec  9 06:55:{n:02} host{n % 3} cron[7]: hello\n" for n in range(30)))
    settings = ("--set", "path=syslog", "--set", "minutes=0.02")
    ran = run_example("silent_hosts.py", *settings, cwd=tmp_path)
    assert "  state    watch: 3 keys" in ran.stdout.splitlines()
    run_example("silent_hosts.py", *settings, "--set", "follow=true", "--for", "4", cwd=tmp_path, workers=2)
    database = sqlite3.connect(tmp_path / "hosts.db")
    assert database.execute("SELECT host FROM silent ORDER BY host").fetchall() == [(f"host{n}",) for n in range(3)]
    database.close()
