"""What a run says as it begins on a state directory that others have used, and what it leaves for the next one."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from positions_kit import Counted
from runtime_kit import Same

from topology import Topology
from topology.plan import Plan, plan
from topology.runtime.run.startup import CARRY_ON, Terms, ended, opened
from topology.storage.directory.state_dir import StateDir
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Begun, Changes, Letter, Mark, Span
from topology.testing import Captured


def declared(tasks: int = 1) -> Plan:
    topology = Topology("t")
    numbers = topology.spout("lines", Counted(1), tasks=tasks)
    topology.bolt("out", Captured(), topology.bolt("same", Same(), numbers.shuffle()).shuffle())
    return plan(topology, 1)


def mark(position: int | str, *done: tuple[int | str, int | str], newest: int | str = "", of: str = "") -> Mark:
    epoch, _, partition = of.rpartition("/")
    return Mark("lines", 0, partition, epoch, position, tuple(Span(*one) for one in done), newest or position)


def left(path: Path, *marks: Mark, drained: bool = True) -> bool:
    """A run that has come so far, and ended. Returns whether a changed topology may follow."""
    with opened(path, declared(), CARRY_ON) as (state, begun):
        store = SqliteStore(state.files, begun.stores[0])
        for one in marks:
            store.commit(Changes(marks=[one], begun=[Begun("lines", 0, 1)]))
        store.close()
        return ended(state, drained=drained)


def told(path: Path, terms: Terms = CARRY_ON) -> list[str]:
    with opened(path, declared(), terms) as (_, begun):
        return [*begun.notices]


def test_where_a_run_resumes_is_an_id_as_it_is_and_not_a_quantity(tmp_path: Path) -> None:
    """A Ticker's are microseconds, a file's are offsets: what is copied from here can be looked for."""
    left(tmp_path, mark(1795302896194000, (1795302896194000, 1795302896194000), of="e/f3a2"))
    assert told(tmp_path) == ["resuming at 'lines' 1795302896194000 of f3a2"]


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        (mark(41), "resuming at 'lines' 41;"),
        (mark(41, (43, 43), newest=44), "resuming at 'lines' 41 (1 range above it is done);"),
        (mark(41, (43, 50), (60, 60), newest=61), "resuming at 'lines' 41 (2 ranges above it are done);"),
        (mark("a", ("c", "c"), ("d", "d"), newest="e"), "resuming at 'lines' 'a' (2 messages above it are done);"),
        (mark("\x1b[2J"), r"resuming at 'lines' '\x1b[2J';"),
    ],
)
def test_what_is_done_above_is_said_where_a_run_was_cut_short(tmp_path: Path, kept: Mark, text: str) -> None:
    left(tmp_path, kept, drained=False)
    assert told(tmp_path) == [f"{text} the last run was interrupted, so its messages in flight are re-read"]


def test_of_tasks_that_share_a_partition_the_furthest_back_is_told(tmp_path: Path) -> None:
    with opened(tmp_path, declared(2), CARRY_ON) as (state, begun):
        store = SqliteStore(state.files, begun.stores[0])
        marks = [msgspec.structs.replace(mark(position), task=task) for task, position in enumerate((41, 57))]
        store.commit(Changes(marks=marks, begun=[Begun("lines", task, 2) for task in range(2)]))
        store.close()
    with opened(tmp_path, declared(2), CARRY_ON) as (_, begun):
        assert [text.partition(";")[0] for text in begun.notices] == ["resuming at 'lines' 41"]


def test_of_many_partitions_only_some_are_told(tmp_path: Path) -> None:
    left(tmp_path, *(mark(number, of=f"e/part-{number}-with-a-long-name") for number in range(7)), drained=False)
    (text,) = told(tmp_path)
    assert text.startswith("resuming at 'lines' 0 of part-0-with-a-l…, 'lines' 1 of ")
    assert ", and 2 more partitions; " in text


def test_a_changed_topology_may_follow_only_where_all_that_was_ever_read_is_done(tmp_path: Path) -> None:
    """B11: a run may have done all that it has read, and not have met what an earlier one had under way."""
    assert not left(tmp_path, mark(41, (43, 43), newest=44), drained=False)
    assert not left(tmp_path)
    assert left(tmp_path, mark(44, (44, 44)))


def test_what_was_under_way_in_an_epoch_that_is_over_is_waited_for_by_nobody(tmp_path: Path) -> None:
    """The source has begun its partition anew, so it can't come again; else no topology could ever change."""
    left(tmp_path, mark(41, newest=44, of="one/p"), drained=False)
    assert left(tmp_path, mark(7, (7, 7), of="two/p"))


def test_a_letter_whose_replay_is_not_over_keeps_a_run_from_ending_clean_b11(tmp_path: Path) -> None:
    """What it has come to may be stored already, and a changed topology would store it under other identities."""
    at = datetime(2026, 1, 7, tzinfo=UTC)
    with opened(tmp_path, declared(), CARRY_ON) as (state, begun):
        for replaying in (True, False):
            texts = ("", "same", "raised", "", "", "")
            one = Letter("0-1", "lines", 0, "", "e", 4, None, 1, 2, "N", b"", *texts, 1, 0, at, replaying=replaying)
            store = SqliteStore(state.files, begun.stores[0])
            store.commit(Changes(marks=[mark(4, (4, 4))], begun=[Begun("lines", 0, 1)], letters=[one]))
            store.close()
            assert ended(state, drained=True) is not replaying


def test_an_end_that_can_not_be_noted_is_logged_and_the_run_counts_as_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path, declared(), CARRY_ON) as (state, _):
        monkeypatch.setattr("topology.storage.directory.state_dir.replace", _full)
        assert not ended(state, drained=True)
    assert "the end of the run could not be noted" in caplog.text
    assert "K444" in caplog.text
    monkeypatch.undo()
    state = StateDir(tmp_path, "t")
    assert not state.clean
    state.close()


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_terms_that_nothing_needed_are_told_of(tmp_path: Path) -> None:
    left(tmp_path, mark(1, (1, 1)))
    assert told(tmp_path, Terms(accept_duplicates=True, accept_loss=True)) == [
        "--accept-loss: no file is missing or behind",
        "--accept-duplicates: the topology has not changed",
        "resuming at 'lines' 1",
    ]
