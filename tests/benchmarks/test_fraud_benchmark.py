"""The benchmark of card fraud, run short: its rows and its bar, and the profiler that says where the time goes.

Speed is not judged here."""

import signal
import threading
import time

import pytest
from test_benchmarks import results_of, short

from benchmarks import fraud
from benchmarks.rounds import Figures, Name
from benchmarks.where import Where


def bar(name: str, figures: Figures) -> str:
    return fraud.row(Name(name, "ms"), figures, {})[-1]


@pytest.mark.parametrize(("p99", "said"), [(99.9, "p99 < 100: ok"), (100.0, "p99 < 100: MISSED")])
def test_an_alert_has_a_bar_at_the_peak_and_at_no_other_rate(p99: float, said: str) -> None:
    assert {bar(name, {"value": 1.0, "p99": p99}) for name in fraud.AT_THE_PEAK} == {said}
    assert bar("fraud-alert-1k", {"value": 1.0, "p99": p99}) == ""


def test_the_most_stands_beside_the_peak() -> None:
    assert bar("fraud-most", {"value": 23_500.0}) == "0.50 of 47,000"


@pytest.mark.slow
def test_alerts_and_the_most_and_the_profile_are_measured() -> None:
    results = results_of(short("fraud", "--json", "fraud-most", "fraud-alert-1k", "fraud-profile"))
    most, alerts, profile = results.values()
    assert most["value"] > 0
    assert most["of_cpu"] > 0
    assert alerts["value"] == alerts["p50"] <= alerts["p99"] <= alerts["max"]
    assert alerts["alerts"] > 0
    assert sum(profile[part] for part in ("rules", "state", "rest")) == pytest.approx(profile["value"], rel=0.1)


def test_time_is_of_the_part_that_the_main_thread_is_in_and_other_threads_are_known_exactly() -> None:
    def busy(seconds: float) -> None:
        ends = time.thread_time() + seconds
        while time.thread_time() < ends:
            pass

    other = threading.Thread(target=busy, args=(0.2,))
    with Where({"here": ("tests/benchmarks/",), "nowhere": ("acker/",)}, rest="rest", others="others") as where:
        other.start()
        busy(0.4)
        other.join()
    assert where.seconds["here"] == pytest.approx(0.4, abs=0.1)
    assert where.seconds["others"] == pytest.approx(0.2, abs=0.1)
    assert where.seconds["nowhere"] == 0.0
    assert sum(where.seconds.values()) == pytest.approx(where.cpu_s, abs=0.05)
    assert signal.getsignal(signal.SIGPROF) == signal.SIG_DFL
