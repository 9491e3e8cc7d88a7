"""Outputs that a sink holds until its receiver has answered, and the requests that they become. Pure."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol, TypeAlias

from topology.components import Collector
from topology.core.tuples import Tuple
from topology.records import Record

Lets: TypeAlias = Callable[[str], bool]  # whether a request may be sent to an origin now


@dataclass(eq=False, slots=True)
class HeldOutput:
    """One output of the bolts above, and all tuples that brought it.

    key     48 hexadecimal digits: the same for each replay of an output with the same content (`bolts.sinks.keys`).
    body    The encoded record.
    to      The address that this record goes to; None: that of the sink.
    origin  The receiver at that address, one of several that are away each by itself. "": that of the sink.
    group   Outputs of one group may become one message, and are delivered in their order. "": no group.
    kind    Outputs of another kind never share a message.
    parts   What a channel has made of the record.
    """

    key: str
    body: bytes
    record: Record
    taken_at: float = 0.0  # loop time
    alone_then: float = 0.0  # `alone_s` of its receiver's circuit when it was taken
    to: Any = None
    origin: str = field(default="", repr=False)
    group: str = ""
    kind: str = ""
    parts: Any = None
    tuples: list[tuple[Tuple[Any], Collector[Any]]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Parcel:
    """Outputs that are sent by one request.

    `rest` are further requests, made in their order after this one: the parts of a parcel that was divided. Times are
    those of the loop.
    """

    outputs: list[HeldOutput]
    rest: list["Parcel"] = field(default_factory=list)
    groups: tuple[str, ...] = ()
    tries: int = 0  # failed attempts
    due_at: float = 0.0  # the next attempt
    first_failed_at: float = 0.0
    failed_at: float = 0.0
    away_then: float = 0.0  # seconds for which its receiver had been away by then, in all
    alone_s: float = 0.0  # seconds for which it has failed by itself, while others were delivered
    delivered_then: int = 0  # deliveries of others before its first attempt …
    delivered_last: int = 0  # … and before its last one ended
    by_outage: bool = False  # the last failure may be the receiver's, and not its own

    @property
    def origin(self) -> str:
        """The receiver of all its outputs."""
        return self.outputs[0].origin

    def divided(self) -> "Parcel":
        """Return half of the outputs, with the others first in its `rest`.

        An output that is alone now begins again, since others may have made it fail. Several ones keep the time for
        which they have failed, so the bad one is soon found.
        """
        half = (len(self.outputs) + 1) // 2
        first, second = (
            Parcel(part, groups=self.groups, alone_s=self.alone_s if len(part) > 1 else 0.0)
            for part in (self.outputs[:half], self.outputs[half:])
        )
        first.rest = [second, *self.rest]
        return first

    def next_part(self) -> "Parcel | None":
        """Return the next part, with those after it in its `rest`."""
        if not self.rest:
            return None
        part, *rest = self.rest
        part.rest, self.rest = rest, []
        return part

    def let_pass(self) -> "Parcel":
        """Return the next part, with this one as the last of its `rest`; or this one if there is no other."""
        part = self.next_part()
        if part is None:
            return self
        part.rest.append(self)
        return part


class Gathering(Protocol):
    """Decides which outputs are sent together, and when. All methods are quick."""

    def add(self, output: HeldOutput, now: float) -> None:
        """Take an output."""

    def take(self, now: float, crowded: bool, lets: Lets) -> Parcel | None:
        """Remove and return what can be sent now. `crowded`: more was due than the sink's limit allows."""
        ...

    def due_at(self, lets: Lets) -> float | None:
        """Return the loop time at which `take` has something; None: never, as things are."""
        ...

    def finished(self, parcel: Parcel) -> None:
        """Note that nothing of this parcel is under way any more."""

    def expired(self, is_over: Callable[[HeldOutput], bool]) -> list[HeldOutput]:
        """Remove and return the outputs whose time is over."""
        ...

    def hurry(self) -> None:
        """Wait for no more: the inputs have ended."""


class InOrder:
    """A `Gathering` of outputs in the order in which they came, up to `most` in a request; nothing waits for more.

    Outputs whose receiver is away let those for others pass, and keep their order among themselves.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._outputs: deque[HeldOutput] = deque()
        self._passed: dict[str, deque[HeldOutput]] = {}  # origin → older outputs, that others were sent before

    def add(self, output: HeldOutput, now: float) -> None:
        """See `Gathering.add`."""
        self._outputs.append(output)

    def take(self, now: float, crowded: bool, lets: Lets) -> Parcel | None:
        """See `Gathering.take`."""
        queue = self._next(lets)
        if queue is None:
            return None
        first = queue.popleft()
        taken = [first]
        for each in (queue, self._outputs):
            while each and len(taken) < self._most and each[0].to == first.to:
                taken.append(each.popleft())
            if each:
                break
        if not queue:
            self._passed.pop(first.origin, None)
        return Parcel(taken)

    def due_at(self, lets: Lets) -> float | None:
        """See `Gathering.due_at`."""
        return 0.0 if self._next(lets) is not None else None

    def _next(self, lets: Lets) -> deque[HeldOutput] | None:
        """Return the queue whose first output is next."""
        for origin, passed in self._passed.items():
            if lets(origin):
                return passed
        outputs = self._outputs
        while outputs and (outputs[0].origin in self._passed or not lets(outputs[0].origin)):
            self._passed.setdefault(outputs[0].origin, deque()).append(outputs.popleft())
        return outputs or None

    def finished(self, parcel: Parcel) -> None:
        """See `Gathering.finished`."""

    def expired(self, is_over: Callable[[HeldOutput], bool]) -> list[HeldOutput]:
        """See `Gathering.expired`."""
        found = [output for queue in (*self._passed.values(), self._outputs) for output in queue if is_over(output)]
        if over := {*found}:
            left = {origin: deque(each for each in queue if each not in over) for origin, queue in self._passed.items()}
            self._passed = {origin: queue for origin, queue in left.items() if queue}
            self._outputs = deque(each for each in self._outputs if each not in over)
        return found

    def hurry(self) -> None:
        """See `Gathering.hurry`."""


def key_of(outputs: Sequence[HeldOutput]) -> str:
    """Return the key of a request: that of its output, or one made of all of their keys."""
    if len(outputs) == 1:
        return outputs[0].key
    return blake2b("".join(output.key for output in outputs).encode(), digest_size=24).hexdigest()
