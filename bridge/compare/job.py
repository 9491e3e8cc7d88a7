"""A comparison's job, and the interface to which it reports its progress. Plain data; no I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from bridge.compare.results import ModeResult

PHASES: Final = ("starting", "warm-up", "measuring", "ending")  # of one round of one row, in this order


@dataclass(frozen=True)
class ComparisonJob:
    """One comparison, as `kedge compare` takes it from its command line.

    target         TOPOLOGY as `kedge run` takes it; `values` and `config`: `--set` and `--config`, NAME=VALUE each.
    rate           messages per second; None for all of them at once (`--rate max`).
    seconds        measured in each round of each row; `warm_up_s` comes before, and is not measured.
    rounds         how often each row is measured; rows take turns.
    modes          as `--modes` names them; empty for all that can run here.
    spark_master, spark_conf   as `--spark` and `--spark-conf` of `kedge run`.
    kill           True if each round has its victim killed in its middle.
    sample         as `values`, for data that were made because no values were given; the command line that repeats the
                   comparison leaves them out.
    counted        a regex and a group of it, if the topology counts messages by that group, as Spark can in SQL.
    p99_ms         if above 0: the comparison searches for each row's highest rate whose 99th percentile is within it,
                   starting at `rate` (`--p99`).
    """

    target: str
    values: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    rate: float | None = 1_000.0
    seconds: float = 20.0
    warm_up_s: float = 5.0
    rounds: int = 2
    modes: tuple[str, ...] = ()
    spark_master: str = ""
    spark_conf: tuple[str, ...] = ()
    kill: bool = False
    sample: tuple[str, ...] = ()
    p99_ms: float = 0.0
    counted: tuple[str, str] | tuple[()] = ()

    @property
    def settings(self) -> tuple[str, ...]:
        """Return all settings that the topology is made with, NAME=VALUE each."""
        return (*self.values, *self.sample)


@dataclass(frozen=True)
class ComparisonRow:
    """One row of the table, before it is measured: a mode and its settings. Hashable by its title.

    mode       as `--modes` names it. A mode of Spark's may have two rows.
    title      as people read it; no two rows have the same.
    guarantee  the row's delivery guarantee, in a word or two.
    settings   settings beyond the defaults of the engine that runs it.
    """

    mode: str
    title: str
    guarantee: str
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)


class ComparisonProgress(Protocol):
    """The receiver of a comparison's progress.

    Its methods are called in the thread of `compare`, at most a dozen times per second during a phase. They must return
    at once. An exception that they raise ends the comparison.
    """

    def planned(self, rows: Sequence[ComparisonRow]) -> None:
        """These rows will be measured, in this order, in each round."""

    def begun(self, row: ComparisonRow, round: int) -> None:
        """This row's turn in this round, from 1."""

    def phase(self, row: ComparisonRow, phase: str, done_s: float, of_s: float) -> None:
        """Report one of PHASES, its seconds so far, and its seconds in all (a limit, or exact)."""

    def ended(self, row: ComparisonRow, result: ModeResult) -> None:
        """A row's turn is over. `result` has everything measured so far, earlier rounds included.

        It is not final: missing results are known once all rows are measured.
        """

    def note(self, text: str) -> None:
        """Report a sentence that a reader has to know, as in `Comparison.notes`; or the rate that is tried now."""


class Quiet:
    """A ComparisonProgress that reports nothing."""

    def planned(self, rows: Sequence[ComparisonRow]) -> None: ...
    def begun(self, row: ComparisonRow, round: int) -> None: ...
    def phase(self, row: ComparisonRow, phase: str, done_s: float, of_s: float) -> None: ...
    def ended(self, row: ComparisonRow, result: ModeResult) -> None: ...
    def note(self, text: str) -> None: ...
