"""What links between workers promise, on those of memory and on ZeroMQ's, one body a promise (A11, A14, A15, F38)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from link_kit import End, Net, a_while, net_of, numbered, spread, until

from topology.runtime.failures import Failure, Reason
from topology.runtime.links.peers import SILENT_S
from topology.runtime.links.protocol import Frame, Kind
from topology.runtime.queue_limits import QUEUE_HIGH, QUEUE_LOW


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


async def test_every_tuple_arrives_once_and_in_order(net: Net) -> None:
    zero, one = await linked(net)
    for begun in range(0, 20_000, 100):
        zero.emit(*range(begun, begun + 100))
        if begun % 1_000 == 0:
            await a_while(0)
    await until(lambda: len(one.arrived) == 20_000)
    assert one.arrived == list(range(20_000))


async def test_what_was_sent_before_the_welcome_waits_for_it_and_the_queue_is_full_meanwhile(net: Net) -> None:
    zero, one = net.end(0), net.end(1)
    zero.emit(1, 2)
    zero.join(one)
    await a_while()
    assert one.arrived == [], "nobody has welcomed it"
    assert zero.peers.queue(1, ("sink", 1)).full, "so the spouts that feed it pause"
    one.join(zero)
    await until(lambda: one.arrived == [1, 2])
    assert not zero.peers.queue(1, ("sink", 1)).full


async def test_all_kinds_of_content_come_through(net: Net) -> None:
    zero, one = await linked(net)
    root = zero.worker.roots.next_root()
    failure = Failure(Reason.RAISED, "sink", "ValueError: no")
    told: list[object] = []
    zero.worker.fail = lambda root, failure: told.append((root, str(failure)))
    zero.worker.touch = lambda root: told.append(root)
    zero.peers.queue(1, ("sink", 1))
    one.peers.fail(root, failure)
    one.peers.touch(root)
    one.peers.by_worker[0].tell_depth(3, QUEUE_HIGH + 1)
    await until(lambda: len(told) == 2 and zero.peers.queue(1, ("sink", 1)).full)
    assert (root, str(failure)) in told
    assert root in told


async def test_acks_of_one_tree_leave_as_one_value(net: Net) -> None:
    zero, one = await linked(net)
    root = zero.worker.roots.next_root()
    acked: list[tuple[int, int]] = []
    zero.worker.ledger.ack = lambda root, value: acked.append((root, value))
    for value in (1, 2, 4):
        one.worker.ack(root, value)
    await until(lambda: bool(acked))
    assert acked == [(root, 7)]


async def test_acks_ride_with_tuples_or_leave_by_themselves_a_moment_later(net: Net) -> None:
    zero, one = await linked(net)
    before = zero.peers.by_worker[1].sent
    zero.worker.ack(one.worker.roots.next_root(), 5)
    zero.emit(1)
    await until(lambda: one.arrived == [1])
    await a_while(0.01)
    assert zero.peers.by_worker[1].sent == before + 1, "one frame for both"
    zero.worker.ack(one.worker.roots.next_root(), 5)
    await until(lambda: zero.peers.by_worker[1].sent == before + 2)


async def test_what_waits_for_a_peer_that_is_gone_is_dropped_and_what_comes_later_waits_for_its_successor_a14(
    net: Net,
) -> None:
    zero, one = await linked(net)
    one.peers.close()
    zero.peers.queue(1, ("sink", 1)).queue.append(numbered(1))  # in the middle of a slice
    zero.peers.gone(one.owner)
    zero.emit(2, 3)
    again = net.end(1, incarnation=2)
    again.join(zero)
    zero.join(again)
    await until(lambda: again.arrived == [2, 3])


async def test_frames_of_a_superseded_owner_are_dropped_and_counted_a15(net: Net) -> None:
    zero, one = await linked(net)
    zombie = zero
    again = net.end(0, incarnation=2)
    one.peers.gone(zombie.owner)
    one.join(again)
    again.join(one)
    await until(lambda: again.peers.linked and one.peers.linked)
    foreign = one.peers.foreign
    zombie.emit(666)
    again.emit(1)
    await until(lambda: one.arrived == [1] and one.peers.foreign > foreign)
    await a_while()
    assert one.arrived == [1]


async def test_what_a_healthy_run_drops_at_its_start_and_its_end_is_no_foreign_frame(net: Net) -> None:
    zero, one = net.end(0), net.end(1)
    zero.join(one)
    hello = zero.peers.by_worker[1]._frame(Kind.HELLO, 0, zero.peers._greeting)
    one.peers.received(hello)  # before it is told of worker 0
    one.join(zero)
    await until(lambda: zero.peers.linked and one.peers.linked)
    one.peers.close()
    one.peers.received(zero.peers.by_worker[1]._frame(Kind.CONTENT, 0, b""))
    assert one.peers.dropped().foreign == 0


async def test_a_hello_of_a_superseded_owner_is_counted_a15(net: Net) -> None:
    zero, one = await linked(net)
    hello = zero.peers.by_worker[1]._frame(Kind.HELLO, 0, zero.peers._greeting)
    one.peers.gone(zero.owner)
    foreign = one.peers.foreign
    one.peers.received(hello)
    assert one.peers.foreign == foreign + 1
    assert one.peers.by_worker[0].receiving is None


async def test_twenty_restarts_of_the_receiver_lose_nothing_that_was_sent_after_each_and_make_no_gap_f38(
    net: Net,
) -> None:
    zero = net.end(0)
    for incarnation in range(1, 21):
        one = net.end(1, incarnation)
        zero.emit(incarnation)
        zero.join(one)
        one.join(zero)
        await until(lambda one=one, n=incarnation: one.arrived == [n])
        zero.emit(incarnation + 100)
        await until(lambda one=one, n=incarnation: one.arrived == [n, n + 100])
        one.peers.close()
        zero.peers.gone(one.owner)
    assert zero.lost == [], "no session was lost, each was closed"


async def test_a_frame_that_never_comes_is_told_with_its_senders_owner_once_a11(net: Net) -> None:
    zero, one = await linked(net)
    zero.peers.by_worker[1].sent += 1  # as if one had left, and was lost on its way
    zero.emit(1)
    await a_while(0.05)
    assert one.arrived == []
    loop_time = one.worker.clock.monotonic()
    one.peers.check(loop_time, 0.0)
    assert one.lost == [], "it may still come"
    one.peers.check(loop_time + 1.1, 0.0)
    one.peers.check(loop_time + 1.2, 0.0)
    assert one.lost == [zero.owner]
    assert one.arrived == []


async def test_a_repeated_frame_is_read_once_a11(net: Net) -> None:
    zero, one = await linked(net)
    sent: list[Frame] = []
    send = zero.carrier.send
    zero.peers.by_worker[1]._carrier = type(
        "Twice", (), {"send": lambda _, frame: sent.append(frame) or (send(frame) and send(frame))}
    )()
    zero.emit(1)
    await until(lambda: one.arrived == [1])
    receiving = one.peers.by_worker[0].receiving
    assert receiving is not None
    await until(lambda: receiving.duplicates == 1)
    assert one.arrived == [1]
    assert [frame.kind for frame in sent] == [Kind.CONTENT]


async def test_a_hello_for_another_plan_is_refused_and_both_are_named_f37(net: Net) -> None:
    zero, other = net.end(0), net.end(1, topology=spread("another"))
    zero.join(other)
    other.join(zero)
    await until(lambda: bool(zero.refused) and bool(other.refused))
    await a_while()
    assert len(zero.refused) == 1, "told once"
    assert zero.worker.plan.fingerprint[:8] in zero.refused[0]
    assert other.worker.plan.fingerprint[:8] in zero.refused[0]
    assert not zero.peers.linked


async def test_a_peer_that_joins_late_is_told_which_queues_are_full(net: Net) -> None:
    zero, one = await linked(net)
    zero.emit(*range(QUEUE_HIGH + 2))
    await until(lambda: len(one.arrived) == QUEUE_HIGH + 2)
    await until(lambda: zero.peers.queue(1, ("sink", 1)).full)
    one.peers.gone(zero.owner)
    again = net.end(0, incarnation=2)
    again.peers.queue(1, ("sink", 1))
    again.join(one)
    one.join(again)
    await until(lambda: again.peers.linked and again.peers.queue(1, ("sink", 1)).full)


async def test_a_backlog_is_kept_and_leaves_in_order_once_there_is_room(net: Net) -> None:
    zero, one = await linked(net)
    room = False
    send = zero.carrier.send
    zero.peers.by_worker[1]._carrier = type("Narrow", (), {"send": lambda _, frame: room and send(frame)})()
    zero.emit(1, 2)
    await a_while(0.02)
    zero.emit(3)
    zero.worker.ack(one.worker.roots.next_root(), 5)
    await a_while(0.02)
    assert one.arrived == []
    assert [tup.record.n for tup in zero.peers.by_worker[1].held_up()] == [3], "1 and 2 are in a frame already"
    room = True
    zero.peers.writable(1)
    await until(lambda: one.arrived == [1, 2, 3])


async def test_a_queue_that_is_full_again_as_it_has_drained_is_told_to_have_drained_later_a9(
    net: Net,
) -> None:
    zero, one = await linked(net)
    executor = one.worker.executors["sink", 1]

    def drained() -> None:
        """What a slice does that brings the queue down to its lower bound."""
        while len(executor.queue) > QUEUE_LOW:
            executor.queue.popleft()
        executor.waiting_room.let_in()

    zero.emit(*range(QUEUE_HIGH + 2))
    await until(lambda: zero.peers.queue(1, ("sink", 1)).full and len(one.arrived) == QUEUE_HIGH + 2)
    drained()
    executor.queue.extend(executor.queue.copy())  # before anybody was told
    executor.queue.extend(executor.queue.copy())
    await a_while(0.05)
    assert zero.peers.queue(1, ("sink", 1)).full
    drained()
    await until(lambda: not zero.peers.queue(1, ("sink", 1)).full)


async def test_a_peer_whose_loop_stands_still_is_noticed_and_one_that_is_only_idle_is_not_a9(net: Net) -> None:
    zero, one = await linked(net)
    now = zero.worker.clock.monotonic()
    assert not zero.peers.silent(now)
    assert zero.peers.silent(now + 2 * SILENT_S)
    zero.peers.check(now + 2 * SILENT_S, 2 * SILENT_S)
    assert not zero.peers.silent(now + 2 * SILENT_S), "it was this worker that stood still"
    one.peers.check(one.worker.clock.monotonic() + 1.0, 0.0)  # a beat
    await until(lambda: zero.peers.by_worker[1].heard_at < now + SILENT_S)
    assert not zero.peers.silent(zero.worker.clock.monotonic())


async def test_a_frame_is_not_missed_for_the_time_in_which_the_receiver_stood_still_a10(net: Net) -> None:
    zero, one = await linked(net)
    zero.peers.by_worker[1].sent += 1
    zero.emit(1)
    await a_while(0.05)
    now = one.worker.clock.monotonic()
    one.peers.check(now + 5.0, 5.0)
    assert one.lost == []
    one.peers.check(now + 6.2, 0.0)
    assert one.lost == [zero.owner]
