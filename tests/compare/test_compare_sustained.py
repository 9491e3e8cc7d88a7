"""The most messages a second with which a row keeps its 99th percentile within a bound."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from comparison_kit import comparison, failed, result
from measured_kit import Told, counting, job_of

from bridge.compare.job import ComparisonJob, ComparisonProgress, ComparisonRow
from bridge.compare.measure import compare
from bridge.compare.processes import Interrupts
from bridge.compare.report import table
from bridge.compare.results import Comparison, ModeResult
from bridge.compare.sustained import sustained
from bridge.compare.workload import prepare

BOUND_MS = 10.0


class Measured:
    """Comparisons of rows that are within the bound up to a rate each. `asked`: which modes were, at which rates."""

    def __init__(self, most: Mapping[str, float], interrupted_at: float = 0.0) -> None:
        self.most, self.interrupted_at = most, interrupted_at
        self.asked: list[tuple[float, tuple[str, ...]]] = []

    def __call__(self, job: ComparisonJob, progress: ComparisonProgress, interrupts: Interrupts) -> Comparison:
        assert job.rate is not None
        self.asked.append((job.rate, job.modes))
        modes = job.modes or tuple(self.most)
        progress.planned([ComparisonRow(mode, mode, "") for mode in modes])
        made = comparison(*(self.row(mode, job.rate) for mode in modes))
        made.interrupted = job.rate == self.interrupted_at
        return made

    def row(self, mode: str, rate: float) -> ModeResult:
        return result(mode, latencies=[1.0] * 98 + [BOUND_MS if rate <= self.most[mode] else BOUND_MS + 0.1] * 2)


def sought(measured: Measured, rate: float = 1_000.0, told: Told | None = None) -> Comparison:
    return sustained(ComparisonJob("a.py", rate=rate, p99_ms=BOUND_MS), told or Told(), Interrupts(), measured)


def highest(one: ModeResult) -> float:
    return float(one.settings["highest rate"].removesuffix(" a second").replace(",", ""))


@pytest.mark.parametrize("most", [40.0, 999.0, 1_000.0, 1_700.0, 63_000.0])
def test_a_rows_highest_rate_is_found_to_a_sixth_wherever_it_begins(most: float) -> None:
    for begins in (1_000.0, 3_000.0):
        (one,) = sought(Measured({"record": most}), begins).modes
        assert one.problem == ""
        assert most / 1.21 <= highest(one) <= most


def test_each_row_has_its_own_and_is_measured_no_more_once_that_is_found() -> None:
    measured, told = Measured({"record": 8_000.0, "embedded": 1_100.0}), Told()
    made = sought(measured, told=told)
    assert [round(highest(one)) for one in made.modes] == [8_000, 1_000]
    assert measured.asked[0] == (1_000.0, ())
    assert len(measured.asked) == len({*measured.asked})
    assert {modes for _, modes in measured.asked[1:]} <= {("record",), ("embedded",), ("record", "embedded")}
    assert told.rows == ["record", "embedded"]
    assert table.headline(made).startswith("messages per second from ")


def test_a_row_that_is_never_within_the_bound_says_so_with_what_it_had() -> None:
    (one,) = sought(Measured({"record": 0.0})).modes
    assert one.problem == "at 8 messages per second, p99 was 10.1 ms; the bound is 10 ms"


def test_a_row_that_did_not_run_is_not_tried_again() -> None:
    class Missing(Measured):
        def row(self, mode: str, rate: float) -> ModeResult:
            return failed(mode, "there is no Java")

    measured = Missing({"spark:default": 0.0})
    (one,) = sought(measured).modes
    assert (one.problem, len(measured.asked)) == ("there is no Java", 1)


def test_results_that_are_missing_are_not_within_any_bound() -> None:
    class Losing(Measured):
        def row(self, mode: str, rate: float) -> ModeResult:
            return result(mode, latencies=[1.0] * 100, missing=int(rate > 1_000))

    (one,) = sought(Losing({"record": 0.0})).modes
    assert 1_000 <= highest(one) < 1_200
    assert one.missing == 0


def test_an_early_end_leaves_what_was_found_until_then() -> None:
    made = sought(Measured({"record": 63_000.0}, interrupted_at=4_000.0))
    assert made.interrupted
    assert highest(made.modes[0]) == 4_000


@pytest.mark.slow
def test_where_no_more_messages_can_be_offered_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of real runs."""
    monkeypatch.setattr(prepare, "OFFERED_MAX", 1_100)
    told = Told()
    job = job_of(counting(tmp_path), modes=("embedded", "record:1"), p99_ms=20_000.0)
    made = sustained(job, told, Interrupts(), compare)
    assert [one.title for one in made.modes] == ["Kedge, one process", "Kedge, 1 worker"]
    for one in made.modes:
        assert (one.problem, highest(one), one.offered) == ("", 400, 800)
        assert one.exact
    said = "may do more than 400 messages per second: that is 2,001 messages per round; the maximum is 1,100."
    assert [note for note in made.notes if "may do more" in note] == [f"{one.title} {said}" for one in made.modes]
    assert [note for note in told.notes if note.startswith("now")] == [
        "now 200 messages per second",
        "now 400 messages per second",
    ]
