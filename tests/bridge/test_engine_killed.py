"""A driver on Spark that is killed at any step of its batches, drawn from a seed: each timer fires once all the same,
and those of the end once an end. Without Spark and its JVM; `test_engine_timers_killed` kills a real one."""

import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from struct import pack
from typing import Any

import pyarrow as pa
import pytest
from engine_firing_topology import Heard
from microbatch_kit import Killed, Query, Session, World
from spark_kit import needs_spark

from bridge.engine.python_process import PythonProcess
from bridge.files.input import StreamInput
from bridge.files.query import QueryFolder
from bridge.files.segments import Segments
from topology.records import encode

pytestmark = [needs_spark, pytest.mark.timeout(240)]

TOPOLOGY = str(Path(__file__).with_name("engine_firing_topology.py"))
RUNS = 4  # of which two hand over what counts, and the others let the time of all timers come
EACH, KEYS = 12, 3
SEEDS = 12
KILLS = 6  # in each of the runs


class Lives:
    """Runs of one topology, and lives of its driver in them."""

    def __init__(self, world: World, folder: Path, patch: pytest.MonkeyPatch) -> None:
        from bridge.engine.run import EngineRunning

        self.world, self.folder = world, folder
        self.query = QueryFolder(folder / "spark" / "engine")
        self.segments = Segments(self.query.input("heard.Heard") / "0")
        self.segments.open()
        (self.query.input("heard.Heard") / "tasks").write_text("1")
        self.next = self.number = 0
        patch.setattr(EngineRunning, "_start_query", lambda running: setattr(running, "_query", Query(world, running)))

    def hand_over(self) -> None:
        """What a run reads, in two segments."""
        self.segments.goes_on()
        for _ in range(2):
            numbers = range(self.number, self.number + EACH // 2)
            records = pa.array([encode(Heard(f"key{one % KEYS}", one)) for one in numbers], pa.binary())
            ids = pa.array([pack(">QQ", one + 1, one + 1) for one in numbers], pa.binary(16))
            self.segments.write(self.next, pa.RecordBatch.from_arrays([records, ids], names=["record", "_id"]))
            self.next, self.number = self.next + 1, numbers.stop
        self.segments.end(self.next)

    def life(self, run: str, kill_at: int = 0) -> str:
        """Until the run has ended, or this step: which that was."""
        from bridge.engine.run import EngineRunning, Settings

        again = {
            "where": TOPOLOGY,
            "attribute": "topology",
            "file": TOPOLOGY,
            "given": {"store": str(self.folder / "fired.db")},
            "config": {},
        }
        session: Any = Session()
        seat = PythonProcess(again, str(self.folder), secrets.token_hex(4), 2)
        running: Any = EngineRunning(session, seat, Settings(run=run), lambda said: None)
        running._process.clock.utc = self.world.utc
        self.world.steps, self.world.kill_at, self.world.alive = 0, kill_at, True
        try:
            running.begin()
            while running._open or self.goes_on():
                if running._query is not None and running._at_end is None and self.world.random.random() < 0.5:
                    running._query.turn()
                else:
                    running.look()
            return ""
        except Killed as error:
            return str(error)
        finally:
            self.world.alive = False
            running.close()

    def goes_on(self) -> bool:
        ends = self.query.ended()
        return ends is None or StreamInput(self.query.input("heard.Heard")).goes_on(ends.get("heard.Heard", {}))

    def fired(self) -> Counter[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "fired.db")) as database:
            return Counter(database.execute("select kind, number, key, total from fired"))


def wanted() -> Counter[tuple[Any, ...]]:
    """What fires of the first two runs, and at the end of each."""
    kinds = ("soon", "then", "late 1", "late 2")
    found = Counter(
        (kind, one, "", one if kind in ("soon", "then") else 0) for kind in kinds for one in range(2 * EACH)
    )
    for run in range(1, RUNS + 1):
        found.update(("end", 0, f"key{key}", sum(range(key, run * EACH, KEYS))) for key in range(KEYS))
    return found


def counted(fired: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Of all, what is no matter of when the last runs have ended."""
    return Counter({one: count for one, count in fired.items() if one[0] == "end" or one[1] < 2 * EACH})


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as one:
        yield one


@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_timer_fires_once_at_whichever_step_of_a_batch_the_driver_is_killed(
    seed: int, tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    """B10, B19, D9. In some of its lives the run as a whole was killed, and in the first seed nothing is."""
    world = World(seed, patch)
    lives = Lives(world, tmp_path, patch)
    killed = []
    for number in range(RUNS):
        lives.hand_over()
        run, kills = f"run {number}", KILLS if seed else 0
        while said := lives.life(run, world.random.randrange(1, 120) if kills else 0):
            kills -= 1
            killed.append(said)
            if world.random.random() < 0.3:
                run += " again"
        world.now = world.now.replace(hour=world.now.hour + 2)
    print(f"seed {seed}: killed {killed}")
    assert bool(killed) == bool(seed)
    assert counted(lives.fired()) == wanted()
