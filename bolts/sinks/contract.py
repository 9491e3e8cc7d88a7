"""What is promised of an idempotent sink, and of the store behind it. Knows no store, no loop and no batch.

**The sink** (`batching.BatchingSink` keeps it for every `SinkStore`; `topology.testing.sinks` tries it on any sink):

- It acks a tuple once its store has committed it durably, and never before (C11).
- What a replay repeats is stored once: by (origin, identity) and content in append mode, by the user's key and revision
  in upsert mode. It holds after a restart, for two subscriptions (C5), and within one batch (C9).
- The same identity with another content is stored besides, counted and named, never dropped (B2).
- A row that the store refuses fails alone, with the reason, and the rest of its batch is stored (C9, F46).
- A store that is away is asked again, for as long as it takes. Nothing fails meanwhile: what is held has no deadline
  (`Bolt.away`), queues fill, and sources pause. So an outage spends no replays (E6, F43).
- A write whose outcome is not known is repeated with the same tuples, and so with the same keys (C10, F44).
- A store that is broken (a failed fsync, a damaged file) ends its process, which acks nothing more (F18).
- At the end of a run a file is looked through as a whole, once: damage that nothing has come upon ends the run with an
  error in place of a number of rows (F72).
- `close` finishes the write under way, or gives it up where the store is away, and fails what waits.

**Whose fault it is** decides what a store raises, and that decides what becomes of the tuples:

    the row's            Written.refused   that tuple fails, with the reason; its replays count (E6)
    the table's          Written.refused   as the row's, until somebody repairs it (F47)
    the surroundings'    StoreAway         the sink asks again: no connection, no room, locked, outcome unknown
    the disk's           StoreBroken       the process ends, and the next one reads what is there
    the user's, at open  ConfigurationError
    ours                 anything else     the batch fails, the log has the traceback
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from bolts.sinks.keys import WriteCounts
from topology.components import Tuple

E = TypeVar("E")

LOOK_BYTES_MAX: Final = 1 << 30  # of a file that is looked through at the end of a run: some seconds of its reading


class StoreAway(Exception):
    """The store can't be used now, and nothing of this call may be taken for stored: the same call is made again.

    Also where it is not known whether a commit has happened. The text is the reason, for people, without secrets.
    """


class SinkStoreBroken(Exception):
    """What is on the disk is not known any more. Nothing may be acked on it, and nothing be tried again in this process
    (F18). The text is the reason, for people. `damaged`: what was stored can't be read any more."""

    def __init__(self, text: str, *, damaged: bool = False) -> None:
        super().__init__(text)
        self.damaged = damaged


@dataclass
class Written:
    """The outcome of a write that is durable. `refused`: position in the batch → why that tuple can't be stored."""

    tally: WriteCounts
    refused: dict[int, str] = field(default_factory=dict)


class SinkStore(Protocol):
    """Where a sink's tuples go. All methods block, and are called one after the other, from one thread.

    `open` and `write` raise StoreAway and StoreBroken; after StoreAway the store is fit for the next call.
    """

    def open(self) -> None:
        """Takes the resources. May be called again after StoreAway. Raises ConfigurationError for what the user has to
        mend."""

    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        """Stores those that it does not hold yet, in their order where it has one. Durable when it returns. Writing the
        same tuples again is always right, whatever became of them the first time."""
        ...

    def close(self) -> None:
        """Gives back what `open` took; also called when `open` raised. Does not raise."""


@runtime_checkable
class LooksThrough(Protocol):
    """A store whose file others may damage, without a word from it until somebody reads there."""

    def look_through(self) -> bool:
        """Reads all that is stored, where it is no more than LOOK_BYTES_MAX; whether it was. Raises StoreBroken for
        what is not what was written, as far as that can be seen, and StoreAway where it can't be read now. Blocks."""
        ...


class BadRow(Exception):
    """Some of these rows can't be stored, and none of them was. The text says why, of the row where it is one."""


def stored_by_halves(
    entries: Sequence[E], insert: Callable[[Sequence[E]], WriteCounts], refuse: Callable[[E, str], None]
) -> WriteCounts:
    """Stores all but the bad rows: a part with one is halved, until the bad row is alone (F46). Keeps their order.

    `insert` is one transaction: it stores all or, raising BadRow, none. A batch of n rows with b bad ones takes about
    b · log2(n) transactions. Whatever else `insert` raises ends it; the halves before are stored, and known next time.
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
