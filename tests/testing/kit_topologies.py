"""Topologies for tests of the kit: sentences in, words out, on two workers."""

from collections.abc import Iterator

from topology import Bolt, Config, Record, State, Topology
from topology.testing import Captured, Pause, ScriptedSpout


class Sentence(Record):
    text: str


class Word(Record):
    text: str


class Count(Record):
    text: str
    count: int


class Split(Bolt):
    def process(self, sentence: Sentence) -> Iterator[Word]:
        for word in sentence.text.split():
            yield Word(word)


class CountWords(Bolt):
    def process(self, word: Word, state: State[int]) -> Iterator[Count]:
        state.set(state.get(0) + 1)
        yield Count(word.text, state.get(0))


SENTENCES = [Sentence(f"s{n} w{n % 7} end") for n in range(300)]
WORDS = sorted(word for sentence in SENTENCES for word in sentence.text.split())


def words(captured: Captured[Word], *, paused_s: float = 0.0, config: Config | None = None) -> Topology:
    """One spout on worker 0; split and captured have a task on either worker."""
    topology = Topology("words", config)
    script: list[Sentence | Pause] = []
    for number, sentence in enumerate(SENTENCES):
        script.append(sentence)
        if paused_s and number % 10 == 9:
            script.append(Pause(paused_s))
    sentences = topology.spout("sentences", ScriptedSpout(script))
    split = topology.bolt("split", Split(), sentences.shuffle(), tasks=2)
    topology.bolt("captured", captured, split.fields("text"), tasks=2)
    return topology


def counted(captured: Captured[Count], *, paused_s: float = 0.01) -> Topology:
    """The words counted: `count` has a task on either worker."""
    topology = Topology("counted")
    script: list[Sentence | Pause] = []
    for number, sentence in enumerate(SENTENCES):
        script.append(sentence)
        if number % 10 == 9:
            script.append(Pause(paused_s))
    sentences = topology.spout("sentences", ScriptedSpout(script))
    split = topology.bolt("split", Split(), sentences.shuffle())
    counts = topology.bolt("count", CountWords(), split.fields("text"), tasks=2)
    topology.bolt("captured", captured, counts.shuffle())
    return topology
