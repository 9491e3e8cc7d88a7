"""The place in a stream of events after which a later run begins: all events up to there are settled.

Pure. Must not know a connection, nor where the place is kept.
"""

from acker.identity import MessageId


class ResumePoint:
    """Follows messages from their coming to their end. `after` is the id of the last event up to which all are settled;
    empty if there is none."""

    def __init__(self, after: str) -> None:
        self.after = after
        self._events: dict[MessageId, str] = {}  # messages, in the order of their coming → the id of the event, or ""
        self._settled: set[MessageId] = set()  # of those, the ones that are settled

    def came(self, message: MessageId, event: str) -> None:
        """Take note of a message that is new. `event`: the id of its event; empty if it has none."""
        self._events.setdefault(message, event)

    def settle(self, message: MessageId) -> None:
        """Take note that a message is settled."""
        if message not in self._events:
            return
        self._settled.add(message)
        while self._events and (first := next(iter(self._events))) in self._settled:
            self._settled.discard(first)
            self.after = self._events.pop(first) or self.after
