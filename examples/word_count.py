"""Storm's first example: which words come most often.

    kedge run examples/word_count.py
    kedge run examples/word_count.py --workers 2 --set path=book.txt

Sentences are split into words. `fields("word")` sends each word always to the same of two counting tasks, which keep a
count a word as state; `global_()` brings the counts together in one task, which keeps the leaders. A line is printed
whenever they change; the last one is the result. A sentence that is replayed is not counted again: the state knows it.
Only its lines may be printed again, since a terminal can't forget; what stores a result for good is SqliteSink.
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
    """So many times it has come by now."""

    word: str
    times: int


class Leaders(Record):
    """The words that have come most often so far, the first one first; of equals the first in the alphabet."""

    counts: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return "  ".join(f"{word} {times}" for word, times in self.counts)


class Split(Bolt):
    """Line → its words."""

    def process(self, line: Line) -> Iterator[Word]:
        for word in WORD.findall(line.text.lower()):
            yield Word(word)


class CountWords(Bolt):
    """Word → Count. The state is one number for each word, whichever of the tasks has it."""

    def process(self, word: Word, state: State[int]) -> Iterator[Count]:
        times = state.get(0) + 1
        state.set(times)
        yield Count(word.word, times)


class Rank(Bolt):
    """Count → Leaders, where they have changed. Counts only grow, so the greater one of a word is the later one."""

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
    """`path`: a text file; without one, a few sentences that are here."""
    topology = Topology("word-count")
    source = FileTail(path) if path else Items(map(Line, SENTENCES.splitlines()))
    sentences = topology.spout("sentences", source)
    words = topology.bolt("words", Split(), sentences.shuffle())
    counts = topology.bolt("counts", CountWords(), words.fields("word"), tasks=2)
    leaders = topology.bolt("leaders", Rank(places), counts.global_())
    topology.bolt("print", Print(), leaders.shuffle())
    return topology
