"""A fleet of puppets: real processes, that say what a test wants.

A puppet tells its supervisor, as an entry of the log, each order that it gets; what it does then is code by order.
It beats while it has nothing to do, as a worker does: one that is silent is killed, and a test may take that long.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from spouts import Items
from topology import Bolt, Config, Record, Topology
from topology.plan import Plan, plan
from topology.runtime.control.messages import Begin, Closed, Log, Word
from topology.runtime.os_process.restarts import LOOK_S
from topology.runtime.supervisor import worker_handle
from topology.runtime.supervisor.fleet import Fleet
from topology.runtime.supervisor.worker_handle import WorkerHandle, WorkerState

PATIENCE_S = 20.0
PUPPET = """
import os, select, socket, sys, time
from topology.runtime.control.messages import *
s, u, joined, does = socket.socket(fileno=int(sys.argv[1])), Unpacker(orders=True), 0, {}
def say(*words): s.sendall(b"".join(map(packed, words)))
def obey(order):
    global joined, does
    name = type(order).__name__
    if name == "Begin": does = order.arguments
    if name == "Join": joined += len(order.peers)
    told = [peer.worker for peer in order.peers] if name == "Join" else ""
    if name == "Generation": told, joined = f"{order.number} after {order.owner}", joined - 1
    if hasattr(order, "checkpoint"): told = order.checkpoint
    say(Log(20, f"{name} {told}".strip()))
    exec(does.get(name, ""))
while True:
    if not select.select([s], [], [], 0.5)[0]:
        say(Beat())
    elif data := s.recv(65536):
        for order in u.fed(data):
            obey(order)
    else:
        break
"""
GOOD = {  # what a worker does that all is well with
    "Begin": "say(Ready(f'at {order.worker}', order.key.decode()))",
    "Join": "say(Linked(joined))",
    "Generation": "say(Failing(order.owner, 100))",
    "TakeNote": "say(HomeNote(order.checkpoint, PackedNote((order.checkpoint,), 7, b'', b'', b'', False)))",
    "Barrier": "say(Prepared(order.checkpoint, 1, 0.0))",
    "CheckpointDecided": "say(CheckpointSettled(order.checkpoint))",
    "CopyStore": "say(StoreCopied(order.checkpoint, 5))",
    "StopWork": "say(WorkStopped())",
    "Close": "say(Closed(b'', 0, {})); os._exit(0)",
}


class Number(Record):
    n: int


class Sink(Bolt):
    def process(self, number: Number) -> None: ...


def planned(workers: int, **config: Any) -> Plan:
    topology = Topology("puppets", Config(**config))
    topology.bolt("sink", Sink(), topology.spout("numbers", Items([Number(1)])).shuffle(), tasks=workers)
    topology.validate()
    return plan(topology, workers)


def unexpected(handle: WorkerHandle, word: Word) -> None:
    raise AssertionError(f"worker {handle.worker} was not asked for {word}")


class Stage:
    """A fleet of puppets, and what is heard of it. `does`: worker → what each of its lives does, the last one's for
    further ones, besides what is good."""

    def __init__(self, workers: int, does: dict[int, list[dict[str, str]]], **config: Any) -> None:
        self.plan = planned(workers, **config)
        self.does = does
        self.orders: dict[int, list[str]] = {}  # pid → what it was told
        self.lives: list[int] = []  # the worker of each process
        self.ends: list[tuple[int, WorkerState]] = []
        self.told: list[str] = []
        self.answered: Callable[[WorkerHandle, Word], None] = unexpected
        self.generations: list[int] = []  # that each process began in
        self.before_death: Callable[[str, Callable[[], None]], None] = lambda why, then: then()
        self.fleet = Fleet(
            self.plan,
            began=self._began,
            environment=os.environ,
            watcher=self,
            report=self.told.append,
            before_death=lambda why, then: self.before_death(why, then),
        )

    def _began(self, worker: int) -> Begin:
        lives = self.does.get(worker, [{}])
        does: dict[str, object] = {**GOOD, **lives[min(self.lives.count(worker), len(lives) - 1)]}
        self.lives.append(worker)
        self.generations.append(self.fleet.generation)
        key = self.plan.fingerprint.encode()
        return Begin(worker, (len(self.lives), 0), 1, 2, "", does, [], "", "ipc", key, {}, 0)

    def heard(self, handle: WorkerHandle, word: Word) -> None:
        if isinstance(word, Log):
            self.orders.setdefault(handle.pid, []).append(word.text)
        elif not isinstance(word, Closed):
            self.answered(handle, word)

    def running(self, handle: WorkerHandle) -> None:
        pass

    def left(self, handle: WorkerHandle) -> None:
        self.ends.append((handle.worker, handle.state))

    def of(self, worker: int) -> list[str]:
        """What the worker's process was told, so far."""
        return self.orders.get(self.fleet.handles[worker].pid, [])

    async def until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, (self.told, self.orders, self.fleet.failed)
            await asyncio.sleep(0.005)


@asynccontextmanager
async def staged(
    monkeypatch: pytest.MonkeyPatch, workers: int, does: dict[int, list[dict[str, str]]] | None = None, **config: Any
) -> AsyncIterator[tuple[Stage, Fleet]]:
    """A fleet that has begun, and is looked at as a supervisor does; all puppets are gone afterwards."""
    monkeypatch.setattr(worker_handle, "command", lambda fd: [sys.executable, "-c", PUPPET, str(fd)])
    stage = Stage(workers, does or {}, **config)

    async def look() -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            stage.fleet.look()

    looking = asyncio.ensure_future(look())
    stage.fleet.begin()
    try:
        yield stage, stage.fleet
    finally:
        looking.cancel()
        await stage.fleet.close(5.0, asyncio.Event(), 1.0)
        assert all(one.reaped.is_set() for one in stage.fleet.handles.values())
