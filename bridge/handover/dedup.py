"""Deduplicate the inputs of one hand-over task: identity → content, kept per segment until all messages of the segment
are done at a decided checkpoint (D4).

An input counts under the messages under which it came last. Those of an earlier life of this task have none: they go
once they have come again. A bound ends what never comes again: beyond EARLIER_MAX pairs, the oldest segments go that
belong to earlier lives.

Must not know files, records or the loop. The task's loop asks what may be forgotten. The store's thread adds and looks
up. Every step of either is a single operation on a dict or deque.
"""

from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from acker.frontier import NUMBER_BITS, Decided

Messages: TypeAlias = tuple[int, ...]  # messages of an input

EARLIER_MAX: Final = 1_000_000  # pairs of a task, beyond which those of earlier lives go

pair_of: Final = Struct(">QQ").pack  # packs origin and identity, as in `bolts.sinks.keys`
_origin_of: Final = Struct(">Q8x").unpack


class Waited(NamedTuple):
    """The time in which the inputs of a batch waited for their segment, by `Decided.gathered`: when the oldest of them
    came, and when they were written. A run may go back in between (D4)."""

    taken_at: int
    written_at: int


class Filed:
    """The inputs of one segment. `log`: the number of the task that wrote the segment. `waited`: when they came."""

    __slots__ = ("at", "log", "looked", "messages", "number", "pairs", "ranges", "waited")

    def __init__(
        self,
        log: int,
        number: int,
        pairs: Sequence[bytes],
        messages: Sequence[int] | Sequence[Messages] | None,
        waited: Waited,
    ) -> None:
        """`messages`: one entry per input; plain numbers if every input has exactly one message; None for inputs of an
        earlier life."""
        self.log = log
        self.number = number
        self.pairs = pairs
        self.messages = messages
        self.waited = waited
        self.ranges = [] if messages is None else _ranges(messages)
        self.at = 0  # index of the first input that is not known to be done
        self.looked = -1  # version of the decided frontier at the last look

    def messages_at(self, at: int) -> Messages:
        """Return the messages under which an input was filed."""
        messages = () if self.messages is None else self.messages[at]
        return (messages,) if isinstance(messages, int) else messages


class SegmentIdentities:
    """The identities that one task remembers. `squeezed`: pairs that were forgotten because of the bound."""

    def __init__(self, most: int = EARLIER_MAX) -> None:
        self.contents: dict[bytes, int] = {}  # pair → its first content
        self.squeezed = 0
        self._most = most
        self._divergent: dict[bytes, set[int]] = {}  # further contents of a pair
        self._again: dict[bytes, tuple[Messages, Waited]] = {}  # pair that came again → its last messages, and when
        self._filed: deque[Filed] = deque()

    def __len__(self) -> int:
        return len(self.contents)

    def holds(self, pair: bytes, content: int) -> bool:
        known = self.contents.get(pair)
        return known is not None and (known == content or content in self._divergent.get(pair, ()))

    def add(self, filed: Filed, contents: Sequence[int], *, new: bool = False) -> list[bytes]:
        """Add a durable segment. Return the pairs that were known with another content. `new`: no pair is known, and
        none occurs twice."""
        divergent = []
        if new:
            self.contents.update(zip(filed.pairs, contents, strict=True))
        else:
            for at, (pair, content) in enumerate(zip(filed.pairs, contents, strict=True)):
                if self.contents.setdefault(pair, content) != content:
                    self._divergent.setdefault(pair, set()).add(content)
                    divergent.append(pair)
                    if filed.messages is not None:
                        self.again(pair, filed.messages_at(at), filed.waited)
        self._filed.append(filed)
        return divergent

    def again(self, pair: bytes, messages: Messages, waited: Waited) -> None:
        """Note that a known input came again: it is done once these messages are (D4)."""
        self._again[pair] = messages, waited

    def forget(self, decided: Decided, most: int) -> tuple[list[Filed], bool]:
        """Forget the segments that are done. Return them, and True if another call would find more now. Looks at about
        `most` inputs."""
        over: list[Filed] = []
        for _ in range(len(self._filed)):
            if most <= 0:
                break
            filed = self._filed.popleft()
            if filed.looked == decided.version:
                self._filed.append(filed)
            elif self._is_done(filed, decided):
                most -= len(filed.pairs)
                over.append(filed)
            else:
                most -= self._look_on(filed, decided, most)
                if filed.at == len(filed.pairs):
                    over.append(filed)
                else:
                    self._filed.append(filed)
        for filed in over:
            self._drop(filed)
        if most > 0 and len(self.contents) > self._most:
            over += self._squeeze(decided)
        return over, most <= 0

    def _is_done(self, filed: Filed, decided: Decided) -> bool:
        """Fast check that a whole segment is done. May return False although it is."""
        taken_at = filed.waited.taken_at
        if not filed.ranges or taken_at >= decided.frontier.checkpoint or decided.is_held(taken_at):
            return False
        if self._again and not self._again.keys().isdisjoint(filed.pairs):
            return False
        return all(decided.has_done(*ends) for ends in filed.ranges)

    def _look_on(self, filed: Filed, decided: Decided, most: int) -> int:
        """Check inputs one by one until one is not done; a done input stays done. Return how many were checked."""
        first, version = filed.at, decided.version
        for at in range(first, min(first + most, len(filed.pairs))):
            messages, waited = self._came(filed, at)
            if not decided.may_forget(messages, _origin_of(filed.pairs[at])[0], waited.taken_at):
                filed.looked = version
                break
            filed.at = at + 1
        return filed.at - first + 1

    def _came(self, filed: Filed, at: int) -> tuple[Messages, Waited]:
        """Return the messages of an input's last arrival, and when that was."""
        return self._again.get(filed.pairs[at]) or (filed.messages_at(at), filed.waited)

    def _squeeze(self, decided: Decided) -> list[Filed]:
        """Forget the oldest segments that wait for messages of earlier lives, as far as the bound asks for it."""
        over: list[Filed] = []
        waiting = [filed for filed in list(self._filed) if filed.looked == decided.version]
        for filed in sorted(waiting, key=lambda one: (one.messages is not None, one.number)):
            if len(self.contents) <= self._most:
                break
            messages, waited = self._came(filed, filed.at)
            if not messages or decided.is_earlier(messages, waited.written_at):
                before = len(self.contents)
                self._drop(filed)
                self._filed.remove(filed)
                self.squeezed += before - len(self.contents)
                over.append(filed)
        return over

    def _drop(self, filed: Filed) -> None:
        for pair in filed.pairs:
            self.contents.pop(pair, None)
        for further in (self._divergent, self._again):
            for pair in filed.pairs if further else ():
                further.pop(pair, None)


def _ranges(messages: Sequence[int] | Sequence[Messages]) -> list[tuple[int, int]]:
    """Return the lowest and highest message per life of a home. Empty if an input belongs to several messages."""
    numbers = [message for message in messages if isinstance(message, int)]
    if not numbers or len(numbers) < len(messages):
        return []
    low, high = min(numbers), max(numbers)
    if low >> NUMBER_BITS == high >> NUMBER_BITS:
        return [(low, high)]
    lives: dict[int, list[int]] = {}
    for number in numbers:
        lives.setdefault(number >> NUMBER_BITS, []).append(number)
    return [(min(part), max(part)) for part in lives.values()]
