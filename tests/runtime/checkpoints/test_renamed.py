"""A component that is renamed between two runs, and says what it was called: it stays what it was (B11)."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Never

import pytest
from letters_kit import letters_of
from positions_kit import Counted, Stuck, aborted_when, marks_in, numbers_of
from runtime_kit import Number

from spouts import FileTail
from spouts.lines import Line
from topology import Bolt, Collector, Config, DeadLetter, Record, Reject, StartError, State, Topology, Tuple
from topology.storage.dead_questions import DeadAsk
from topology.storage.directory.state_dir import StateDir
from topology.storage.offline.dead_letters import answer
from topology.storage.values import Letter
from topology.testing import Captured, Crash, run_topology


class Bad(Bolt):
    """Rejects some numbers, gives the others back."""

    def __init__(self, *bad: int) -> None:
        self.bad = bad

    async def process(self, number: Number) -> list[Number]:
        if number.n in self.bad:
            raise Reject("bad")
        return [number]


OLD, NEW = ("numbers", "work"), ("figures", "labour")
Keys = dict[tuple[int, int], int]  # (origin, identity) → the number that was stored under it


def declared(
    spout: Any,
    bolt: Any,
    names: tuple[str, str],
    former: tuple[str, str] | None = None,
    *,
    config: Config | None = None,
) -> tuple[Topology, Captured[Number]]:
    topology = Topology("renamed", config)
    old_spout, old_bolt = former or (None, None)
    numbers: Any = topology.spout(names[0], spout, renamed_from=old_spout)
    done: Any = topology.bolt(names[1], bolt, numbers.shuffle(), tasks=2, concurrency=64, renamed_from=old_bolt)
    captured = Captured[Number]()
    topology.bolt("captured", captured, done.shuffle())
    return topology, captured


def keys_of(captured: Captured[Number]) -> Keys:
    return {(tup.origin, tup.identity): tup.record.n for tup in captured.tuples}


def cut_short(
    path: Path, names: tuple[str, str], *, workers: int = 1, stuck: frozenset[int] = frozenset({3, 60})
) -> Keys:
    """A run of 100 that is aborted while some of them are in flight."""
    topology, captured = declared(Counted(100), Stuck(set(stuck)), names)
    report = run_topology(
        topology,
        state_dir=path,
        workers=workers,
        during=lambda run: aborted_when(run, captured, 100 - len(stuck)),
    )
    assert (report.ended, report.aborted) == ("aborted", len(stuck))
    return keys_of(captured)


def undisturbed() -> Keys:
    topology, captured = declared(Counted(100), Stuck(set()), OLD)
    run_topology(topology)
    return keys_of(captured)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_in_flight_under_the_old_names_has_the_same_identities_under_the_new_ones(
    tmp_path: Path, workers: int
) -> None:
    first = cut_short(tmp_path, OLD, workers=workers)
    spout = Counted(100)
    topology, captured = declared(spout, Stuck(set()), NEW, OLD)
    report = run_topology(topology, state_dir=tmp_path, workers=workers)
    assert report.exit_status == 0
    assert spout.resumed == {"": 3}, "the marks of the old name are its own"
    assert numbers_of(captured) == [3, 60], "what was done is passed over"
    assert first | keys_of(captured) == undisturbed(), "as one run of the old names would have stored it"


def test_without_the_former_name_it_is_another_component_and_refused_while_something_is_in_flight(
    tmp_path: Path,
) -> None:
    first = cut_short(tmp_path, OLD)
    topology, _ = declared(Counted(100), Stuck(set()), NEW)
    with pytest.raises(StartError, match="spout 'numbers' is gone"):
        run_topology(topology, state_dir=tmp_path)
    topology, captured = declared(Counted(100), Stuck(set()), NEW)
    run_topology(topology)
    assert first.keys().isdisjoint(keys_of(captured))


def test_all_that_is_kept_stays_under_the_former_name_run_after_run(tmp_path: Path) -> None:
    first = cut_short(tmp_path, OLD)
    topology, captured = declared(Counted(150), Stuck({3, 120}), NEW, OLD)
    run_topology(topology, state_dir=tmp_path, during=lambda run: aborted_when(run, captured, 50))
    first |= keys_of(captured)
    assert {one.component for one in marks_in(tmp_path)} == {"numbers"}
    topology, captured = declared(Counted(150), Stuck(set()), ("third", "third-too"), OLD)
    run_topology(topology, state_dir=tmp_path)
    assert numbers_of(captured) == [3, 120]
    assert sorted((first | keys_of(captured)).values()) == [*range(150)]


def test_a_renamed_run_is_gone_on_with_by_a_worker_that_has_died(tmp_path: Path) -> None:
    first = cut_short(tmp_path, OLD, workers=2)
    topology, captured = declared(Counted(400), Stuck(set()), NEW, OLD)
    report = run_topology(topology, state_dir=tmp_path, workers=2, crashes=[Crash(0, acked=20), Crash(1, acked=90)])
    assert report.exit_status == 0
    assert sorted((first | keys_of(captured)).values()) == [*range(400)]


def test_people_are_told_the_present_name_where_a_source_goes_on(tmp_path: Path, caplog: Any) -> None:
    cut_short(tmp_path, OLD)
    caplog.clear()
    with caplog.at_level("INFO", "kedge"):
        run_topology(declared(Counted(100), Stuck(set()), NEW, OLD)[0], state_dir=tmp_path)
    (told,) = [one for one in caplog.messages if one.startswith("resuming at")]
    assert told.startswith("resuming at 'figures' 3 (")


# -- dead letters


class Readers(Bolt):
    """Keeps what it is told of dead letters."""

    def __init__(self) -> None:
        self.read: list[DeadLetter] = []

    def __deepcopy__(self, memo: object) -> "Readers":
        return self

    def process(self, letter: DeadLetter) -> None:
        self.read.append(letter)


def letters_without_a_run(path: Path, act: str = "list", *names: str) -> list[Letter]:
    with contextlib.closing(StateDir(path, None)) as state:
        state.check_files()
        return letters_of(answer(state, DeadAsk(1, act, names)))


def test_letters_of_the_old_name_are_shown_and_replayed_under_the_new_one(tmp_path: Path) -> None:
    config = Config(max_replays=0)
    topology, _ = declared(Counted(10), Bad(4, 7), OLD, config=config)
    run_topology(topology, state_dir=tmp_path)
    assert [one.component for one in letters_without_a_run(tmp_path)] == ["numbers"] * 2

    topology, _ = declared(Counted(12), Bad(11), NEW, OLD, config=config)
    run_topology(topology, state_dir=tmp_path)
    letters = letters_without_a_run(tmp_path)
    assert {(one.component, one.id) for one in letters} == {("figures", 4), ("figures", 7), ("figures", 11)}
    assert [one.failed_in for one in letters] == ["work", "work", "labour"], "which was its name then"
    assert [one.component for one in letters_without_a_run(tmp_path, "show", letters[0].name)] == ["figures"]

    letters_without_a_run(tmp_path, "replay")
    topology, captured = declared(Counted(12), Stuck(set()), NEW, OLD, config=config)
    run_topology(topology, state_dir=tmp_path)
    assert numbers_of(captured) == [4, 7, 11]
    assert letters_without_a_run(tmp_path) == []


def test_who_reads_dead_letters_is_told_the_present_name(tmp_path: Path) -> None:
    config = Config(max_replays=0)
    cut: Any = declared(Counted(10), Bad(4), OLD, config=config)[0]
    run_topology(cut, state_dir=tmp_path)
    topology = Topology("renamed", config)
    numbers: Any = topology.spout("figures", Counted(20), renamed_from="numbers")
    topology.bolt("labour", Bad(15), numbers.shuffle(), renamed_from="work")
    readers = Readers()
    topology.bolt("page", readers, numbers.dead.shuffle())
    run_topology(topology, state_dir=tmp_path)
    assert [(one.spout, one.message_id) for one in readers.read] == [("figures", "15")]


# -- what sources note


class Texts(Bolt):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def __deepcopy__(self, memo: object) -> "Texts":
        return self

    def execute(self, tup: Tuple[Line], out: Collector[Never]) -> None:
        self.texts.append(tup.record.text)
        out.ack(tup)


@contextlib.contextmanager
def log_of(path: Path, lines: range) -> Iterator[Path]:
    with path.open("a") as log:
        log.writelines(f"line {n}\n" for n in lines)
    yield path


def test_a_tailed_file_is_known_again_by_a_source_that_was_renamed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for name, former, lines in (("old", None, range(5)), ("new", "old", range(5, 8))):
        with log_of(path, lines):
            topology = Topology("tail")
            texts = Texts()
            stream = topology.spout(name, FileTail(str(path), follow=False), renamed_from=former)
            topology.bolt("texts", texts, stream.shuffle())
            run_topology(topology, state_dir=tmp_path / "state")
            assert texts.texts == [f"line {n}" for n in lines]


# -- state


class Digit(Record):
    key: int
    n: int


class Keyed(Bolt):
    def process(self, number: Number) -> Iterator[Digit]:
        yield Digit(number.n % 10, number.n)


class CountKeyed(Bolt):
    """The k-th number of a last digit d is 1,000 * d + k."""

    def process(self, digit: Digit, state: State[int]) -> Iterator[Number]:
        state.set(count := state.get(0) + 1)
        yield Number(1_000 * digit.key + count)


def counting(
    name: str, former: str | None, count: int, stuck: set[int], *, tasks: int = 1, begins_empty: bool = False
) -> Any:
    topology = Topology("counting")
    numbers: Any = topology.spout("numbers", Counted(count))
    slow: Any = topology.bolt("slow", Stuck(stuck), numbers.shuffle(), concurrency=64)
    keyed: Any = topology.bolt("keyed", Keyed(), slow.shuffle())
    how: Any = {"tasks": tasks, "renamed_from": former, "begins_empty": begins_empty}
    counts: Any = topology.bolt(name, CountKeyed(), keyed.fields("key"), **how)
    captured = Captured[Number]()
    topology.bolt("captured", captured, counts.shuffle())
    return topology, captured


@pytest.mark.parametrize("tasks", [1, 3])
def test_the_state_of_a_renamed_bolt_is_found_again_and_counts_each_input_once(tmp_path: Path, tasks: int) -> None:
    topology, captured = counting("counts", None, 200, {150, 151}, tasks=tasks)
    run_topology(topology, state_dir=tmp_path, during=lambda run: aborted_when(run, captured, 198))
    first = dict(captured.distinct)
    assert len(first) == 198
    topology, captured = counting("tally", "counts", 300, set(), tasks=tasks)
    run_topology(topology, state_dir=tmp_path)
    both = first | captured.distinct
    assert sorted(one.n for one in both.values()) == sorted(1_000 * d + k for d in range(10) for k in range(1, 31))
    assert captured.divergent == []


def test_a_renamed_bolt_with_state_begins_with_nothing_only_where_that_is_said(tmp_path: Path) -> None:
    topology, captured = counting("counts", None, 100, set())
    run_topology(topology, state_dir=tmp_path)
    assert len(captured.records) == 100
    topology, captured = counting("tally", None, 200, set())
    with pytest.raises(StartError, match=r"'counts' is gone.*renamed_from='counts' carries it over, begins_empty=True"):
        run_topology(topology, state_dir=tmp_path)
    assert not captured.records
    topology, captured = counting("tally", "counts", 200, set())
    run_topology(topology, state_dir=tmp_path)
    assert max(one.n for one in captured.records) == 9_020, "the refused start has taken nothing away"
    topology, captured = counting("third", None, 300, set(), begins_empty=True)
    run_topology(topology, state_dir=tmp_path)
    assert max(one.n for one in captured.records) == 9_010
