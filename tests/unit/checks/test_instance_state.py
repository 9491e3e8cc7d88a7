"""The warning of state in a bolt's attributes (B4): what it finds, and what it leaves alone."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from typing import Any

import pytest
from declaring_kit import Declaring, Line, Malformed

from topology import Bolt, Collector, Config, Record, State, Task, Tuple
from topology.checks.declaration import mistakes, warnings


class Remembers(Bolt):
    """The bolt that B4 is about: a deque of the last failures."""

    def open(self, task: Task) -> None:
        self.recent: deque[str] = deque(maxlen=5)

    def process(self, line: Line) -> Iterator[Malformed]:
        self.recent.append(line.text)
        if len(self.recent) == 5:
            yield Malformed("five")


class Counts(Bolt):
    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.sums: dict[str, int] = defaultdict(int)
        self.total = 0

    def process(self, line: Line) -> Iterator[Malformed]:
        self.counts[line.text] += 1
        self.sums[line.text] = self.sums[line.text] + line.number
        self.total += 1
        yield Malformed(f"{self.counts} {self.sums} {self.total}")


class Compares(Bolt):
    def __init__(self) -> None:
        self.last = ""
        self.seen: set[str] = set()

    def process(self, line: Line) -> Iterator[Malformed]:
        text = line.text
        if text in self.seen or text == self.last:
            return
        self.last = text
        self.note(text)
        yield Malformed(text)

    def note(self, text: str) -> None:
        self.seen.add(text)


class Inherits(Compares):
    """All of it in its base."""


class WithState(Bolt):
    def __init__(self) -> None:
        self.waiting: list[Line] = []

    def process(self, line: Line, state: State[int]) -> Iterator[Malformed]:
        if self.waiting:
            yield Malformed(self.waiting.pop().text)
        self.waiting = [*self.waiting, line]


class OnClass(Bolt):
    shared: list[str] = []  # noqa: RUF012 - that is the test

    def process(self, line: Line) -> Iterator[Malformed]:
        self.shared.insert(0, line.text)
        yield Malformed(self.shared[0])


class Waits(Bolt):
    def __init__(self) -> None:
        self.first: dict[str, str] = {}

    async def process(self, line: Line) -> list[Malformed]:
        return [Malformed(self.first.setdefault(line.text, line.text))]


@pytest.mark.parametrize(
    ("bolt", "names"),
    [
        (Remembers(), ["recent"]),
        (Counts(), ["counts", "sums", "total"]),
        (Compares(), ["last", "seen"]),
        (Inherits(), ["last", "seen"]),
        (WithState(), ["waiting"]),
        (OnClass(), ["shared"]),
        (Waits(), ["first"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_attributes_that_a_record_changes_and_the_output_reads_are_warned_of_B4(bolt: Bolt, names: list[str]) -> None:
    assert warned(bolt) == names


class Configured(Bolt):
    """Lists and dicts that are only looked at."""

    def __init__(self) -> None:
        self.words = ["a", "b"]
        self.labels = {"a": 1}

    def process(self, line: Line) -> Iterator[Malformed]:
        words = list(self.words)
        words.append(line.text)
        yield Malformed(f"{words} {self.labels.get(line.text)}")


class Measures(Bolt):
    """A counter that nothing but counting looks at."""

    def __init__(self) -> None:
        self.lines = 0
        self.lengths: list[int] = []

    def process(self, line: Line) -> Iterator[Malformed]:
        self.lines += 1
        self.lengths.append(len(line.text))
        yield Malformed(line.text)


class Connects(Bolt):
    """Takes a resource at the first record, and calls methods of it that sound like a container's."""

    def __init__(self, host: str = "localhost") -> None:
        self.host = host
        self.client: Any = None

    def process(self, line: Line) -> Iterator[Malformed]:
        if self.client is None:
            self.client = object()
        self.client.add(line.text)
        self.client.update(line.text)
        yield Malformed(str(self.client))


class Caches(Bolt):
    """A memory of pure look-ups, called so."""

    def __init__(self) -> None:
        self._cache: dict[str, str] = {}

    def process(self, line: Line) -> Iterator[Malformed]:
        if line.text not in self._cache:
            self._cache[line.text] = line.text.upper()
        yield Malformed(self._cache[line.text])


class Stores(Bolt):
    """A sink: what it keeps changes no tuple."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    def process(self, line: Line) -> None:
        self.rows.append(line.text)
        if len(self.rows) > 10:
            self.rows.clear()


class Holds(Bolt):
    """Holds tuples back, as `execute` may."""

    def __init__(self) -> None:
        self.held: list[Tuple[Line]] = []

    def execute(self, tup: Tuple[Line], out: Collector[Malformed]) -> None:
        self.held.append(tup)
        if len(self.held) == 2:
            out.emit(Malformed("two"), anchors=self.held)


class Flushes(Bolt):
    """Works for one record at a time, with what it makes for it."""

    def process(self, line: Line) -> Iterator[Malformed]:
        words: dict[str, int] = {}
        for word in line.text.split():
            words[word] = words.get(word, 0) + 1
        yield Malformed(str(words))


@pytest.mark.parametrize(
    "bolt",
    [Configured(), Measures(), Connects(), Caches(), Stores(), Holds(), Flushes()],
    ids=lambda value: type(value).__name__,
)
def test_what_changes_no_output_and_what_is_configuration_is_left_alone(bolt: Bolt) -> None:
    assert warned(bolt) == []


def test_a_bolt_whose_source_can_not_be_had_is_left_alone() -> None:
    names: dict[str, Any] = {"Bolt": Bolt, "Line": Line, "Malformed": Malformed}
    text = "class Typed(Bolt):\n    def process(self, line: Line) -> list[Malformed]:\n        return []\n"
    exec(text, names)  # noqa: S102 - as at a prompt
    assert warned(names["Typed"]()) == []


def test_a_topology_that_replays_nothing_is_warned_of_nothing() -> None:
    declaring = Declaring(config=Config(guarantee="at-most-once"))
    declaring.bolt("x", Remembers(), declaring.lines.shuffle())
    assert warnings(declaring.topology) == []


def test_a_warning_names_the_bolt_the_attribute_and_the_cure_and_is_no_mistake() -> None:
    declaring = Declaring()
    declaring.bolt("alerts", Remembers(), declaring.lines.shuffle())
    (warning,) = warnings(declaring.topology)
    assert warning.text == (
        "'alerts': Remembers keeps self.recent from record to record: a replay counts twice in it, and a restart "
        "forgets it; keep it as process(self, record, state: State[…])"
    )
    assert warning.line
    assert mistakes(declaring.topology) == []


def test_what_is_no_bolt_at_all_is_told_as_a_mistake_and_warned_of_nothing() -> None:
    declaring = Declaring(config={})
    declaring.bolt("x", None, declaring.lines.shuffle())
    declaring.bolt("y", Remembers, declaring.lines.shuffle())
    assert warnings(declaring.topology) == []


def warned(bolt: Bolt) -> list[str]:
    """The attributes that are warned of."""
    declaring = Declaring()
    by: Any = declaring.lines.global_()
    declaring.bolt("x", bolt, by)
    return [warning.text.partition("self.")[2].partition(" ")[0] for warning in warnings(declaring.topology)]


def test_the_kit_itself_declares_a_right_topology() -> None:
    assert Declaring().said() == []
    assert issubclass(Line, Record)
