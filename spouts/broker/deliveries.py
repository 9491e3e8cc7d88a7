"""Deliveries of a server that numbers them by connection: which belong to one message, and names for those without one.

Pure. Must not know any protocol.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from acker.identity import MessageId

LOST_MAX: Final = 100_000  # names of deliveries of lost connections that are remembered, the oldest are dropped first


@dataclass(slots=True, eq=False)
class BrokerDelivery:
    """One message as a connection has delivered it.

    connection  The connection; what another one has delivered cannot be confirmed by it.
    tags        The numbers by which it is confirmed. There are several if its producer has sent it several times.
    content     A digest of all that the producer has sent, if the message has no name and may be given again.
    is_again    The server says that it has given the message before.
    """

    connection: Any
    tags: list[int]
    content: bytes = b""
    is_again: bool = False
    name: MessageId = ""


class OpenDeliveries:
    """The deliveries of the open connection that are not confirmed, by the names of their messages.

    A delivery without a name gets one from `next_name`. If the server gives it again after a lost connection, it gets
    the name of a lost delivery with the same content, so that it is not another message. It makes no difference which
    one if there are several: as many names are given again as deliveries. A delivery whose confirmation was sent is not
    among them, as another one with the same content might be taken for it; if the confirmation was lost as well, it is
    another message.
    """

    def __init__(self, next_name: Callable[[], str]) -> None:
        self._next_name = next_name
        self._open: dict[MessageId, BrokerDelivery] = {}
        self._lost: dict[bytes, deque[MessageId]] = {}  # content → names, the oldest first
        self._lost_count = 0

    def name_for(self, delivery: BrokerDelivery) -> MessageId:
        """Return a name for a delivery that has none."""
        names = self._lost.get(delivery.content) if delivery.is_again else None
        if not names:
            return self._next_name()
        name = names.popleft()
        self._lost_count -= 1
        if not names:
            del self._lost[delivery.content]
        return name

    def joined(self, name: MessageId, delivery: BrokerDelivery) -> BrokerDelivery:
        """Note a delivery of the message with this name. Return the one to confirm: the delivery itself, or an earlier
        one of the same message, with both tags."""
        known = self._open.get(name)
        if known is not None and known.connection is delivery.connection:
            known.tags += delivery.tags
            return known
        delivery.name = name
        self._open[name] = delivery
        return delivery

    def taken_tags(self, deliveries: Iterable[BrokerDelivery]) -> list[int]:
        """Return the tags of these, which are to be confirmed now, and forget them. A tag that joins one of these
        deliveries meanwhile is for the next call."""
        tags: list[int] = []
        for delivery in deliveries:
            tags += delivery.tags
            delivery.tags = []
        return tags

    def confirmed(self, deliveries: Iterable[BrokerDelivery]) -> None:
        """Note that the tags that were taken of these are confirmed."""
        for delivery in deliveries:
            if not delivery.tags and self._open.get(delivery.name) is delivery:
                del self._open[delivery.name]

    def connection_lost(self) -> None:
        """Note that the server gives again what is not confirmed."""
        for name, delivery in self._open.items():
            if delivery.content and delivery.tags:
                self._lost.setdefault(delivery.content, deque()).append(name)
                self._lost_count += 1
        self._open.clear()
        while self._lost_count > LOST_MAX:
            self._lost_count -= len(self._lost.pop(next(iter(self._lost))))


class ConfirmedPrefix:
    """The numbers of a channel's deliveries: which of them one frame can confirm, as all before it are confirmed."""

    def __init__(self) -> None:
        self._order: deque[int] = deque()
        self._done: set[int] = set()

    def add(self, tag: int) -> None:
        """Note a delivery. Tags grow."""
        self._order.append(tag)

    def confirm(self, tags: Iterable[int]) -> tuple[int, list[int]]:
        """Note that these are to be confirmed. Return the one to confirm together with all before it, 0 if there is
        none, and the others, each to be confirmed by itself."""
        wanted = {*tags}
        self._done |= wanted
        last = 0
        while self._order and self._order[0] in self._done:
            tag = self._order.popleft()
            self._done.remove(tag)
            if tag in wanted:
                last = tag
        return last, sorted(tag for tag in wanted if tag > last)
