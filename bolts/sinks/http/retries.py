"""For how long a sink tries again, and the errors that say how a request has ended. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from topology.clients.errors import ServerAway, invalid

LATER: Final = frozenset({408, 425, 429, *range(500, 600)})


def check_seconds(kind: str, name: str, value: object, *, or_none: bool = False, above: float | None = None) -> None:
    """Raise ConfigurationError, which begins with `kind`, if this is no number of seconds. `above`: it has to be
    greater."""
    if value is None and or_none:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf") or (above is not None and value <= above):  # type: ignore[operator]
        least = "from 0 on" if above is None else f"above {above:g}"
        raise invalid(f"{kind}: {name} is a number of seconds {least}, not {value!r:.80}")


class DeliveryRefused(Exception):
    """The error for a receiver that has answered, and does not take this. The text is the reason, without secrets."""


class AskedToWait(ServerAway):
    """The error for a receiver that asks for time: it is asked again after `after_s` seconds."""

    def __init__(self, text: str, after_s: float) -> None:
        super().__init__(text)
        self.after_s = after_s


@dataclass(frozen=True, kw_only=True)
class Retries:
    """For how long a sink tries again, and after which answers of an HTTP server.

        WebHook(url, retries=Retries(for_s=60.0, outage_s=3600.0))

    for_s     Seconds for which a record is tried again that fails while others are delivered, so the fault may be its
              own, or that of its receiver, if there are several. Then it becomes a dead letter. None: for ever.
    outage_s  Seconds after which a record becomes a dead letter though its receiver is away for all. None: never. The
              sink then waits for the receiver, and the sources pause.
    ok        Statuses that say: delivered.
    again     Statuses that say: not now. Those in neither set say: never. Redirects are not followed.

    Raises ConfigurationError for a value outside its limits.
    """

    for_s: float | None = 600.0
    outage_s: float | None = None
    ok: Collection[int] = range(200, 300)
    again: Collection[int] = LATER

    def __post_init__(self) -> None:
        for name in ("for_s", "outage_s"):
            check_seconds("Retries", name, getattr(self, name), or_none=True)
        for name in ("ok", "again"):
            statuses = getattr(self, name)
            if not all(type(status) is int and 200 <= status <= 599 for status in statuses):
                raise invalid(f"Retries: {name} has statuses from 200 to 599, not {statuses!r:.80}")


RETRIES: Final = Retries()
