"""What drawn topologies process, and what their bolts have in common. Must not know topologies."""

from topology import Bolt, Record, Task


class Item(Record):
    n: int
    path: tuple[int, ...] = ()


class Unlucky(Bolt):
    """Raises for a share of its inputs."""

    def __init__(self, share: float) -> None:
        self.share = share

    def open(self, task: Task) -> None:
        self.random, self.index = task.random, task.index

    def chance(self) -> None:
        if self.share and self.random.random() < self.share:
            raise ValueError("unlucky")
