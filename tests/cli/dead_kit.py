"""A topology with bad messages, for tests of what a run leaves behind: dead letters and positions."""

BAD = '''
import asyncio
from collections.abc import Iterator, Mapping
from bolts import SqliteSink
from topology import Bolt, Config, Message, Record, Spout, Task, Topology


class Number(Record):
    value: int
    text: str


class Numbers(Spout):
    """Goes on where it was, and pauses a moment each time, so that a run can be met."""

    def __init__(self, count: int, pause_s: float) -> None:
        self.count, self.pause_s = count, pause_s

    def open(self, task: Task, positions: Mapping[str, int]) -> None:
        self.next = positions.get("", 0)

    async def poll(self, limit: int) -> list[Message[Number]]:
        await asyncio.sleep(self.pause_s)
        taken = range(self.next, min(self.count, self.next + 20))
        self.next = taken.stop
        return [Message(Number(value, f"n{value} \\x1b[31m é"), value) for value in taken]


class Check(Bolt):
    def __init__(self, bad: int) -> None:
        self.bad = bad

    def process(self, number: Number) -> Iterator[Number]:
        if self.bad and number.value % self.bad == 7:
            raise ValueError(f"no {number.value}, [red]please[/red] \\x1b]0;pwn\\x07")
        yield number


def topology(count: int = 100, bad: int = 0, pause_s: float = 0.001, name: str = "check") -> Topology:
    topology = Topology("bad", config=Config(max_replays=1))
    numbers = topology.spout("numbers", Numbers(count, pause_s))
    checked = topology.bolt(name, Check(bad), numbers.shuffle())
    topology.bolt("store", SqliteSink("out.db"), checked.global_())
    return topology
'''
