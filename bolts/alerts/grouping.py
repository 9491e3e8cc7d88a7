"""Groups of alerts: those of one group that come within a while are one message. Pure: times are passed in.

What exceeds the limit of a channel waits, and is summed up in the next message; nothing is dropped.
"""

from collections.abc import Callable
from typing import Final

from bolts.sinks.http.parcels import HeldOutput, Lets, Parcel

TOGETHER_MAX: Final = 100  # alerts of one message
CHANNEL: Final = ""  # the origin of all alerts: a channel has one receiver


class _Group:
    __slots__ = ("due_at", "outputs")

    def __init__(self, due_at: float) -> None:
        self.due_at = due_at
        self.outputs: list[HeldOutput] = []


class AlertGroups:
    """A `Gathering` of groups, oldest first.

    While a message of a group is under way, others of the group wait, so a channel gets them in their order. A message
    has outputs of one kind only.

    wait_s  Seconds that the first alert of a group waits for others.
    merges  True: if more is due than the channel's limit allows, the next message has the alerts of all due groups.
    """

    def __init__(self, wait_s: float, merges: bool) -> None:
        self._wait_s, self._merges = wait_s, merges
        self._groups: dict[str, _Group] = {}
        self._busy: set[str] = set()

    def add(self, output: HeldOutput, now: float) -> None:
        """See `Gathering.add`."""
        group = self._groups.get(output.group)
        if group is None:
            group = self._groups[output.group] = _Group(now + self._wait_s)
        group.outputs.append(output)

    def take(self, now: float, crowded: bool, lets: Lets) -> Parcel | None:
        """See `Gathering.take`."""
        taken: list[HeldOutput] = []
        names: list[str] = []
        for name, group in [*self._groups.items()]:
            if name in self._busy or group.due_at > now:
                continue
            room = TOGETHER_MAX - len(taken)
            kind = (taken or group.outputs)[0].kind
            fits = next((at for at, output in enumerate(group.outputs[:room]) if output.kind != kind), room)
            if fits:
                taken += group.outputs[:fits]
                names.append(name)
                del group.outputs[:fits]
            if not group.outputs:
                del self._groups[name]
            if not (crowded and self._merges) or len(taken) >= TOGETHER_MAX:
                break
        if not taken:
            return None
        self._busy.update(names)
        return Parcel(taken, groups=tuple(names))

    def due_at(self, lets: Lets) -> float | None:
        """See `Gathering.due_at`."""
        if not lets(CHANNEL):
            return None
        return min((group.due_at for name, group in self._groups.items() if name not in self._busy), default=None)

    def finished(self, parcel: Parcel) -> None:
        """See `Gathering.finished`."""
        self._busy.difference_update(parcel.groups)

    def expired(self, is_over: Callable[[HeldOutput], bool]) -> list[HeldOutput]:
        """See `Gathering.expired`."""
        found: list[HeldOutput] = []
        for name, group in [*self._groups.items()]:
            kept: list[HeldOutput] = []
            for output in group.outputs:
                (found if is_over(output) else kept).append(output)
            group.outputs = kept
            if not group.outputs:
                del self._groups[name]
        return found

    def hurry(self) -> None:
        """See `Gathering.hurry`."""
        for group in self._groups.values():
            group.due_at = 0.0
