"""One row of a comparison and how it is run: options, variables, the victim of a kill. Values; starts nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bridge.compare.job import ComparisonRow

A_WORKER: Final = "a worker"
ITS_PROCESS: Final = "its only process"
ITS_DRIVER: Final = "the driver"


@dataclass(frozen=True)
class ModeRun:
    """A row, and how it is run: options of `kedge run`, variables, and the `victim` of a kill.

    `interval_s`: the shortest wait of a micro-batch for the next one. Rows that `jvm` measures have none of this
    (`is_jvm`).
    """

    row: ComparisonRow
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)
    victim: str = ""
    interval_s: float = 0.0
    on_spark: bool = False
    is_jvm: bool = False
