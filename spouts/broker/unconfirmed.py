"""The messages that a server still has: those that are under way, and those that it gives again though they are done.

Pure. Must not know how a message is confirmed.
"""

from collections import OrderedDict
from typing import Any, Final, TypeAlias

from acker.identity import MessageId
from spouts.broker.ranges import IntRanges

SETTLED_MAX: Final = 100_000  # names of settled messages that are remembered, the oldest are dropped first

Name: TypeAlias = tuple[str, MessageId]  # partition and id


class Unconfirmed:
    """Message → the handle of its last delivery. A server that gives a message again replaces its handle.

    After a lost connection a server gives again what was settled and whose confirmation it has not heard. `was_settled`
    tells such a message from a new one: ints are remembered as ranges, of other ids the last 100,000. An int that was
    never given is not taken for a settled one, however high the others are.
    """

    def __init__(self) -> None:
        self.given_again = 0
        self._under_way: dict[Name, Any] = {}
        self._settled: OrderedDict[Name, None] = OrderedDict()
        self._settled_ints: dict[str, IntRanges] = {}  # partition → settled ints, and those that no message has
        self._begins: dict[str, int] = {}  # partition → the lowest int that is wanted
        self._newest: dict[str, int] = {}  # partition → its highest id so far, of ids that are ints
        self._contents: dict[Name, bytes] = {}  # digests, of messages that a field names

    def is_new(self, name: Name, handle: Any) -> bool:
        """Note a delivery. Return True if its message is to be emitted; False if it is under way already."""
        if name in self._under_way:
            self.given_again += 1
            self._under_way[name] = handle
            return False
        self._under_way[name] = handle
        partition, message = name
        if type(message) is int:
            self._newest[partition] = max(message, self._newest.get(partition, message))
            self._begins[partition] = min(message, self._begins.get(partition, message))
        return True

    def begins_at(self, partition: str, number: int) -> None:
        """Note the first int of a partition that is wanted, unless that is known."""
        self._begins.setdefault(partition, number)

    def nothing_between(self, partition: str, after: int, number: int) -> None:
        """Note that no message has an int between these two."""
        self._ints(partition).add(after + 1, number - 1)

    def has_other(self, name: Name, content: bytes) -> bool:
        """Return True if this name, which is no int, is that of a message with other content, by its digest. That of a
        new one is remembered as long as its name."""
        return self._contents.setdefault(name, content) != content

    def was_settled(self, name: Name) -> bool:
        """Return True if the message was settled before: it is only to be confirmed again."""
        partition, message = name
        if type(message) is int:
            known = name not in self._under_way and message in self._ints(partition)
        else:
            known = name in self._settled
        self.given_again += known
        return known

    def next_wanted(self, partition: str) -> int | None:
        """Return the first int of a partition that is not settled, whether it was given or not; None if nothing is
        known of the partition."""
        begin = self._begins.get(partition)
        return None if begin is None else self._ints(partition).first_missing(begin)

    def newest(self, partition: str) -> int | None:
        """Return the highest int of a partition that was given, or None."""
        return self._newest.get(partition)

    def _ints(self, partition: str) -> IntRanges:
        return self._settled_ints.setdefault(partition, IntRanges())

    def handles(self) -> list[Any]:
        """Return the handles of all messages that are under way."""
        return [*self._under_way.values()]

    def settle(self, name: Name) -> Any:
        """Note that a message is settled. Return the handle to confirm, or None if it is not under way."""
        partition, message = name
        if type(message) is int:
            self._ints(partition).add(message, message)
        else:
            self._settled[name] = None
            if len(self._settled) > SETTLED_MAX:
                oldest, _ = self._settled.popitem(last=False)
                self._contents.pop(oldest, None)
        return self._under_way.pop(name, None)
