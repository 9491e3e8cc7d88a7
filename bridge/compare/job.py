"""What is asked of a comparison, and to whom it tells how far it is. Plain data; no I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from bridge.compare.results import ModeResult

PHASES: Final = ("starting", "warm-up", "measuring", "ending")  # of one round of one row, in this order


@dataclass(frozen=True)
class ComparisonJob:
    """One comparison, as `kedge compare` takes it from its command line.

    target         TOPOLOGY as `kedge run` takes it; `values` and `config`: `--set` and `--config`, NAME=VALUE each.
    rate           messages a second; None for all of them at once (`--rate max`).
    seconds        measured, in each round of each row; `warm_up_s` goes before, and is not measured.
    rounds         how often each row is measured; rows take turns.
    modes          as `--modes` names them; empty for all that can run here.
    spark_master, spark_conf   as `--spark` and `--spark-conf` of `kedge run`.
    kill           whether each round has its victim killed in its middle.
    sample         as `values`, for data that were made because no values were given; what repeats the command leaves
                   them out.
    counted        a regex and a group of it, where the topology counts messages by that group, as Spark can in SQL.
    p99_ms         where it is above 0, each row's highest rate is sought whose 99th percentile is within it, from
                   `rate` on (`--p99`).
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
        """All that the topology is made with, NAME=VALUE each."""
        return (*self.values, *self.sample)


@dataclass(frozen=True)
class ComparisonRow:
    """One row of the table, before anything is known of it: a mode, and with which settings. Hashable by its title.

    mode       as `--modes` names it. A mode of Spark's may have two rows.
    title      as people read it; no two rows have the same.
    guarantee  what it promises of a result, in a word or two.
    settings   that it runs with, beyond the defaults of what runs it.
    """

    mode: str
    title: str
    guarantee: str
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)


class ComparisonProgress(Protocol):
    """Is told how far a comparison is. Called in the thread of `compare`, a dozen times a second at most while a phase
    lasts; must return at once, and what it raises ends the comparison."""

    def planned(self, rows: Sequence[ComparisonRow]) -> None:
        """These will be measured, in this order, in each round."""

    def begun(self, row: ComparisonRow, round: int) -> None:
        """This row's turn in this round, from 1."""

    def phase(self, row: ComparisonRow, phase: str, done_s: float, of_s: float) -> None:
        """Where its turn is: one of PHASES, and how many seconds of at most, or of exactly, how many have gone."""

    def ended(self, row: ComparisonRow, result: ModeResult) -> None:
        """Its turn is over: all that this row has by now, of earlier rounds too. Not the last word: what is missing is
        known once all rows are measured."""

    def note(self, text: str) -> None:
        """A sentence that a reader has to know, as it will be in `Comparison.notes`; or which rate is tried now."""


class Quiet:
    """A Progress that tells nobody."""

    def planned(self, rows: Sequence[ComparisonRow]) -> None: ...
    def begun(self, row: ComparisonRow, round: int) -> None: ...
    def phase(self, row: ComparisonRow, phase: str, done_s: float, of_s: float) -> None: ...
    def ended(self, row: ComparisonRow, result: ModeResult) -> None: ...
    def note(self, text: str) -> None: ...
