"""A sink's acks of a whole batch: rules A3 and A4, with the real runtime."""

from typing import Any, Never

from runtime_kit import Number, balanced, numbers

from topology import Bolt, Collector, Topology, Tuple
from topology.testing import ScriptedSpout, run_topology


class AcksAll(Bolt):
    """Keeps four inputs, and acks one; then all four at once; the one is given back."""

    def __init__(self) -> None:
        self.kept: list[Tuple[Any]] = []

    def execute(self, tup: Tuple[Number], out: Collector[Never]) -> None:
        self.kept.append(tup)
        if len(self.kept) == 4:
            out.ack(self.kept[0])
            finished = getattr(out, "ack_all")(self.kept)  # noqa: B009 – the runtime's own, as sinks use it
            assert finished == self.kept[:1], "the first was done already"


def test_a3_a4_acking_several_at_once_completes_those_that_are_open_and_tells_the_others() -> None:
    topology = Topology("many")
    topology.bolt("acks", AcksAll(), topology.spout("numbers", ScriptedSpout(numbers(4))).shuffle())
    report = run_topology(topology)
    assert report.snapshot.total("acked") == 4
    assert not report.snapshot.total("failed")
    assert balanced(report)
