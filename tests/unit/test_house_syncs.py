"""Rules of the house, as tests: which files may ask the system to sync, to lock, and to rename one file over another.

As in `test_house`, exceptions have their reasons, and an exception that nothing needs any more is a mistake too.
"""

import ast
import re

import pytest
from house import ALL_FOLDERS, SourceFile, dotted_uses, files, report, unneeded

SYNCS = {"os.fsync", "os.fdatasync", "os.sync", "fcntl.F_FULLFSYNC", "os.O_SYNC", "os.O_DSYNC"}
MAY_SYNC = {
    ("topology/filesystem/sync.py", "os.fsync"): "the one place that syncs",
    ("topology/filesystem/sync.py", "os.fdatasync"): "the same",
    ("benchmarks/counts.py", "os.fsync"): "what the system's own call takes is a figure there",
    ("benchmarks/counts.py", "os.fdatasync"): "what the system's own call takes is a figure there",
}
RENAMES_AND_LOCKS = {
    *("os.replace", "os.rename", "os.renames", "shutil.move"),
    *("fcntl.flock", "fcntl.lockf", "fcntl.F_SETLK", "fcntl.F_SETLKW"),
}
MAY_RENAME_OR_LOCK = {
    ("topology/filesystem/safe_files.py", "os.replace"): "the one place that renames a file over another",
    ("topology/filesystem/files.py", "os.rename"): "the operation that a simulated disk stands in for",
    ("topology/filesystem/locks.py", "fcntl.flock"): "the one place that locks",
    (
        "topology/runtime/companions/guard.py",
        "os.replace",
    ): "it runs with -I -S, and imports nothing of ours",
}
OPENS = {"sqlite3.connect", "apsw.Connection"}
MAY_NOT_SYNC = {
    "bolts/sinks/sqlite/table.py": "it only reads",
    "examples/cards.py": "it only reads",
}


def test_each_database_that_is_written_is_synced_through_the_drives_cache_F64() -> None:
    """SQLite does so only if it is told, and a checkpoint has a setting of its own."""
    found = [file for file in files(*{*ALL_FOLDERS} - {"tests", "benchmarks"}, "kedge") if opens(file)]
    report(
        [
            *(file.path for file in found if file.path not in MAY_NOT_SYNC and not SETTINGS.issubset(words(file))),
            *unneeded(MAY_NOT_SYNC, {file.path for file in found if not SETTINGS.issubset(words(file))}),
        ],
        "set fullfsync and checkpoint_fullfsync:",
    )


SETTINGS = {"fullfsync", "checkpoint_fullfsync"}


def opens(file: SourceFile) -> bool:
    """Whether a file opens a database."""
    return any(full.removesuffix("()") in OPENS for full, _ in dotted_uses(file.tree))


def words(file: SourceFile) -> set[str]:
    """Those of all its texts."""
    texts = (node.value for node in ast.walk(file.tree) if isinstance(node, ast.Constant))
    return {word for text in texts if isinstance(text, str) for word in re.findall(r"\w+", text)}


def test_one_place_syncs_what_is_written() -> None:
    """F64: on macOS `fsync` alone leaves the bytes in the drive's cache, and whoever calls it forgets that."""
    found = [(file.path, *use) for file in files(*{*ALL_FOLDERS} - {"tests"}, "kedge") for use in syncs(file)]
    report(
        [
            *(f"{path}:{line} uses {name}" for path, name, line in found if (path, name) not in MAY_SYNC),
            *unneeded(MAY_SYNC, {(path, name) for path, name, _ in found}),
        ],
        "call sync_file, sync_data or sync_folder of topology/filesystem/sync.py:",
    )


def syncs(file: SourceFile) -> list[tuple[str, int]]:
    """Where a file asks the system to sync, by whatever call."""
    return [(name, line) for full, line in dotted_uses(file.tree) if (name := full.removesuffix("()")) in SYNCS]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import os\nos.fsync(3)", "os.fsync"),
        ("from os import fdatasync as put\nput(3)", "os.fdatasync"),
        ("import os\nos.sync()", "os.sync"),
        ("import fcntl as f\nf.fcntl(3, f.F_FULLFSYNC)", "fcntl.F_FULLFSYNC"),
    ],
)
def test_syncing_is_found_under_any_name(text: str, name: str) -> None:
    assert [found for found, _ in syncs(SourceFile("topology/snippet.py", text))] == [name]


def test_one_place_renames_files_and_one_locks_them() -> None:
    """Each writer that has its own forgets a sync, or that the file may have been removed before it was locked."""
    folders = "topology", "bolts", "bridge", "spouts"
    found = [(file.path, *use) for file in files(*folders) for use in renames_and_locks(file)]
    report(
        [
            *(f"{path}:{line} uses {name}" for path, name, line in found if (path, name) not in MAY_RENAME_OR_LOCK),
            *unneeded(MAY_RENAME_OR_LOCK, {(path, name) for path, name, _ in found}),
        ],
        "call rename_over or write_anew of topology/filesystem/safe_files.py, or topology/filesystem/locks.py:",
    )


def renames_and_locks(file: SourceFile) -> list[tuple[str, int]]:
    """Where a file renames another one or locks it; a Path is renamed by a call with one argument, unlike a text."""
    named = [(full.removesuffix("()"), line) for full, line in dotted_uses(file.tree)]
    paths = [
        (f"Path.{node.func.attr}", node.lineno)
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("rename", "replace") and len(node.args) == 1 and not node.keywords
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id in ("os", "self"))
    ]
    return [(name, line) for name, line in named if name in RENAMES_AND_LOCKS] + paths


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import os\nos.replace('a', 'b')", "os.replace"),
        ("from os import rename as put\nput('a', 'b')", "os.rename"),
        ("import fcntl\nfcntl.flock(3, 2)", "fcntl.flock"),
        ("made.rename(path)", "Path.rename"),
        ("made.replace(path)", "Path.replace"),
    ],
)
def test_renaming_and_locking_are_found_under_any_name(text: str, name: str) -> None:
    assert [found for found, _ in renames_and_locks(SourceFile("topology/snippet.py", text))] == [name]


def test_a_text_or_a_record_that_is_replaced_is_no_renamed_file() -> None:
    text = "text.replace('a', 'b')\nreplace(record, name='b')\nnow.replace(tzinfo=UTC)"
    assert renames_and_locks(SourceFile("topology/snippet.py", text)) == []
