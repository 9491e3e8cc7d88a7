"""Stages of bolts against the same topology in Kedge's own workers: the same records under the same identities, however
the messages fall into batches; in plain Python, as Spark only brings rows together."""

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest
from engine_kit import Stages
from engine_topology import Counted, Numbered, Odd, Total, declared

from spouts import Items
from topology import Topology
from topology.testing import Captured, run_topology

COUNT = 120


def test_all_sinks_get_what_they_get_in_kedge_under_the_same_identities(tmp_path: Path) -> None:
    """B1, A18: in one batch, or in many."""
    seen, counted, total, copied = Captured[Numbered](), Captured[Counted](), Captured[Total](), Captured[Odd]()
    one = whole(seen, counted, total, copied)
    run_topology(one)  # the rejected message makes its exit status 1
    messages = [(tup.origin, tup.identity, tup.record) for tup in seen.tuples]
    assert len(messages) == COUNT

    for seed in range(3):
        print(f"seed {seed}")
        random, stages, left = Random(seed), Stages(one, tmp_path, seed), [*messages]
        given: dict[str, dict[tuple[int, int], object]] = defaultdict(dict)
        try:
            while left:
                many = random.choice((1, 7, 40))
                for name, rows in stages.batch(left[:many]).items():
                    given[name] |= {(origin, identity): record for origin, identity, record in rows}
                left = left[many:]
        finally:
            stages.close()
        assert given["counted-kept"] == counted.distinct
        assert given["total-kept"] == total.distinct
        assert given["copied-kept"] == copied.distinct
        assert given["seen"] == seen.distinct
        assert [one.text for one in stages.rejected] == ["Reject: an unlucky number"]
        assert stages.counts()["deal", "executed"] == COUNT - 1, "once, though two bolts and three sinks read it"


def whole(seen: Captured[Numbered], *captured: Captured[Any]) -> Topology:
    topology = Topology("on-spark")
    stream = topology.spout("numbers", Items([Numbered(one) for one in range(COUNT)]))
    streams = declared(topology, stream)
    topology.bolt("seen", seen, stream.shuffle())
    for name, sink, one in zip(("counted", "total", "copied"), captured, streams, strict=True):
        topology.bolt(f"{name}-kept", sink, one.global_())
    return topology


@pytest.mark.parametrize("size", [1, COUNT])
def test_rows_of_one_key_are_worked_on_in_the_order_of_their_messages(tmp_path: Path, size: int) -> None:
    topology = Topology("on-spark")
    counted, _, _ = declared(topology, topology.spout("numbers", Items([Numbered(1)])))
    topology.bolt("counted-kept", Captured[Counted](), counted.global_())
    stages = Stages(topology, tmp_path)
    messages = [(number, number + 1, Numbered(number)) for number in range(100, 100 + COUNT)]
    try:
        for begin in range(0, COUNT, size):
            for _, _, one in stages.batch(messages[begin : begin + size])["counted-kept"]:
                before = [(number, number + 1_000_000) for number in range(100, one.number % 1_000_000 + 1)]
                flat = [two for pair in before if pair[0] % 7 == one.number % 1_000_000 % 7 for two in pair]
                wanted = flat if one.number >= 1_000_000 else flat[:-1]
                assert (one.count, one.total) == (len(wanted), sum(wanted))
    finally:
        stages.close()
