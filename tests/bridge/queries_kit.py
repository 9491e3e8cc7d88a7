"""A query over segments written by hand, in a Spark session of this process, as a driver has it."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spark_kit import HandedOver

from bridge.arrow.schema import arrow_schema, from_table
from bridge.files.query import Epoch, QueryFolder
from bridge.queries.driver_spec import QuerySpec, schema_text
from topology import Record

WITHIN_S = 120.0  # for what a query does in a session that is there: 5 s on a quiet machine


def look_until(running: Any, condition: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
    """Looks at it until that is so; what it raises comes out. A wait in vain says for what, and where the query is."""
    pause, ends = threading.Event(), time.monotonic() + within_s
    while not condition():
        running.look()
        if time.monotonic() > ends:
            query = running._query
            where = "no query is running" if query is None else f"the query: {query.status}, {query.lastProgress}"
            pytest.fail(f"waited {within_s:.0f} s in vain for {what}; {where}")
        pause.wait(0.02)


class Queries:
    """Lives of a driver with one query of one input, `failures`, which two tasks hand over."""

    def __init__(self, session: Any, folder: Path, given: type[Record], output: type[Record]) -> None:
        self.session = session
        self.given, self.output = given, output
        self.folder = QueryFolder(folder / "hourly")
        self.input = HandedOver(folder / "hourly", "failures", tasks=2)
        self.life = 0
        self.said: list[str] = []

    def begin(
        self,
        function: Callable[..., Any],
        mode: str = "append",
        output: type[Record] | None = None,
        revision: str = "",
    ) -> Any:
        from bridge.driver.stream_query import Running

        self.life += 1
        cls = output or self.output
        inputs = {"failures": schema_text(arrow_schema(self.given))}
        spec = QuerySpec("hourly", mode, inputs, schema_text(arrow_schema(cls)), cls.__name__, "", revision)
        running = Running(self.session, spec, function, self.folder.folder, f"life {self.life}", self.said.append)
        running.begin()
        return running

    def until(self, running: Any, condition: Callable[[], bool], what: str = "what the test waits for") -> None:
        """Looks at it until that is so; what it raises comes out."""
        look_until(running, condition, f"{what}; batches {self.folder.batches()} have results")

    def until_committed(self, running: Any, batch: int) -> None:
        """Until Spark has committed the batch: its results are there before that."""
        commit = self.folder.checkpoint(self.folder.epoch() or Epoch()) / "commits" / str(batch)
        self.until(running, commit.exists, f"the commit of batch {batch}")

    def to_its_end(self, running: Any) -> None:
        """Until all that was handed over, and its end, is among the results."""
        self.until(running, lambda: self.folder.ended() is not None, "the end of the results")

    def stop(self, running: Any) -> None:
        """As a kill ends it, for all that it keeps."""
        if running._query is not None:
            running._query.stop()

    def results(self, since: int = 0) -> list[Any]:
        numbers = [number for number in self.folder.batches() if number >= since]
        return [row for number in numbers for row in from_table(self.output, self.folder.read(number))]
