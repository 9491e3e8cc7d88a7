"""Where a blocked loop stands: the component and the user's line are named, from another thread (F8).

A real run, in a thread of its own, blocks in user code, in one way each; the test looks at it, then lets it go on.
"""

import asyncio
import inspect
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
from runtime_kit import Number

from topology import Bolt, Message, Spout, Task, Topology
from topology.runtime.asyncio_tools import asyncio_run
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.worker import blocked_loop

GATE = threading.Event()  # what blocking code waits for


class SPINNING:
    done = False


class Numbers(Spout):
    """One number."""

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        given, self.given = getattr(self, "given", False), True
        return [] if given else [Message(Number(1), 1)]


class BlocksInPoll(Numbers):
    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        GATE.wait(30)  # here
        return []


class BlocksInRecords(Spout):
    async def records(self) -> AsyncIterator[Message[Number]]:
        GATE.wait(30)  # here
        yield Message(Number(1), 1)


class Passes(Bolt):
    def process(self, number: Number) -> Iterator[Number]:
        yield number


class Ends(Bolt):
    def process(self, number: Number) -> None: ...


class BlocksInProcess(Bolt):
    def process(self, number: Number) -> None:
        GATE.wait(30)  # here


class Spins(Bolt):
    def process(self, number: Number) -> None:
        while not SPINNING.done:
            pass


class BlocksInAwait(Bolt):
    async def process(self, number: Number) -> None:
        await asyncio.sleep(0)
        GATE.wait(30)  # here


class BlocksInOpen(Ends):
    def open(self, task: Task) -> None:
        GATE.wait(30)  # here


class BlocksInClose(Ends):
    def close(self) -> None:
        GATE.wait(30)  # here


class BlocksInLibrary(Bolt):
    def process(self, number: Number) -> None:
        json.dumps([self], default=waited)  # here


def waited(_: object) -> str:
    return str(GATE.wait(30))


Look = Callable[[Spout, Bolt], Callable[[], str]]


@pytest.fixture
def blocked() -> Iterator[Look]:
    """Runs a topology in a thread; gives what says where that stands."""
    GATE.clear()
    SPINNING.done = False
    threads: list[threading.Thread] = []

    def run(spout: Spout, bolt: Bolt) -> Callable[[], str]:
        topology = Topology("standing")
        numbers: Any = topology.spout("numbers", spout)
        topology.bolt("last", bolt, topology.bolt("pass", Passes(), numbers.shuffle()).shuffle())
        loops: list[asyncio.AbstractEventLoop] = []

        async def main() -> None:
            loops.append(asyncio.get_running_loop())
            await EmbeddedRun(topology).finish()

        threads.append(threading.Thread(target=lambda: asyncio_run(main())))
        threads[0].start()
        return lambda: blocked_loop.where(threads[0].ident or 0, loops[0] if loops else None)

    yield run
    SPINNING.done = True
    GATE.set()
    threads[0].join(30)
    assert not threads[0].is_alive()


def until(look: Callable[[], str], wanted: str) -> str:
    """What is said once it has this in it; waits for that."""
    text = ""
    for _ in range(500):
        text = look()
        if wanted in text:
            return text
        threading.Event().wait(0.02)
    pytest.fail(f"{wanted!r} is not in {text!r}")


def here(kind: Any) -> str:
    """The place of the line of a class that is marked so."""
    lines, first = inspect.getsourcelines(kind)
    line = first + next(at for at, line in enumerate(lines) if "# here" in line)
    return f"tests/runtime/process/test_standing.py:{line} in "


@pytest.mark.parametrize("kind", [BlocksInProcess, BlocksInAwait, BlocksInOpen, BlocksInClose])
def test_a_bolt_that_blocks_is_named_with_its_line_f8(
    blocked: Look, kind: type[Bolt], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(request.config.rootpath)
    text = until(blocked(Numbers(), kind()), here(kind))
    assert text.startswith("component 'last', " + here(kind))


def test_a_bolt_that_spins_is_named_with_its_line_though_it_holds_the_gil_f8(blocked: Look) -> None:
    text = until(blocked(Numbers(), Spins()), " in process")
    assert text.startswith("component 'last', ")


def test_a_source_that_blocks_is_named_with_its_line_f8(blocked: Look) -> None:
    assert until(blocked(BlocksInPoll(), Ends()), here(BlocksInPoll)).startswith("component 'numbers', ")


def test_a_generator_that_blocks_is_told_by_its_line_f8(blocked: Look) -> None:
    assert " in records" in until(blocked(BlocksInRecords(), Ends()), here(BlocksInRecords))


def test_a_library_that_blocks_is_told_beside_the_users_line_f8(blocked: Look) -> None:
    text = until(blocked(Numbers(), BlocksInLibrary()), "which runs threading.py:")
    assert text.startswith("component 'last', ")
    assert "test_standing.py:" in text.split("which runs ")[0]


def test_a_file_elsewhere_is_told_by_its_whole_path(
    blocked: Look, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"{__file__}:" in until(blocked(Numbers(), BlocksInProcess()), "test_standing.py")


def test_a_thread_that_is_no_more_stands_nowhere() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert blocked_loop.where(thread.ident or 0) == ""


def test_looking_at_a_thread_that_runs_never_raises_and_keeps_nothing_of_the_users() -> None:
    """Frames end while they are looked at."""
    stop = threading.Event()

    def deep(depth: int) -> int:
        return deep(depth - 1) if depth else 0

    def run() -> None:
        while not stop.is_set():
            deep(50)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        texts = {blocked_loop.where(thread.ident or 0) for _ in range(2_000)}
        deadline = time.monotonic() + 10.0
        while not any(" in deep" in text for text in texts) and time.monotonic() < deadline:
            texts.add(blocked_loop.where(thread.ident or 0))
            time.sleep(0)  # whoever looks has the interpreter's lock, and the other stands still
    finally:
        stop.set()
        thread.join()
    assert "" not in texts
    assert any(" in deep" in text for text in texts)
