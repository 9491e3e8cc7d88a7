"""Halves of the rules C1 and C9 that no other test of sinks sees alone."""

from pathlib import Path

import pytest
from sink_kit import KINDS, SOURCE, Alert, Kind, alert, feed, opened

from bolts import JsonLinesSink
from topology.core.tuples import Tuple


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_c1_outputs_of_two_messages_whose_identities_collide_are_two_rows(kind: Kind, tmp_path: Path) -> None:
    """The same content, and 64 of 128 bits alike: either half is enough to tell them apart."""
    record = Alert("192.0.2.1", 5)
    pairs = [(1, 7), (2, 7), (1, 8)]
    async with opened(kind.make(tmp_path / "alerts")) as sink:
        await feed(sink, [Tuple(record, origin, identity, 1, (), SOURCE) for origin, identity in pairs])
        assert (sink.stored, sink.duplicates, sink.divergent) == (3, 0, 0)
    assert len(kind.rows(tmp_path / "alerts")) == 3


async def test_c9_a_line_that_is_twice_in_a_batch_is_one_duplicate(tmp_path: Path) -> None:
    async with opened(JsonLinesSink(tmp_path / "alerts")) as sink:
        await feed(sink, [alert(1), alert(1), alert(2)])
        assert (sink.stored, sink.duplicates) == (2, 1)
    assert (tmp_path / "alerts").read_bytes().count(b"\n") == 2
