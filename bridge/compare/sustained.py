"""The highest rate at which each row keeps its 99th percentile within a bound: `kedge compare --p99 10ms`.

Each rate is tried in a comparison of its own. The rate doubles while a row is within the bound, halves while it is not,
and then lies between the two. Knows comparisons as a whole; starts no process itself.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Final

from bridge.compare.job import ComparisonJob, ComparisonProgress, ComparisonRow
from bridge.compare.processes import Interrupts
from bridge.compare.results import Comparison, ModeResult, percentiles
from bridge.compare.workload.prepare import counts_of
from topology.errors import ConfigurationError

BETWEEN: Final = 1.2  # the search ends if a rate this many times higher is not within the bound
HALVED_MAX: Final = 7  # halvings of the first rate before the row is reported as never within the bound
BOUND: Final = "p99_ms"  # a key of a comparison's settings
RATE: Final = "highest rate"  # a key of a row's settings

Compare = Callable[[ComparisonJob, ComparisonProgress, Interrupts], Comparison]


@dataclass
class Search:
    """The search of one row.

    within  the highest rate that was within the bound, and its result.
    beyond  the lowest rate that was not, and its result.
    """

    begins: float
    mode: str = ""
    within: tuple[float, ModeResult] | None = None
    beyond: tuple[float, ModeResult] | None = None
    failed: int = 0  # rates beyond the bound before the first one within it
    ended: bool = False
    notes: list[str] = field(default_factory=list)

    def wants(self) -> float | None:
        """Return the next rate; None if no further rate is to be tried."""
        if self.ended:
            return None
        if self.within is None and self.beyond is None:
            return self.begins
        if self.beyond is None:
            assert self.within is not None
            return self.within[0] * 2
        if self.within is None:
            return self.beyond[0] / 2 if self.failed <= HALVED_MAX else None
        low, high = self.within[0], self.beyond[0]
        return round(sqrt(low * high)) if high / low > BETWEEN and high - low > 1 else None

    def tried(self, rate: float, found: ModeResult, bound_ms: float) -> None:
        """Enter the result of a rate."""
        if is_within(found, bound_ms):
            self.within = (rate, found)
            return
        if self.within is None:
            self.failed += 1
        self.beyond = (rate, found)
        if found.offered == 0:  # it did not run at all, and will not at another rate
            self.ended = True

    def can_not_try(self, why: str) -> None:
        """Enter that the next rate cannot be offered."""
        self.ended = True
        if self.within is not None:
            self.notes.append(
                f"{self.within[1].title} may do more than {self.within[0]:,.0f} messages per second: {why}."
            )

    def result(self, bound_ms: float) -> ModeResult | None:
        """Return the row with its figures at the highest rate within the bound; else at the lowest, with the reason."""
        if self.within is not None:
            rate, found = self.within
            found.settings[RATE] = f"{rate:,.0f} a second"
            if self.beyond is not None and self.beyond[1].feeder_limited:
                self.notes.append(
                    f"{found.title} may do more than {rate:,.0f} messages per second: above that the feeder "
                    "was the limit."
                )
            return found
        if self.beyond is None:
            return None
        rate, found = self.beyond
        p99 = (percentiles(found.latencies) or {}).get("p99")
        if not found.problem and p99 is not None:
            found.problem = f"at {rate:,.0f} messages per second, p99 was {p99:,.1f} ms; the bound is {bound_ms:g} ms"
        return found


def is_within(found: ModeResult, bound_ms: float) -> bool:
    """True if a row finished, lost nothing, and has its 99th percentile within the bound."""
    some = percentiles(found.latencies)
    return not (found.problem or found.missing) and some is not None and some["p99"] <= bound_ms


def sustained(job: ComparisonJob, progress: ComparisonProgress, interrupts: Interrupts, compare: Compare) -> Comparison:
    """Do as `compare` does; each row is that of its highest rate. The search begins at `job.rate`."""
    assert job.rate is not None, "a rate to begin with"
    searches: dict[str, Search] = {}
    steps = _Steps(progress)
    made: Comparison | None = None
    notes: list[str] = []
    rate: float | None = job.rate
    modes: Sequence[str] = job.modes
    while rate is not None:
        try:
            counts_of(replace(job, rate=rate))
        except ConfigurationError as error:
            if made is None:
                raise
            for row_search in _wanting(searches, rate):
                row_search.can_not_try(str(error))
        else:
            steps.note(f"now {rate:,.10g} messages per second")
            found = compare(replace(job, rate=rate, modes=tuple(modes)), steps, interrupts)
            made = made or found
            notes += [text for text in found.notes if text not in notes]
            for row in found.modes:
                search = searches.setdefault(row.title, Search(job.rate, row.mode))
                if search.wants() == rate and not (found.interrupted and row.problem):
                    search.tried(rate, row, job.p99_ms)
            if found.interrupted:
                made.interrupted = True
                break
        rate = next((wanted for row_search in searches.values() if (wanted := row_search.wants()) is not None), None)
        modes = [*dict.fromkeys(row_search.mode for row_search in _wanting(searches, rate))] if rate is not None else []
    assert made is not None
    results = [row_search.result(job.p99_ms) for row_search in searches.values()]
    made.modes = [row_search for row_search in results if row_search is not None]
    made.notes = [*(note for row_search in searches.values() for note in row_search.notes), *notes]
    made.settings |= {
        "rate": f"the highest with p99 within {job.p99_ms:g} ms",
        BOUND: job.p99_ms,
        "first_rate": job.rate,
    }
    for name in ("messages", "warm_up_messages"):  # of the first rate only
        made.settings.pop(name, None)
    return made


def _wanting(searches: dict[str, Search], rate: float) -> Iterator[Search]:
    return (search for search in searches.values() if search.wants() == rate)


class _Steps:
    """A ComparisonProgress that shows many comparisons as one: rows are planned once, and each note is shown once."""

    def __init__(self, progress: ComparisonProgress) -> None:
        self._progress, self._planned = progress, False
        self._noted: set[str] = set()
        self.begun, self.phase, self.ended = progress.begun, progress.phase, progress.ended

    def note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._progress.note(text)

    def planned(self, rows: Sequence[ComparisonRow]) -> None:
        if not self._planned:
            self._planned = True
            self._progress.planned(rows)
