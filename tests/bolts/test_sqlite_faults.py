"""What each error of SQLite's means for a sink: whose fault it is (F16, F18, F19, F22)."""

import sqlite3
from pathlib import Path

import pytest

from bolts.sinks.contract import SinkStoreBroken, StoreAway
from bolts.sinks.sqlite.file import SqliteFile
from topology.errors import ConfigurationError

AWAY = [
    *("SQLITE_BUSY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_LOCKED", "SQLITE_PROTOCOL", "SQLITE_FULL", "SQLITE_READONLY"),
    *("SQLITE_READONLY_DBMOVED", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_READ", "SQLITE_CANTOPEN", "SQLITE_PERM"),
]
BROKEN = ["SQLITE_IOERR_FSYNC", "SQLITE_IOERR_DIR_FSYNC", "SQLITE_CORRUPT", "SQLITE_NOTADB"]
AT_THE_START = ["SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_PERM"]


def error_of(name: str) -> sqlite3.Error:
    error = sqlite3.OperationalError("told by SQLite")
    error.sqlite_errorcode, error.sqlite_errorname = getattr(sqlite3, name), name
    return error


@pytest.fixture
def file(tmp_path: Path) -> SqliteFile:
    return SqliteFile(str(tmp_path / "{braces} are no format"))


@pytest.mark.parametrize("name", AWAY)
def test_f16_f19_no_room_no_right_and_locks_are_waited_for(file: SqliteFile, name: str) -> None:
    with pytest.raises(StoreAway, match=name) as raised, file.errors():
        raise error_of(name)
    assert "{braces}" in str(raised.value)


@pytest.mark.parametrize("name", BROKEN)
def test_f18_f22_a_failed_fsync_and_a_damaged_file_end_the_process(file: SqliteFile, name: str) -> None:
    with pytest.raises(SinkStoreBroken, match=name), file.errors():
        raise error_of(name)


@pytest.mark.parametrize("name", AT_THE_START)
def test_what_a_user_has_to_mend_is_said_at_the_start(file: SqliteFile, name: str) -> None:
    with pytest.raises(ConfigurationError, match=name), file.errors(opening=True):
        raise error_of(name)


def test_a_mistake_of_ours_is_none_of_these(file: SqliteFile) -> None:
    with pytest.raises(sqlite3.ProgrammingError), file.errors():
        raise sqlite3.ProgrammingError("wrong number of bindings")
