"""`PublishingSink`: a sink that sends each record as a message, and acks it when the server has confirmed it.

Knows batches and keys; must not know any protocol.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal

from bolts.sinks.batching import BATCH, BatchingSink
from bolts.sinks.contract import AsyncSinkStore, StoreAway, Written
from bolts.sinks.keys import WriteCounts
from bolts.sinks.publishing.bodies import Body, BodyEncoder
from bolts.sinks.publishing.publisher import Outgoing, Publisher
from bolts.sinks.publishing.recent import RecentKeys
from topology.core.tuples import Tuple
from topology.errors import ConfigurationError


class PublishingSink(BatchingSink):
    """A sink on a server. A subclass provides the publisher, and says for how long the server knows repeated keys.

    A message that was confirmed is not sent again by the same task, as long as its key is among the last 100,000. What
    a restart repeats, only the server can recognize: see `drops_replays` and `remembers_s` of each sink.
    """

    dedup: ClassVar[Literal["shared", "task"]] = "shared"
    durability: ClassVar[str] = "the server's confirmation of each message"

    def __init__(self, *, body: Body | None = None, batch: int = BATCH, within_ms: float = 2.0) -> None:
        super().__init__(batch=batch, within_ms=within_ms)
        self._body = body
        self._publisher: Publisher | None = None

    @abstractmethod
    def _make_publisher(self) -> Publisher:
        """Return the publisher, not yet open. Called by `open`, on the loop."""

    def summary(self) -> Iterable[str]:
        """Yield the number of messages, and where they went."""
        if self._publisher is not None:
            yield f"{self.stored:,} sent to {self._publisher.where}, {self.duplicates:,} known already"

    def _make_store(self) -> AsyncSinkStore:
        self._publisher = self._make_publisher()
        return PublisherStore(self._publisher, BodyEncoder(self._body))


class PublisherStore:
    """The store of a `PublishingSink`; see `contract.AsyncSinkStore`."""

    def __init__(self, publisher: Publisher, encoder: BodyEncoder) -> None:
        self._publisher = publisher
        self._encoder = encoder
        self._recent = RecentKeys()

    async def open(self) -> None:
        """Connect, and register the schema of bodies, if they have one."""
        await self._publisher.open()
        await self._encoder.open()

    async def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        """Send what was not sent before, each message once (C9)."""
        written = Written(WriteCounts())
        places: dict[str, list[int]] = {}
        messages: list[Outgoing] = []
        for place, message in self._encoder.messages(tuples, written.refused):
            if message.key in self._recent:
                written.tally.duplicates += 1
            elif message.key in places:
                places[message.key].append(place)
            else:
                places[message.key] = [place]
                messages.append(message)
        if not messages:
            return written
        try:
            published = await self._publisher.publish(messages)
        except ConfigurationError as error:  # the server refuses now what it has accepted at the begin
            raise StoreAway(str(error)) from error
        for at, message in enumerate(messages):
            if (why := published.refused.get(at)) is not None:
                written.refused.update(dict.fromkeys(places[message.key], why))
            else:
                if self._recent.add(message.key):
                    written.tally.divergent.append(message.key)
                written.tally.stored += 1
                written.tally.duplicates += len(places[message.key]) - 1
        written.tally.stored -= published.known
        written.tally.duplicates += published.known
        return written

    async def close(self) -> None:
        """Disconnect."""
        await self._publisher.close()
