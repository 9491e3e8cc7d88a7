"""Storm's first example: the most frequent words.

    kedge run examples/word_count.py
    kedge run examples/word_count.py --workers 2 --set path=book.txt

Sentences are split into words. `fields("word")` always sends a word to the same of two counting tasks, which keep one
count per word as state. `global_()` sends all counts to one task, which keeps the leaders. The run prints a line
whenever they change; the last line is the result. A replayed sentence is not counted again: the state knows it. Only
its lines may be printed again, since a terminal cannot forget; to store a result for good, use SqliteSink.
"""

import re
from collections.abc import Iterator

from kedge import Bolt, FileTail, Items, Line, Print, Record, State, Topology

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
SENTENCES = """\
A spout reads what comes in, and a bolt works on what the spout has read.
What a bolt sends on is anchored to what it was sent.
So each message is the root of a tree, and the tree is done when all of its tuples are.
The acker knows of each tree whether it is done, by one number that ends as zero.
A tree that is not done in time is sent again, from its root.
Then a bolt may see a tuple twice, and so the state knows what it has seen.
A sink knows it too, and the result is what it would have been."""


class Word(Record):
    """One word of a sentence, in small letters."""

    word: str


class Count(Record):
    """The number of times that a word has come by now."""

    word: str
    times: int


class Leaders(Record):
    """The most frequent words so far, the first one first; equal ones are in alphabetical order."""

    counts: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return "  ".join(f"{word} {times}" for word, times in self.counts)


class Split(Bolt):
    """Line → its words."""

    def process(self, line: Line) -> Iterator[Word]:
        for word in WORD.findall(line.text.lower()):
            yield Word(word)


class CountWords(Bolt):
    """Word → Count. The state is one number for each word, in whichever task counts it."""

    def process(self, word: Word, state: State[int]) -> Iterator[Count]:
        times = state.get(0) + 1
        state.set(times)
        yield Count(word.word, times)


class Rank(Bolt):
    """Count → Leaders when they have changed. Counts only grow, so of two counts of a word the greater one is later."""

    def __init__(self, places: int = 3) -> None:
        self.places = places

    def process(self, count: Count, state: State[tuple[tuple[str, int], ...]]) -> Iterator[Leaders]:
        before = state.get(())
        counts = dict(before)
        counts[count.word] = max(count.times, counts.get(count.word, 0))
        leaders = tuple(sorted(counts.items(), key=lambda one: (-one[1], one[0]))[: self.places])
        if leaders != before:
            state.set(leaders)
            yield Leaders(leaders)


def topology(path: str = "", places: int = 3) -> Topology:
    """`path`: a text file; without one, a few built-in sentences."""
    topology = Topology("word-count")
    source = FileTail(path) if path else Items(map(Line, SENTENCES.splitlines()))
    sentences = topology.spout("sentences", source)
    words = topology.bolt("words", Split(), sentences.shuffle())
    counts = topology.bolt("counts", CountWords(), words.fields("word"), tasks=2)
    leaders = topology.bolt("leaders", Rank(places), counts.global_())
    topology.bolt("print", Print(), leaders.shuffle())
    return topology
