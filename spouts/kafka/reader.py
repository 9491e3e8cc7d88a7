"""The thread that consumes a task's partitions, and keeps what it has read ready for the loop.

Knows a consumer of confluent-kafka; must not know where partitions begin, nor what becomes of messages.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from spouts.kafka.partition import KafkaPartition
from spouts.kafka.ready import ReadyMessages
from topology.clients.errors import ServerAway
from topology.clients.kafka import GONE, ClientErrors, KafkaAccess, Place, error_for, library_for, said

POLL_S: Final = 0.1  # seconds that the thread waits for a message, and so to be asked for something
TAKEN_AT_ONCE: Final = 500  # messages of one call
PAUSE_S: Final = 10.0  # seconds without room after which the brokers are asked for no more
CLOSE_S: Final = 3.0  # seconds that closing may take

# librdkafka's own queue in front of `ReadyMessages`, per task
QUEUE: Final = {
    "queued.min.messages": 10_000,  # messages of a partition at which it asks for no more
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 20,  # milliseconds until it looks whether there is room again
}


class PartitionReader:
    """Reads the partitions that it follows, each from its `read` on. All methods are called on the loop.

    ready    The messages that were read.
    stuck    Partitions that cannot be read on, and why; they are read no more until `follow` names them again.
    ended    True if each partition has come to its end.
    failure  The error that has ended the thread.
    errors   What the brokers have had to say.
    `notify` is called on the loop when one of these has changed, and `trouble` when a broker has an error.
    """

    def __init__(
        self,
        access: KafkaAccess,
        group: str,
        *,
        bounded: bool,
        prefetch: int,
        notify: Callable[[], None],
        trouble: Callable[[], None],
    ) -> None:
        self.ready = ReadyMessages(prefetch)
        self.stuck: dict[Place, str] = {}
        self.ended = False
        self.failure: BaseException | None = None
        self.errors = ClientErrors(access.needed_by, lambda: self._on_loop(trouble))
        self._library = library_for(access.needed_by)
        self._access, self._group = access, group
        self._bounded, self._notify, self._trouble = bounded, notify, trouble
        self._committing: deque[asyncio.Future[None]] = deque()  # commits without an answer, in their order
        self._loop = asyncio.get_running_loop()
        self._orders: deque[tuple[str, Sequence[Any]]] = deque()
        self._partitions: dict[Place, KafkaPartition] = {}  # those that are consumed
        self._has_begun = self._closing = False
        self._largest = 1  # bytes of the largest payload of the last call
        self._closed = asyncio.Event()
        self._consumer: Any = access.make(
            "Consumer",
            {
                **QUEUE,
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": bounded,
                "isolation.level": "read_committed",
                "error_cb": self.errors,
                "on_commit": self._has_committed,
            },
        )
        self._thread = threading.Thread(target=self._run, name=f"kedge-kafka-{group}", daemon=True)

    def start(self, partitions: Sequence[KafkaPartition]) -> None:
        """Begin with these partitions. To be called once, right away: a client that has waited takes a second more."""
        self._order("follow", partitions)
        self._thread.start()

    def follow(self, partitions: Sequence[KafkaPartition]) -> None:
        """Read these partitions, soon; also those that are read already, from their `read` on."""
        self._order("follow", partitions)

    def leave(self, places: Collection[Place]) -> None:
        """Read no more of these partitions, soon."""
        self._order("leave", [*places])

    def commit(self, offsets: Mapping[Place, int]) -> "asyncio.Future[None]":
        """Commit these offsets for the group, soon. The future ends with the answer, which may take as long as brokers
        are away, and raises ServerAway or ConfigurationError."""
        answer: asyncio.Future[None] = self._loop.create_future()
        self._committing.append(answer)
        self._order("commit", [self._library.TopicPartition(*at, offset) for at, offset in offsets.items()])
        return answer

    async def close(self) -> None:
        """End the thread. A consumer that does not end within CLOSE_S is left to its thread. Does not raise."""
        self._closing = True
        self.ready.has_room.set()
        if not self._thread.ident:  # it was never started
            self._closed.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._closed.wait()

    def _order(self, what: str, of: Sequence[Any]) -> None:
        self._orders.append((what, of))
        self.ready.has_room.set()  # a thread that waits for room looks

    # -- the thread

    def _run(self) -> None:
        try:
            while not self._closing:
                self._obey()
                if self.ready.room:
                    self._read(POLL_S)
                else:
                    self._hold()
        except BaseException as error:
            self.failure = error
            self._on_loop(self._notify)
        finally:
            with contextlib.suppress(self._library.KafkaException, RuntimeError):
                self._consumer.close()
            self._on_loop(self._closed.set)

    def _obey(self) -> None:
        """Do what was ordered."""
        while self._orders:
            what, of = self._orders.popleft()
            if what == "commit":
                try:
                    self._consumer.commit(offsets=[*of], asynchronous=True)
                except self._library.KafkaException as error:
                    self._has_committed(error.args[0], ())
                continue
            places = of if what == "leave" else [each.place for each in of]
            self._leave(places)
            for place in places:
                self.stuck.pop(place, None)
            if what == "leave":
                continue
            self._has_begun = True
            mine = [each for each in of if not each.is_over]
            self._partitions |= {each.place: each for each in mine}
            if mine:
                library = self._library
                self._consumer.incremental_assign([library.TopicPartition(*each.place, each.read) for each in mine])
        self._look_for_the_end()

    def _has_committed(self, error: Any, places: Sequence[Any]) -> None:
        """Take the answer to a commit."""
        wrong = error or next((each.error for each in places if each.error is not None), None)
        raised: Exception | None = None
        if wrong is not None and wrong.name() in GONE:
            raised = ServerAway(said(wrong))  # a topic that was deleted: the next look says so
        elif wrong is not None:
            raised = error_for(self._access, wrong, f"group {self._group!r}")
        if self._committing:
            self._on_loop(partial(_end, self._committing.popleft(), raised))

    def _leave(self, places: Collection[Place]) -> None:
        mine = [place for place in places if self._partitions.pop(place, None) is not None]
        if mine:
            self._consumer.incremental_unassign([self._library.TopicPartition(*place) for place in mine])

    def _look_for_the_end(self) -> None:
        if self._bounded and self._has_begun and not (self._partitions or self.stuck or self.ended):
            self.ended = True
            self._on_loop(self._notify)

    def _hold(self) -> None:
        """Wait until there is room. Brokers are asked for no more once that takes long."""
        self.ready.has_room.clear()
        if self._must_go_on():
            return
        if self._committing:  # its answer comes by a poll, before messages; ten of those per second at most
            if not self.ready.has_room.wait(POLL_S):
                self._take(self._called(lambda: self._consumer.poll(0)))
            return
        if self.ready.has_room.wait(PAUSE_S):
            return
        paused = [self._library.TopicPartition(*place) for place in self._partitions]
        self._consumer.pause(paused)
        while not self._must_go_on():
            self._take(self._called(lambda: self._consumer.poll(POLL_S)))  # so that the client stays alive
        self._consumer.resume([each for each in paused if (each.topic, each.partition) in self._partitions])

    def _must_go_on(self) -> bool:
        return bool(self.ready.room or self._closing or self._orders)

    def _read(self, wait_s: float) -> None:
        """Wait for a message, and take those that are there."""
        first = self._called(lambda: self._consumer.poll(wait_s))
        if not first:
            return
        count = min(TAKEN_AT_ONCE, self.ready.room, self.ready.bytes_room // self._largest) - 1
        more = self._called(lambda: self._consumer.consume(count, 0)) if count > 0 else []
        self._take([*first, *more])

    def _called(self, call: Callable[[], Any]) -> list[Any]:
        """Return the messages of a call; an error that is not of a partition is reported."""
        try:
            given = call()
        except self._library.KafkaException as error:
            self.errors(error.args[0])
            return []
        return given if isinstance(given, list) else [] if given is None else [given]

    def _take(self, messages: Sequence[Any]) -> None:
        """Sort messages by their partitions, each in its order; keep those that come next."""
        batches: dict[KafkaPartition, list[Any]] = {}
        largest = 1
        for message in messages:
            partition = self._partitions.get((message.topic(), message.partition()))
            if (error := message.error()) is not None:
                self._has_error(error, partition, message)
            elif partition is not None:
                offset = message.offset()
                if offset < partition.read:
                    self._is_stuck(partition, f"offset {offset} came after {partition.read - 1}")
                elif partition.end is not None and offset >= partition.end:
                    self._is_over(partition)
                else:
                    partition.read = offset + 1
                    batches.setdefault(partition, []).append(message)
                    largest = max(largest, len(message))
                    if partition.is_over:
                        self._is_over(partition)
        self._largest = largest
        for partition, some in batches.items():
            self._note_high(partition)
            self.ready.put(partition, some)
        if batches:
            self._on_loop(self._notify)
        self._look_for_the_end()

    def _note_high(self, partition: KafkaPartition) -> None:
        """Note what a broker has told with the messages. Only this thread may ask: in another one, the call holds
        Python's lock while it waits for librdkafka's, and both can wait for each other (confluent-kafka 2.16)."""
        with contextlib.suppress(self._library.KafkaException):
            _, high = self._consumer.get_watermark_offsets(self._library.TopicPartition(*partition.place), cached=True)
            partition.high = max(partition.high, high)

    def _has_error(self, error: Any, partition: KafkaPartition | None, message: Any) -> None:
        """Take an error in place of a message."""
        if error.name() == "_PARTITION_EOF":
            if partition is not None and partition.end is not None and message.offset() >= partition.end:
                partition.read = max(partition.read, partition.end)
                self._is_over(partition)
        elif partition is not None:
            self._is_stuck(partition, said(error))
        else:
            self.errors(error)

    def _is_over(self, partition: KafkaPartition) -> None:
        partition.read = max(partition.read, partition.end or 0)
        self._leave([partition.place])

    def _is_stuck(self, partition: KafkaPartition, why: str) -> None:
        """Read no more of a partition until the loop has found out what is wrong with it."""
        self.stuck[partition.place] = why
        self._leave([partition.place])
        self._on_loop(self._trouble)

    def _on_loop(self, call: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call)


def _end(future: "asyncio.Future[None]", error: Exception | None) -> None:
    """End a future that was not cancelled."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
