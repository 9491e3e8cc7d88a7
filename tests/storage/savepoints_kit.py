"""A state directory with one value of state, kept under a name."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from topology.storage.directory import savepoints
from topology.storage.directory.state_dir import StateDir
from topology.storage.encoding.state import body_of, packed, seed_of, sum_of
from topology.storage.offline.savepoints import keep
from topology.storage.rescale.assign import opened_stores
from topology.storage.values import Changes, StateChange, StateRow

NOW = datetime(2026, 3, 14, 12, 5, 1, tzinfo=UTC)
VALUE = b"a value that no other row has"


def kept_with_a_value(path: Path, name: str = "friday") -> savepoints.Savepoint:
    with closing(StateDir(path, "t")) as state:
        state.check_files()
        state.make_stores([0])
        with opened_stores(state) as stores:
            body = body_of(seed_of("count", 7), b"key", packed(VALUE, {}))
            stores[0].commit(Changes(states=[StateChange("count", [StateRow(7, b"key", body)], sum_of(body))]))
        return keep(state, name, NOW)
