"""Between two runs all stores are at the decided checkpoint, with what their logs have, or all of them without
(P5, P15), wherever that is cut short."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from durable_kit import FaultyFiles, full, laid_out, letter, store
from worker_store_kit import Worker, content_of

from topology.errors import StartError
from topology.storage.directory.decision import NAME, DecisionFile
from topology.storage.directory.state_dir import StateDir
from topology.storage.log.log import LogSizes
from topology.storage.rescale.assign import opened_as_they_are, opened_stores
from topology.storage.rescale.resolve import resolve
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Changes

STORES = (0, 1)


@contextmanager
def opened(path: Path, files: FaultyFiles | None = None) -> Iterator[StateDir]:
    with closing(StateDir(path, "t", files=files or FaultyFiles(path))) as state:
        state.check_files()
        yield state


def begun(path: Path, *, synced: bool = True) -> None:
    """A run of two workers begins, in a new directory."""
    with closing(StateDir(path, "t")) as state:
        state.check_files()
        state.files = FaultyFiles(path)
        state.make_stores([*STORES])
        DecisionFile(state.files, path / NAME).close()
        state.set_begun("shape", logs_are_synced=synced)


def workers(path: Path, life: int, decided: int, files: FaultyFiles | None = None) -> list[Worker]:
    files = files or FaultyFiles(path)
    return [Worker.opened(files, path / f"worker-{number}.db", life, decided, number=number) for number in STORES]


def a_run(path: Path, *, decided: int, applied: tuple[int, ...] = ()) -> dict[str, bytes]:
    """Two checkpoints: `decided` is the last decided one, `applied` which stores were told of the second. 2 inputs
    before each and 2 after it; nothing has ended. Returns what a loss of power leaves of the logs."""
    files = FaultyFiles(path)
    both = workers(path, 1, 0, files)
    with closing(DecisionFile(FaultyFiles(path), path / NAME)) as file:
        for checkpoint in (1, 2):
            for number, one in enumerate(both):
                one.take(2)
                one.store.mark(checkpoint)
                changes = one.changes()
                one.store.prepare(checkpoint, changes)
                one.take(2)
                if checkpoint == 1 or number in applied:
                    one.store.decided(checkpoint)
                    one.is_decided(changes)
            if checkpoint <= decided:
                file.decide(checkpoint)
    for one in both:
        one.store.close()
    return {name: content for name, content in files.durable.items() if ".log." in name}


def refused(path: Path, **code_and_text: str) -> None:
    ((code, text),) = code_and_text.items()
    with opened(path) as state, pytest.raises(StartError, match=text) as told, opened_stores(state):
        pass
    assert str(told.value.code) == code


def contents(stores: dict[int, SqliteStore]) -> list[int]:
    return [content_of(one)[0] for one in stores.values()]  # type: ignore[arg-type]  # it has what a Store has to read


@pytest.fixture(autouse=True)
def small_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topology.storage.log.opening.LogSizes", lambda: LogSizes(step=4_096, keep=6_000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "whole"
    begun(path)
    return path


@pytest.mark.parametrize(("decided", "applied"), [(1, ()), (2, ()), (2, (0,)), (2, (0, 1))])
def test_all_stores_have_the_decided_checkpoint_and_their_logs_P5_P15(
    path: Path, decided: int, applied: tuple[int, ...]
) -> None:
    a_run(path, decided=decided, applied=applied)
    with opened(path) as state, opened_stores(state) as stores:
        assert [(one.checkpoint, one.prepared, one.has_log) for one in stores.values()] == [(decided, 0, False)] * 2
        assert contents(stores) == [8, 8]
        assert [one.loaded.marks[0].position for one in stores.values()] == [2 if decided == 1 else 6] * 2
    assert not [*path.glob("*.log.*")]
    with opened(path) as state, opened_stores(state):
        pass  # what SQLite's logs had is in the files by now
    before = {file.name: file.read_bytes() for file in path.glob("worker-*")}
    with opened(path) as state, opened_as_they_are(state) as stores:
        assert resolve(state, stores) == (decided, [])
    assert {file.name: file.read_bytes() for file in path.glob("worker-*")} == before, "there is nothing to do"


def test_a_new_store_and_one_that_took_no_part_have_it_too(path: Path) -> None:
    a_run(path, decided=2)
    with opened(path) as state:
        with opened_stores(state):
            pass
        state.make_stores([0, 1, 2])
        with opened_stores(state) as stores:
            assert [one.checkpoint for one in stores.values()] == [2, 2, 2]
    (one, other) = workers(path, 2, 2)
    other.store.close()
    one.store.mark(7)
    one.store.conclude(7, one.changes())
    one.store.close()
    # the other one has begun too, and should have had it
    refused(path, K432=r"worker-1\.db has checkpoint 2, and 7 is decided")
    with opened(path) as state, opened_as_they_are(state) as stores:
        decided, (lost,) = resolve(state, stores, accept_loss=True)
        assert decided == 7
        assert lost.startswith("--accept-loss: worker-1.db is an older copy, of checkpoint 2, so everything after it")
        assert [one.checkpoint for one in stores.values()] == [7, 7, 7]
    one = Worker.opened(FaultyFiles(path), path / "worker-0.db", 3, 7)
    one.store.mark(8)
    one.store.conclude(8, one.changes())
    one.store.close()
    with opened(path) as state, opened_stores(state) as stores:
        assert [one.checkpoint for one in stores.values()] == [8, 8, 8], "only worker 0 took part"


@pytest.mark.parametrize("how", ["killed", "power lost"])
@pytest.mark.parametrize("decided", [1, 2])
def test_wherever_it_is_cut_short_the_next_start_comes_to_the_same_F56(
    tmp_path: Path, path: Path, how: str, decided: int
) -> None:
    a_run(path, decided=decided)
    files = FaultyFiles(path, remember=True)
    with opened(path, files) as state, opened_stores(state):
        pass
    assert len(files.moments) > 20
    for number, moment in enumerate(files.moments):
        again = laid_out(tmp_path / f"{number}", moment.files if how == "killed" else moment.durable)
        with opened(again) as state, opened_stores(state) as stores:
            assert contents(stores) == [8, 8], f"before {moment.operation}, the {number}th"
            assert [one.checkpoint for one in stores.values()] == [decided] * 2
        shutil.rmtree(again)


# -- logs that were not synced


def test_after_a_new_start_of_the_machine_all_go_back_if_logs_were_not_synced(tmp_path: Path) -> None:
    path = tmp_path / "whole"
    begun(path, synced=False)
    a_run(path, decided=2)
    for machine, expected in (("this start", 8), ("another", 6), ("", 6)):
        again = laid_out(tmp_path / f"on {machine}", {file.name: file.read_bytes() for file in path.iterdir()})
        with opened(again, FaultyFiles(again, machine=machine)) as state:
            with opened_stores(state) as stores:
                assert contents(stores) == [expected] * 2
                assert [one.checkpoint for one in stores.values()] == [2, 2]
            assert not state.has_unsynced_logs
        assert not [*again.glob("*.log.*")]


def test_synced_logs_are_redone_after_a_new_start_of_the_machine_too(path: Path) -> None:
    a_run(path, decided=2)
    with opened(path, FaultyFiles(path, machine="another")) as state, opened_stores(state) as stores:
        assert contents(stores) == [8, 8]


@pytest.mark.parametrize("first", ["this start", "another"])
def test_wherever_the_power_fails_meanwhile_all_go_back_or_none_does(tmp_path: Path, first: str) -> None:
    path = tmp_path / "whole"
    begun(path, synced=False)
    synced = a_run(path, decided=2)
    files = FaultyFiles(path, remember=True, machine=first)
    files._durable |= synced
    files._contents |= synced
    with opened(path, files) as state, opened_stores(state):
        pass
    seen = set[int]()
    for number, moment in enumerate(files.moments):
        again = laid_out(tmp_path / f"{number}", moment.durable)
        with opened(again, FaultyFiles(again, machine="a third")) as state, opened_stores(state) as stores:
            one, other = contents(stores)
            assert one == other, f"before {moment.operation}, the {number}th"
            seen.add(one)
        shutil.rmtree(again)
    assert seen == ({6, 8} if first == "this start" else {6})


def test_a_life_within_the_run_leaves_the_file_where_all_can_go_back_to(tmp_path: Path) -> None:
    """A worker was replaced, and has redone its log; then the power fails."""
    path = tmp_path / "whole"
    begun(path, synced=False)
    a_run(path, decided=2)
    Worker.opened(FaultyFiles(path), path / "worker-0.db", 2, 2).store.close()
    with opened(path, FaultyFiles(path, machine="another")) as state, opened_stores(state) as stores:
        assert contents(stores) == [6, 6]


# -- what is lost, and what is refused


def test_a_log_that_is_missing_is_refused_or_given_up(path: Path) -> None:
    a_run(path, decided=2)
    for file in path.glob("worker-1.log.*"):
        file.unlink()
    refused(path, K479=r"worker-1\.log\.0 is damaged")
    with opened(path) as state, opened_as_they_are(state) as stores:
        _, (lost,) = resolve(state, stores, accept_loss=True)
        assert lost.startswith("--accept-loss: the log worker-1.log is missing, so the changes in it since the last")
        assert contents(stores) == [8, 6]


def test_without_the_decision_file_nothing_is_guessed(path: Path) -> None:
    a_run(path, decided=2)
    (path / NAME).unlink()
    refused(path, K481="decided is missing, which says whether checkpoint 2 is decided")
    with opened(path) as state, opened_as_they_are(state) as stores:
        decided, (lost,) = resolve(state, stores, accept_loss=True)
        assert decided == 1
        assert lost.startswith("--accept-loss: the file decided is missing, so checkpoint 2 is lost")
        assert [one.prepared for one in stores.values()] == [0, 0]
        assert contents(stores) == [8, 8], "from their logs"


def test_without_room_it_says_so_and_goes_on_next_time_F16(path: Path) -> None:
    a_run(path, decided=2)
    told = 0
    for at in range(1, 30, 3):
        files = FaultyFiles(path)
        files.fail(full, at=at)
        try:
            with opened(path, files) as state, opened_stores(state):
                pass
        except StartError as error:
            told += "No space left on device" in str(error)
    assert told > 3
    with opened(path) as state, opened_stores(state) as stores:
        assert contents(stores) == [8, 8]


def test_fresh_keeps_dead_letters_of_a_decided_checkpoint_and_no_log(path: Path) -> None:
    both = workers(path, 1, 0)
    for number, one in enumerate(both):
        one.take(1)
        one.store.mark(1)
        one.store.prepare(1, Changes(letters=[letter(f"{number}-1")]))
        one.store.close()
    with closing(DecisionFile(FaultyFiles(path), path / NAME)) as file:
        file.decide(1)
    with closing(StateDir(path, "t", fresh=True, files=FaultyFiles(path))) as state:
        state.check_files()
        with opened_stores(state) as stores:
            assert [one.names() for one in stores.values()] == [["0-1"], ["1-1"]]
            assert contents(stores) == [0, 0]
            assert [one.checkpoint for one in stores.values()] == [1, 1]
    assert not [*path.glob("*.log.*")]
    with store(path / "worker-0.db") as found:
        assert not found.has_log
