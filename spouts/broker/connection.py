"""The contract of a connection to a server that gives messages until they are confirmed. Knows no protocol.

**The cause of an error** decides what a connection raises:

    the server is away       ServerAway           it is asked again, without end; nothing is lost
    the server refuses       ConfigurationError   at the first `open` the run does not begin; later it counts as away
    a bug of ours            anything else        the run ends with the traceback
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from acker.identity import MessageId


@dataclass(slots=True)
class Received:
    """One message of a server.

    id          The server's own name of the message, the same if it gives the message again. None: it has none.
    attributes  The facts beside the payload: see `Payload`.
    at          The server's time of the message, in UTC, or None.
    partition   The part of the source within which the id is unique.
    handle      What `Connection.confirm` takes for this delivery.
    after       An int below the id, if both are numbers and the server has no message between them. None: not known.
    """

    id: MessageId | None
    data: bytes
    at: datetime | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    partition: str = ""
    handle: Any = None
    after: int | None = None


class Connection(Protocol):
    """A connection for one task. All methods are called on the loop; `receive` and `confirm` may run at the same time.

    `where` names the server and the queue, for people, without secrets.
    """

    where: str

    async def open(self) -> None:
        """Connect and subscribe. Called again after ServerAway, when `close` has been called."""
        ...

    async def receive(self, limit: int) -> Sequence[Received]:
        """Wait for at least one message; return up to `limit`. An empty list means that the source has ended.

        Cancelling it loses nothing that the server does not give again.
        """
        ...

    async def confirm(self, handles: Sequence[Any]) -> None:
        """Tell the server that it may forget these messages. A handle of a closed connection is ignored if the server
        gives its message again.

        Raises ServerAway if the server refuses it, or is not there. `receive` then raises ServerAway too, so that the
        source connects again, and the server gives these messages again.
        """
        ...

    async def give_back(self, handles: Sequence[Any]) -> None:
        """Tell the server that these messages will not be confirmed by this connection, so that it gives them again at
        once. Called before the last `close`. Does not raise; may do nothing."""
        ...

    async def close(self) -> None:
        """Give back what `open` took. Also called if `open` raised. Does not raise, and takes at most some seconds."""
        ...
