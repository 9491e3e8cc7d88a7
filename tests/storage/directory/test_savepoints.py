"""A kept checkpoint is whole or none, wherever its making, its deletion or a beginning from it is cut short."""

import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest
from savepoints_kit import NOW, VALUE, kept_with_a_value
from worker_store_kit import Worker, content_of

from topology.errors import ConfigurationError, StartError
from topology.filesystem.files import DiskFiles
from topology.storage.directory import savepoints
from topology.storage.directory.decision import NAME, DecisionFile
from topology.storage.directory.state_dir import StateDir
from topology.storage.offline.savepoints import begin_from, keep
from topology.storage.rescale.assign import opened_stores
from topology.storage.sqlite.store import SqliteStore
from topology.testing.simulator.disk import ROOT, SimulatedDisk
from topology.testing.simulator.files import SimulatedFiles

RUN, NEW = ROOT / "run", ROOT / "new"
STORES = (0, 1)
KEPT, LATER = [8, 8], [10, 10]  # inputs that each store has, in the savepoint and afterwards
CHANGES = ("change", "write", "truncate", "sync", "sync_directory", "make_directory", "remove_directory")


class Died(BaseException):
    """The process is dead: it does nothing more."""


class MortalDisk(SimulatedDisk):
    """A disk whose user dies before the n-th operation. `left`: how many it does before; None: all."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.left: int | None = None
        self.done = 0


def _counted(name: str) -> Callable[..., None]:
    def operation(self: MortalDisk, *args: object) -> None:
        if self.left is not None and self.done >= self.left:
            raise Died(name)
        self.done += 1
        getattr(super(MortalDisk, self), name)(*args)

    return operation


for _name in CHANGES:
    setattr(MortalDisk, _name, _counted(_name))


class Machine:
    """A machine with a disk, and one process at a time that uses it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = MortalDisk(self.random)
        self.files = SimulatedFiles(self.disk, self.random)

    def dies(self, left: int, what: Callable[["Machine"], None]) -> bool:
        """Return True if the process has died in the middle of this."""
        self.disk.left, self.disk.done = left, 0
        try:
            what(self)
        except Died:
            return True
        finally:
            self.disk.left = None
        return False

    def restarts(self, *, power: bool) -> None:
        """Begins again, after a kill or a loss of power."""
        self.files.close()
        if power:
            self.disk.lose_power()
        self.files = SimulatedFiles(self.disk, self.random)


def works(machine: Machine, count: int, life: int) -> None:
    """A run of two workers takes so many inputs each, half of which are in a checkpoint, and is killed."""
    with closing(StateDir(RUN, "t", files=machine.files)) as state:
        state.check_files()
        state.make_stores([*STORES])
        with opened_stores(state) as stores:
            decided = max(store.checkpoint for store in stores.values())
        state.next_incarnation()
        state.set_begun("shape")
        paths = [RUN / f"worker-{number}.db" for number in STORES]
        both = [Worker.opened(machine.files, path, life, decided, number=number) for number, path in enumerate(paths)]
        with closing(DecisionFile(machine.files, RUN / NAME, begins=decided)) as file:
            for one in both:
                one.take(count // 2)
                one.store.mark(decided + 1)
                one.store.prepare(decided + 1, changes := one.changes())
                one.is_decided(changes)
                one.take(count - count // 2)
                one.store.sync()
            file.decide(decided + 1)
        for one in both:
            one.store.close()


def contents(machine: Machine, path: Path) -> list[int]:
    """What the stores of a directory have."""
    with closing(StateDir(path, "t", files=machine.files)) as state:
        state.check_files()
        with opened_stores(state) as stores:
            return [content_of(store)[0] for store in stores.values()]  # type: ignore[arg-type]  # as a Store is read


def keeps(machine: Machine) -> None:
    with closing(StateDir(RUN, "t", files=machine.files)) as state:
        keep(state, "friday", NOW)


def begins(machine: Machine, path: Path = RUN) -> None:
    with closing(StateDir(path, "t", files=machine.files)) as state:
        begin_from(state, savepoints.folder_of(RUN, "friday"), "t", NOW)
        state.check_files()


def names(machine: Machine) -> list[str]:
    return [one.name for one in savepoints.listed(machine.files, RUN)]


def moments(
    before: Callable[[Machine], None], what: Callable[[Machine], None], step: int = 1
) -> Iterator[tuple[Machine, str]]:
    """Yield a machine for each operation of `what`, on which the process has died before it, and the last time after
    all of them."""
    left = 0
    while True:
        for power in (False, True):
            machine = Machine(left)
            before(machine)
            died = machine.dies(left, what)
            machine.restarts(power=power)
            yield machine, f"died before operation {left}, power lost: {power}"
            machine.files.close()
        if not died:
            assert left > 20
            return
        left += step


def used(machine: Machine) -> None:
    works(machine, 8, 1)


def test_one_that_is_cut_short_is_none_and_the_directory_has_what_it_had_F56() -> None:
    complete = 0
    for machine, told in moments(used, keeps, 5):
        if names(machine):
            complete += 1
            assert machine.disk.left is None, told
        else:
            assert contents(machine, RUN) == KEPT, told
            keeps(machine)  # what is left of the first one is no obstacle
        assert names(machine) == ["friday"], told
        begins(machine, NEW)
        assert contents(machine, NEW) == contents(machine, RUN) == KEPT, told
    assert complete >= 2


def kept_and_used_again(machine: Machine) -> None:
    used(machine)
    keeps(machine)
    works(machine, 2, 2)


def test_a_beginning_that_is_cut_short_is_completed_or_has_changed_nothing_F56() -> None:
    found: list[list[int]] = []
    for machine, told in moments(kept_and_used_again, begins, 11):
        first = contents(machine, RUN)
        assert first in (KEPT, LATER), told
        found.append(first)
        with suppress(StartError):  # what was there may have been kept by the first one, which has the name
            begins(machine)
        there = savepoints.listed(machine.files, RUN)
        assert [one.name for one in there if one.name == "friday"] == ["friday"], told
        if first == LATER:
            before = next((one for one in there if one.name.startswith(savepoints.BEFORE)), None)
            assert before is not None, told
            with closing(StateDir(NEW, "t", files=machine.files)) as state:
                begin_from(state, before.path, "t", NOW)
            assert contents(machine, NEW) == LATER, told
    assert KEPT in found
    assert LATER in found


def test_a_beginning_that_lost_its_checkpoint_says_so_and_may_begin_from_another() -> None:
    machine = Machine(0)
    kept_and_used_again(machine)
    with closing(StateDir(RUN, "t", files=machine.files)) as state:
        another = keep(state, "another", NOW)
    left = next(left for left in range(1_000) if is_replacing(machine, left))
    print(f"interrupted before operation {left}")
    with pytest.raises(StartError, match="'friday' is being put in place"):
        savepoints.delete(machine.files, RUN, "friday")
    machine.files.remove(savepoints.folder_of(RUN, "friday") / "state.json")  # by hand
    with pytest.raises(StartError, match="was being given what checkpoint friday has, and was interrupted") as told:
        contents(machine, RUN)
    assert str(told.value.code) == "K810"
    with closing(StateDir(RUN, "t", files=machine.files)) as state:
        begin_from(state, another.path, "t", NOW)
    assert contents(machine, RUN) == LATER


def is_replacing(machine: Machine, left: int) -> bool:
    """Begins from the checkpoint until some operation; returns True if that was in the middle of replacing."""
    machine.dies(left, begins)
    machine.restarts(power=False)
    with closing(StateDir(RUN, "t", files=machine.files)) as state:
        return state.is_replacing


def test_a_deletion_that_is_cut_short_leaves_all_of_it_or_none() -> None:
    def kept(machine: Machine) -> None:
        used(machine)
        keeps(machine)

    def deleted(machine: Machine) -> None:
        savepoints.delete(machine.files, RUN, "friday")

    for left in range(100):
        machine = Machine(left)
        kept(machine)
        died = machine.dies(left, deleted)
        machine.restarts(power=True)
        if names(machine):
            begins(machine, NEW)
            assert contents(machine, NEW) == KEPT
        else:
            keeps(machine)
        machine.files.close()
        if not died:
            assert left > 3
            return


def test_it_has_what_was_decided_and_what_logs_have_and_stays_as_it_is() -> None:
    machine = Machine(0)
    kept_and_used_again(machine)
    assert contents(machine, RUN) == LATER
    friday = savepoints.folder_of(RUN, "friday")
    before = [machine.files.read(friday / name, 10**9) for name in machine.files.names(friday)]
    for path in (NEW, ROOT / "another", RUN):
        begins(machine, path)
        assert contents(machine, path) == KEPT
    assert [machine.files.read(friday / name, 10**9) for name in machine.files.names(friday)] == before
    begins(machine)
    assert {*names(machine)} == {"friday", "before-20260314-120501", "before-20260314-120501-2"}


def test_starts_are_counted_on_after_going_back_A7() -> None:
    machine = Machine(0)
    kept_and_used_again(machine)
    begins(machine)
    with closing(StateDir(RUN, "t", files=machine.files)) as state:
        assert state.next_incarnation() == 3
    works(machine, 2, 3)  # and the next run goes on
    assert contents(machine, RUN) == LATER


def test_a_full_disk_keeps_nothing_and_changes_nothing() -> None:
    machine = Machine(0)
    used(machine)
    contents(machine, RUN)  # folds the logs
    machine.disk.full = True
    with pytest.raises(StartError, match=r"the checkpoint 'friday' could not be kept: .*No space") as told:
        keeps(machine)
    assert str(told.value.code) == "K804"
    machine.disk.full = False
    assert not machine.disk.is_directory(savepoints.folder_of(RUN, "friday")), "the part is removed"
    assert contents(machine, RUN) == KEPT
    keeps(machine)
    begins(machine, NEW)
    assert contents(machine, NEW) == KEPT


def test_a_second_one_of_the_same_name_is_refused() -> None:
    machine = Machine(0)
    used(machine)
    keeps(machine)
    with pytest.raises(StartError, match="there is a checkpoint 'friday' already") as told:
        keeps(machine)
    assert str(told.value.code) == "K802"
    assert names(machine) == ["friday"]


def test_what_never_ran_has_no_checkpoint(tmp_path: Path) -> None:
    with closing(StateDir(tmp_path / "new", "t")) as state:
        state.next_incarnation()
        with pytest.raises(StartError, match="nothing has run on") as told:
            keep(state, "friday", NOW)
    assert str(told.value.code) == "K804"


def test_one_of_another_topology_is_refused() -> None:
    machine = Machine(0)
    used(machine)
    keeps(machine)
    with closing(StateDir(NEW, "other", files=machine.files)) as state, pytest.raises(StartError, match="'t'") as told:
        begin_from(state, savepoints.folder_of(RUN, "friday"), "other", NOW)
    assert str(told.value.code) == "K807"


def test_a_checkpoint_is_no_state_directory() -> None:
    machine = Machine(0)
    used(machine)
    keeps(machine)
    with pytest.raises(StartError, match="is a kept checkpoint") as told:
        StateDir(savepoints.folder_of(RUN, "friday"), "t", files=machine.files)
    assert str(told.value.code) == "K809"


def test_a_state_directory_is_no_checkpoint() -> None:
    machine = Machine(0)
    used(machine)
    with closing(StateDir(NEW, "t", files=machine.files)) as state, pytest.raises(StartError) as told:
        begin_from(state, RUN, "t", NOW)
    assert str(told.value.code) == "K803"


def test_a_missing_one_is_named_with_those_that_are_there() -> None:
    machine = Machine(0)
    used(machine)
    keeps(machine)
    with pytest.raises(StartError, match=r"'frday' in .*; did you mean 'friday'\? \(kept: friday\)"):
        savepoints.found(machine.files, savepoints.folder_of(RUN, "frday"))


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../a", "-x", "ä", "a" * 65, "a b", "auto-1", "before-x", "x\n"]
)
def test_a_name_never_leads_out_of_the_folder_S6(name: str) -> None:
    with pytest.raises(ConfigurationError) as told:
        savepoints.checked_name(name)
    assert str(told.value.code) == "K801"


def shortened(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1_024])


def overwritten(file: Path) -> None:
    """One row of state: pages and header are as they were."""
    data = file.read_bytes()
    assert data.count(VALUE) == 1
    file.write_bytes(data.replace(VALUE, VALUE[:-1] + b"?"))


def of_another_directory(file: Path) -> None:
    with closing(StateDir(file.parent / "other", "t")) as state:
        state.check_files()
        state.make_stores([0])
    file.unlink()
    (file.parent / "other" / file.name).rename(file)


def files_of(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.iterdir() if one.is_file()}


@pytest.mark.parametrize("damage", [shortened, overwritten, Path.unlink, of_another_directory])
def test_a_damaged_one_is_refused_and_the_directory_has_what_it_had(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    one = kept_with_a_value(tmp_path / "run")
    damage(one.path / "worker-0.db")
    before = files_of(tmp_path / "run")
    refusal = pytest.raises(StartError, match="checkpoint friday is damaged, and nothing was changed")
    with closing(StateDir(tmp_path / "run", "t")) as state, refusal as told:
        begin_from(state, one.path, "t", NOW)
    assert str(told.value.code) == "K805"
    assert "worker-0.db" in str(told.value)
    assert ".new" not in str(told.value)
    assert files_of(tmp_path / "run") == before
    assert [kept.name for kept in savepoints.listed(DiskFiles(), tmp_path / "run")] == ["friday"]


def test_a_directory_that_is_damaged_itself_is_left_and_the_way_out_is_named(tmp_path: Path) -> None:
    one = kept_with_a_value(tmp_path / "run")
    shortened(tmp_path / "run/worker-0.db")
    with closing(StateDir(tmp_path / "run", "t")) as state, pytest.raises(StartError, match="damaged") as told:
        begin_from(state, one.path, "t", NOW)
    assert told.value.next.endswith(f"begin elsewhere: --state-dir NEW --from {one.path}")
    with closing(StateDir(tmp_path / "new", "t")) as state:
        begin_from(state, one.path, "t", NOW)
        state.check_files()


def test_the_life_that_went_on_while_its_store_was_copied_counts_as_no_death(tmp_path: Path) -> None:
    """Else the run that begins from it would take checkpoints fifty times a second for a while (E7)."""
    with closing(StateDir(tmp_path / "run", "t")) as state:
        state.check_files()
        state.make_stores([0])
        with opened_stores(state) as stores:
            stores[0].begin_life((0, state.next_incarnation()), has_log=False)
        one = keep(state, "friday", NOW)
        begin_from(state, one.path, "t", NOW)
        state.check_files()
        with opened_stores(state) as stores:
            assert stores[0].loaded.deaths == 0
    assert not [*(tmp_path / "run").glob("*.new*")]


def test_a_store_that_is_copied_stays_locked_D6(tmp_path: Path) -> None:
    """Who opens and closes the file beside SQLite takes away the process's locks on it: another one could write."""
    with closing(StateDir(tmp_path / "run", "t")) as state:
        state.check_files()
        state.make_stores([0])
        with opened_stores(state) as stores:
            stores[0].begin_life((0, state.next_incarnation()), has_log=False)
            stores[0].copy_to(tmp_path / "copy.db")
            path = str(stores[0].path)
            reads = f"import sqlite3; sqlite3.connect({path!r}).execute('SELECT * FROM own').fetchall()"
            said = subprocess.run([sys.executable, "-c", reads], capture_output=True, text=True, check=False).stderr
            assert "database is locked" in said
    with closing(SqliteStore(DiskFiles(), tmp_path / "copy.db")) as copy:
        assert copy.loaded.deaths == 1
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
