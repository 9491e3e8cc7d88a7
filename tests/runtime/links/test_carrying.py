"""Frames between processes: what is no frame of this run is counted and dropped, and the rest goes on (F34, S2)."""

import contextlib
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest
from transport_kit import until

from acker.roots import owner
from topology.runtime.links.carrier import WireCarrier
from topology.runtime.links.codec import pack
from topology.runtime.links.protocol import Frame, Greeting, Kind

GREETING = Greeting(1, "plan", "program")


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="t-") as name:
        yield Path(name)


def frame(run: int, session: int = 1) -> Frame:
    return Frame(Kind.HELLO, run, owner(1, 5), owner(0, 9), session, 0, GREETING)


async def linked(short: Path, got: list[Frame]) -> tuple[WireCarrier, WireCarrier]:
    """Two carriers of run 7: what the second sends, the first receives."""
    room: list[int] = []
    first = WireCarrier(7, got.append, room.append, peers=1)
    second = WireCarrier(7, got.append, room.append, peers=1)
    second.connect(0, first.bind(str(short / "socket")))
    assert not second.send(frame(7)), "no connection yet"
    await until(lambda: room == [0])
    return first, second


async def test_a_frame_goes_to_the_worker_of_its_receiver(short: Path) -> None:
    got: list[Frame] = []
    first, second = await linked(short, got)
    with contextlib.closing(first), contextlib.closing(second):
        assert second.send(frame(7))
        await until(lambda: bool(got))
        assert (got[0].sender, got[0].receiver, got[0].body) == (owner(1, 5), owner(0, 9), GREETING)
        second.disconnect(0)
        assert not second.send(frame(7))


async def test_what_is_no_frame_or_of_another_run_is_counted_and_dropped_f34_s2(
    short: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seed = Random().getrandbits(32)
    print("seed", seed)
    random = Random(seed)
    got: list[Frame] = []
    first, second = await linked(short, got)
    with contextlib.closing(first), contextlib.closing(second):
        good = pack(frame(7))
        bad = [
            b"",
            b"\xdd\xff\xff\xff\xff",
            b"\x91" * 100_000,
            good[:-1],
            good[:9],
            *map(random.randbytes, range(1, 40)),
        ]
        for session, data in enumerate(bad):
            await until(partial(second.transport.send, 0, data))
            await until(lambda: second.send(frame(8)))
            await until(partial(second.send, frame(7, session)))
        await until(lambda: len(got) == len(bad))
        assert [one.session for one in got] == [*range(len(bad))]
        assert first.malformed == first.foreign == len(bad)
        first.check(1.0)
        told = len(caplog.records)
        assert 0 < told <= 2 * 17, "the first of each kind, and its count"
        first.check(30.0)
        assert len(caplog.records) == told
        await until(lambda: second.send(frame(8)))
        await until(lambda: first.foreign == len(bad) + 1)
        first.check(62.0)
        assert "another run: 1 more in 61 s" in caplog.text
        assert first.transport.rescues == second.transport.rescues == 0
