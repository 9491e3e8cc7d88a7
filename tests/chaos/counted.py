"""The topology of the marathon: numbered sentences become a row for each word, and one for the address each came from.

    numbers ─ Sentence ─► check ─ Sentence ─► split ─ Word ───► store (SqliteSink, one task, a table each)
                                         └──► locate ─ Visit ─►

No bolt has state, so that both tables are exact whatever dies, and what they should hold is known of the numbers alone.
`reject` is how many records there are for each that `check` rejects; 0 for none.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from numbered import Numbers, Sentence, Word, text_of, works

from bolts import SqliteSink
from topology import Bolt, Record, Reject, Topology

ADDRESSES: Final = 251  # a prime, so that each meets every other property of a number


class Visit(Record):
    n: int
    address: str


def address_of(n: int) -> str:
    return f"192.0.2.{n % ADDRESSES}"


def rejected(n: int, reject: int) -> bool:
    """Whether this number is one of those that are rejected."""
    return reject > 0 and n % reject == reject - 1


class Check(Bolt):
    def __init__(self, folder: Path, reject: int) -> None:
        self.folder, self.reject = folder, reject

    def process(self, sentence: Sentence) -> Iterator[Sentence]:
        works(self.folder)
        if rejected(sentence.n, self.reject):
            raise Reject(f"{sentence.n} is one in {self.reject}")
        yield sentence


class Split(Bolt):
    def process(self, sentence: Sentence) -> Iterator[Word]:
        for place, word in enumerate(sentence.text.split()):
            yield Word(sentence.n, place, word)


class Locate(Bolt):
    def process(self, sentence: Sentence) -> Iterator[Visit]:
        yield Visit(sentence.n, address_of(sentence.n))


def expected(count: int, reject: int = 0) -> tuple[dict[str, int], dict[str, int]]:
    """Word → how often, address → how often: what the first `count` numbers make, less those that are rejected."""
    words: dict[str, int] = {}
    addresses: dict[str, int] = {}
    for n in range(count):
        if not rejected(n, reject):
            for word in text_of(n).split():
                words[word] = words.get(word, 0) + 1
            addresses[address_of(n)] = addresses.get(address_of(n), 0) + 1
    return words, addresses


def topology(folder: str, count: int = 200_000, rate: int = 0, reject: int = 0, tasks: int = 1) -> Topology:
    """`tasks` of the spout."""
    place = Path(folder)
    topology = Topology("counted")
    numbers = topology.spout("numbers", Numbers(place / "books", count, rate), tasks=tasks)
    checked = topology.bolt("check", Check(place, reject), numbers.shuffle(), tasks=2)
    words = topology.bolt("split", Split(), checked.shuffle(), tasks=2)
    visits = topology.bolt("locate", Locate(), checked.shuffle(), tasks=2)
    sink = SqliteSink(place / "store.db", records=[Word, Visit], batch=2000)
    topology.bolt("store", sink, words.global_(), visits.global_())
    return topology
