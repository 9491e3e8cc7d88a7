"""What tests of several durabilities share: the durabilities, and a bolt that counts the inputs of each key."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from runtime_kit import Number, Pair

from topology import Bolt, State

KEYS = 7
COUNT = 300
Durability = Literal["disk", "process", "checkpoint"]
DURABILITIES: Sequence[Durability] = ("disk", "process", "checkpoint")


class Counts(Bolt):
    """The state of each key is how many inputs it had; gives the key and the count."""

    def process(self, number: Number, state: State[int]) -> Iterator[Pair]:
        state.set(state.get(0) + 1)
        yield Pair(number.n, state.get(0))


def expected(count: int = COUNT) -> dict[int, int]:
    return dict(Counter(n % KEYS for n in range(count)))


def stored_once(pairs: Mapping[Any, Pair], count: int = COUNT) -> bool:
    """Whether each key has each of its counts once."""
    return Counter((pair.left, pair.right) for pair in pairs.values()) == Counter(
        (key, n) for key, most in expected(count).items() for n in range(1, most + 1)
    )
