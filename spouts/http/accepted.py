"""The messages that requests have brought: those that wait to be emitted, those under way, and those done lately.

`AcceptedMessages` has a ticket for each; a request that waits has a `TicketWait`. Must not know HTTP but for its
refusals, nor how a message is decoded.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from acker.identity import MessageId
from spouts.http.bodies import RETRY, HeldBytes
from spouts.http.refusals import HttpRefusal
from topology.components import Message

KNOWN_MAX: Final = 100_000  # names of done messages that are remembered; the oldest are dropped first


@dataclass(frozen=True, slots=True)
class OfferedMessage:
    """One message of a request. `digest` is that of the content that its name stands for; empty if the name is our own,
    and no other request can have it. `size`: bytes of its payload."""

    message: Message[Any]
    digest: bytes
    size: int


class Ticket:
    """One accepted message. `end` is "", "done" or "dead"; `is_settled`: a decided checkpoint has its end."""

    __slots__ = ("digest", "end", "is_settled", "waits")

    def __init__(self, digest: bytes) -> None:
        self.digest = digest
        self.end = ""
        self.is_settled = False
        self.waits: list[TicketWait] = []

    def has_changed(self) -> None:
        """Tell those that wait."""
        self.waits = [wait for wait in self.waits if not wait.look(self)]


class TicketWait:
    """The wait of one request for its messages: until all are done, or until a decided checkpoint has them all. A dead
    message counts as done."""

    def __init__(self, tickets: Sequence[Ticket], *, until_settled: bool) -> None:
        self._until_settled = until_settled
        self._open = {id(ticket) for ticket in tickets if not self._is_over(ticket)}
        self._over = asyncio.Event()
        self._is_cut = False
        for ticket in {id(ticket): ticket for ticket in tickets}.values():
            if id(ticket) in self._open:
                ticket.waits.append(self)
        self._look_at_all()

    async def over(self) -> bool:
        """Wait for the end. Return False if the source has ended before."""
        await self._over.wait()
        return not self._is_cut

    def look(self, ticket: Ticket) -> bool:
        """Take note of a change. Return True if this waits for the ticket no more."""
        if not self._is_over(ticket):
            return False
        self._open.discard(id(ticket))
        self._look_at_all()
        return True

    def cut(self) -> None:
        """End the wait: nothing more will be known."""
        if self._open:
            self._is_cut = True
            self._over.set()

    def leave(self, tickets: Sequence[Ticket]) -> None:
        """Wait no more."""
        for ticket in tickets:
            if self in ticket.waits:
                ticket.waits.remove(self)

    def _is_over(self, ticket: Ticket) -> bool:
        return ticket.end == "dead" or (ticket.end == "done" and (ticket.is_settled or not self._until_settled))

    def _look_at_all(self) -> None:
        if not self._open:
            self._over.set()


class AcceptedMessages:
    """Takes the messages of requests, all or none, and gives them to `poll`. Make it in a running loop.

    `max_waiting` bounds the messages that are not done. `known` counts those that came again under the same name.
    `has_begun`: the run has asked for messages. Until then it may end without a look at them.
    """

    def __init__(self, max_waiting: int) -> None:
        self.max_waiting = max_waiting
        self.accepted = self.known = 0
        self.has_begun = False
        self.held = HeldBytes()
        self._ready: deque[OfferedMessage] = deque()
        self._under_way: dict[MessageId, Ticket] = {}
        self._over: OrderedDict[MessageId, Ticket] = OrderedDict()
        self._news = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Messages that are accepted and not done."""
        return len(self._under_way)

    @property
    def ready(self) -> int:
        """Messages that are accepted and not emitted."""
        return len(self._ready)

    def take(self, offered: Sequence[OfferedMessage]) -> Sequence[Ticket]:
        """Accept all of these, and return their tickets. Raises HttpRefusal, and accepts none of them, if they are too
        many now, or a name stands for another content."""
        new: dict[MessageId, Ticket] = {}
        tickets: list[Ticket] = []
        for index, each in enumerate(offered):
            name = each.message.id
            ticket = self._under_way.get(name) or self._over.get(name) or new.get(name)
            if ticket is None:
                ticket = new[name] = Ticket(each.digest)
            elif ticket.digest != each.digest:
                text = f"the name {str(name)!r:.300} was used for other content; use another key"
                raise HttpRefusal(409, text, {"index": index})
            tickets.append(ticket)
        if self.waiting + len(new) > self.max_waiting:
            text = f"{self.waiting:,} messages wait here, of {self.max_waiting:,} at most; send it again later"
            raise HttpRefusal(503, text, headers=RETRY)
        self.known += len(offered) - len(new)
        self.accepted += len(new)
        self._under_way |= new
        for each in offered:
            if new.pop(each.message.id, None) is not None:
                self._ready.append(each)
                self.held.keep(each.size)
        if self._ready:
            self._news.set()
        return tickets

    async def given(self, limit: int) -> list[Message[Any]]:
        """Wait for a message; return up to `limit`. Cancelling it loses nothing."""
        self.has_begun = True
        while not self._ready:
            self._news.clear()
            await self._news.wait()
        given = [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]
        self.held.remove(sum(each.size for each in given))
        return [each.message for each in given]

    def done(self, name: MessageId) -> None:
        """Take note that a message is done."""
        self._ended(name, "done")

    def dead(self, name: MessageId) -> None:
        """Take note that a message is dead."""
        self._ended(name, "dead")

    def _ended(self, name: MessageId, end: str) -> None:
        ticket = self._under_way.pop(name, None)
        if ticket is None:  # it is done once more: after going back, or after a replay by hand
            if (ticket := self._over.get(name)) is not None:
                ticket.end = end
            return
        ticket.end = end
        self._over[name] = ticket
        if len(self._over) > KNOWN_MAX:
            self._over.popitem(last=False)
        ticket.has_changed()

    def settled(self, names: Sequence[MessageId]) -> None:
        """Take note that a decided checkpoint has the ends of these messages."""
        for name in names:
            if (ticket := self._over.get(name)) is not None:
                ticket.is_settled = True
                ticket.has_changed()
                if not ticket.digest:  # no other request can ask for it
                    del self._over[name]

    def cut(self) -> None:
        """End all waits."""
        for ticket in (*self._under_way.values(), *self._over.values()):
            for wait in ticket.waits:
                wait.cut()
            ticket.waits = []
