"""Names that a bolt with state gives its outputs by their count: of one key, one bolt, one topology and one run id."""

from collections.abc import Sequence
from random import Random
from typing import Any

from runtime_kit import Number, Totals

from topology import Topology, Tuple
from topology.plan import plan
from topology.runtime.tasks.outbox import Outbox, outbox_of
from topology.testing import Captured, ScriptedSpout


class Queue:
    """Keeps what is put into it."""

    def __init__(self) -> None:
        self.tuples: list[Tuple[Any]] = []

    def append(self, tup: Tuple[Any]) -> None:
        self.tuples.append(tup)

    def extend(self, tuples: Sequence[Tuple[Any]]) -> None:
        self.tuples.extend(tuples)


def named(topology_id: str, key: bytes = b"key", first: int = 0) -> list[tuple[int, int]]:
    """The origins and identities of two outputs, one emitted alone and both together."""
    topology, queue = Topology("counts"), Queue()
    totals = topology.bolt("totals", Totals(), topology.spout("numbers", ScriptedSpout([Number(1)])).fields("n"))
    topology.bolt("captured", Captured[Number](), totals.shuffle())
    outbox: Outbox = outbox_of(
        plan(topology),
        "totals",
        0,
        lambda name, task: queue,
        Random(1),
        topology_id=topology_id,  # type: ignore[arg-type,return-value]
    )
    tup: Any = Tuple(Number(1), 5, 6, 0, (), None)  # type: ignore[arg-type]
    outbox.emit_counted([Number(1)], tup, key, first)
    outbox.emit_counted([Number(1), Number(2)], tup, key, first)
    return [(one.origin, one.identity) for one in queue.tuples]


def test_an_output_has_one_name_however_many_are_emitted_with_it() -> None:
    alone, together, second = named("counts")
    assert alone == together != second
    assert named("counts", first=1)[0] == second


def test_another_topology_or_run_id_or_key_gives_other_names_C3() -> None:
    found = [named(id, key)[0] for id in ("counts", "counts/again", "other") for key in (b"a", b"b")]
    assert len({origin for origin, _ in found}) == len({identity for _, identity in found}) == 6
