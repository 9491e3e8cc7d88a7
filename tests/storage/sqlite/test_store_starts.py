"""What a start does with stores that may be big: each is looked through once, and --fresh forgets what is in them."""

from contextlib import closing
from pathlib import Path

import pytest
from durable_kit import FaultyFiles, laid_out, letter, made, mark, store
from state_rows_kit import Held, held_by, put, remembered, together

from topology.errors import StartError
from topology.storage.directory.state_dir import StateDir
from topology.storage.rescale.assign import opened_stores, refile
from topology.storage.sqlite.database import Database
from topology.storage.store import StoreBroken
from topology.storage.values import Changes, EntryRow


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return made(tmp_path / "worker-0.db")


def test_what_was_found_to_be_sound_is_not_looked_through_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with store(path) as one:
        one.replace(Changes(letters=[letter("0-1")]), entries=[EntryRow("count", b"x")])
    looked = looks(monkeypatch)
    with store(path):
        assert looked == ["worker-0.db"]
    with store(path, checked=True) as one:
        assert looked == ["worker-0.db"]
        assert one.letters() == [letter("0-1")]
        with one._database.transaction() as database:
            database.run("UPDATE contents SET body = x'92c40161c40162'")
    with (
        store(path, checked=True) as one,
        pytest.raises(StoreBroken, match="a row of contents is not what was written"),
    ):
        one.letters()
    with pytest.raises(StartError, match="a row of contents is not what was written"), store(path):
        pass


def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which files' pages are looked through from now on."""
    looked: list[str] = []
    check = Database._check_pages

    def noted(self: Database) -> None:
        looked.append(self.path.name)
        check(self)

    monkeypatch.setattr(Database, "_check_pages", noted)
    return looked


def test_a_start_looks_through_each_store_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens each of them for four reasons: with big ones that would take as long as all the rest."""
    looked = looks(monkeypatch)
    for _ in range(3):
        with closing(StateDir(tmp_path / "s", "t")) as state:
            state.check_files()
            refile(state, {0: [("lines", 0)], 1: []})
            with opened_stores(state):
                pass
            state.set_clean()
    assert looked == ["worker-0.db", "worker-1.db"] * 2, "in the first they were made"


def test_fresh_forgets_state_and_known_inputs_wherever_it_ends_F56(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    held: Held = {}
    with closing(StateDir(directory, "t")) as state:
        state.check_files()
        state.make_stores([0])
    with store(directory / "worker-0.db") as one:
        put(one, together(held, 1))
        one.commit(Changes(marks=[mark(1)], letters=[letter("0-1")]))
    disk = FaultyFiles(directory, remember=True)
    with closing(StateDir(directory, "t", fresh=True, files=disk)) as state:
        state.check_files()
    assert len(disk.moments) > 10
    forgotten = False
    for number, files in enumerate([*(moment.files for moment in disk.moments[4:]), disk.contents()]):
        again = laid_out(tmp_path / f"{number}", files)
        with closing(StateDir(again, "t")) as state:
            forgets = state._manifest.forgetting
            state.check_files()
        with store(again / "worker-0.db") as one:
            forgotten = not one.loaded.marks
            assert forgotten or not forgets
            assert one.names() == ["0-1"]
            assert (held_by(one), one.entries()) == (({}, []) if forgotten else (held, [remembered(1)]))
    assert forgotten
