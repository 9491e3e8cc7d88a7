"""Topologies that worker processes import by this module's name, and the user code in them that misbehaves."""

import asyncio
import logging
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator

from topology import Bolt, Collector, Config, ConfigurationError, Message, Record, Reject, Spout, Task, Topology, Tuple


class Number(Record):
    n: int


class Counted(Spout):
    """0, 1, …; as many as are wanted, or without end."""

    def __init__(self, count: int | None) -> None:
        self.count = count
        self.given = 0

    async def poll(self, limit: int) -> list[Message[Number]]:
        left = limit if self.count is None else min(limit, self.count - self.given)
        first, self.given = self.given, self.given + left
        return [Message(Number(n), n) for n in range(first, first + left)]


class Silent(Spout):
    """Never gives anything."""

    async def records(self) -> AsyncIterator[Message[Number]]:
        await asyncio.Event().wait()
        yield Message(Number(0), 0)


class Raises(Spout):
    async def records(self) -> AsyncIterator[Message[Number]]:
        yield Message(Number(0), 0)
        raise OSError("the source is on fire")


class Passes(Bolt):
    def process(self, number: Number) -> Iterator[Number]:
        yield number


class Sums(Bolt):
    """Says at the end what it has seen."""

    def __init__(self) -> None:
        self.count = self.total = 0

    def process(self, number: Number) -> None:
        self.count += 1
        self.total += number.n

    def summary(self) -> list[str]:
        return [f"{self.count} numbers, {self.total} in all \udcff"]


def line(spout: Spout, *bolts: Bolt, tasks: int = 1, config: Config | None = None) -> Topology:
    """spout → bolts, one after the other; the last bolt with so many tasks."""
    topology = Topology("processes", config=config or Config())
    stream = topology.spout("numbers", spout)
    for index, bolt in enumerate(bolts):
        last = index == len(bolts) - 1
        stream = topology.bolt(f"bolt{index}", bolt, stream.shuffle(), tasks=tasks if last else 1)  # type: ignore[assignment]
    return topology


def sums(count: int | None = 1_000, tasks: int = 1) -> Topology:
    return line(Counted(count), Passes(), Sums(), tasks=tasks)


def idle() -> Topology:
    return line(Silent(), Sums())


def raising_source() -> Topology:
    return line(Raises(), Sums())


class Rejects(Bolt):
    def process(self, number: Number) -> None:
        raise Reject("never")


def dead_message() -> Topology:
    return line(Counted(1), Rejects(), config=Config(on_dead="stop"))


# -- loops that do not turn


class Sleeps(Bolt):
    def process(self, number: Number) -> None:
        time.sleep(600)


class Spins(Bolt):
    def process(self, number: Number) -> None:
        n = 0
        while True:
            n += 1


class OpenHangs(Sums):
    def __init__(self, stubborn: bool) -> None:
        super().__init__()
        self.stubborn = stubborn

    async def open(self, task: Task) -> None:
        logging.getLogger("kedge.test").info("opening")
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise


class CloseHangs(Sums):
    async def close(self) -> None:
        await asyncio.Event().wait()


def sleeping() -> Topology:
    return line(Counted(1), Sleeps())


def spinning() -> Topology:
    return line(Counted(1), Spins())


def opening(stubborn: bool = False) -> Topology:
    return line(Silent(), OpenHangs(stubborn))


def opening_blocked() -> Topology:
    class OpenBlocks(Sums):
        def open(self, task: Task) -> None:
            logging.getLogger("kedge.test").info("opening")
            time.sleep(600)

    return line(Silent(), OpenBlocks())


def closing() -> Topology:
    return line(Silent(), CloseHangs())


def importing() -> Topology:
    logging.getLogger("kedge.test").info("importing")
    time.sleep(600)
    raise AssertionError


class Chatters(Spout):
    """Logs without end, and lets the loop turn."""

    async def records(self) -> AsyncIterator[Message[Number]]:
        while True:
            logging.getLogger("kedge.test").info("x" * 5_000)
            await asyncio.sleep(0)
        yield Message(Number(0), 0)


def chattering() -> Topology:
    return line(Chatters(), Sums())


class FlushWaits(Sums):
    async def flush(self, out: Collector[Number]) -> None:
        logging.getLogger("kedge.test").info("flushing")
        await asyncio.sleep(600)


def flushing() -> Topology:
    return line(Counted(1), FlushWaits())


# -- what can't start


def no_topology() -> Topology:
    import a_module_that_is_not_there  # type: ignore[import-not-found]  # noqa: F401

    raise AssertionError


def no_declaration() -> Topology:
    topology = Topology("processes")
    topology.spout("unread", Counted(1))
    return topology


class OpenRaises(Sums):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def open(self, task: Task) -> None:
        raise {"configuration": ConfigurationError, "exit": SystemExit, "other": ValueError}[self.kind]("no such file")


def open_raises(kind: str) -> Topology:
    return line(Silent(), OpenRaises(kind))


# -- a runtime that breaks


class Breaks(Sums):
    """Breaks a part of the runtime, as a mistake in it would."""

    def __init__(self, part: str) -> None:
        super().__init__()
        self.part = part

    def open(self, task: Task) -> None:
        from topology.runtime.tasks.executor import ProcessExecutor
        from topology.runtime.worker.worker import Worker

        def broken(*_: object) -> None:
            raise RuntimeError("a bug")

        if self.part == "task":
            ProcessExecutor.slice = broken  # type: ignore[method-assign,assignment]
        elif self.part == "callback":
            asyncio.get_running_loop().call_later(0.2, in_the_runtime(broken))
        else:
            Worker.status = broken  # type: ignore[method-assign,assignment]


def in_the_runtime(function: object) -> object:
    function.__module__ = "topology.runtime.tasks.spout_task"
    return function


def breaking(part: str) -> Topology:
    return line(Counted(1), Breaks(part))


# -- what surrounds them


class Asks(Sums):
    """Says what a child of a bolt finds, and what the process has on its command line."""

    def open(self, task: Task) -> None:
        code = (
            "import os, signal; print(*(str(signal.getsignal(n)) for n in (2, 15)), signal.pthread_sigmask(0, []), "
            "sorted(os.listdir('/proc/self/fd')) if os.path.exists('/proc/self/fd') else [], dict(os.environ))"
        )
        child = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, close_fds=False
        )
        self.found = child.stdout
        self.handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]

    def summary(self) -> list[str]:
        return [self.found]


def asking() -> Topology:
    return line(Silent(), Asks())


class Prints(Sums):
    def process(self, number: Number) -> None:
        print("printed", number.n)
        logging.getLogger("kedge.test").info("printed")


def printing() -> Topology:
    return line(Counted(1), Prints())


class Notes(Sums):
    def open(self, task: Task) -> None:
        before = task.notes.get("old")
        task.notes.set("new", "told")
        self.found = f"{before} {task.notes.get('new')}"

    def summary(self) -> list[str]:
        return [self.found]


def noting() -> Topology:
    return line(Silent(), Notes())


class Holds(Bolt):
    """Keeps its inputs."""

    def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        out.touch(tup)


def holding(count: int = 3, tasks: int = 1) -> Topology:
    return line(Counted(count), Holds(), tasks=tasks)


class Logs(Sums):
    def open(self, task: Task) -> None:
        logging.getLogger("somebody").debug("not for the log")
        logging.getLogger("somebody").info("everybody's")
        logging.getLogger("somebody").warning("lone %s", "\udcff")
        try:
            raise ValueError("why")
        except ValueError:
            logging.getLogger("kedge.deeper").exception("it failed")


def logging_(configured: bool = False) -> Topology:
    if configured:
        logging.basicConfig(stream=sys.stdout)
    return line(Silent(), Logs())
