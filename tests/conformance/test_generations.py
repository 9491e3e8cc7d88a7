"""Generations of links, on those of memory and on ZeroMQ's: nothing that was sent in one is read in another (A14)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from link_kit import SINK, End, Net, a_while, net_of, numbered, until

from topology.runtime.failures import Failure, Reason
from topology.runtime.links.protocol import Frame, Kind
from topology.runtime.queue_limits import QUEUE_HIGH


@pytest.fixture(params=["memory", "zmq"])
async def net(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Net]:
    async with net_of(request.param, tmp_path) as made:
        yield made


async def linked(net: Net) -> tuple[End, End]:
    """Two ends that have welcomed each other."""
    zero, one = net.end(0), net.end(1)
    zero.join(one)
    one.join(zero)
    await until(lambda: zero.peers.linked and one.peers.linked)
    return zero, one


class Cut:
    """The checkpoints of a worker that has gathered this one. `saw` notes how much was read before."""

    def __init__(self, end: End, gathered: int) -> None:
        self.gathered = gathered
        self.seen: list[tuple[int, int]] = []
        self._end = end

    def saw(self, checkpoint: int) -> None:
        self.seen.append((checkpoint, len(self._end.arrived)))
        self.gathered = checkpoint


def delayed(end: End, to: int) -> list[Frame]:
    """From now on, what this end sends to a worker is kept here, and does not leave."""
    kept: list[Frame] = []
    carrier: Any = type("Delayed", (), {"send": lambda _, frame: kept.append(frame) or True})()
    end.peers.by_worker[to]._carrier = carrier
    return kept


async def test_content_of_the_new_generation_waits_for_a_worker_that_hears_of_it_later(net: Net) -> None:
    zero, one = await linked(net)
    zero.peers.begin_generation(2)
    zero.emit(1, 2)
    assert zero.peers.queue(1, SINK).full, "so the spouts that feed it pause"
    await a_while()
    assert one.arrived == []
    one.peers.begin_generation(2)
    await until(lambda: one.arrived == [1, 2])
    assert not zero.peers.queue(1, SINK).full
    assert (zero.lost, one.lost) == ([], [])


async def test_content_of_the_new_generation_comes_to_a_worker_that_has_heard_of_it_first(net: Net) -> None:
    zero, one = await linked(net)
    one.peers.begin_generation(2)
    zero.emit(1)
    await a_while()
    assert one.arrived == [], "it is of the generation before"
    zero.peers.begin_generation(2)
    zero.emit(2)
    await until(lambda: one.arrived == [2])


async def test_a_hello_of_a_newer_generation_is_no_foreign_frame_and_changes_nothing(net: Net) -> None:
    zero, one = await linked(net)
    before = one.peers.by_worker[0].receiving
    zero.peers.begin_generation(2)
    foreign = one.peers.foreign
    await a_while()
    assert one.peers.by_worker[0].receiving is before
    assert one.peers.foreign == foreign
    assert not zero.peers.linked


async def test_frames_of_an_older_generation_are_dropped_and_counted_whatever_their_kind(net: Net) -> None:
    zero, one = await linked(net)
    late = delayed(zero, 1)
    zero.emit(666)
    zero.peers.by_worker[1].greet()
    late += [zero.peers.by_worker[1]._frame(kind, 0, zero.peers._greeting) for kind in (Kind.HELLO, Kind.WELCOME)]
    zero.peers.by_worker[1]._carrier = zero.carrier
    one.peers.begin_generation(2)
    foreign = one.peers.foreign
    for frame in late:
        one.peers.received(frame)
    assert one.peers.foreign == foreign + len(late)
    assert one.arrived == []
    assert one.peers.by_worker[0].receiving is None
    assert not one.peers.linked
    zero.peers.begin_generation(2)
    zero.emit(1)
    await until(lambda: one.arrived == [1])


async def test_everything_that_waits_for_a_peer_is_dropped(net: Net) -> None:
    zero, one = await linked(net)
    root = one.worker.roots.next_root()
    told: list[object] = []
    one.worker.ledger.ack = lambda root, value: told.append("ack")
    one.worker.ledger.renew = lambda root: told.append("queued")
    one.worker.fail = lambda root, failure: told.append("fail")
    one.worker.touch = lambda root: told.append("touch")
    one.peers.queue(0, ("sink", 0))
    narrow: Any = type("Narrow", (), {"send": lambda _, frame: False})()
    zero.peers.by_worker[1]._carrier = narrow
    zero.emit(1)  # in a frame that has found no room
    zero.peers.queue(1, SINK).queue.append(numbered(2))
    zero.worker.ack(root, 5)
    zero.peers.fail(root, Failure(Reason.RAISED, "sink", "no"))
    zero.peers.touch(root)
    zero.peers.queued(root)
    zero.peers.by_worker[1].tell_depth(2, QUEUE_HIGH + 1)
    zero.peers.begin_generation(2)
    one.peers.begin_generation(2)
    zero.peers.by_worker[1]._carrier = zero.carrier
    zero.emit(3)
    await until(lambda: one.arrived == [3])
    await a_while()
    assert told == []
    assert not one.peers.queue(0, ("sink", 0)).full
    assert one.peers.by_worker[0].receiving is not None
    assert one.peers.by_worker[0].receiving.foreign == 0


async def test_an_ack_that_is_on_its_way_as_a_generation_begins_has_no_effect(net: Net) -> None:
    zero, one = await linked(net)
    acked: list[int] = []
    one.worker.ledger.ack = lambda root, value: acked.append(root)
    late = delayed(zero, 1)
    zero.worker.ack(one.worker.roots.next_root(), 5)
    await until(lambda: len(late) == 1)
    one.peers.begin_generation(2)
    one.peers.received(late[0])
    assert acked == []


async def test_full_queues_are_forgotten_with_the_generation_and_told_of_again(net: Net) -> None:
    zero, one = await linked(net)
    queue = zero.peers.queue(1, SINK)
    zero.emit(*range(QUEUE_HIGH + 2))
    await until(lambda: queue.full and queue.depth > QUEUE_HIGH)
    one.worker.executors[SINK].queue.clear()  # as the worker does as it begins a generation
    for end in (one, zero):
        end.peers.begin_generation(2)
    assert queue.depth == 0
    await until(lambda: not queue.full)
    zero.emit(*range(QUEUE_HIGH + 2))
    await until(lambda: queue.depth > QUEUE_HIGH)


@pytest.mark.parametrize("second", [True, False], ids=["both", "the last one"])
async def test_two_generations_in_a_row_are_met_by_whoever_hears_of_both_late(net: Net, second: bool) -> None:
    zero, one = await linked(net)
    zero.peers.begin_generation(2)
    zero.emit(2)
    await a_while(0.05)
    zero.peers.begin_generation(3)
    zero.emit(3)
    if second:
        one.peers.begin_generation(2)
        await a_while(0.05)
        assert one.arrived == []
    one.peers.begin_generation(3)
    await until(lambda: one.arrived == [3])


async def test_a_worker_that_begins_in_a_later_generation_meets_those_that_are_in_it(net: Net) -> None:
    zero = net.end(0)
    zero.peers.begin_generation(2)
    one = net.end(1, generation=2)
    zero.join(one)
    one.join(zero)
    zero.emit(1)
    await until(lambda: one.arrived == [1])


async def test_a_session_of_the_new_generation_misses_no_frame_of_the_one_before(net: Net) -> None:
    zero, one = await linked(net)
    zero.peers.by_worker[1].sent += 1  # as if one had left, and was lost on its way
    zero.emit(1)
    await a_while(0.05)
    for end in (zero, one):
        end.peers.begin_generation(2)
    zero.emit(2)
    await until(lambda: one.arrived == [2])
    one.peers.check(one.worker.clock.monotonic() + 5.0, 0.0)
    assert one.lost == []


async def test_the_number_of_a_generation_only_grows(net: Net) -> None:
    zero = net.end(0)
    zero.peers.begin_generation(2)
    for number in (2, 1):
        with pytest.raises(ValueError, match=f"generation {number} can't follow generation 2"):
            zero.peers.begin_generation(number)


async def test_a_worker_gathers_before_it_reads_what_comes_from_one_that_has_gathered_p1(net: Net) -> None:
    zero, one = await linked(net)
    before, after = Cut(zero, 4), Cut(one, 4)
    zero.worker.checkpoints, one.worker.checkpoints = before, after
    zero.emit(1)
    await until(lambda: one.arrived == [1])
    assert after.seen == []
    before.gathered = 5
    zero.emit(2, 3)
    await until(lambda: one.arrived == [1, 2, 3])
    assert after.seen == [(5, 1)], "once, and before any tuple of that frame"
    after.gathered = 6
    zero.emit(4)
    await until(lambda: one.arrived == [1, 2, 3, 4])
    assert after.seen == [(5, 1)], "who is ahead need not gather"


async def test_acks_make_a_worker_gather_too_p1(net: Net) -> None:
    zero, one = await linked(net)
    one.worker.checkpoints = after = Cut(one, 0)
    zero.worker.checkpoints = Cut(zero, 1)
    order: list[str] = []
    one.worker.ledger.ack = lambda root, value: order.append(f"ack after {after.gathered}")
    zero.worker.ack(one.worker.roots.next_root(), 5)
    await until(lambda: bool(order))
    assert order == ["ack after 1"]
