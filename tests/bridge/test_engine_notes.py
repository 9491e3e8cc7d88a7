"""Notes of bolts in Spark's Python processes: files that all of these share."""

import subprocess
import sys
from pathlib import Path

from bridge.engine.python_process import FolderNotes

WRITES = """
import sys
from pathlib import Path
from bridge.engine.python_process import FolderNotes
notes = FolderNotes(Path(sys.argv[1]))
for _ in range(200):
    notes.set("opened", sys.argv[2])
"""


def test_long_names_that_begin_alike_are_different_notes(tmp_path: Path) -> None:
    notes, name = FolderNotes(tmp_path), "the first time of /var/log/" + 300 * "x"
    notes.set(f"{name}1", "one")
    notes.set(f"{name}2", "two")
    assert [notes.get(f"{name}1"), notes.get(f"{name}2"), notes.get(name)] == ["one", "two", None]


def test_processes_that_write_the_same_note_at_once_disturb_one_another_in_nothing(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITES, str(tmp_path), which * 1_000]) for which in "abc"]
    assert [one.wait(60) for one in writers] == [0, 0, 0]
    assert FolderNotes(tmp_path).get("opened") in [which * 1_000 for which in "abc"]
    assert len(list(tmp_path.iterdir())) == 1, "nothing is left beside it"
