"""The topology of the marathon with state: numbered sentences are split, and words are counted across all of them.

    numbers ─ Sentence ─► split ─ Word ─► tally (a state a word, two tasks) ─ Tally ─► store (SqliteSink, one task)

Each count that a word comes to is one row: of a word that came n times 1 … n have to be there, each once. One too many
is an input that was counted twice, one that lacks is a state that was lost, and a row that is there twice is an output
that was made anew after its state had been kept.
"""

from collections.abc import Iterator
from pathlib import Path

from numbered import Numbers, Sentence, Word, text_of, works

from bolts import SqliteSink
from topology import Bolt, Record, State, Topology


class Tally(Record):
    text: str
    count: int


class Split(Bolt):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, sentence: Sentence) -> Iterator[Word]:
        works(self.folder)
        for place, word in enumerate(sentence.text.split()):
            yield Word(sentence.n, place, word)


class Count(Bolt):
    def process(self, word: Word, state: State[int]) -> Iterator[Tally]:
        count = state.get(0) + 1
        state.set(count)
        yield Tally(word.text, count)


def expected(count: int) -> dict[str, int]:
    """Word → how often it comes, of the first `count` numbers."""
    words: dict[str, int] = {}
    for n in range(count):
        for word in text_of(n).split():
            words[word] = words.get(word, 0) + 1
    return words


def topology(folder: str, count: int = 200_000, rate: int = 0, tasks: int = 1, counts: int = 2) -> Topology:
    """`tasks` of the spout, `counts` of the bolt that counts."""
    place = Path(folder)
    topology = Topology("tallied")
    numbers = topology.spout("numbers", Numbers(place / "books", count, rate), tasks=tasks)
    words = topology.bolt("split", Split(place), numbers.shuffle(), tasks=2)
    tallies = topology.bolt("tally", Count(), words.fields("text"), tasks=counts)
    topology.bolt("store", SqliteSink(place / "store.db", records=[Tally], batch=2000), tallies.global_())
    return topology
