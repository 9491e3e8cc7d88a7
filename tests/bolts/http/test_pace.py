"""A limit holds in any stretch of time: `Pace`, with times that are passed in."""

import math

import pytest

from bolts.sinks.http.pace import Pace


@pytest.mark.parametrize(("rate", "per_s"), [(5.0, 1.0), (2.5, 1.0), (0.1, 1.0), (10.0, 60.0), (0.5, 60.0)])
def test_no_stretch_has_more_than_the_rate(rate: float, per_s: float) -> None:
    pace, now, moments = Pace.of_rate(rate, per_s), 0.0, []
    for _ in range(100):
        now = max(now, pace.free_at())
        pace.note(now)
        moments.append(now)
    for at in moments:
        inside = sum(at <= moment < at + per_s for moment in moments)
        assert inside <= max(1, math.ceil(rate)), f"{inside} from {at}"
    assert moments[-1] == pytest.approx(per_s * 100 / rate, rel=0.15), "and it is used"


def test_what_is_seldom_waits_for_nothing() -> None:
    pace = Pace.of_rate(2.0)
    for now in (0.0, 5.0, 10.0):
        assert pace.free_at() <= now
        pace.note(now)
