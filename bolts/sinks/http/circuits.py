"""Keeps a circuit for each receiver of a task: one receiver may be away while others take their records. Pure."""

from collections import OrderedDict
from collections.abc import Mapping
from random import Random
from typing import Final

from bolts.sinks.http.circuit import Circuit
from bolts.sinks.http.parcels import Parcel
from bolts.sinks.http.retries import AskedToWait
from topology.clients.errors import ServerAway

CIRCUITS_MAX: Final = 1_000  # receivers that a task remembers; more than it has requests under way


class Circuits:
    """The circuits of all receivers, by the origin of a parcel. If there are more than CIRCUITS_MAX, the one that was
    used longest ago is forgotten, those of receivers that are away last."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._circuits: OrderedDict[str, Circuit] = OrderedDict()  # origin → its circuit, the last used one last
        self._away: dict[str, Circuit] = {}
        self._delivered = 0  # answered requests, of all receivers

    @property
    def away(self) -> Mapping[str, Circuit]:
        """The open circuits by origin, in the order in which they opened."""
        return self._away

    def of(self, origin: str) -> Circuit:
        """Return the circuit of an origin."""
        circuit = self._circuits.get(origin)
        if circuit is None:
            if len(self._circuits) >= CIRCUITS_MAX:
                self._forget()
            circuit = self._circuits[origin] = Circuit(self._random)
        self._circuits.move_to_end(origin)
        return circuit

    def alone_s(self, origin: str) -> float:
        """Return the seconds for which a receiver has been away while others took theirs, or could have, in all."""
        circuit = self._circuits.get(origin)
        return circuit.alone_s if circuit is not None else 0.0

    def lets(self, origin: str, now: float) -> bool:
        """Return True if a request may be sent there now."""
        circuit = self._away.get(origin)
        return circuit is None or (circuit.probe is None and circuit.until <= now)

    def next_at(self, now: float) -> float | None:
        """Return the next loop time at which a request may be sent to a receiver that is away."""
        times = (circuit.until for circuit in self._away.values() if circuit.probe is None and circuit.until > now)
        return min(times, default=None)

    def begins(self, parcel: Parcel) -> None:
        """Note that an attempt begins."""
        self.of(parcel.origin).begins(parcel)

    def answered(self, parcel: Parcel, now: float) -> Circuit | None:
        """Note an answer, whether it was yes or no. Return the circuit if the receiver is back by that."""
        circuit = self.of(parcel.origin)
        self._delivered += 1
        if not circuit.answered(parcel, now):
            return None
        self._away.pop(parcel.origin, None)
        return circuit

    def failed(
        self, parcel: Parcel, error: ServerAway, delivered_before: int, now: float, full_since: float | None = None
    ) -> bool:
        """See `Circuit.failed`. Also measures for how long the receiver is away while others take their records.

        `full_since`: the loop time since which an input waits for room, if one does. Then no record comes that others
        could take. So that time counts too, if the last that another has said was an answer.
        """
        circuit = self.of(parcel.origin)
        was_open, others = circuit.is_open, self._delivered - circuit.delivered
        own = circuit.failed(parcel, error, delivered_before, now)
        if circuit.is_open:
            if was_open and not isinstance(error, AskedToWait):
                if others > circuit.others_then:
                    circuit.alone_s += now - circuit.failed_at
                elif full_since is not None and self._another_answers(circuit):
                    circuit.alone_s += now - max(circuit.failed_at, full_since)
            circuit.failed_at, circuit.others_then = now, others
            self._away.setdefault(parcel.origin, circuit)
        return own

    def _another_answers(self, circuit: Circuit) -> bool:
        """Return True if another receiver has answered, and is not away."""
        return any(each.delivered and not each.is_open for each in self._circuits.values() if each is not circuit)

    def _forget(self) -> None:
        idle = [origin for origin, circuit in self._circuits.items() if not circuit.under_way]
        origin = next((each for each in idle if each not in self._away), idle[0])
        del self._circuits[origin]
        self._away.pop(origin, None)
