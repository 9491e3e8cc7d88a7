"""An outbox that checks every record that leaves: in one process it refuses what a second worker could not take.

`kedge run --check-types` uses it, and the test kit always does. A record must come back from its byte form as it was,
to the exact types of its fields (B13). Otherwise the input that emitted it fails, and the error names the emitter.
Every delivery carries a record of its own. Must not know ledgers or spouts.
"""

from topology import exact_types
from topology.codes.tuples import RECORD_ROUND_TRIP_FAILED
from topology.errors import RecordError
from topology.records import Record
from topology.runtime.tasks.outbox import Outbox, Staged, StreamOutlet


class CheckedOutbox(Outbox):
    """Takes the general way for every emission, and checks it there."""

    def __init__(self, component: str, outlets: list[StreamOutlet], known_as: str = "", topology_id: str = "") -> None:
        super().__init__(component, outlets, known_as, topology_id)
        self.plain = None

    def stage(
        self,
        staged: Staged,
        record: Record,
        origin: int,
        identity: int,
        root: int,
        others: tuple[int, ...],
        task: int | None = None,
    ) -> int:
        self.outlet(record)  # an undeclared class is said to be that, before anything else
        before = len(staged)
        value = super().stage(staged, record, origin, identity, root, others, task)
        copies = self._copies(record, len(staged) - before)
        for index, copied in enumerate(copies, before):
            queue, tup = staged[index]
            staged[index] = queue, tup.carrying(copied)
        return value

    def _copies(self, record: Record, count: int) -> list[Record]:
        """Copies through the byte form; checked even if no task reads them. Raises RecordError naming the emitter."""
        try:
            return exact_types.copies(record, count)
        except (exact_types.Inexact, RecordError) as error:
            raise RecordError(
                f"{self.component!r} emitted {record!r:.200}: {error}", code=RECORD_ROUND_TRIP_FAILED
            ) from None
