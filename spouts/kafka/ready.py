"""Messages that the reader's thread has read and the source has not emitted. Bounded in number and in bytes.

Knows threads; must not know a client, nor what becomes of messages.
"""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from spouts.kafka.partition import KafkaPartition

BYTES_MAX: Final = 32 << 20  # bytes of payloads that wait; the message that crosses it is the last


class ReadyMessages:
    """A queue of batches, each of one partition. One thread puts, another takes.

    `has_room` is set while less waits than `count_max` messages and BYTES_MAX.
    """

    def __init__(self, count_max: int) -> None:
        self.has_room = threading.Event()
        self.has_room.set()
        self._count_max = count_max
        self._lock = threading.Lock()
        self._batches: deque[tuple[KafkaPartition, Sequence[Any], int]] = deque()  # … and how many of it were taken
        self._count = self._bytes = 0

    def __len__(self) -> int:
        return self._count

    @property
    def room(self) -> int:
        """The number of messages that there is room for, if they are small."""
        return max(0, self._count_max - self._count) if self._bytes < BYTES_MAX else 0

    @property
    def bytes_room(self) -> int:
        """The bytes of payloads that there is room for."""
        return max(0, BYTES_MAX - self._bytes)

    def put(self, partition: KafkaPartition, messages: Sequence[Any]) -> None:
        """Add messages of a partition, in their order."""
        size = sum(map(len, messages))
        with self._lock:
            self._batches.append((partition, messages, 0))
            self._count += len(messages)
            self._bytes += size
            self._look()

    def first(self, limit: int) -> Sequence[Any]:
        """Return what `take` would; there must be one. What is put meanwhile does not change it."""
        with self._lock:
            _, messages, begin = self._batches[0]
            return messages[begin : begin + limit]

    def take(self, limit: int) -> tuple[KafkaPartition, Sequence[Any]]:
        """Remove and return up to `limit` messages of the partition whose turn it is. There must be one."""
        with self._lock:
            partition, messages, begin = self._batches.popleft()
            taken = messages[begin : begin + limit]
            if begin + limit < len(messages):
                self._batches.appendleft((partition, messages, begin + limit))
            self._count -= len(taken)
            self._bytes -= sum(map(len, taken))
            self._look()
        return partition, taken

    def _look(self) -> None:
        if self.room:
            self.has_room.set()
        else:
            self.has_room.clear()
