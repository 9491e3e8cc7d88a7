"""The room for messages that have come and are not emitted: bounded by their number, and by the bytes of payloads.

Pure. Must not know messages nor servers.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

# Bytes of payloads that wait in one task. Records are made of them, so the memory that they take is some times as much.
# It is enough for 2,000 messages of 32 KiB, and a fast server fills it again in a tenth of a second.
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
FIRST_ASKED: Final = 16  # messages to ask for while their size is not known; doubled with each answer
FORGETS: Final = 4_096  # messages after which a large payload is not expected any more


class PayloadRoom:
    """Counts what waits, and says how many messages to ask for.

    It is full with `messages`, or with WAITING_BYTES_MAX of payloads. One message always fits an empty room.
    """

    def __init__(self, messages: int) -> None:
        self.bytes = 0  # of the payloads that wait
        self._messages = messages
        self._sizes: deque[int] = deque()
        self._largest = 0  # payload of late, in bytes
        self._asked = FIRST_ASKED

    @property
    def is_full(self) -> bool:
        """True if no more is to be asked for."""
        return len(self._sizes) >= self._messages or self.bytes >= WAITING_BYTES_MAX

    def limit(self) -> int:
        """Return the number of messages to ask for: at least one, and no more than fit if they are as large as the
        largest of late. It grows with each answer, as nothing is known at first."""
        by_bytes = (WAITING_BYTES_MAX - self.bytes) // max(1, self._largest)
        return max(1, min(self._messages - len(self._sizes), by_bytes, self._asked))

    def heard(self, sizes: Sequence[int]) -> None:
        """Note the sizes of the payloads that an answer has."""
        self._asked = min(self._asked * 2, max(self._messages, FIRST_ASKED))
        self._largest = max(max(sizes), self._largest - self._largest * len(sizes) // FORGETS)

    def enter(self, size: int) -> None:
        """Note that a message waits, whose payload has so many bytes."""
        self._sizes.append(size)
        self.bytes += size

    def leave(self, count: int) -> None:
        """Note that so many messages wait no more, the oldest first."""
        for _ in range(count):
            self.bytes -= self._sizes.popleft()
