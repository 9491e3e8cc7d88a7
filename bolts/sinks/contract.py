"""The contract of an idempotent sink and of the store behind it. Knows no store, no loop and no batch.

**The sink** (`batching.BatchingSink` keeps this for every `SinkStore`; `topology.testing.sinks` tests it on any sink):

- The sink acks a tuple once its store has committed the tuple durably, and never before (C11).
- A replayed output is stored once: by (origin, identity) and content in append mode, by the user's key and revision
  in upsert mode. This holds after a restart, for two subscriptions (C5), and within one batch (C9).
- The same identity with another content is also stored, counted and named; it is never dropped (B2).
- A row that the store refuses fails alone, with the reason, and the rest of its batch is stored (C9, F46).
- A store that is away is asked again until it answers. Nothing fails meanwhile: the tuples held have no deadline
  (`Bolt.away`), queues fill, and sources pause. So an outage spends no replays (E6, F43).
- A write without a known outcome is repeated with the same tuples, and so with the same keys (C10, F44).
- A broken store (a failed fsync, a damaged file) ends its process, which acks nothing more (F18).
- At the end of a run the whole file is looked through once. Damage that no write has met ends the run with an error
  instead of a number of rows (F72).
- `close` finishes the write under way, or gives it up if the store is away, and fails the waiting tuples.

**The cause of an error** decides what a store raises, and that decides what becomes of the tuples:

    the row              Written.refused   that tuple fails, with the reason; its replays count (E6)
    the table            Written.refused   as for the row, until the table is repaired (F47)
    the surroundings     StoreAway         the sink asks again: no connection, no room, locked, outcome unknown.
    the disk             SinkStoreBroken       the process ends, and the next one reads what the store holds
    the user, at open    ConfigurationError
    a bug of ours        anything else     the batch fails, and the log has the traceback
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from bolts.sinks.keys import WriteCounts
from topology.clients.errors import ServerAway
from topology.core.tuples import Tuple

E = TypeVar("E")

# bytes; a larger file is not looked through at the end of a run, as reading it takes some seconds
LOOK_BYTES_MAX: Final = 1 << 30


class StoreAway(ServerAway):
    """The error for a store that cannot be used now; the ServerAway of a client library counts as one.

    Nothing of this call counts as stored: the same call is made again.

    Also raised if it is not known whether a commit has happened. The text is the reason, for people, without secrets.
    """


class SinkStoreBroken(Exception):
    """The error for a store whose content on the disk is no longer known.

    Nothing may be acked on it, and nothing may be tried again in this process (F18). The text is the reason, for
    people. `damaged`: what was stored can no longer be read.
    """

    def __init__(self, text: str, *, damaged: bool = False) -> None:
        super().__init__(text)
        self.damaged = damaged


@dataclass
class Written:
    """The outcome of a durable write. `refused`: position in the batch → the reason why that tuple cannot be stored."""

    tally: WriteCounts
    refused: dict[int, str] = field(default_factory=dict)


class SinkStore(Protocol):
    """The store of a sink's tuples. All methods block, and are called one after the other, from one thread.

    `open` and `write` raise StoreAway and SinkStoreBroken. After StoreAway the store is ready for the next call.
    """

    def open(self) -> None:
        """Take the resources. May be called again after StoreAway. Raises ConfigurationError for what the user has to
        fix."""

    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        """Store the tuples that the store does not hold yet, in their order if it has one.

        They are durable when it returns. Writing the same tuples again is always right, whatever happened the first
        time.
        """
        ...

    def close(self) -> None:
        """Give back what `open` took. Also called if `open` raised. Does not raise."""


class AsyncSinkStore(Protocol):
    """A store whose client library is asynchronous. As `SinkStore`, but its methods are coroutines on the run's loop.

    If the sink is closed while a call waits, the call has some seconds more, and is then cancelled.
    """

    async def open(self) -> None:
        """See `SinkStore.open`."""

    async def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        """See `SinkStore.write`."""
        ...

    async def close(self) -> None:
        """See `SinkStore.close`. Takes some seconds at most."""


@runtime_checkable
class LooksThrough(Protocol):
    """A store whose file other programs may damage without any sign until the damaged part is read."""

    def look_through(self) -> bool:
        """Read everything stored, unless it is more than LOOK_BYTES_MAX. Return True if it was read.

        Raises SinkStoreBroken for content that differs from what was written, as far as that can be seen. Raises
        StoreAway if the content cannot be read now. Blocks."""
        ...


class BadRow(Exception):
    """The error for rows of which some cannot be stored; none of them was. The text is the reason, if it is one row."""


def stored_by_halves(
    entries: Sequence[E], insert: Callable[[Sequence[E]], WriteCounts], refuse: Callable[[E, str], None]
) -> WriteCounts:
    """Store all but the bad rows: halve a part that has one, until the bad row is alone (F46). Keeps their order.

    `insert` is one transaction: it stores all or, raising BadRow, none. A batch of n rows with b bad ones takes about b
    · log2(n) transactions. Any other exception of `insert` ends the call; the halves before it are stored, and known
    next time.
    """
    tally = WriteCounts()
    parts = [entries] if entries else []
    while parts:
        part = parts.pop()
        try:
            tally.add(insert(part))
        except BadRow as error:
            if len(part) == 1:
                refuse(part[0], str(error))
                continue
            half = len(part) // 2
            parts += [part[half:], part[:half]]
    return tally
