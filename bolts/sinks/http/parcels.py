"""Outputs that a sink holds until its receiver has answered, and the requests that they become. Pure."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

from topology.components import Collector
from topology.core.tuples import Tuple
from topology.records import Record


@dataclass(eq=False, slots=True)
class HeldOutput:
    """One output of the bolts above, and all tuples that brought it.

    key    48 hexadecimal digits: the same for each replay of an output with the same content (`bolts.sinks.keys`).
    body   The encoded record.
    to     The address that this record goes to; None: that of the sink.
    group  Outputs of one group may become one message, and are delivered in their order. "": no group.
    kind   Outputs of another kind never share a message.
    parts  What a channel has made of the record.
    """

    key: str
    body: bytes
    record: Record
    taken_at: float = 0.0  # loop time
    to: Any = None
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
    rest: list[list[HeldOutput]] = field(default_factory=list)
    groups: tuple[str, ...] = ()
    tries: int = 0  # failed attempts
    due_at: float = 0.0  # the next attempt
    first_failed_at: float = 0.0
    failed_at: float = 0.0
    alone_s: float = 0.0  # seconds for which it has failed by itself, while others were delivered
    delivered_then: int = 0  # deliveries of others before its first attempt …
    delivered_last: int = 0  # … and before its last one ended
    by_outage: bool = False  # the last failure may be the receiver's, and not its own

    def divide(self) -> None:
        """Leave half of the outputs, and put the others first in `rest`."""
        half = (len(self.outputs) + 1) // 2
        self.outputs, more = self.outputs[:half], self.outputs[half:]
        self.rest.insert(0, more)

    def next_part(self) -> bool:
        """Begin with the next request. Return False if there is none."""
        if not self.rest:
            return False
        self.outputs, self.due_at = self.rest.pop(0), 0.0
        return True


class Gathering(Protocol):
    """Decides which outputs are sent together, and when. All methods are quick."""

    def add(self, output: HeldOutput, now: float) -> None:
        """Take an output."""

    def take(self, now: float, crowded: bool) -> Parcel | None:
        """Remove and return what can be sent now. `crowded`: more was due than the sink's limit allows."""
        ...

    def due_at(self) -> float | None:
        """Return the loop time at which `take` has something; None: never, as things are."""
        ...

    def finished(self, parcel: Parcel) -> None:
        """Note that nothing of this parcel is under way any more."""

    def expired(self, before: float) -> list[HeldOutput]:
        """Remove and return the outputs that wait since `before`, a loop time, or longer."""
        ...

    def hurry(self) -> None:
        """Wait for no more: the inputs have ended."""


class InOrder:
    """A `Gathering` of outputs in the order in which they came, up to `most` in a request; nothing waits for more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._outputs: deque[HeldOutput] = deque()

    def add(self, output: HeldOutput, now: float) -> None:
        """See `Gathering.add`."""
        self._outputs.append(output)

    def take(self, now: float, crowded: bool) -> Parcel | None:
        """See `Gathering.take`."""
        outputs = self._outputs
        if not outputs:
            return None
        first = outputs.popleft()
        taken = [first]
        while outputs and len(taken) < self._most and outputs[0].to == first.to:
            taken.append(outputs.popleft())
        return Parcel(taken)

    def due_at(self) -> float | None:
        """See `Gathering.due_at`."""
        return 0.0 if self._outputs else None

    def finished(self, parcel: Parcel) -> None:
        """See `Gathering.finished`."""

    def expired(self, before: float) -> list[HeldOutput]:
        """See `Gathering.expired`."""
        found = []
        while self._outputs and self._outputs[0].taken_at <= before:
            found.append(self._outputs.popleft())
        return found

    def hurry(self) -> None:
        """See `Gathering.hurry`."""


def key_of(outputs: Sequence[HeldOutput]) -> str:
    """Return the key of a request: that of its output, or one made of all of their keys."""
    if len(outputs) == 1:
        return outputs[0].key
    return blake2b("".join(output.key for output in outputs).encode(), digest_size=24).hexdigest()
