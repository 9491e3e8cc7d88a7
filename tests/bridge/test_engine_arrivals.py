"""What a spout has handed over to Spark and can't go on: it is a dead letter, and ends no run. Without Spark."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_kit import Stages

from spouts import Items
from topology import Bolt, Record, State, Topology
from topology.testing import Captured


class Heard(Record):
    at: float


class Count(Bolt):
    def process(self, heard: Heard, state: State[int]) -> Iterator[Heard]:
        state.set(state.get(0) + 1)
        yield heard


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_message_whose_key_equals_nothing_is_rejected_and_the_others_go_on(tmp_path: Path, tasks: int) -> None:
    """F6: it is durable and acked, so a batch that failed for it would fail in each next run."""
    one = Topology("heard")
    counted = one.bolt("count", Count(), one.spout("heard", Items([Heard(1.0)])).fields("at"), tasks=tasks)
    one.bolt("kept", Captured[Heard](), counted.global_())
    stages = Stages(one, tmp_path)
    try:
        given = stages.batch([(1, 2, Heard(1.0)), (3, 4, Heard(math.nan)), (5, 6, Heard(2.0))])
    finally:
        stages.close()
    assert {(origin, record.at) for origin, _, record in given["kept"]} == {(1, 1.0), (5, 2.0)}
    (rejected,) = stages.rejected
    assert rejected.component == "heard"
    assert "nan" in rejected.record
