"""Calls a spout's own `ack` and `fail`, and counts what becomes of the messages of one spout task.

An error that a callback raises is reported and changes nothing. Must not know trees' ledgers, or why a message failed.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from acker.identity import MessageId
from topology.components import Message, Spout
from topology.runtime.current_task import TaskPlace, entered
from topology.runtime.failures import Failure, Reason
from topology.runtime.hot.hot_path import begun_together
from topology.runtime.hot.pending import Pending
from topology.runtime.telemetry.histogram import Histogram
from topology.user_frames import described


class SpoutCounters:
    """Counters of one spout task. They only grow."""

    def __init__(self) -> None:
        self.emitted = self.acked = self.failed = self.replayed = self.dead = 0
        self.reopened = 0  # messages that were acked, and are not done any more, because the run has gone back
        self.coalesced = 0  # messages that the source has given again while they were in flight (F59)
        self.passed_over = 0  # messages that an earlier run had finished
        self.latency = Histogram()  # seconds from the first emission to the ack

    def completed(self, trees: list[Pending], now: float) -> None:
        """Count these messages as acked at loop time `now`."""
        self.acked += len(trees)
        for started_at, count in begun_together(trees):  # those of one poll count as one entry
            self.latency.add(now - started_at, count)


class SpoutCallbacks:
    """The callbacks of one spout. `wants_acks`: its class defines `ack`; `wants_settled`: it defines `settled`. It
    always gets `fail`."""

    def __init__(self, spout: Any, place: TaskPlace, report: Callable[[Failure], None]) -> None:
        self.wants_acks = type(spout).ack is not Spout.ack
        self.wants_settled = type(spout).settled is not Spout.settled
        self._spout, self._place, self._report = spout, place, report

    def acked(self, trees: Iterable[Pending]) -> None:
        """Call `ack` for each message, as often as the source gave it."""
        with entered(self._place):
            for tree in trees:
                for _ in range(1 + tree.also):
                    self._call(self._spout.ack, tree.message.id)

    def acked_before(self, message_id: MessageId) -> None:
        """Call `ack`, if the spout has it, for a message that an earlier run had finished."""
        if self.wants_acks:
            with entered(self._place):
                self._call(self._spout.ack, message_id)

    def left(self, messages: Sequence[Message[Any]]) -> None:
        """Call `ack` and `settled` for messages that nothing follows: a broker may forget what has left."""
        if self.wants_acks:
            for message in messages:
                self.acked_before(message.id)
        if self.wants_settled:
            self.settled(messages)

    def dead(self, tree: Pending) -> None:
        """Call `fail` for a message that is dead, as often as the source gave it."""
        with entered(self._place):
            for _ in range(1 + tree.also):
                self._call(self._spout.fail, tree.message.id)

    def settled(self, messages: Iterable[Message[Any]]) -> None:
        """Call `settled` for messages that a decided checkpoint has (P11): once for those in a row of one partition."""
        with entered(self._place):
            for partition, some in groupby(messages, attrgetter("partition")):
                self._call(self._spout.settled, [message.id for message in some], partition)

    def _call(self, callback: Callable[..., None], *arguments: Any) -> None:
        try:
            callback(*arguments)
        except BaseException as error:
            text = f"{callback.__name__}: {described(error)}"
            self._report(Failure(Reason.RAISED, self._place.component, text, error))
