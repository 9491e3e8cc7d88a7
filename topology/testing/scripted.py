"""A spout that follows a script: records, pauses, an error, an end. Knows the contracts, nothing that runs them."""

import asyncio
import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self

from acker.identity import MessageId
from topology.components import Message, R, Spout, Task
from topology.records import Record


@dataclass(frozen=True)
class Pause:
    """The spout has nothing for so many seconds of the loop's time. On virtual time they take no real time. Among the
    inputs of `run_bolt`, they let time pass for its `tick` and its timers.

        ScriptedSpout([Word("a"), Pause(60), Word("a minute later")])
    """

    seconds: float


@dataclass(frozen=True)
class Fail:
    """The source breaks: the spout raises this error at its place in the script, and nothing after it is read. That
    ends the run: what was read is finished, and the report has `ended` "failed" and this error as its `error`.

        ScriptedSpout([Word("a"), Fail(ConnectionError("the broker is gone"))])
    """

    error: BaseException


@dataclass(frozen=True)
class Wait:
    """The spout has nothing more but does not end, like a source that is followed. The run lasts until it is drained,
    for example by `until_s`.

        run_topology(build(ScriptedSpout([Word("a"), Wait()])), until_s=30)
    """


@dataclass(frozen=True)
class Stop:
    """The source ends here, as at the script's end: bolts are flushed, and the run ends by itself. Nothing after it is
    read, so it cuts a script short.

        ScriptedSpout([Word("a"), Stop(), Word("never read")])
    """


Marker = Pause | Fail | Wait | Stop


class ScriptedSpout(Spout, Generic[R]):
    """Emit what the script says. A record's message id is its number among the script's records, from 0. A `Message` is
    emitted as it is. With n tasks, task i emits every n-th record from the i-th on; all tasks obey the markers.

    `acked` and `failed` are the ids that any of its tasks got, in order. A poll returns no more than stands before the
    next marker, and a cancelled poll loses nothing. Opened with a position, the spout begins at that message. After a
    crash of its worker in a run without stored positions, it starts over. A script of markers only needs `emits`. Name
    the record class for type checkers, as here:

        spout = ScriptedSpout[Word]([Word("a"), Pause(1.5), Word("b")])
    """

    shared_ids = True

    def __init__(self, script: Iterable[R | Message[R] | Marker], *, emits: Sequence[type[Record]] = ()) -> None:
        self.script: tuple[Message[R] | Marker, ...] = tuple(_numbered(script))
        self.acked: list[MessageId] = []
        self.failed: list[MessageId] = []
        self._emits = tuple(emits)
        self._partitions = {message.partition: "" for message in self.script if isinstance(message, Message)} or {
            "": ""
        }
        self._mine: list[Message[R] | Marker] = []
        self._next = 0
        self._resume_at: float | None = None  # the end of the present pause

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Share the script and the lists between tasks, and keep the declared class."""
        memo |= {id(shared): shared for shared in (self.script, self.acked, self.failed)}
        copied = object.__new__(type(self))
        copied.__dict__.update({name: copy.deepcopy(value, memo) for name, value in self.__dict__.items()})
        return copied

    def emits(self) -> tuple[type[Record], ...]:
        """Return the record classes in the script; if it has none, those that were passed in."""
        return (
            tuple(dict.fromkeys(type(message.record) for message in self.script if isinstance(message, Message)))
            or self._emits
        )

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        number = 0
        for item in self.script:
            if isinstance(item, Message):
                number += 1
                if (number - 1) % task.tasks != task.index:
                    continue
            self._mine.append(item)
        for partition, position in positions.items():
            self._resume(partition, position)

    def _resume(self, partition: str, position: MessageId) -> None:
        """Leave out what stands before the message with that id in its partition."""
        ids = [message.id for message in self._mine if isinstance(message, Message) and message.partition == partition]
        if position in ids:
            before = ids[: ids.index(position)]
            self._mine = [
                entry
                for entry in self._mine
                if not (isinstance(entry, Message) and entry.partition == partition and entry.id in before)
            ]

    async def poll(self, limit: int) -> list[Message[R]]:
        while self._next < len(self._mine):
            item = self._mine[self._next]
            if isinstance(item, Message):
                return self._messages(limit)
            if isinstance(item, Stop):
                break
            if isinstance(item, Wait):
                await asyncio.get_running_loop().create_future()
            elif isinstance(item, Fail):
                raise item.error
            else:
                await self._pause(item.seconds)
            self._next += 1
        return []

    def _messages(self, limit: int) -> list[Message[R]]:
        found: list[Message[R]] = []
        for item in self._mine[self._next : self._next + limit]:
            if not isinstance(item, Message):
                break
            found.append(item)
        self._next += len(found)
        return found

    async def _pause(self, seconds: float) -> None:
        now = asyncio.get_running_loop().time()
        if self._resume_at is None:
            self._resume_at = now + seconds
        await asyncio.sleep(self._resume_at - now)
        self._resume_at = None

    def partitions(self) -> Mapping[str, str]:
        return self._partitions

    def ack(self, id: MessageId) -> None:
        self.acked.append(id)

    def fail(self, id: MessageId) -> None:
        self.failed.append(id)


def _numbered(script: Iterable[R | Message[R] | Marker]) -> Iterable[Message[R] | Marker]:
    number = 0
    for item in script:
        if isinstance(item, Marker):
            yield item
        else:
            yield item if isinstance(item, Message) else Message(item, number)
            number += 1
