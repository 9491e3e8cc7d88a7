"""A partition as one task reads it, and the facts of a message. Knows no client and no cluster."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

HEADER: Final = "header:"
BEGIN_OF_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(eq=False, slots=True)
class KafkaPartition:
    """A partition of a topic, as long as the topic is the same one.

    epoch  The topic's id; "" if the cluster has none.
    next   The offset from which the source emits next.
    read   The offset from which the reader's thread reads next.
    end    The offset at which it ends. None: never.
    high   The offset that the partition's next message gets, as far as is known.
    """

    topic: str
    number: int
    epoch: str
    next: int
    read: int
    end: int | None
    high: int

    @property
    def place(self) -> tuple[str, int]:
        """The topic and the number."""
        return self.topic, self.number

    @property
    def name(self) -> str:
        """The name of the partition in Kedge."""
        return f"{self.topic}/{self.number}"

    @property
    def is_over(self) -> bool:
        """True if everything before its end was read."""
        return self.end is not None and self.read >= self.end


class KafkaFacts(Mapping[str, Any]):
    """The facts beside the payload of one message. Each is made when it is asked for."""

    __slots__ = ("_message",)

    def __init__(self, message: Any) -> None:
        self._message = message

    def __getitem__(self, name: str) -> Any:
        if (read := READS.get(name)) is not None:
            return read(self._message)
        if name.startswith(HEADER):
            wanted = name.removeprefix(HEADER)
            headers: Any = self._message.headers() or ()
            for header, value in reversed(headers):
                if header == wanted:
                    return text_of(value)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        headers: Any = self._message.headers() or ()
        yield from READS
        yield from dict.fromkeys(f"{HEADER}{name}" for name, _ in headers)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def text_of(value: "bytes | str | None") -> str | None:
    """Return bytes as text; what is no UTF-8 becomes U+FFFD."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def bytes_of(value: "bytes | str | None") -> bytes | None:
    """Return a key as bytes."""
    return value.encode() if isinstance(value, str) else value


def time_of(message: Any) -> datetime | None:
    """Return the time of a message, in UTC; None if it has none, or one outside of the calendar."""
    kind, milliseconds = message.timestamp()
    if not kind:
        return None
    try:
        return BEGIN_OF_TIME + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


READS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "topic": lambda message: message.topic(),
    "partition": lambda message: message.partition(),
    "offset": lambda message: message.offset(),
    "key": lambda message: text_of(message.key()),
    "key_bytes": lambda message: bytes_of(message.key()),
    "tombstone": lambda message: message.value() is None,
}
FACTS: Final = frozenset(READS)
