"""A worker's end of the control socket: a thread that reads orders, and one that says what there is to say.

Threads, because a loop that is busy or blocked must starve neither (F8): the writer sends beats, which tell whether the
loop turns, and snapshots. Nothing here waits for the loop, and the loop never waits for the socket. It must not know
what orders mean.
"""

import asyncio
import contextlib
import queue
import socket
import threading
from collections.abc import Callable
from typing import Final

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

LOGS_MAX: Final = 10_000  # entries of the log that may wait to be sent; all other words are answers, and so few
TEXT_MAX: Final = 10_000  # characters of one text
BLOCKED_S: Final = 1.0  # a loop that has not turned for so long is called blocked
SNAPSHOT_TRIES: Final = 5  # of one snapshot, which is taken while the loop changes what it reads
# A busy loop lets go of the interpreter's lock at each turn, for microseconds, and has it again before a thread that
# waits for it is awake; and as that one was woken, it does not ask to be let in. So it may starve for seconds. The loop
# gives way so often, and for so long: a thousandth of its time.
TURN_S: Final = 0.1
GIVE_WAY_S: Final = 0.0001
_READ_BYTES: Final = 64 * 1024
_WARNING: Final = 30
_ERROR: Final = 40


def safe(text: str) -> str:
    """Text that can be sent: a lone surrogate is escaped, and what is too long is cut."""
    if len(text) > TEXT_MAX:
        text = f"{text[:TEXT_MAX]}… ({len(text) - TEXT_MAX:,} more characters)"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class Heartbeat:
    """Both threads. `say`, `log` and `sent` may be called by any thread.

    clock     Monotonic seconds; any thread may ask.
    where     What the loop's thread is doing, in a few words; asked by the writer, where the loop is blocked.
    answered  Is given Noted and Incarnations by the reader, since the loop may wait for them.
    gone      Called by the reader, once, where the supervisor is gone: with why, for people.
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
        self.snapshot: Callable[[], bytes] | None = None  # makes what Metrics carries; None: there is nothing yet
        self.commits: Callable[[], int] = lambda: 0  # of the store
        self._connection = connection
        self._clock = clock
        self._where = where
        self._answered = answered
        self._gone = gone
        self._unpacker = Unpacker(orders=True)
        self._waiting: queue.SimpleQueue[Word | threading.Event] = queue.SimpleQueue()
        self._dropped = 0  # entries of the log that found no room
        self._left = False  # whether the reader has met the end
        self._over = False  # whether the last word was sent
        self._told_problem = False
        self._lock = threading.Lock()
        self._early: list[Order] = []  # orders that came before there was a loop to obey them
        self._deliver: Callable[[Order], None] | None = None
        self._turned = clock()  # when the loop turned last, or was begun to be waited for
        self._woke = self._turned

    def begin(self) -> Begin | None:
        """The first message; blocks until it is there. None where the supervisor is gone. Called before `start`."""
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
        """Starts both threads; they end with the process."""
        self._turned = self._woke = self._clock()
        threading.Thread(target=self._read, name="kedge control reader", daemon=True).start()
        threading.Thread(target=self._write, name="kedge control writer", daemon=True).start()

    def attach(self, loop: asyncio.AbstractEventLoop, received: Callable[[Order], None]) -> None:
        """From now on orders are given to `received` on this loop, in order, and it is watched whether it turns. The
        loop gives way to threads now and then: see GIVE_WAY_S."""

        def deliver(order: Order) -> None:
            try:
                loop.call_soon_threadsafe(received, order)
            except RuntimeError:
                return  # the loop is closed: the process is about to end

        nothing = threading.Event()

        def turn() -> None:
            self._turned = self._clock()
            nothing.wait(GIVE_WAY_S)
            loop.call_later(TURN_S, turn)

        turn()
        with self._lock:
            for order in self._early:
                deliver(order)
            self._early.clear()
            self._deliver = deliver

    # -- what is said

    def say(self, word: Word) -> None:
        """Puts a word behind those that wait to be sent."""
        if isinstance(word, Log | Refused) and self._waiting.qsize() >= LOGS_MAX:
            self._dropped += 1
            return
        self._waiting.put(word)

    def log(self, level: int, text: str) -> None:
        """Says an entry of the log; counts it where too many wait. How many were not sent is told later."""
        self.say(Log(level, safe(text)))

    def say_alone(self, word: Word) -> None:
        """Sends a word from the calling thread, where the writer was not started. It is the last one."""
        with contextlib.suppress(OSError):  # nobody listens
            self._send(word)

    def sent(self, timeout_s: float) -> bool:
        """Waits until all that was said so far is in the socket, at most so long. Whether it is."""
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
        except OSError as error:  # a reset, where it has died with words of ours unread
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
        """Ends where nobody listens any more; what that means is for the reader to say."""
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
            self._send(Log(_WARNING, f"{dropped:,} entries of this worker's log had no room, and are left out"))

    def _send(self, word: Word) -> None:
        if self._over:
            return
        try:
            data = packed(word)
        except (ValueError, TypeError, OverflowError) as error:
            data = packed(Log(_ERROR, f"a {type(word).__name__} can't be said: {described(error)}"))
        self._connection.sendall(data)

    def _note_stall(self, now: float) -> None:
        """Where this thread was held up too, it was not the loop that stood still but the process (A10)."""
        late_s = now - self._woke
        if late_s > BLOCKED_S:
            self._turned += late_s
        self._woke = now

    def _beat(self, now: float) -> Beat:
        blocked_s = now - self._turned
        return Beat(blocked_s, safe(self._where())) if blocked_s > BLOCKED_S else Beat()

    def _send_snapshot(self) -> None:
        """Made here, beside the loop, which goes on changing what is read."""
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
        if problem is not None and not self._told_problem:
            self._told_problem = True
            self._send(Log(_ERROR, f"no snapshot can be made: {described(problem)}"))
