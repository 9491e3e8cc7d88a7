"""Numbered records through a count to a web hook, for runs that are killed and receivers that fail."""

from collections.abc import AsyncIterator, Iterator

from bolts.sinks.http.retries import Retries
from bolts.sinks.http.webhook import WebHook
from topology import Bolt, Config, Message, Positions, Record, Spout, State, Task, Topology


class OrderNumber(Record):
    number: int


class CountedOrder(Record):
    number: int
    times: int


class OrderNumbers(Spout):
    """1 … count, from where it was left."""

    def __init__(self, count: int) -> None:
        self.count = count

    def open(self, task: Task, positions: Positions) -> None:
        at = positions.get("", 1)
        assert isinstance(at, int)
        self.first = at

    async def records(self) -> AsyncIterator[Message[OrderNumber]]:
        for number in range(self.first, self.count + 1):
            yield Message(OrderNumber(number), number)


class CountOrders(Bolt):
    """Counts each number: what is processed twice would be a second record with another count."""

    def process(self, order: OrderNumber, state: State[int]) -> Iterator[CountedOrder]:
        times = state.get(0) + 1
        state.set(times)
        yield CountedOrder(order.number, times)


def topology(port: int, count: int = 5_000, tasks: int = 1, timeout_s: float = 1.0, for_s: float = 600.0) -> Topology:
    topology = Topology("hook-runs", Config(max_pending=500))
    orders = topology.spout("orders", OrderNumbers(count))
    counted = topology.bolt("count", CountOrders(), orders.fields("number"), tasks=2)
    hook = WebHook(f"http://127.0.0.1:{port}/hook", idempotent=True, timeout_s=timeout_s, retries=Retries(for_s=for_s))
    topology.bolt("hook", hook, counted.shuffle(), tasks=tasks)
    return topology
