"""Another durability between two runs: refused while something is in flight, if it names outputs otherwise (K484)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from positions_kit import Counted
from runtime_kit import Number

from topology import Bolt, Config, StartError, State, Topology
from topology.plan import Plan, plan
from topology.runtime.run.startup import CARRY_ON, Terms, ended, opened
from topology.testing import Captured


class Sum(Bolt):
    def process(self, number: Number, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + number.n)
        yield number


def declared(durability: Any) -> Plan:
    topology = Topology("t", Config(durability=durability))
    numbers = topology.spout("lines", Counted(1))
    topology.bolt("out", Captured(), topology.bolt("sum", Sum(), numbers.fields("n")).shuffle())
    return plan(topology, 1)


def run(path: Path, durability: str, *, drained: bool, terms: Terms = CARRY_ON) -> list[str]:
    """One run. Returns what it said at its beginning."""
    with opened(path, declared(durability), terms) as (state, begun):
        if drained:
            assert ended(state, drained=True)
        return [*begun.notices]


@pytest.mark.parametrize(("was", "now"), [("disk", "process"), ("process", "disk"), ("checkpoint", "disk")])
def test_an_interrupted_run_goes_on_with_its_own_durability_and_once_drained_with_any(
    tmp_path: Path, was: str, now: str
) -> None:
    run(tmp_path, was, drained=False)
    for _ in range(2):  # a refused start changes nothing
        with pytest.raises(StartError) as caught:
            run(tmp_path, now, drained=False)
        assert str(caught.value.code) == "K484"
        assert f"--config durability={was}" in caught.value.next
    assert run(tmp_path, was, drained=True) == []
    (told,) = run(tmp_path, now, drained=False)
    assert f"durability is {now!r} in place of {was!r}, which gives the outputs of 'sum' other names" in told
    assert run(tmp_path, now, drained=False) == []


def test_accepted_duplicates_and_a_fresh_start_go_on_with_any_durability(tmp_path: Path) -> None:
    run(tmp_path, "disk", drained=False)
    (told,) = run(tmp_path, "checkpoint", drained=False, terms=Terms(accept_duplicates=True))
    assert "may be stored twice (--accept-duplicates)" in told
    run(tmp_path, "disk", drained=False, terms=Terms(fresh=True))


def test_process_and_checkpoint_follow_each_other_however_the_run_ended(tmp_path: Path) -> None:
    run(tmp_path, "process", drained=False)
    assert run(tmp_path, "checkpoint", drained=False) == []
    assert run(tmp_path, "process", drained=False) == []
