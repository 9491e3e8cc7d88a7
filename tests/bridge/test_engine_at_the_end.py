"""What a sink that has run in Spark's processes says at the end, by one more copy of it in the driver; and what that
copy raises."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from bridge.engine.mapping import mapped
from bridge.engine.python_process import FolderNotes
from bridge.engine.sinks import Sinks, counts_itself, summary_of_all, with_counts
from bridge.engine.stage import Routing
from bridge.engine.user_errors import ComponentRaised, error_lines
from spouts import Items
from topology import Bolt, Record, Task, Topology
from topology.errors import ConfigurationError
from topology.runtime.clock import LoopClock

COUNTS = {("sink", "stored"): 7, ("sink", "duplicates"): 2, ("sink", "of Numbered"): 9}
ALL_SAID = ["7 stored, 2 known already, in ['Numbered'] of a server"]


class Numbered(Record):
    number: int


class Counting(Bolt):
    """A sink that counts, and knows the classes that it keeps, as ours do."""

    def __init__(self) -> None:
        self.stored = self.duplicates = 0
        self.records: tuple[type[Record], ...] = ()
        self.where = ""

    def open(self, task: Task) -> None:
        self.where = f"{[cls.__name__ for cls in self.records]} of a server"

    def process(self, given: Numbered) -> None:
        raise AssertionError("nothing is given to the copy that tells")

    def summary(self) -> Iterator[str]:
        yield f"{self.stored} stored, {self.duplicates} known already, in {self.where}"


class Keeping(Bolt):
    """A sink that counts nothing."""

    def process(self, given: Numbered) -> None:
        pass


class Away(Counting):
    def open(self, task: Task) -> None:
        raise ConfigurationError("a server can't be reached")


class Failing(Counting):
    """Raises in the method that it is told."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method

    def open(self, task: Task) -> None:
        super().open(task)
        self._raise("open")

    def summary(self) -> Iterator[str]:
        self._raise("summary")
        return super().summary()

    def close(self) -> None:
        self._raise("close")

    def _raise(self, method: str) -> None:
        if self.method == method:
            raise ValueError("no server")


@pytest.fixture
def task() -> Iterator[Callable[..., Task]]:
    """What `open` is given."""
    loop = asyncio.new_event_loop()
    yield lambda name, index=0: Task("raising", name, index, 1, LoopClock(loop), Random(0), FolderNotes(Path("none")))
    loop.close()


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (Counting(), ALL_SAID),
        (Away(), ["7 stored, 2 known already", "its own summary is unavailable: a server can't be reached"]),
    ],
)
def test_a_sink_in_many_processes_says_at_the_end_what_it_says_in_one(
    task: Callable[..., Task], sink: Counting, said: list[str]
) -> None:
    assert said_at_the_end(sink, task) == (said, [])


@pytest.mark.parametrize(
    ("method", "said", "told"),
    [
        ("summary", [], "raised in 'sink': summary: ValueError: no server (K501)"),
        ("close", ALL_SAID, "raised in 'sink': close: ValueError: no server (K501)"),
        (
            "open",
            [
                "7 stored, 2 known already",
                "its own summary is unavailable: 'sink' has raised ValueError: no server in open",
            ],
            "'sink' could not be opened: ValueError: no server",
        ),
    ],
)
def test_what_a_sink_raises_that_tells_of_many_processes_is_told_with_the_users_frames_and_ends_nothing(
    task: Callable[..., Task], method: str, said: list[str], told: str
) -> None:
    lines, (raised,) = said_at_the_end(Failing(method), task)
    text, frames = error_lines(raised)
    assert (lines, text) == (said, told)
    assert __file__ in frames[1], "the first frame is the user's"


def said_at_the_end(sink: Counting, task: Callable[..., Task]) -> tuple[list[str], list[ComponentRaised]]:
    """Its lines, and what it has raised."""
    one, raised = Topology("numbers"), list[ComponentRaised]()
    one.bolt("sink", sink, one.spout("numbers", Items([Numbered(1)])).shuffle())
    routing = Routing(mapped(one))
    prepare = with_counts(routing, COUNTS)
    lines = summary_of_all("sink", COUNTS, lambda: Sinks(routing, [("sink", 0)], task, prepare=prepare), raised.extend)
    return lines, raised


def test_only_what_counts_itself_is_asked_at_the_end() -> None:
    """Another sink would speak of a copy that was given nothing."""
    assert counts_itself(Counting())
    assert not counts_itself(Keeping())
