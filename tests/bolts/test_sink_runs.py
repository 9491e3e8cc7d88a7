"""Sinks in real runs: a store that is away in mid-run (F43), one that breaks (F18), a drain while it is away (F55)."""

import asyncio
import sqlite3
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sink_kit import sqlite_rows, until

from bolts import SqliteSink
from spouts import Items
from topology import Config, Record, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import run_processes

COUNT = 1_500


class Row(Record):
    number: int


def over(path: Path, **settings: object) -> Topology:
    topology = Topology("rows", config=Config(**{"max_replays": 0, **settings}))  # type: ignore[arg-type]
    rows = topology.spout("rows", Items([Row(number) for number in range(COUNT)]))
    topology.bolt("store", SqliteSink(path, records=(Row,), batch=50, within_ms=1), rows.global_())
    return topology


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The file as another program holds it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("COMMIT")


async def test_f43_a_file_locked_in_mid_run_fails_nothing_and_each_row_is_stored_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rows.db"
    run = EmbeddedRun(over(path, tree_timeout_s=1.0, process_timeout_s=0.5))
    finishing = asyncio.ensure_future(run.finish())
    await until(lambda: path.exists() and _has_table(path))
    with locked(path):
        await until(lambda: "its inputs wait (K546)" in caplog.text or finishing.done())
    report = await finishing
    counts = report.snapshot.spouts["rows"]
    assert (counts.acked, counts.failed, counts.dead) == (COUNT, 0, 0)
    assert sorted(row["number"] for row in sqlite_rows(path)) == list(range(COUNT))
    assert "its store is back" in caplog.text


async def test_f55_a_drain_while_the_store_is_away_ends_in_its_time_and_no_message_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    run = EmbeddedRun(over(path, drain_timeout_s=0.5))
    finishing = asyncio.ensure_future(run.finish())
    await until(lambda: path.exists() and _has_table(path))
    with locked(path):
        await until(lambda: any(one.bolt.away for one in run.workers[0].executors.values()))
        run.drain()
        report = await finishing
    assert report.snapshot.spouts["rows"].dead == 0
    assert report.aborted > 0
    assert report.exit_status == 1


def _has_table(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'row'").fetchone())


BREAKS_ONCE = """
    from pathlib import Path

    from bolts import SqliteSink
    from bolts.sinks.contract import SinkStoreBroken
    from spouts import Items
    from topology import Config, Record, Topology


    class Row(Record):
        number: int


    class Breaking:
        def __init__(self, store, flag):
            self.store, self.flag, self.writes = store, flag, 0
            self.open, self.close = store.open, store.close

        def write(self, tuples):
            self.writes += 1
            if self.writes == 3 and not self.flag.exists():
                self.flag.touch()
                raise SinkStoreBroken("fsync: input/output error")
            return self.store.write(tuples)


    class BreakingSink(SqliteSink):
        def _make_store(self):
            return Breaking(super()._make_store(), Path(self.path + ".broke"))


    def topology(path: str) -> Topology:
        topology = Topology("breaks", config=Config(max_replays=0))
        rows = topology.spout("rows", Items([Row(number) for number in range(1500)]))
        topology.bolt("store", BreakingSink(path, batch=50), rows.global_())
        return topology
"""


def test_f18_a_worker_whose_sink_breaks_ends_without_an_ack_and_its_successor_stores_each_row_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "breaks.py").write_text(textwrap.dedent(BREAKS_ONCE))
    path = tmp_path / "rows.db"
    report = run_processes(tmp_path / "breaks.py", set={"path": str(path)}, workers=1)
    assert report.restarts == 1, report.told
    assert report.exit_status == 0, report.told
    assert sorted(row["number"] for row in sqlite_rows(path)) == list(range(COUNT))
