"""`Task.folder`: one folder for all of a run, in its state directory or in none, made when it is asked for. What is in
it goes with the positions, by --fresh and by another --run-id, and no sooner."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from elsewhere_kit import supervised
from runtime_kit import Number, Same, line, numbers

from topology import Bolt, StartError, Task
from topology.codes.startup import COMPONENT_DIR_NOT_CREATED, COMPONENT_FILES_NOT_REMOVED, UNKNOWN_STATE_FILE
from topology.runtime.clock import LoopClock
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.run.component_files import PREFIX, ComponentFolder
from topology.runtime.run.lifecycle import Takeover
from topology.runtime.run.report import Report
from topology.runtime.run.startup import NEW, Terms
from topology.storage.directory.state_dir import MemoryNotes, StateDir
from topology.testing import ScriptedSpout, run_topology


class Keeps(Bolt):
    """Notes the folder that it is given, what is in it, and keeps a file there."""

    def __init__(self, seen: list[tuple[Path, list[str]]]) -> None:
        self.seen = seen

    def __deepcopy__(self, memo: Any) -> "Keeps":
        return Keeps(self.seen)

    def open(self, task: Task) -> None:
        assert task.folder == task.folder
        self.seen.append((task.folder, sorted(one.name for one in task.folder.iterdir())))
        (task.folder / f"kept-{task.index}" / "deep").mkdir(parents=True, exist_ok=True)

    def process(self, number: Number) -> list[Number]:
        return [number]


def run(bolt: Bolt, tasks: int = 1, **settings: Any) -> Report:
    """In a loop of its own, on real time."""

    async def main() -> Report:
        return await EmbeddedRun(line(ScriptedSpout(numbers(3)), bolt, tasks=tasks)[0], **settings).finish()

    return asyncio.run(main())


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where this process makes temporary files, for this test: others of this machine have theirs elsewhere. Its path
    is short, as paths of sockets have to be."""
    with tempfile.TemporaryDirectory(prefix="kedge-test-") as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        monkeypatch.setenv("TMPDIR", place)
        yield Path(place)


def left_in(temporary: Path) -> list[str]:
    return [one.name for one in temporary.iterdir() if one.name.startswith(PREFIX)]


def test_all_tasks_have_one_folder_in_the_state_directory_and_the_next_run_has_it_too(tmp_path: Path) -> None:
    seen: list[tuple[Path, list[str]]] = []
    for _ in range(2):
        assert run(Keeps(seen), tasks=2, state_dir=tmp_path / "state").exit_status == 0
    assert {folder for folder, _ in seen} == {tmp_path / "state" / "kept"}
    assert seen[0][1] == []
    assert [names for _, names in seen[2:]] == [["kept-0", "kept-1"]] * 2
    assert (tmp_path / "state" / "kept").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("terms", [Terms(fresh=True), Terms(run_id=NEW)])
def test_fresh_and_another_run_id_empty_it(tmp_path: Path, terms: Terms) -> None:
    seen: list[tuple[Path, list[str]]] = []
    run(Keeps(seen), state_dir=tmp_path / "state")
    run(Keeps(seen), state_dir=tmp_path / "state", takeover=Takeover(terms))
    assert [names for _, names in seen] == [[], []]


def test_fresh_that_was_cut_short_is_done_by_the_next_start(tmp_path: Path) -> None:
    """F56: the run that was asked for it has died before it came to the files."""
    seen: list[tuple[Path, list[str]]] = []
    run(Keeps(seen), state_dir=tmp_path / "state")
    StateDir(tmp_path / "state", "line", fresh=True).close()
    assert (tmp_path / "state" / "kept" / "kept-0").exists()
    run(Keeps(seen), state_dir=tmp_path / "state")
    assert [names for _, names in seen] == [[], []]


def test_what_can_not_be_emptied_keeps_the_run_from_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(Keeps([]), state_dir=tmp_path / "state")

    def refused(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr("shutil.rmtree", refused)
    with pytest.raises(StartError, match="kept of files that components keep can't be emptied") as caught:
        run(Keeps([]), state_dir=tmp_path / "state", takeover=Takeover(Terms(fresh=True)))
    assert caught.value.code is COMPONENT_FILES_NOT_REMOVED


def test_without_a_state_directory_it_goes_with_the_run(temporary: Path) -> None:
    seen: list[tuple[Path, list[str]]] = []
    run(Keeps(seen), tasks=2)
    assert len({folder for folder, _ in seen}) == 1
    assert seen[0][0].is_relative_to(temporary)
    assert not seen[0][0].exists()
    assert left_in(temporary) == []


def test_without_a_state_directory_workers_share_one_that_goes_with_the_run(tmp_path: Path, temporary: Path) -> None:
    """`back` reads there what `hand` has written on another worker, or it would not end."""

    async def main() -> Report:
        async with asyncio.timeout(60):
            return await supervised(tmp_path, state=False).finish()

    assert asyncio.run(main()).ended == "ended"
    assert left_in(temporary) == []


KILLED = """
import os, signal
from topology.runtime.run.component_files import ComponentFolder
folder = ComponentFolder()()
(folder / "spark").mkdir()
(folder / "spark" / "segment").write_text("left")
print(folder.parent, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_has_left_goes_with_the_next_one_that_has_no_state_directory_and_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, env=environment, check=False)
    left = Path(done.stdout.strip())
    assert (left / "files" / "spark" / "segment").exists(), done.stderr
    in_use, other = ComponentFolder(), tmp_path / f"{PREFIX}somebody"
    other.mkdir(mode=0o700)
    (other / "files").mkdir()
    (tmp_path / f"{PREFIX}pointing").symlink_to(other)
    present = in_use()  # which sweeps, too
    assert not left.exists()
    next_one = ComponentFolder()
    assert next_one() != present
    next_one.close()
    assert present.is_dir()
    in_use.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == [f"{PREFIX}pointing", f"{PREFIX}somebody"]
    assert [one.name for one in other.iterdir()] == ["files"]


def test_files_of_a_state_directory_that_has_lost_what_they_belong_to_are_not_taken_for_a_new_runs(
    tmp_path: Path,
) -> None:
    """Its positions are gone with state.json: all would be read again, and be there twice."""
    run(Keeps([]), state_dir=tmp_path / "state")
    for one in (tmp_path / "state").iterdir():
        if one.is_file():
            one.unlink()
    with pytest.raises(StartError, match=r"state has kept, and no state\.json") as caught:
        run(Keeps([]), state_dir=tmp_path / "state")
    assert caught.value.code is UNKNOWN_STATE_FILE
    assert "move it away" in str(caught.value.next)
    assert (tmp_path / "state" / "kept" / "kept-0").exists()


def test_nothing_is_made_where_nobody_asks(tmp_path: Path, temporary: Path) -> None:
    run(Same(), state_dir=tmp_path / "state")
    assert not (tmp_path / "state" / "kept").exists()
    run(Same())
    assert left_in(temporary) == []


def test_a_folder_that_can_not_be_made_is_told_by_the_component_that_asks(tmp_path: Path) -> None:
    run(Same(), state_dir=tmp_path / "state")
    (tmp_path / "state" / "kept").write_text("in the way")
    with pytest.raises(StartError, match="no folder for files of components can be made at") as caught:
        run(Keeps([]), state_dir=tmp_path / "state")
    assert caught.value.code is COMPONENT_DIR_NOT_CREATED


def test_on_virtual_time_it_is_a_real_one(tmp_path: Path) -> None:
    seen: list[tuple[Path, list[str]]] = []
    topology, _ = line(ScriptedSpout(numbers(3)), Keeps(seen))
    assert run_topology(topology).exit_status == 0
    assert len(seen) == 1
    assert not seen[0][0].exists()


def test_a_task_that_a_test_makes_says_how_it_gets_one(tmp_path: Path) -> None:
    async def clock() -> LoopClock:
        return LoopClock(asyncio.get_running_loop())

    task = Task("topology", "bolt", 0, 1, asyncio.run(clock()), Random(0), MemoryNotes())
    with pytest.raises(RuntimeError, match="folder_of"):
        _ = task.folder
    assert replace(task, folder_of=lambda: tmp_path).folder == tmp_path
