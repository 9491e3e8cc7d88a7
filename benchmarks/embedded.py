"""The throughput benchmark on Kedge: identity and word count, every tuple acked, one process."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.baseline import sentences
from topology import Bolt, Config, Message, Record, Spout, Task, Topology
from topology.runtime.embedded.run import EmbeddedRun

WARM_UP_S = 0.5


class Login(Record):
    address: str
    at: float
    user: str


class Sentence(Record):
    text: str


class Word(Record):
    text: str


class Logins(Spout):
    """One record for ever, under a new message id each time. Each of several tasks has its share of the ids."""

    def __init__(self) -> None:
        self.record = Login("10.0.0.1", 1.0, "root")
        self.next = 0
        self.step = 1

    def open(self, task: Task, positions: object) -> None:
        self.next, self.step = task.index, task.tasks

    async def poll(self, limit: int) -> Sequence[Message[Login]]:
        record, first = self.record, self.next
        self.next += limit * self.step
        return [Message(record, number) for number in range(first, self.next, self.step)]


class Sentences(Spout):
    """A thousand sentences, again and again. Each of several tasks has its share of the ids."""

    def __init__(self) -> None:
        self.texts = [Sentence(text) for text in sentences()]
        self.next = 0
        self.step = 1

    def open(self, task: Task, positions: object) -> None:
        self.next, self.step = task.index, task.tasks

    async def poll(self, limit: int) -> Sequence[Message[Sentence]]:
        texts, first = self.texts, self.next
        self.next += limit * self.step
        return [Message(texts[number % 1000], number) for number in range(first, self.next, self.step)]


class Same(Bolt):
    def process(self, login: Login) -> Iterator[Login]:
        yield Login(login.address, login.at, login.user)


class Null(Bolt):
    def process(self, login: Login) -> None:
        return None


class Split(Bolt):
    def process(self, sentence: Sentence) -> Iterator[Word]:
        for word in sentence.text.split():
            yield Word(word)


class Count(Bolt):
    """Counts in an attribute, as the baseline does: durable state is measured elsewhere."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def process(self, word: Word) -> None:
        self.counts[word.text] += 1


def identity_topology() -> Topology:
    topology = Topology("identity", Config(max_pending=2_000))
    logins = topology.spout("logins", Logins())
    same = topology.bolt("same", Same(), logins.shuffle())
    topology.bolt("null", Null(), same.shuffle())
    return topology


def word_count_topology() -> Topology:
    topology = Topology("word-count", Config(max_pending=2_000))
    source = topology.spout("sentences", Sentences())
    words = topology.bolt("split", Split(), source.shuffle())
    topology.bolt("count", Count(), words.fields("text"))
    return topology


async def acked_a_second(topology: Topology, seconds: float) -> float:
    """Return messages per second whose whole tree was acked, after a warm-up."""
    run = EmbeddedRun(topology)
    finished = asyncio.ensure_future(run.finish())
    await asyncio.sleep(WARM_UP_S)
    before = run.snapshot()
    started_at = time.perf_counter()
    await asyncio.sleep(seconds)
    after = run.snapshot()
    assert before is not None
    assert after is not None
    rate = (after.total("acked") - before.total("acked")) / (time.perf_counter() - started_at)
    run.abort()
    await finished
    return rate
