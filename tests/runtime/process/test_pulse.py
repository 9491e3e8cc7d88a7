"""The worker's end of the control socket: what is said and heard while the loop works, blocks, or is not there yet.

Real socket pairs and threads; the supervisor's end is the test's.
"""

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from topology.runtime.control.messages import (
    BEAT_S,
    METRICS_S,
    Beat,
    Begin,
    CannotStart,
    Close,
    Closed,
    Drain,
    Incarnations,
    Log,
    Metrics,
    NeedIncarnation,
    Noted,
    Order,
    Probe,
    Ready,
    Refused,
    Start,
    Unpacker,
    Word,
    packed,
)
from topology.runtime.os_process.restarts import SILENT_S
from topology.runtime.process.heartbeat import BLOCKED_S, LOGS_MAX, TEXT_MAX, Heartbeat

FLOODED_BEATS = round(2 * METRICS_S / BEAT_S)  # as many as two snapshots' time has

BEGIN = Begin(0, (1,), 1, 1, "a:b", {}, [], "/", "ipc", b"k" * 32, {}, 7)


class Supervisor:
    """The other end."""

    def __init__(self, **settings: Any) -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(20)
        self.answers: list[Order] = []
        self.gone = threading.Event()
        self.why: list[str] = []
        self._unpacker = Unpacker(orders=False)
        self._words: list[Any] = []
        self._theirs = theirs
        self.pulse = Heartbeat(
            theirs,
            clock=settings.pop("clock", time.monotonic),
            where=settings.pop("where", lambda: "somewhere"),
            answered=self.answers.append,
            gone=self._left,
        )

    def _left(self, why: str) -> None:
        self.why.append(why)
        self.gone.set()

    def tell(self, *orders: Order) -> None:
        self.socket.sendall(b"".join(map(packed, orders)))

    def heard(self, kind: type[Word] | None = None, such: Callable[[Any], bool] = lambda word: True) -> Any:
        """The next word of this kind; the others before it are passed over."""
        while True:
            while self._words:
                word = self._words.pop(0)
                if (kind is None or isinstance(word, kind)) and such(word):
                    return word
            self._words += self._unpacker.fed(self.socket.recv(65536))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        if any(one.name.startswith("kedge control reader") for one in threading.enumerate()):
            assert self.gone.wait(10)
        for thread in threading.enumerate():
            if thread.name.startswith("kedge control"):
                thread.join(10)
                assert not thread.is_alive()
        self._theirs.close()


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    one = Supervisor()
    yield one
    one.close()


class Loop:
    """An event loop in a thread of its own, that can be blocked."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.loop.call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(20)
        self.loop.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    one = Loop()
    yield one
    one.close()


# -- orders


def test_orders_that_come_before_there_is_a_loop_are_kept_in_order(supervisor: Supervisor, loop: Loop) -> None:
    orders: list[Order] = [Start(), *(Probe(n) for n in range(100)), Drain(), Close()]
    supervisor.tell(BEGIN, *orders[:50])
    assert supervisor.pulse.begin() == BEGIN
    supervisor.pulse.start()
    supervisor.tell(*orders[50:60])
    received: list[Order] = []
    done = threading.Event()

    def take(order: Order) -> None:
        received.append(order)
        if len(received) == len(orders):
            done.set()

    loop.call(supervisor.pulse.attach, loop.loop, take)
    supervisor.tell(*orders[60:])
    assert done.wait(20)
    assert received == orders


def test_an_order_in_many_pieces_is_one_order(supervisor: Supervisor) -> None:
    data = packed(BEGIN)
    found: list[Any] = []
    reading = threading.Thread(target=lambda: found.append(supervisor.pulse.begin()))
    reading.start()
    for at in range(len(data)):
        supervisor.socket.sendall(data[at : at + 1])
    reading.join(20)
    assert found == [BEGIN]


def test_what_the_loop_waits_for_is_heard_though_the_loop_is_blocked(supervisor: Supervisor, loop: Loop) -> None:
    supervisor.pulse.start()
    attached, go_on = threading.Event(), threading.Event()
    loop.call(supervisor.pulse.attach, loop.loop, lambda order: None)
    loop.call(attached.set)
    loop.call(go_on.wait, 30)
    assert attached.wait(20)
    try:
        supervisor.tell(Start(), Noted(1), Incarnations((7,)))
        supervisor.heard(Beat, lambda beat: len(supervisor.answers) == 2)
        assert supervisor.answers == [Noted(1), Incarnations((7,))]
    finally:
        go_on.set()


def test_no_begin_comes_where_the_supervisor_is_gone(supervisor: Supervisor) -> None:
    supervisor.socket.close()
    assert supervisor.pulse.begin() is None


def test_another_order_than_begin_comes_first_only_by_a_mistake(supervisor: Supervisor) -> None:
    supervisor.tell(Start())
    with pytest.raises(ValueError, match="Start, not a Begin"):
        supervisor.pulse.begin()


@pytest.mark.parametrize("data", [b"\x03\x00\x00\x00\xc1\xc1\xc1", b"\xff\xff\xff\xff", b"\x01\x00\x00\x00\x00"])
def test_what_is_no_order_is_told_and_ends_the_hearing(supervisor: Supervisor, data: bytes) -> None:
    supervisor.pulse.start()
    supervisor.socket.sendall(data)
    assert supervisor.gone.wait(20)
    assert "can't be read" in supervisor.why[0]


def test_the_end_of_the_socket_is_told_once_though_the_writer_is_stuck(supervisor: Supervisor) -> None:
    supervisor.pulse.start()
    for _ in range(200):
        supervisor.pulse.log(logging.INFO, "x" * TEXT_MAX)  # more than the socket takes; nobody reads it
    supervisor.socket.close()
    assert supervisor.gone.wait(20)
    assert "gone" in supervisor.why[0]
    assert len(supervisor.why) == 1


# -- beats


def test_beats_go_on_before_there_is_a_loop_and_say_so_f8(supervisor: Supervisor) -> None:
    """A topology that takes its time to import."""
    supervisor.pulse.start()
    assert supervisor.heard(Beat) == Beat(0.0, "")
    late = supervisor.heard(Beat, lambda beat: beat.blocked_s > 0)
    assert late.blocked_s >= BLOCKED_S
    assert late.where == "somewhere"


def test_beats_name_what_blocks_the_loop_until_it_turns_again_f8(supervisor: Supervisor, loop: Loop) -> None:
    supervisor.pulse.start()
    go_on = threading.Event()
    loop.call(supervisor.pulse.attach, loop.loop, lambda order: None)
    loop.call(go_on.wait, 30)
    first = supervisor.heard(Beat, lambda beat: beat.blocked_s > BLOCKED_S)
    assert first.where == "somewhere"
    assert supervisor.heard(Beat).blocked_s > first.blocked_s
    go_on.set()
    assert supervisor.heard(Beat, lambda beat: beat.blocked_s == 0.0).where == ""


def test_a_process_that_stood_still_does_not_call_its_loop_blocked_a10() -> None:
    """F5: all threads were stopped together, so the clock has jumped for the writer, too."""
    jumped_s = 0.0

    def clock() -> float:
        return time.monotonic() + jumped_s

    supervisor = Supervisor(clock=clock)
    try:
        supervisor.pulse.start()
        supervisor.heard(Beat)
        jumped_s = 100.0
        for _ in range(3):
            assert supervisor.heard(Beat).blocked_s < 10
    finally:
        supervisor.close()


def test_a_worker_that_logs_without_end_is_never_silent_for_so_long_that_it_counts_as_stuck(
    supervisor: Supervisor,
) -> None:
    supervisor.pulse.snapshot = lambda: b"counted"
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            supervisor.pulse.log(logging.INFO, "something")

    flooding = threading.Thread(target=flood)
    flooding.start()
    supervisor.pulse.start()
    try:
        heard_at = time.monotonic()
        beats = snapshots = 0
        while beats < FLOODED_BEATS or not snapshots:
            word = supervisor.heard()
            assert time.monotonic() - heard_at < SILENT_S, f"no beat after {beats} beats and {snapshots} snapshots"
            if isinstance(word, Beat):
                beats, heard_at = beats + 1, time.monotonic()
            snapshots += isinstance(word, Metrics)
    finally:
        stop.set()
        flooding.join()


# -- snapshots


def test_a_snapshot_that_met_a_change_is_made_again(supervisor: Supervisor) -> None:
    tries: list[int] = []

    def snapshot() -> bytes:
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("dictionary changed size during iteration")
        return b"counted"

    supervisor.pulse.snapshot = snapshot
    supervisor.pulse.start()
    assert supervisor.heard(Metrics).snapshot == b"counted"
    assert len(tries) == 3


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_a_snapshot_that_can_not_be_made_is_told_once_and_stops_no_beat(
    supervisor: Supervisor, error: type[Exception]
) -> None:
    def snapshot() -> bytes:
        raise error("no")

    supervisor.pulse.snapshot = snapshot
    supervisor.pulse.start()
    assert "no" in supervisor.heard(Log).text
    begun = time.monotonic()
    while time.monotonic() - begun < 1.5 * METRICS_S:
        assert isinstance(supervisor.heard(), Beat)


# -- words


def test_words_leave_in_order_and_sent_says_when(supervisor: Supervisor) -> None:
    supervisor.pulse.start()
    supervisor.pulse.say(Ready("here", "plan"))
    supervisor.pulse.say(NeedIncarnation())
    assert supervisor.pulse.sent(20)
    assert supervisor.heard(Ready) == Ready("here", "plan")
    assert isinstance(supervisor.heard(NeedIncarnation), NeedIncarnation)


@pytest.mark.parametrize("last", [Closed(b"", 0, {}), CannotStart("StartError", "no")])
def test_nothing_follows_the_last_word(supervisor: Supervisor, last: Word) -> None:
    supervisor.pulse.start()
    supervisor.pulse.say(last)
    supervisor.pulse.say(NeedIncarnation())
    assert supervisor.pulse.sent(20)
    supervisor.heard(type(last))
    supervisor.socket.settimeout(2 * BEAT_S)
    with pytest.raises(TimeoutError):
        supervisor.heard()


def test_a_supervisor_that_does_not_read_costs_bounded_memory_and_is_told_what_it_missed(
    supervisor: Supervisor,
) -> None:
    """F60: nobody who logs waits."""
    for _ in range(LOGS_MAX + 5):
        supervisor.pulse.log(logging.WARNING, "x")
    supervisor.pulse.say(Refused(1, "x"))
    supervisor.pulse.say(Ready("here", "plan"))  # an answer is never dropped
    supervisor.pulse.start()
    assert "6 entries" in supervisor.heard(Log, lambda log: log.text != "x").text
    supervisor.heard(Ready)


def test_a_text_is_cut_and_made_such_that_it_can_be_sent(supervisor: Supervisor) -> None:
    supervisor.pulse.start()
    supervisor.pulse.log(logging.ERROR, "lone \ud800 surrogate")
    assert supervisor.heard(Log) == Log(logging.ERROR, "lone \\ud800 surrogate")
    supervisor.pulse.log(logging.ERROR, "x" * (TEXT_MAX + 7))
    assert supervisor.heard(Log).text == "x" * TEXT_MAX + "… (7 more characters)"


def test_a_word_that_can_not_be_sent_is_told_and_stops_nothing(supervisor: Supervisor) -> None:
    supervisor.pulse.start()
    supervisor.pulse.say(Ready("\ud800", "plan"))
    assert supervisor.heard(Log).text.startswith("a Ready can't be sent")
    supervisor.pulse.say(NeedIncarnation())
    supervisor.heard(NeedIncarnation)
