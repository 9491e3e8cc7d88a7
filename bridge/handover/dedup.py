"""Deduplicate the inputs of one hand-over task: identity → content, kept per segment until all messages of the segment
are done (D4).

Must not know files, records or the loop. The task's loop asks what may be forgotten. The store's thread adds and looks
up. Every step of either is a single operation on a dict or deque.
"""

from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import Final, TypeAlias

from acker.floors import Floors
from acker.progress import NUMBER_BITS

Messages: TypeAlias = tuple[int, ...]  # messages of an input; a sub-tree's message stands twice, as it means several

pair_of: Final = Struct(">QQ").pack  # packs origin and identity, as in `bolts.sinks.keys`
_origin_of: Final = Struct(">Q8x").unpack


class Filed:
    """The inputs of one segment. `log`: the number of the task that wrote the segment."""

    __slots__ = ("at", "log", "looked", "messages", "number", "pairs", "ranges")

    def __init__(
        self, log: int, number: int, pairs: Sequence[bytes], messages: Sequence[int] | Sequence[Messages]
    ) -> None:
        """`messages`: one entry per input; plain numbers if every input has exactly one message."""
        self.log = log
        self.number = number
        self.pairs = pairs
        self.messages = messages
        self.ranges = _ranges(messages)
        self.at = 0  # index of the first input that is not known to be done
        self.looked = -1  # version of the floors at the last look


class SegmentIdentities:
    """The identities that one task remembers."""

    def __init__(self) -> None:
        self.contents: dict[bytes, int] = {}  # pair → its first content
        self._divergent: dict[bytes, set[int]] = {}  # further contents of a pair
        self._again: dict[bytes, Messages] = {}  # pair of a replayed input → the messages of the replay
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
            for pair, content in zip(filed.pairs, contents, strict=True):
                if self.contents.setdefault(pair, content) != content:
                    self._divergent.setdefault(pair, set()).add(content)
                    divergent.append(pair)
        self._filed.append(filed)
        return divergent

    def again(self, pair: bytes, messages: Messages) -> None:
        """Note that a known input was replayed: it is done once these messages are (D4)."""
        self._again[pair] = messages

    def forget(self, floors: Floors, most: int) -> tuple[list[Filed], bool]:
        """Forget the segments that are done. Return them, and True if another call would find more now. Looks at about
        `most` inputs."""
        over: list[Filed] = []
        for _ in range(len(self._filed)):
            if most <= 0:
                break
            filed = self._filed.popleft()
            if filed.looked == floors.version:
                self._filed.append(filed)
            elif self._is_done(filed, floors):
                most -= len(filed.pairs)
                over.append(filed)
            else:
                most -= self._look_on(filed, floors, most)
                if filed.at == len(filed.pairs):
                    over.append(filed)
                else:
                    self._filed.append(filed)
        for filed in over:
            self._drop(filed)
        return over, most <= 0

    def _is_done(self, filed: Filed, floors: Floors) -> bool:
        """Fast check that a whole segment is done. May return False although it is."""
        if not filed.ranges or self._again or not all(floors.has_done(*ends) for ends in filed.ranges):
            return False
        return not floors.dead or not any(_origin_of(pair)[0] in floors.dead for pair in filed.pairs)

    def _look_on(self, filed: Filed, floors: Floors, most: int) -> int:
        """Check inputs one by one until one is not done; a done input stays done. Return how many were checked."""
        first, version = filed.at, floors.version
        for at in range(first, min(first + most, len(filed.pairs))):
            pair = filed.pairs[at]
            messages = self._again.get(pair) or filed.messages[at]
            if not floors.are_over((messages,) if isinstance(messages, int) else messages, _origin_of(pair)[0]):
                filed.looked = version
                break
            filed.at = at + 1
        return filed.at - first + 1

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
