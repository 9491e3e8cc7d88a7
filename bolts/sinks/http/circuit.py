"""Judges failed deliveries: is the receiver away as a whole, or is it this record? And when to try again. Pure.

While a receiver is away, one request at a time asks whether it is back (a probe), with a back-off. The back-off grows
with probes that repeat a request. It does not with those that are new, so a good record is soon found behind bad ones.
A record that fails while others are delivered is tried again by itself, and does not keep the others from being sent.
"""

from random import Random
from typing import Final

from bolts.sinks.http.parcels import Parcel
from bolts.sinks.http.retries import AskedToWait
from topology.clients.errors import ServerAway

PROBE_FIRST_S: Final = 0.1  # seconds before the first probe; doubled by each that repeats a request …
PROBE_LAST_S: Final = 15.0  # … up to this many seconds; each wait is between half of it and all
AGAIN_FIRST_S: Final = 0.1  # seconds before a record is tried again that fails alone; doubled each time …
AGAIN_LAST_S: Final = 60.0  # … up to this many seconds


class Circuit:
    """The judge of one receiver. Closed: all may go. Open, after a failure: one probe at a time.

    A failure is a record's own if others were delivered since its attempt began. It is also its own if others were
    delivered since it failed first, and nothing else has failed since.
    """

    def __init__(self, random: Random) -> None:
        self.delivered = 0  # answered requests
        self.failures = 0  # of probes, since the last answer; 0: closed
        self.why = ""
        self.opened_at = 0.0
        self.until = 0.0  # loop time before which no probe goes
        self.probe: Parcel | None = None
        self.under_way = 0  # attempts
        self.logged = False  # that it is away
        self.alone_s = 0.0  # seconds for which it was away and others took theirs, or could have: see `Circuits`
        self.failed_at = 0.0  # the last failure while it is open, and …
        self.others_then = 0  # … what other receivers had answered by then
        self._away_s = 0.0  # seconds for which it was away, in all, until the last answer
        self._doublings = 0  # of the pause between two probes
        self._random = random
        self._failing: set[Parcel] = set()  # parcels that have failed since the last answer, two at most

    @property
    def is_open(self) -> bool:
        """True while the receiver seems to be away."""
        return self.failures > 0

    def begins(self, parcel: Parcel) -> None:
        """Note that an attempt begins."""
        self.under_way += 1
        if self.is_open:
            self.probe = parcel
        if not parcel.tries:
            parcel.delivered_then = self.delivered

    def answered(self, parcel: Parcel, now: float) -> bool:
        """Note an answer, whether it was yes or no. Return True if the receiver is back by that."""
        self._away_s = self._away_so_far(now)
        self.under_way -= 1
        self.delivered += 1
        self._failing.clear()
        self.probe = None
        is_back, self.failures = self.is_open, 0
        return is_back

    def failed(self, parcel: Parcel, error: ServerAway, delivered_before: int, now: float) -> bool:
        """Note a failed attempt, and set the time of the next one. Return True if the failure is the record's own.

        `delivered_before`: `delivered` when the attempt began.
        """
        self.under_way -= 1
        if len(self._failing) < 2:
            self._failing.add(parcel)
        is_suspect = self.delivered > parcel.delivered_then
        own = self.delivered > delivered_before or (is_suspect and len(self._failing) == 1)
        after_s = error.after_s if isinstance(error, AskedToWait) else 0.0
        if not parcel.tries:
            parcel.first_failed_at = now
        elif self.delivered > parcel.delivered_last and not parcel.by_outage and not isinstance(error, AskedToWait):
            parcel.alone_s += now - parcel.failed_at - (self._away_so_far(now) - parcel.away_then)
        parcel.away_then = self._away_so_far(now)
        is_new, parcel.tries = not parcel.tries, parcel.tries + 1
        parcel.failed_at, parcel.delivered_last, parcel.by_outage = now, self.delivered, not own
        parcel.due_at = now + max(after_s, self._pause(AGAIN_FIRST_S, AGAIN_LAST_S, parcel.tries) if own else 0.0)
        is_probe, self.probe = self.probe is parcel, None if self.probe is parcel else self.probe
        if is_probe or not own:
            self._open(str(error), after_s, is_probe, is_new, now)
        return own

    def _away_so_far(self, now: float) -> float:
        return self._away_s + (now - self.opened_at if self.is_open else 0.0)

    def _open(self, why: str, after_s: float, is_probe: bool, is_new: bool, now: float) -> None:
        if is_probe or not self.failures:  # those that were under way when it failed first say nothing new
            if not self.failures:
                self.opened_at, self.logged, self._doublings = now, False, 0
            elif not is_new:
                self._doublings += 1
            self.failures += 1
            self.until = max(self.until, now + self._pause(PROBE_FIRST_S, PROBE_LAST_S, self._doublings + 1))
        self.until = max(self.until, now + after_s)
        self.why = why

    def _pause(self, first_s: float, last_s: float, times: int) -> float:
        return float(min(first_s * 2.0 ** min(times - 1, 20), last_s) * (0.5 + self._random.random() / 2))
