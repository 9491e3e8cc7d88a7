"""A topology in Spark's micro-batches, in a session of this process: the same records under the same identities as in
Kedge's own workers, through lives of the driver that end in the middle."""

import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path
from struct import pack
from typing import Any

import pyarrow as pa
import pytest
from engine_topology import Numbered, topology
from queries_kit import look_until
from spark_kit import needs_spark

from bridge.engine.driver import error_to_fix
from bridge.engine.python_process import PythonProcess
from bridge.files.query import QueryFolder
from bridge.files.segments import Segments
from bridge.queries.options import AVAILABLE_NOW, DEFAULT
from topology import Topology
from topology.records import encode
from topology.testing import Captured, run_topology

pytestmark = [needs_spark, pytest.mark.timeout(240)]

COUNT = 300
Stored = dict[str, list[tuple[Any, ...]]]


class Lives:
    """Lives of a driver over one folder, and what its one spout has handed over."""

    def __init__(self, session: Any, folder: Path, trigger: str, **settings: str) -> None:
        self.session, self.folder, self.trigger = session, folder, trigger
        self.said: list[str] = []
        file = str(Path(__file__).with_name("engine_topology.py"))
        given = {"store": str(folder / "spark.db"), "count": str(COUNT), **settings}
        self.again = {"where": file, "attribute": "topology", "file": file, "given": given, "config": {}}
        self.query = QueryFolder(folder / "spark" / "engine")
        self.segments = Segments(self.query.input("numbers.Numbered") / "0")
        self.segments.open()
        (self.query.input("numbers.Numbered") / "tasks").write_text("1")
        self.next = 0

    def begin(self) -> Any:
        from bridge.engine.run import EngineRunning, Settings

        seat = PythonProcess(self.again, str(self.folder), secrets.token_hex(4), 2)
        running = EngineRunning(self.session, seat, Settings(self.trigger, 2), self.said.append)
        running.begin()
        return running

    def put(self, messages: list[tuple[int, int, Numbered]]) -> None:
        contents = pa.array([encode(record) for _, _, record in messages], pa.binary())
        ids = pa.array([pack(">QQ", origin, identity) for origin, identity, _ in messages], pa.binary(16))
        self.segments.write(self.next, pa.RecordBatch.from_arrays([contents, ids], names=["record", "_id"]))
        self.next += 1

    def until(self, running: Any, condition: Callable[[], bool], what: str = "what the test waits for") -> None:
        look_until(running, condition, what)


@pytest.mark.slow
@pytest.mark.parametrize(("raises", "why"), [("deal", "no such number"), ("odd", "an odd number")])
def test_what_a_bolt_raises_or_a_sink_in_sparks_processes_is_told_with_its_own_traceback(
    session: Any, tmp_path: Path, raises: str, why: str
) -> None:
    lives = Lives(session, tmp_path, DEFAULT, raises=raises)
    running = lives.begin()
    lives.put([(number, number, Numbered(number)) for number in range(10)])
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        lives.until(running, lambda: False)
    said, frames = error_to_fix(caught.value, running._python_process.raised)
    assert said.startswith(f"raised in {raises!r}: ValueError: {why} (K501); at ")
    assert "engine_topology.py" in frames[1]
    assert frames[-1] == f"ValueError: {why}"
    running.close()


DEAR = pytest.mark.slow


@pytest.mark.parametrize("trigger", [DEFAULT, pytest.param(AVAILABLE_NOW, marks=DEAR)])
def test_sinks_hold_what_they_hold_after_a_run_of_kedge(session: Any, tmp_path: Path, trigger: str) -> None:
    """B1, C4: the rows' keys are made of their identities. Two runs, of which the first is cut short and goes on."""
    messages, wanted = embedded(tmp_path)
    lives = Lives(session, tmp_path, trigger)
    running = lives.begin()
    for begin in range(0, 200, 50):
        lives.put(messages[begin : begin + 50])
    if trigger == DEFAULT:
        lives.until(running, lambda: len(stored(tmp_path / "spark.db")["counted"]) > 0)
        running.close()  # as a kill ends it, for all that it keeps; but that sinks let go of their files
        running = lives.begin()
    lives.segments.end(lives.next)
    lives.until(running, lambda: lives.query.ended() is not None)
    assert 0 < len(stored(tmp_path / "spark.db")["counted"]) < len(wanted["counted"])

    lives.segments.goes_on()
    lives.put(messages[200:])
    lives.segments.end(lives.next)
    ended = lives.query.epoch()
    lives.until(running, lambda: lives.query.epoch() != ended and lives.query.ended() is not None)
    assert stored(tmp_path / "spark.db") == wanted
    summary = (lives.query.folder / "summary").read_text()
    assert f"deal: {COUNT - 1:,} in, " in summary
    assert [one.text for one in rejected(lives.query)] == ["Reject: an unlucky number"]
    running.close()


def embedded(folder: Path) -> tuple[list[tuple[int, int, Numbered]], Stored]:
    """The messages as Kedge names them, and what its sinks then hold."""
    (folder / "kedge").mkdir()
    one = topology(str(folder / "kedge" / "spark.db"), COUNT)
    assert one.run().exit_status == 1, "for the rejected one"
    seen = Captured[Numbered]()
    read = Topology("on-spark")
    read.bolt("seen", seen, read.spout("numbers", one.components[0].prototype).shuffle())
    run_topology(read)
    messages = [(tup.origin, tup.identity, tup.record) for tup in seen.tuples]
    return sorted(messages, key=lambda message: message[2].number), stored(folder / "kedge" / "spark.db")


def stored(path: Path) -> Stored:
    """All rows of all tables, with the keys that their identities are."""
    found: Stored = {}
    for file, tables in ((path, ("counted", "total")), (path.with_name(f"{path.name}-odd"), ("odd",))):
        database = sqlite3.connect(file)
        try:
            for table in tables:
                found[table] = sorted(database.execute(f"select * from {table}"))
        except sqlite3.OperationalError:
            found |= {table: [] for table in tables}
        finally:
            database.close()
    return found


def rejected(query: QueryFolder) -> list[Any]:
    from bridge.arrow.schema import from_table
    from bridge.engine.rows import Rejected

    return [one for number in query.batches() for one in from_table(Rejected, query.read(number))]
