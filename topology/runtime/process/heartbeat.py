"""A worker's end of the control socket: one thread reads orders, and one sends messages.

They are threads because a busy or blocked loop must starve neither (F8). The writer sends beats, which show if the loop
turns, and snapshots. Nothing here waits for the loop, and the loop never waits for the socket. Must not know what
orders mean.
"""

import asyncio
import contextlib
import queue
import socket
import threading
from collections.abc import Callable
from typing import Final

from topology.runtime.asyncio_tools import to_next
from topology.runtime.control.messages import (
    BEAT_S,
    METRICS_S,
    Beat,
    Begin,
    CannotStart,
    Closed,
    Incarnations,
    Log,
    Metrics,
    Noted,
    Order,
    Refused,
    Unpacker,
    Word,
    packed,
)
from topology.user_frames import described

LOGS_MAX: Final = 10_000  # log entries that may wait to be sent; all other messages are answers, so there are few
TEXT_MAX: Final = 10_000  # characters of one text
BLOCKED_S: Final = 1.0  # seconds without a turn after which a loop is called blocked
SNAPSHOT_TRIES: Final = 5  # attempts at one snapshot, which is taken while the loop changes what it reads
# A busy loop releases the interpreter's lock at each turn for microseconds, and takes it back before a waiting thread
# is awake. The thread was woken, so it does not ask for the lock again. So it may starve for seconds. Therefore the
# loop yields every TURN_S seconds for GIVE_WAY_S: a thousandth of its time.
TURN_S: Final = 0.1
GIVE_WAY_S: Final = 0.0001
_READ_BYTES: Final = 64 * 1024
_WARNING: Final = 30
_ERROR: Final = 40


def safe(text: str) -> str:
    """Return a text that can be sent: lone surrogates are escaped, and a long text is cut."""
    if len(text) > TEXT_MAX:
        text = f"{text[:TEXT_MAX]}… ({len(text) - TEXT_MAX:,} more characters)"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class Heartbeat:
    """Both threads. Any thread may call `say`, `log` and `sent`.

    clock     Monotonic seconds; any thread may ask.
    where     Returns what the loop's thread is doing, in a few words. The writer asks if the loop is blocked.
    answered  Gets Noted and Incarnations from the reader, because the loop may wait for them.
    gone      Called by the reader once, if the supervisor is gone, with the reason for people.
    """

    def __init__(
        self,
        connection: socket.socket,
        *,
        clock: Callable[[], float],
        where: Callable[[], str],
        answered: Callable[[Noted | Incarnations], None],
        gone: Callable[[str], None],
    ) -> None:
        self.snapshot: Callable[[], bytes] | None = None  # makes the content of Metrics; None before there is any
        self.commits: Callable[[], int] = lambda: 0  # of the store
        self._connection = connection
        self._clock = clock
        self._where = where
        self._answered = answered
        self._gone = gone
        self._unpacker = Unpacker(orders=True)
        self._waiting: queue.SimpleQueue[Word | threading.Event] = queue.SimpleQueue()
        self._dropped = 0  # log entries that found no room
        self._left = False  # True after the reader has met the end
        self._over = False  # True after the last message was sent
        self._reported_problem = False
        self._lock = threading.Lock()
        self._early: list[Order] = []  # orders that came before a loop could obey them
        self._deliver: Callable[[Order], None] | None = None
        self._turned = clock()  # when the loop turned last, or when the wait for its first turn began
        self._woke = self._turned

    def begin(self) -> Begin | None:
        """Return the first message. Blocks until it arrives. Returns None if the supervisor is gone. Call it before
        `start`."""
        while not self._early:
            try:
                data = self._connection.recv(_READ_BYTES)
            except OSError:
                return None
            if not data:
                return None
            self._early += self._orders(data)
        first = self._early.pop(0)
        if not isinstance(first, Begin):
            raise ValueError(f"the first control message is a {type(first).__name__}, not a Begin")
        return first

    def start(self) -> None:
        """Start both threads; they end with the process."""
        self._turned = self._woke = self._clock()
        threading.Thread(target=self._read, name="kedge control reader", daemon=True).start()
        threading.Thread(target=self._write, name="kedge control writer", daemon=True).start()

    def attach(self, loop: asyncio.AbstractEventLoop, received: Callable[[Order], None]) -> None:
        """Pass orders to `received` on this loop, in order, from now on, and watch if the loop turns. The loop yields
        to threads now and then: see GIVE_WAY_S."""

        def deliver(order: Order) -> None:
            try:
                loop.call_soon_threadsafe(received, order)
            except RuntimeError:
                return  # the loop is closed: the process is about to end

        nothing = threading.Event()

        def turn() -> None:
            self._turned = self._clock()
            nothing.wait(GIVE_WAY_S)
            loop.call_later(to_next(loop.time(), TURN_S), turn)

        turn()
        with self._lock:
            for order in self._early:
                deliver(order)
            self._early.clear()
            self._deliver = deliver

    # -- messages

    def say(self, word: Word) -> None:
        """Queue a message."""
        if isinstance(word, Log | Refused) and self._waiting.qsize() >= LOGS_MAX:
            self._dropped += 1
            return
        self._waiting.put(word)

    def log(self, level: int, text: str) -> None:
        """Queue a log entry. If too many wait, only count it; a later entry says how many were not sent."""
        self.say(Log(level, safe(text)))

    def say_alone(self, word: Word) -> None:
        """Send the last message from the calling thread, if the writer was not started."""
        with contextlib.suppress(OSError):  # no process listens
            self._send(word)

    def sent(self, timeout_s: float) -> bool:
        """Wait until all messages so far are in the socket, at most `timeout_s`. Return True if they are."""
        mark = threading.Event()
        self._waiting.put(mark)
        return mark.wait(timeout_s)

    # -- the reader

    def _orders(self, data: bytes) -> list[Order]:
        return [message for message in self._unpacker.fed(data) if isinstance(message, Order)]

    def _read(self) -> None:
        why = "the supervisor is gone"
        try:
            while data := self._connection.recv(_READ_BYTES):
                for order in self._orders(data):
                    self._take(order)
        except OSError as error:  # a reset: the supervisor died with unread messages of ours
            why = f"the supervisor is gone ({described(error)})"
        except Exception as error:
            why = f"the control socket can't be read: {described(error)}"
        self._left = True
        self._gone(why)

    def _take(self, order: Order) -> None:
        if isinstance(order, Noted | Incarnations):
            self._answered(order)
            return
        with self._lock:
            if self._deliver is None:
                self._early.append(order)
            else:
                self._deliver(order)

    # -- the writer

    def _write(self) -> None:
        """Send messages until no process listens any more; the reader reports that."""
        beat_at = metrics_at = self._clock()
        try:
            while not self._left:
                now = self._clock()
                self._note_stall(now)
                if now >= beat_at:
                    beat_at = now + BEAT_S
                    self._send(self._beat(now))
                if now >= metrics_at:
                    metrics_at = now + METRICS_S
                    self._send_snapshot()
                wait_s = min(beat_at, metrics_at) - self._clock()
                try:
                    self._pass_on(self._waiting.get(timeout=max(0.0, wait_s)))
                except queue.Empty:
                    continue
        except OSError:
            return

    def _pass_on(self, word: Word | threading.Event) -> None:
        if isinstance(word, threading.Event):
            word.set()
            return
        self._send(word)
        if isinstance(word, Closed | CannotStart):
            self._over = True
        elif self._dropped and self._waiting.qsize() < LOGS_MAX // 2:
            dropped, self._dropped = self._dropped, 0
            self._send(Log(_WARNING, f"{dropped:,} entries of this worker's log had no room and were left out"))

    def _send(self, word: Word) -> None:
        if self._over:
            return
        try:
            data = packed(word)
        except (ValueError, TypeError, OverflowError) as error:
            data = packed(Log(_ERROR, f"a {type(word).__name__} can't be sent: {described(error)}"))
        self._connection.sendall(data)

    def _note_stall(self, now: float) -> None:
        """Shift the loop's last turn if this thread was late too: then the whole process was paused, not the loop
        (A10)."""
        late_s = now - self._woke
        if late_s > BLOCKED_S:
            self._turned += late_s
        self._woke = now

    def _beat(self, now: float) -> Beat:
        blocked_s = now - self._turned
        return Beat(blocked_s, safe(self._where())) if blocked_s > BLOCKED_S else Beat()

    def _send_snapshot(self) -> None:
        """Make and send a snapshot here, beside the loop, which changes meanwhile what is read."""
        problem: Exception | None = None
        for _ in range(SNAPSHOT_TRIES):
            if self.snapshot is None:
                return
            try:
                snapshot = self.snapshot()
            except RuntimeError as error:  # "dictionary changed size during iteration"
                problem = error
            except Exception as error:
                problem = error
                break
            else:
                self._send(Metrics(snapshot, self.commits()))
                return
        if problem is not None and not self._reported_problem:
            self._reported_problem = True
            self._send(Log(_ERROR, f"no snapshot can be made: {described(problem)}"))
