"""A topology that is given secrets in every way, keeps them in its components, and fails in every way; run by
`test_canaries`. What user code itself shows, no library can hide: nothing here shows one."""

import os
import signal
from collections.abc import Iterator

from bolts import PostgresSink
from spouts import Items
from topology import Bolt, Record, Reject, Secret, State, Task, Topology


class Number(Record):
    number: int


class Client(Bolt):
    """Holds secrets as attributes and locals, and raises with them in its frames."""

    def __init__(self, password: Secret, token: Secret | None) -> None:
        self.password, self.token = password, token

    def open(self, task: Task) -> None:
        self.revealed = self.password.reveal()

    def process(self, number: Number) -> Iterator[Number]:
        password = self.password
        text = password.reveal()
        if number.number == 3:
            raise ValueError(f"no answer for {password} with {self.token}, of {len(text) > 0}")
        if number.number == 4:
            raise Reject("not wanted")
        yield number


class Crash(Bolt):
    def __init__(self, password: Secret, crashes: bool) -> None:
        self.password, self.crashes = password, crashes

    def process(self, number: Number, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + 1)
        if number.number == 7 and self.crashes and not os.path.exists("crashed"):
            open("crashed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        yield number


def topology(
    password: Secret, token: Secret | None = None, dsn: str = "", crashes: bool = False, fails: str = ""
) -> Topology:
    topology = Topology("canaries")
    numbers = topology.spout("numbers", Items([Number(n) for n in range(1, 11)]))
    client = topology.bolt("client", Client(password, token), numbers.shuffle())
    crash = topology.bolt("crash", Crash(password, crashes), client.fields("number"))
    if dsn:
        topology.bolt("store", PostgresSink(dsn, records=(Number,)), crash.shuffle())
    if fails == "declaration":
        topology.bolt("store", Crash(password, False), crash.fields("nothing"))
    if fails == "factory":
        raise RuntimeError(f"no service for {password}")
    return topology
