"""A worker's store through checkpoints: what is decided is its content, what is not leaves no trace, and what its log
has is there in the next life (P4–P8)."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from durable_kit import FaultyFiles, full, laid_out, letter, made, mark, store, sync_fails
from worker_store_kit import OUT, SLOT, Worker, content_of, entry_of, key_of, record_of

from topology.errors import StartError
from topology.filesystem.files import DiskFiles
from topology.storage.encoding import state as states
from topology.storage.encoding.entries import named
from topology.storage.encoding.fired_timers import have_fired
from topology.storage.encoding.log_records import pack
from topology.storage.store import StoreBroken, StoreFull
from topology.storage.values import Changes
from topology.storage.worker_store import fold, log_path, open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "whole").mkdir()
    return made(tmp_path / "whole" / "worker-0.db")


@pytest.fixture
def disk(path: Path) -> FaultyFiles:
    return FaultyFiles(path.parent)


@pytest.fixture
def worker(path: Path, disk: FaultyFiles) -> Iterator[Worker]:
    one = Worker.opened(disk, path, 1, 0)
    yield one
    one.store.close()


def again(worker: Worker, disk: FaultyFiles, life: int, decided: int, *, logged: bool = True) -> Worker:
    """The next life, after a kill."""
    worker.store.close()
    worker.__dict__ |= Worker.opened(disk, worker.store.path, life, decided, logged=logged).__dict__
    return worker


def prepared(worker: Worker, checkpoint: int, forget: int = 0) -> Changes:
    worker.store.mark(checkpoint)
    changes = worker.changes(forget)
    worker.store.prepare(checkpoint, changes)
    return changes


def test_what_is_prepared_and_not_decided_leaves_no_trace_and_the_log_has_all_P5(
    worker: Worker, disk: FaultyFiles
) -> None:
    worker.take(3)
    prepared(worker, 1)
    worker.take(2)
    again(worker, disk, 2, decided=0)
    assert (worker.done, worker.first) == (5, 1)
    assert (worker.store.loaded.checkpoint, worker.store.loaded.deaths) == (0, 1)
    assert [mark.component for mark in worker.store.loaded.marks if mark.component == "lines"] == []


def test_without_a_log_what_is_not_decided_is_not_there_P5(path: Path, disk: FaultyFiles) -> None:
    with closing(open_store(disk, path, owner=(0, 1), decided=0, logged=False)) as one:
        assert (one.append([record_of(1)]), one.sync(), one.log_bytes) == (0, 0, 0)
        one.mark(1)
        one.prepare(1, Changes(marks=[mark(1)], letters=[letter("0-1")]))
        one.prepare(2, Changes(marks=[mark(2)], letters=[letter("0-2")]))
        assert (one.names(), one.letters()) == ([], [])
    with closing(open_store(disk, path, owner=(0, 2), decided=0, logged=False)) as one:
        assert (one.loaded.marks, one.loaded.letters, one.loaded.checkpoint) == ((), 0, 0)
    with store(path) as found:
        assert found.prepared == 0, "it is deleted durably: a later decision may have its number"


def test_what_is_decided_is_there_whether_the_store_was_told_or_not_P5(tmp_path: Path, path: Path) -> None:
    for told in (False, True):
        disk = FaultyFiles(
            laid_out(tmp_path / f"{told}", {file.name: file.read_bytes() for file in path.parent.iterdir()})
        )
        worker = Worker.opened(disk, disk.directory / path.name, 1, 0)
        worker.take(3)
        prepared(worker, 1, forget=2)
        worker.take(2)
        if told:
            worker.store.decided(1)
            worker.store.decided(1)
        again(worker, disk, 2, decided=1)
        assert (worker.done, worker.first) == (5, 3)
        assert worker.store.loaded.checkpoint == 1
        assert [mark.position for mark in worker.store.loaded.marks if mark.component == "lines"] == [3]
        worker.store.close()


def test_letters_can_be_read_as_soon_as_they_are_decided(worker: Worker) -> None:
    one = letter("0-1")
    worker.store.mark(1)
    worker.store.prepare(1, Changes(letters=[one]))
    assert worker.store.letters() == []
    worker.store.decided(1)
    assert (worker.store.letters(), worker.store.names()) == ([one], ["0-1"])
    worker.store.mark(2)
    worker.store.conclude(2, Changes(gone=["0-1"]))
    assert worker.store.names() == []


def test_what_the_log_has_is_written_with_the_next_checkpoint_and_not_before_P8(
    path: Path, worker: Worker, disk: FaultyFiles
) -> None:
    """If all have to go back to the decided one, this store's file may not be ahead of it."""
    worker.take(3)
    changes = prepared(worker, 1)
    worker.store.decided(1)
    worker.is_decided(changes)
    worker.take(4)
    for life in (2, 3):
        again(worker, disk, life, decided=1)
        assert worker.done == 7
        worker.store.close()
        with store(path) as found:
            assert content_of_file(found) == 3
        again(worker, disk, life, decided=1)
    worker.take(2)
    prepared(worker, 2)  # given up
    prepared(worker, 3)
    worker.store.decided(3)
    worker.store.close()
    with store(path) as found:
        assert content_of_file(found) == 9
        assert have_fired(found.loaded.marks, "count").latest == 7, "of what was redone"
    again(worker, disk, 4, decided=3)
    assert worker.done == 9


def content_of_file(found: object) -> int:
    return content_of(found)[0]  # type: ignore[arg-type]  # it has what a Store has to read


def test_it_goes_on_through_any_number_of_lives_with_the_digest_of_its_rows_right(
    worker: Worker, disk: FaultyFiles
) -> None:
    checkpoint, done = 0, 0
    for life in range(2, 12):
        worker.take(life)
        done += life
        if life % 3:
            changes = prepared(worker, checkpoint + 1, forget=life)
            checkpoint += 1
            if life % 2:
                worker.store.decided(checkpoint)
                worker.is_decided(changes)
                worker.take(1)
                done += 1
        again(worker, disk, life, decided=checkpoint)
        assert worker.done == done
    assert worker.store.loaded.deaths == 10
    worker.store.ended_in_order()
    again(worker, disk, 12, decided=checkpoint)
    assert (worker.done, worker.store.loaded.deaths) == (done, 0)


def test_a_run_without_a_log_puts_the_one_that_is_there_into_the_file_for_good(
    path: Path, worker: Worker, disk: FaultyFiles
) -> None:
    worker.take(3)
    again(worker, disk, 2, decided=0, logged=False)
    assert worker.done == 3
    assert not [*path.parent.glob("*.log.*")]
    worker.store.close()
    with store(path) as found:
        assert (content_of_file(found), found.has_log) == (3, False)
    again(worker, disk, 3, decided=0)
    assert worker.done == 3
    assert len([*path.parent.glob("*.log.*")]) == 2


def test_one_store_concludes_a_checkpoint_at_once(path: Path, worker: Worker, disk: FaultyFiles) -> None:
    disk.remember = True
    for number in range(1, 6):
        worker.take(2)
        worker.store.mark(number)
        changes = worker.changes(forget=1)
        worker.store.conclude(number, changes)
        worker.is_decided(changes)
        with store(laid_out(path.parent.parent / f"{number}", disk.durable) / path.name) as found:
            assert (found.checkpoint, content_of_file(found)) == (number, 2 * number)
    again(worker, disk, 2, decided=0)
    assert (worker.done, worker.first, worker.store.loaded.checkpoint) == (10, 6, 5)


# -- the order of calls


def test_calls_out_of_order_are_refused(worker: Worker, disk: FaultyFiles) -> None:
    with pytest.raises(ValueError, match="checkpoint 1 is not marked in the log"):
        worker.store.prepare(1, Changes())
    prepared(worker, 4)
    with pytest.raises(ValueError, match="checkpoint 3 is not prepared, and 4 is"):
        worker.store.decided(3)
    worker.store.decided(4)
    with pytest.raises(ValueError, match="checkpoint 4 can't be marked"):
        worker.store.mark(4)
    again(worker, disk, 2, decided=4, logged=False)
    for call in (worker.store.prepare, worker.store.conclude):
        with pytest.raises(ValueError, match="checkpoint 4 comes after 4, which is decided"):
            call(4, Changes())


def test_bytes_of_the_log_are_counted_from_the_decided_checkpoint_on(worker: Worker) -> None:
    worker.take(2)
    two = worker.store.log_bytes
    assert two == 2 * len(record_of(1))
    prepared(worker, 1)
    worker.take(3)
    assert worker.store.log_bytes == 5 * two // 2
    worker.store.decided(1)
    assert worker.store.log_bytes == 3 * two // 2


def test_the_log_does_not_grow_while_checkpoints_are_decided(path: Path, worker: Worker) -> None:
    """Also where nobody syncs it, as with durability="process"."""
    worker.take(100)
    sizes = set[int]()
    for number in range(1, 30):
        prepared(worker, number, forget=worker.done - worker.first)
        worker.take(100)
        worker.store.decided(number)
        sizes.add(sum(file.stat().st_blocks for file in path.parent.glob("*.log.*")))
    assert len(sizes) <= 2
    content = b"".join(file.read_bytes() for file in path.parent.glob("*.log.*"))
    assert content.count(b"KGrp") < 30


# -- what is in records


def test_an_input_that_came_again_has_its_outputs_and_its_newest_messages(worker: Worker, disk: FaultyFiles) -> None:
    worker.take(1)
    prepared(worker, 1)
    worker.store.decided(1)
    came_again = (None, None, 9, 1, [77, 78], [(0, b"out 1")], -1, SLOT)
    worker.store.append([pack("count", [OUT], [came_again])])
    gone = b"gone"
    worker.store.append([pack("count", [], [(gone, states.packed(b"1", {}), 9, 5, 79, [], 3, SLOT)])])
    worker.store.append([pack("count", [], [(gone, b"", 0, 0, [], [], -1, SLOT)])])
    worker.store.append([pack("other", [OUT], [(None, None, 0, 8, [], [(0, b"x")], -1, 3, True)])])
    worker.store.close()
    with closing(open_store(disk, worker.store.path, owner=(0, 2), decided=1, logged=True)) as one:
        found = {row.component: [*named(row.entries)] for row in one.states().entries}
        first, fifth = found["count"]
        assert (first.entry.messages, first.outputs) == ((77, 78), entry_of(1).outputs)
        assert (fifth.entry.messages, fifth.entry.first, fifth.entry.key, fifth.outputs) == ((79,), 3, b"gone", ())
        (timer,) = found["other"]
        assert (timer.entry.timer, timer.entry.slot, timer.entry.messages) == (True, 3, ())
        assert {row.key for row in one.states().rows["count"]} == {key_of(1)[0]}
        one.mark(2)
        one.prepare(2, Changes(entries=[*one.states().entries]))
        one.decided(2)
        assert {row.key for row in one.states().rows["count"]} == {key_of(1)[0]}
        assert [named(row.entries) for row in one.states().entries] == [[first, fifth], [timer]]


def test_a_record_that_is_none_is_damage(worker: Worker, disk: FaultyFiles) -> None:
    worker.store.append([b"\xc1"])
    with pytest.raises(
        StartError, match=r"the log .*worker-0\.log\.0 is damaged: a record of the log can't be read"
    ) as told:
        again(worker, disk, 2, decided=0)
    assert str(told.value.code) == "K479"


# -- refused


def test_a_store_that_lacks_the_decided_checkpoint_is_an_older_copy_D12(worker: Worker, disk: FaultyFiles) -> None:
    prepared(worker, 1)
    worker.store.decided(1)
    prepared(worker, 2)
    with pytest.raises(StartError, match="has checkpoint 1, and 3 is decided") as told:
        again(worker, disk, 2, decided=3)
    assert str(told.value.code) == "K432"
    again(worker, disk, 2, decided=2)
    assert worker.store.loaded.checkpoint == 2


def test_a_late_owner_is_refused_before_anything_is_changed_D6(path: Path, worker: Worker, disk: FaultyFiles) -> None:
    again(worker, disk, 5, decided=0)
    worker.take(1)
    prepared(worker, 1)
    worker.store.close()
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    with pytest.raises(StartError, match="belongs to a later start") as told:
        again(worker, disk, 4, decided=1)
    assert str(told.value.code) == "K445"
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_a_log_that_is_missing_is_told(path: Path, worker: Worker, disk: FaultyFiles) -> None:
    worker.take(1)
    worker.store.close()
    for file in path.parent.glob("*.log.*"):
        file.unlink()
    with pytest.raises(StartError, match=r"log\.0 is damaged: there is no such file") as told:
        again(worker, disk, 2, decided=0)
    assert str(told.value.code) == "K479"


def test_an_older_copy_of_a_log_is_told(path: Path, worker: Worker, disk: FaultyFiles) -> None:
    """Inputs that it does not have would be processed again, though their outputs have left."""
    older: dict[Path, bytes] = {}
    for checkpoint in (1, 2, 3):
        worker.take(1)
        changes = prepared(worker, checkpoint)
        worker.store.decided(checkpoint)
        worker.is_decided(changes)
        older = older or {file: file.read_bytes() for file in path.parent.glob("*.log.*")}
    worker.take(1)
    worker.store.close()
    newer = {file: file.read_bytes() for file in path.parent.glob("*.log.*")}
    for file, content in older.items():
        file.write_bytes(content)
    with pytest.raises(StartError, match="the records after checkpoint 3, which is the last decided one") as told:
        again(worker, disk, 2, decided=3)
    assert str(told.value.code) == "K480"
    for file, content in newer.items():
        file.write_bytes(content)
    assert again(worker, disk, 2, decided=3).done == 4


def test_remains_of_a_log_that_was_put_into_the_file_are_no_part_of_a_new_one(path: Path, disk: FaultyFiles) -> None:
    one = Worker.opened(disk, path, 1, 0)
    one.take(3)
    one.store.close()
    left = {file.name: file.read_bytes() for file in path.parent.glob("*.log.*")}
    with store(path, disk) as found:
        fold(disk, found)
    for name, content in left.items():
        (path.parent / name).write_bytes(content)
    one = Worker.opened(disk, path, 2, 0)
    assert one.done == 3
    prepared(one, 1)
    one.take(1)
    one = again(one, disk, 3, decided=1)
    assert one.done == 4
    one.store.close()


# -- a full disk


@pytest.mark.parametrize("logged", [True, False])
def test_without_room_each_step_can_be_done_again_P14(
    path: Path, logged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.storage.sqlite.database.LOG_PAGES", 20)
    disk = FaultyFiles(path.parent)
    one = Worker.opened(disk, path, 1, 0, logged=logged)
    refused = 0
    for number in range(1, 40):
        one.take(2)
        one.store.mark(number)
        changes = one.changes(forget=1)
        step = one.store.conclude if number % 3 == 0 else one.store.prepare
        for call in (partial(step, number, changes), partial(one.store.decided, number)):
            disk.fail(full, at=number % 7 + 1)
            try:
                call()
            except StoreFull:
                refused += 1
                disk.faults = None
                call()
            disk.faults = None
        one.is_decided(changes)
        if number % 5 == 0:
            one = again(one, disk, number, decided=number, logged=logged)
            assert (one.done, one.first) == (2 * number, number + 1)
    assert refused > 20
    one.store.close()


def test_after_a_sync_that_failed_nothing_is_prepared_any_more_F18(worker: Worker, disk: FaultyFiles) -> None:
    worker.take(1)
    worker.store.mark(1)
    changes = worker.changes()
    disk.fail(sync_fails, until=1)
    for _ in range(2):
        with pytest.raises(StoreBroken):
            worker.store.prepare(1, changes)


def test_logs_are_beside_their_stores(tmp_path: Path) -> None:
    assert log_path(tmp_path / "worker-12.db") == tmp_path / "worker-12.log"
    assert DiskFiles().boot != ""
