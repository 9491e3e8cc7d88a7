"""A batch job over segments written by hand, in a Spark session of this process, as a driver has it."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_kit import HandedOver

from bridge.arrow.schema import arrow_schema, from_table
from bridge.files.history import Keeping
from bridge.files.query import QueryFolder
from bridge.queries.batch_joins import BatchJoin
from bridge.queries.driver_spec import QuerySpec, schema_text
from bridge.queries.tables import Table
from topology import Record

HOUR_S = 3_600
_utime = os.utime  # which a test may have fail for those it looks at


class Clock:
    """The time of day, which segments are written at too."""

    def __init__(self) -> None:
        self.s = 1_700_000_000

    def ns(self) -> int:
        return self.s * 10**9

    def put(self, input: HandedOver, records: Sequence[Record], task: int = 0) -> None:
        """A segment that is handed over now."""
        input.put(records, task)
        _utime(input.folder / str(task) / f"seg-{input.next[task] - 1:012}.arrow", ns=(self.ns(), self.ns()))


class Jobs:
    """Lives of a driver with one batch join of `inputs`, each of which two tasks hand over."""

    def __init__(self, session: Any, folder: Path, output: type[Record], **inputs: type[Record]) -> None:
        self.session = session
        self.classes, self.output = inputs, output
        self.folder = QueryFolder(folder / "matched")
        self.inputs = {name: HandedOver(folder / "matched", name, tasks=2) for name in inputs}
        self.said: list[str] = []
        self.clock = Clock()

    def put(self, records: Sequence[Record], task: int = 0, name: str = "records") -> None:
        self.clock.put(self.inputs[name], records, task)

    def end(self) -> None:
        """All tasks have flushed."""
        for one in self.inputs.values():
            one.end()

    def begin(
        self,
        table: Table | None = None,
        *,
        on: tuple[str, ...] = ("key",),
        how: str = "inner",
        keeping: Keeping = Keeping(0, 24 * HOUR_S, 2**40),  # noqa: B008 - it is frozen
        revision: str = "",
        output: type[Record] | None = None,
        **options: Any,
    ) -> Any:
        from bridge.driver.job import HistoryRunning

        cls = output or self.output
        names = tuple(one for one in arrow_schema(cls).names if one != revision)
        made = BatchJoin(table, on, how, names, keeping)
        given = {name: schema_text(arrow_schema(one)) for name, one in self.classes.items()}
        spec = QuerySpec("matched", "append", given, schema_text(arrow_schema(cls)), cls.__name__, "", revision)
        folder, say = self.folder.folder, self.said.append
        running = HistoryRunning(self.session, spec, made, folder, "", say, now_ns=self.clock.ns, **options)
        running.begin()
        return running

    def to_its_end(self, running: Any) -> None:
        """Until all that was handed over, and its end, is among the results: with each look something is done."""
        for _ in range(5):
            running.look()
            if self.folder.ended() is not None and not running._pending:
                return
        raise AssertionError("five looks, and nothing is complete")

    def results(self, since: int = 0) -> list[Any]:
        numbers = [number for number in self.folder.batches() if number >= since]
        return [row for number in numbers for row in from_table(self.output, self.folder.read(number))]
