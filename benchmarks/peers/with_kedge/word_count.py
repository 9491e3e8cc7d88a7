"""Word count: the example's bolts, except that counts are emitted once, after all input, as `count_final` does.

kedge run benchmarks.peers.with_kedge.word_count --set path=LINES --set store=OUT
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import ClassVar, Literal

from bolts import JsonLinesSink
from examples.word_count import Count, Split, Word
from spouts import FileTail
from topology import Bolt, Config, State, Task, Topology

NEVER = timedelta(days=36_500)

Durability = Literal["disk", "process", "checkpoint"]


class CountWords(Bolt):
    """Word → nothing, and at the end of a bounded run, when timers fire, its Count."""

    fires_at_end: ClassVar[bool] = True

    def open(self, task: Task) -> None:
        self.clock = task.clock

    def process(self, word: Word, state: State[int]) -> Iterable[Count]:
        times = state.get(0)
        if not times:
            state.timer(self.clock.utc() + NEVER)
        state.set(times + 1)
        return ()

    def on_timer(self, key: tuple[str, ...], name: str, state: State[int]) -> Iterator[Count]:
        yield Count(key[0], state.get(0))


def topology(path: str, store: str, durability: Durability = "disk") -> Topology:
    topology = Topology("word-count", Config(durability=durability))
    lines = topology.spout("lines", FileTail(path))
    words = topology.bolt("words", Split(), lines.shuffle())
    counts = topology.bolt("counts", CountWords(), words.fields("word"), tasks=2)
    topology.bolt("store", JsonLinesSink(store), counts.global_())
    return topology
