"""The contract of a connection that sends messages, each of which the server confirms. Knows no protocol.

What is raised, and what becomes of the tuples, is as in `bolts.sinks.contract`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from topology.records import Record


@dataclass(slots=True)
class Outgoing:
    """One message to send.

    key     48 hexadecimal digits: the same for each replay of an output with the same content (`bolts.sinks.keys`).
    body    The encoded record.
    record  The record itself, for what depends on it, such as a subject.
    """

    key: str
    body: bytes
    record: Record


@dataclass
class Published:
    """The outcome of a call. `refused`: position among the messages → the reason. `known`: messages that the server has
    recognized as repeated."""

    refused: dict[int, str]
    known: int = 0


class Publisher(Protocol):
    """A connection for one task. All methods are called on the loop, one after the other.

    `where` names the server and the target, for people, without secrets.
    """

    where: str

    async def open(self) -> None:
        """Connect. May be called again after StoreAway. Raises StoreAway, and ConfigurationError for what the user has
        to fix."""
        ...

    async def publish(self, messages: Sequence[Outgoing]) -> Published:
        """Send the messages in their order, and wait until the server has confirmed or refused each.

        Raises StoreAway if it is not known of all of them; the same call is then made again. It connects again by
        itself.
        """
        ...

    async def close(self) -> None:
        """Give back what `open` took. Also called if `open` raised. Does not raise, and takes at most some seconds."""
        ...
