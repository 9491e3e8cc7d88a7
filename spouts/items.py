"""Items: records given in the program, as a source that ends. For tests, demonstrations and benchmarks."""

from collections.abc import Iterable, Mapping
from typing import Generic

from xxhash import xxh3_128

from acker.identity import MessageId
from spouts.checks import no_position
from topology.codes.settings import INVALID_SOURCE_ITEM
from topology.components import Message, Positions, R, Spout, Task
from topology.errors import ConfigurationError, RecordError
from topology.records import encode


class Items(Spout, Generic[R]):
    """Emits the records, each once, and ends. With n tasks, task i emits every n-th record from the i-th on.

        words = topology.spout("words", Items([Word("to"), Word("be")]))

    A message's id is the record's index. The epoch is a hash of all records, their classes and their order. So the same
    items in a second run have the same identities, and sinks deduplicate them. Other items have other identities, and
    are not mistaken for items of the first run (C2). `open` raises ConfigurationError if a record cannot be encoded.
    """

    shared_ids = True

    def __init__(self, records: Iterable[R]) -> None:
        self._records = tuple(records)
        self._epochs: Mapping[str, str] = {}
        self._next = 0
        self._step = 1

    def emits(self) -> tuple[type[R], ...]:
        """Return the classes of the items, in the order in which they first appear."""
        return tuple(dict.fromkeys(type(record) for record in self._records))

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Begin at the position, the index of the first unfinished record, or at the first record."""
        at = positions if isinstance(positions, Positions) else Positions(positions)
        epoch = self._content_hash()
        self._epochs = {"": epoch}
        known = at.of("", epoch)  # progress in other items does not apply to these (C2)
        position = 0 if known is None else known
        if type(position) is not int or position < 0:
            raise no_position(position, "a position in items is an index")
        self._step = task.tasks
        self._next = position + (task.index - position) % task.tasks

    async def poll(self, limit: int) -> list[Message[R]]:
        """Return the next items, up to `limit`; never waits."""
        indexes = range(self._next, len(self._records), self._step)[:limit]
        self._next += len(indexes) * self._step
        records = self._records
        return [Message(records[index], index) for index in indexes]

    def partitions(self) -> Mapping[str, str]:
        """Return one partition; its epoch is the hash of the items."""
        return self._epochs

    def _content_hash(self) -> str:
        """Return a hash of each record's class and bytes. No record's bytes are a prefix of another's, so no two lists
        have the same bytes."""
        hasher = xxh3_128()
        for index, record in enumerate(self._records):
            try:
                content = encode(record)
            except RecordError as error:
                raise ConfigurationError(f"item {index} can't be emitted: {error}", code=INVALID_SOURCE_ITEM) from error
            hasher.update(f"{type(record).__name__}:".encode())
            hasher.update(content)
        return hasher.hexdigest()
