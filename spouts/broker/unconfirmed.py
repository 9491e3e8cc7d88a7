"""The messages that a server still has: those that are under way, and those that it gives again though they are done.

Pure. Must not know how a message is confirmed.
"""

from collections import OrderedDict
from typing import Any, Final, TypeAlias

from acker.identity import MessageId

SETTLED_MAX: Final = 100_000  # names of settled messages that are remembered, the oldest are dropped first

Name: TypeAlias = tuple[str, MessageId]  # partition and id


class Unconfirmed:
    """Message → the handle of its last delivery. A server that gives a message again replaces its handle.

    After a lost connection a server gives again what was settled and whose confirmation it has not heard. `was_settled`
    tells such a message from a new one: any int, as ints grow, and any other id among the last 100,000.
    """

    def __init__(self) -> None:
        self.given_again = 0
        self._under_way: dict[Name, Any] = {}
        self._settled: OrderedDict[Name, None] = OrderedDict()
        self._newest: dict[str, int] = {}  # partition → its highest id so far, of ids that are ints

    def is_new(self, name: Name, handle: Any) -> bool:
        """Note a delivery. Return True if its message is to be emitted; False if it is under way already."""
        if name in self._under_way:
            self.given_again += 1
            self._under_way[name] = handle
            return False
        self._under_way[name] = handle
        partition, message = name
        if type(message) is int:
            self._newest[partition] = message
        return True

    def was_settled(self, name: Name) -> bool:
        """Return True if the message was settled before: it is only to be confirmed again."""
        partition, message = name
        if type(message) is int:
            known = message <= self._newest.get(partition, -1) and name not in self._under_way
        else:
            known = name in self._settled
        self.given_again += known
        return known

    def next_wanted(self, partition: str) -> int | None:
        """Return the first int of a partition that is under way, or the one after the highest so far; None if none has
        come."""
        first = next((message for of, message in self._under_way if of == partition), None)
        if isinstance(first, int):
            return first
        newest = self._newest.get(partition)
        return None if newest is None else newest + 1

    def handles(self) -> list[Any]:
        """Return the handles of all messages that are under way."""
        return [*self._under_way.values()]

    def settle(self, name: Name) -> Any:
        """Note that a message is settled. Return the handle to confirm, or None if it is not under way."""
        if type(name[1]) is not int:
            self._settled[name] = None
            if len(self._settled) > SETTLED_MAX:
                self._settled.popitem(last=False)
        return self._under_way.pop(name, None)
