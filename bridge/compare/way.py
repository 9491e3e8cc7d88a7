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
    """A row, and how it is run: options of `kedge run`, and variables; `victim` of a kill; `interval_s`: how long a
    micro-batch waits for the next one at least. None of it for what `jvm` measures (`is_jvm`)."""

    row: ComparisonRow
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)
    victim: str = ""
    interval_s: float = 0.0
    on_spark: bool = False
    is_jvm: bool = False
