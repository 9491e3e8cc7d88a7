"""Sinks of a topology on Spark whose store any process may write: in Spark's own processes, into a real PostgreSQL."""

import contextlib
import re
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("psycopg", reason="needs pip install 'kedge-streams[postgres]'")
pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")

from engine_postgres_kit import a_database, held
from engine_topology import Counted, Odd, Total, topology
from postgres_kit import Database
from postgres_proxy import PostgresProxy
from spark_kit import needs_spark
from test_engine_in_spark import COUNT, Lives, embedded

from bridge.engine.python_process import Process, PythonProcess
from bridge.engine.query import stored
from bridge.engine.rows import REJECTED, EngineRow, batch_of, position_of, rejected_of, row_of, rows_of
from bridge.queries.options import DEFAULT
from topology import Record, Tuple
from topology.core.source import Source
from topology.records import encode

pytestmark = [needs_spark, pytest.mark.service("postgres"), pytest.mark.timeout(240)]


@pytest.fixture
def database() -> Iterator[Database]:
    with a_database() as one:
        yield one


# -- in Spark


def named(database: Database) -> tuple[str, str]:
    """A dsn whose connections have a name of their own, and the name."""
    name = f"kedge-{secrets.token_hex(4)}"
    return f"{database.dsn}{'&' if '?' in database.dsn else '?'}application_name={name}", name


def writers(database: Database, name: str) -> Counter[int]:
    """Processes of Spark's below this one, and how many of the connections with this name each of them has."""
    asked = "SELECT client_port AS port FROM pg_stat_activity WHERE application_name = %s"
    ports = {row["port"] for row in database.do(asked, name)}
    found: Counter[int] = Counter()
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            own = one.net_connections("tcp") if "pyspark.daemon" in one.cmdline() else []
            found.update(one.pid for each in own if each.raddr and each.laddr.port in ports)
    return found


def test_they_hold_what_they_hold_after_a_run_of_kedge_and_each_process_has_one_connection(
    session: Any, tmp_path: Path, database: Database
) -> None:
    """B1, C4: a batch that is computed again, in the next life of the driver, finds its rows known."""
    messages, _ = embedded(tmp_path)
    with Database(database.dsn, f"{database.schema}_kedge").there() as other:
        run = topology(str(tmp_path / "kedge" / "other.db"), COUNT, dsn=other.dsn, schema=other.schema).run()
        assert run.exit_status == 1, "for the rejected one"
        wanted = held(other)
    dsn, name = named(database)
    lives = Lives(session, tmp_path, DEFAULT, dsn=dsn, schema=database.schema)
    running = lives.begin()
    for begin in range(0, 200, 50):
        lives.put(messages[begin : begin + 50])
    lives.until(running, lambda: len(held(database)["counted"]) > 0)
    found = writers(database, name)
    running.close()  # as a kill ends it, for all that it keeps
    assert set(found.values()) == {1}, "one a process of Spark's, and some of these have one"

    running = lives.begin()
    lives.put(messages[200:])
    lives.segments.end(lives.next)
    lives.until(running, lambda: lives.query.ended() is not None)
    assert held(database) == wanted
    tables = ", ".join(f"{database.schema}.{one}" for one in ("counted", "total"))
    facts = rf", in {tables} of {re.escape(where(database))}\", \"store: PostgreSQL \d+\S*, fsync on, "
    said = re.search(rf'"store: ([\d,]+) in", "store: ([\d,]+) stored, ([\d,]+) known already{facts}', summary(lives))
    assert said is not None, summary(lives)
    taken, fresh, known = (int(one.replace(",", "")) for one in said.groups())
    assert taken == fresh + known > 0
    running.close()


def where(database: Database) -> str:
    from bolts.sinks.postgres.dsn import Dsn

    return Dsn(database.dsn).where


def summary(lives: Lives) -> str:
    return (lives.query.folder / "summary").read_text()


# -- a process of Spark's, without Spark


class Added:
    """In place of an accumulator of Spark's."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def add(self, counts: dict[tuple[str, str], int]) -> None:
        self.counts.update(counts)


@pytest.fixture
def process_of(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    made: list[Process] = []

    def process_of(dsn: str, schema: str) -> Process:
        file = str(Path(__file__).with_name("engine_topology.py"))
        given = {"store": str(tmp_path / "rows.db"), "dsn": dsn, "schema": schema}
        again = {"where": file, "attribute": "topology", "file": file, "given": given, "config": {}}
        made.append(Process(PythonProcess(again, str(tmp_path), str(len(made)), 2)))
        return made[-1]

    yield process_of
    for one in made:
        one.close()


def row(process: Process, number: int, record: Record, emitter: str, sink: str, task: int = 0) -> EngineRow:
    tup: Tuple[Any] = Tuple(record, number, number, 0, (), Source(emitter, type(record).__name__))
    to = process.routing.numbers[emitter, type(record).__name__, sink]
    return row_of(tup, to, task, b"", b"", position_of(number, 0, 0, 0), encode(record))


def test_a_row_that_the_server_refuses_is_rejected_and_what_is_for_others_passes(
    process_of: Callable[..., Process], database: Database
) -> None:
    """C9, F46: by the driver it becomes a dead letter, as what a bolt has rejected."""
    process, added = process_of(database.dsn, database.schema), Added()
    passes = [row(process, 1, Odd(3), "copied", "odd"), EngineRow(REJECTED, 0, b"", b"", 0, 0, b"x", b"")]
    bad = row(process, 2, Counted("\0", 7, 1, 7), "count", "store")
    good = [row(process, 3, Counted("a", 8, 1, 8), "count", "store"), row(process, 4, Total(8, 5), "sum", "store")]
    left = [
        one for part in stored(process, batch_of([passes[0], bad, *good, passes[1]]), added) for one in rows_of(part)
    ]
    assert left[:2] == passes
    (refused,) = left[2:]
    told = rejected_of(refused.record)
    assert (refused.to, told.component) == (REJECTED, "store")
    assert "has a NUL" in told.text
    assert {table: len(rows) for table, rows in held(database).items()} == {"counted": 1, "total": 1}

    again = [one for part in stored(process, batch_of(good), added) for one in rows_of(part)]
    assert again == []
    assert {table: len(rows) for table, rows in held(database).items()} == {"counted": 1, "total": 1}
    counted = {"executed": 5, "stored": 2, "duplicates": 2, "of Counted": 3, "of Total": 2}
    assert added.counts == {("store", what): count for what, count in counted.items()}


def test_a_server_that_goes_away_is_waited_for_and_told_until_it_is_back(
    process_of: Callable[..., Process], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F43, C10: by a process that has its connection, and by one that begins meanwhile."""
    monkeypatch.setattr("bolts.sinks.batching.OPENING_S", 0.05)
    with PostgresProxy.to(database.dsn) as proxy, ThreadPoolExecutor(2) as elsewhere:
        old, fresh = (process_of(proxy.dsn, database.schema) for _ in range(2))
        take(old, [row(old, 1, Counted("a", 1, 1, 1), "count", "store")])
        proxy.refuses = True
        proxy.reset()
        rows = [row(old, number, Counted("a", number, number, 1), "count", "store") for number in range(1, 5)]
        waiting = [elsewhere.submit(take, one, rows) for one in (old, fresh)]
        until(lambda: len([*(old.python_process.query / "away").glob("[!.]*")]) == 2)
        assert not [one for one in waiting if one.done()]
        assert "127.0.0.1" in old.away.read()["store"]
        proxy.refuses = False
        assert [one.result() for one in waiting] == [[], []]
        assert old.away.read() == {}
        assert [one[1] for one in held(database)["counted"]] == [1, 2, 3, 4]


def take(process: Process, rows: list[EngineRow]) -> list[EngineRow]:
    return [one for part in stored(process, batch_of(rows), Added()) for one in rows_of(part)]


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not condition():
        pause.wait(0.01)
