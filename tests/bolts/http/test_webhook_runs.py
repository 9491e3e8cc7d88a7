"""Whole runs to a web hook: a receiver that drops known keys gets each record once, whatever fails or is killed."""

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from aiohttp import web
from hook_kit import HookServer, Posted, hook_server

from topology.testing import Crash, run_processes

FILE = Path(__file__).with_name("hook_topology.py")
FEW, MANY = 5_000, 100_000


def assert_each_once(server: HookServer, count: int) -> None:
    found = Counter((posted.json["number"], posted.json["times"]) for posted in server.stored.values())
    assert {number for number, _ in found} == set(range(1, count + 1))
    assert found == Counter(dict.fromkeys(((number, 1) for number in range(1, count + 1)), 1))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_each_record_is_stored_once_though_the_server_fails_and_workers_are_killed(tmp_path: Path, count: int) -> None:
    random = Random(7)

    async def moody(posted: Posted) -> int | web.StreamResponse | None:
        drawn = random.random()
        if drawn < 0.05:
            return 500
        if drawn < 0.06:
            return web.Response(status=429, headers={"Retry-After": "0"})
        if drawn < 0.06 + 20 / count:
            await asyncio.sleep(3)  # longer than the sink waits; stored all the same
        elif drawn < 0.07:
            server.loses = 1
        return None

    with hook_server(moody) as server:
        report = run_processes(
            FILE,
            set={"port": server.port, "count": count, "tasks": 2},
            crashes=[Crash("hook"), Crash("count"), Crash("hook")],
            when=lambda: len(server.stored) >= count // 10,
            state_dir=tmp_path / "state",
            within_s=250,
        )
        assert report.exit_status == 0, report.output
        assert len(report.killed) == 3
        assert_each_once(server, count)
        assert len(server.posted) > count * 1.04, "much was sent again"


def kedge(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kedge", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=90, check=False)


def test_a_refused_record_is_a_dead_letter_with_the_answer_and_may_be_replayed(tmp_path: Path) -> None:
    def picky(posted: Posted) -> int | web.StreamResponse | None:
        bad = web.Response(status=422, text="a number\nmust not be 13")
        return bad if posted.json["number"] == 13 else None

    with hook_server(picky) as server:
        state = ("--state-dir", str(tmp_path / "state"))
        arguments = ("--set", f"port={server.port}", "--set", "count=40")
        ran = kedge(tmp_path, "run", str(FILE), *state, *arguments)
        assert ran.returncode == 1, ran.stderr
        assert f"hook: 39 delivered to {server.url}, 0 known already, 1 failed" in ran.stderr + ran.stdout
        shown = kedge(tmp_path, "dead", "show", "0-1", *state).stdout
        assert "rejected" in shown
        assert "answers 422 Unprocessable Entity: a number must not be 13" in " ".join(shown.split())
        assert Counter(posted.json["number"] for posted in server.posted)[13] == 1
        server.answers = None
        again = kedge(tmp_path, "dead", "replay", "--all", *state)
        assert again.returncode == 0, again.stderr
        ran = kedge(tmp_path, "run", str(FILE), *state, *arguments)
        assert ran.returncode == 0, ran.stderr
        assert_each_once(server, 40)


def test_a_record_that_only_fails_itself_dies_and_the_run_ends(tmp_path: Path) -> None:
    with hook_server(lambda posted: 500 if posted.json["number"] == 13 else None) as server:
        report = run_processes(
            FILE,
            set={"port": server.port, "count": 500, "for_s": 0.0},
            state_dir=tmp_path / "state",
            within_s=90,
        )
        assert report.snapshot.total("dead") == 1
        assert {posted.json["number"] for posted in server.stored.values()} == {*range(1, 501)} - {13}
