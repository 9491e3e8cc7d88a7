"""What Kedge's workers run of a topology that is on Spark: its spouts, a hand-over of each of their streams, and the
end of the run, which the driver tells. Knows files and tuples; no Spark, and none of the topology's bolts.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Never

from acker.identity import MessageId
from bolts.contract import Store
from bridge.engine_rows import Rejected
from bridge.handover import HandOver
from bridge.handover_store import HandOverStore
from bridge.results import SparkResults, query_folder
from bridge.schema import Encoded
from topology.codes.running import K555
from topology.components import Bolt, Task
from topology.errors import Reject
from topology.records import Record

QUERY: Final = "engine"  # the folder of the one query
NEXT: Final = (
    "see the record in the letter; mend what has made it, or the bolt, then drop the letter: a replay of it ends here "
    "again, as Spark does not compute it once more"
)
RECORD: Final = "record"  # the column of a segment that has the record's bytes
SUMMARY: Final = "summary"  # JSON in the query's folder: what is to be said at the end, line by line


class HandOverBytes(HandOver):
    """A `HandOver` whose records stay bytes, of whatever class they are."""

    def __init__(self, cls: type[Record], input: str) -> None:
        super().__init__(cls, QUERY, input)

    def summary(self) -> Iterable[str]:
        yield f"{self.stored:,} handed over to Spark, {self.duplicates:,} known already"

    def _check_class(self, cls: type[Record]) -> None:
        """Any will do."""

    def _make_store(self) -> Store:
        self._segments = HandOverStore(self._folder, self.cls, self._task, Encoded(self.cls))
        return self._segments


class Outcomes(SparkResults[Rejected]):
    """What Spark's batches have rejected, and the end of the run, as a source; it tells what the driver has counted."""

    def __init__(self, inputs: Sequence[str]) -> None:
        super().__init__(Rejected, QUERY, inputs)

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        self._query: Path = query_folder(task.folder, QUERY)
        super().open(task, positions)

    def summary(self) -> Iterable[str]:
        try:
            told: Any = json.loads((self._query / SUMMARY).read_bytes())
        except FileNotFoundError:
            return ["it was not at the end of what was handed over; the next run goes on there"]
        return [str(line) for line in told]


class Rejections(Bolt):
    """What bolts on Spark have rejected becomes a dead letter here."""

    def process(self, given: Rejected) -> Iterator[Never]:
        """Raises Reject."""
        raise Reject(f"{given.component!r} has rejected {given.record}: {given.text}", code=K555, next=NEXT)
