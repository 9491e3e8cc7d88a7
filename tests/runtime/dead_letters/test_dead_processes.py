"""Dead letters in worker processes: kept by the one that has the spout, read by bolts elsewhere, replayed by a word.

Real processes, SIGKILL, and rows counted by SQL.
"""

import asyncio
import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from dead_topologies import LOADER, Number, made
from letters_kit import asked, letters_of

from topology.records import decoder
from topology.runtime.run.report import Report
from topology.runtime.supervisor.supervisor import SupervisedRun

COUNT = 2_000
BAD = {n for n in range(COUNT) if n % 100 == 7}
PATIENCE_S = 30.0


def supervised(directory: Path) -> SupervisedRun:
    given = {"directory": str(directory), "count": COUNT}
    return SupervisedRun(
        made(**given),  # type: ignore[arg-type]
        workers=2,
        loader=LOADER,
        arguments=given,
        state_dir=directory / "state",
        random=Random(20),
    )


async def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} has not come"
        await asyncio.sleep(0.01)


def dead(run: SupervisedRun) -> int:
    snapshot = run.snapshot()
    return snapshot.total("dead") if snapshot is not None else 0


def rows(directory: Path, database: str, query: str) -> list[object]:
    with contextlib.closing(sqlite3.connect(directory / database)) as store:
        return [row[0] for row in store.execute(query)]


async def ended(run: SupervisedRun, ending: "asyncio.Task[Report]") -> Report:
    async with asyncio.timeout(PATIENCE_S):
        return await ending


@pytest.mark.parametrize("worker", [0, 1])
async def test_letters_outlive_their_worker_and_are_replayed_and_read_once(tmp_path: Path, worker: int) -> None:
    run = supervised(tmp_path)
    ending = asyncio.ensure_future(run.finish())
    try:
        await until(lambda: dead(run) > 3, "a few dead messages")
        os.kill(run.processes()[worker], signal.SIGKILL)
        await until(lambda: run.restarts == 1 and not run.away(), "a replacement")

        async def names() -> list[str]:
            page = await asked(run, "list")  # type: ignore[arg-type]  # any run
            assert page.problem == ""
            return [letter.name for letter in letters_of(page)]

        while len(await names()) < len(BAD):  # noqa: ASYNC110 – as above
            await asyncio.sleep(0.05)
        shown = letters_of(await asked(run, "show"))  # type: ignore[arg-type]
        assert sorted(letter.id for letter in shown) == sorted(BAD)  # type: ignore[type-var]
        assert all(decoder(Number)(one.record).n == one.id for one in shown)
        (tmp_path / "mended").touch()
        answer = await asked(run, "replay")  # type: ignore[arg-type]
        assert (len(answer.names), answer.problem) == (len(BAD), "")
        while await names():  # noqa: ASYNC110 – as above
            await asyncio.sleep(0.05)
        (tmp_path / "enough").touch()
        report = await ended(run, ending)
    finally:
        run.abort()
        await asyncio.gather(ending, return_exceptions=True)
    assert rows(tmp_path, "store.db", "SELECT n FROM number ORDER BY n") == [*range(COUNT)]
    assert sorted(map(int, rows(tmp_path, "pages.db", "SELECT message_id FROM dead_letter"))) == sorted(BAD)  # type: ignore[arg-type]
    assert report.ended == "ended"
    assert report.snapshot.letters == 0
    total = report.snapshot.total
    assert total("emitted") == total("acked") + total("dead") + total("pending")
