"""State and known inputs in a worker's store: all of a commit or nothing, and what was damaged is named before
anybody acts on it (D1, D5, D10, F22)."""

from pathlib import Path

import pytest
from durable_kit import FaultyFiles, Moment, full, laid_out, letter, made, mark, store, sync_fails
from state_rows_kit import Held, change, files_of, held_by, put, reached, remembered, row, together

from topology.errors import StartError
from topology.storage.encoding import state
from topology.storage.sqlite import state_table
from topology.storage.sqlite.database import PAGE_BYTES
from topology.storage.sqlite.errors import start_error
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken, StoreFull
from topology.storage.values import Changes, Letter, StateChange


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a new store's file, in a directory of its own."""
    (tmp_path / "whole").mkdir()
    return made(tmp_path / "whole" / "worker-0.db")


def power_lost(moment: Moment) -> dict[str, bytes]:
    return moment.durable


def killed(moment: Moment) -> dict[str, bytes]:
    return moment.files


# -- all or nothing


@pytest.mark.parametrize("left", [killed, power_lost])
def test_state_and_known_inputs_are_one_commit_wherever_it_ends_D1_D5(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch, left: object
) -> None:
    monkeypatch.setattr("topology.storage.sqlite.database.LOG_PAGES", 12)
    disk = FaultyFiles(path.parent, remember=True)
    held: Held = {}
    known: list[int] = []  # at each moment: the last commit that was reported
    with store(path, disk, lives=True) as one:
        for number in range(1, 7):
            put(one, together(held, number))
            known += [number - 1] * (len(disk.moments) - len(known))
    assert len(known) > 30
    for number, moment in enumerate(disk.moments):
        directory = laid_out(tmp_path / f"{number}", left(moment))  # type: ignore[operator]
        with store(directory / "worker-0.db") as found:
            assert reached(found) in (known[number], known[number] + 1), f"before {moment.operation}, the {number}th"


def test_a_full_disk_keeps_nothing_of_a_commit_and_the_same_one_can_be_made_again_D10_F16(path: Path) -> None:
    disk = FaultyFiles(path.parent)
    held: Held = {}
    with store(path, disk) as one:
        for number in range(1, 6):
            changes = together(held, number)
            disk.fail(full, at=number)
            with pytest.raises(StoreFull, match="No space left on device"):
                put(one, changes)
            disk.faults = None
            assert held_by(one) == held_before(held, number)
            assert one.entries() == [remembered(one) for one in (number - 2, number - 1) if one > 0]
            put(one, changes)
            assert held_by(one) == held
    with store(path) as one:
        assert reached(one) == 5


def held_before(held: Held, number: int) -> Held:
    before: Held = {}
    for one in range(1, number):
        together(before, one)
    assert before != held
    return before


def test_after_an_error_of_fsync_nothing_more_is_written_and_the_next_process_has_one_or_the_other_D10_F18(
    path: Path,
) -> None:
    disk = FaultyFiles(path.parent)
    held: Held = {}
    with store(path, disk) as one:
        put(one, together(held, 1))
        disk.fail(sync_fails)
        with pytest.raises(StoreBroken):
            put(one, together(held, 2))
        disk.faults = None
        with pytest.raises(StoreBroken, match="on the disk is unknown"):
            put(one, together({}, 3))
    with store(path) as one:
        assert reached(one) in (1, 2)


def test_a_row_that_is_too_long_is_refused_with_all_of_its_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_table, "ROW_BYTES_MAX", 1_000)
    held: Held = {}
    with store(path) as one:
        with pytest.raises(ValueError, match=r"1,\d\d\d bytes are too many for a row of state; at most 1,000"):
            one.commit(Changes(marks=[mark(1)], states=[change({}, row("a", 1), row("b", "x" * 1_000))]))
        assert (held_by(one), one.reread().marks) == ({}, ())
        one.commit(Changes(states=[change(held, row("a", 1))]))
        assert held_by(one) == held


# -- what is kept


def test_keys_of_any_bytes_are_kept_and_the_last_of_a_keys_rows_counts(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_table, "ROWS_AT_ONCE", 7)
    held: Held = {}
    keys = ["", "\0", "0000000001", "a\0b", "\x7f", "k" * 5_000, *(f"k{number}" for number in range(30))]
    with store(path) as one:
        one.commit(Changes(states=[change(held, *(row(key, key, slot) for key in keys for slot in (0, 1_023)))]))
        one.commit(
            Changes(states=[change(held, row("a\0b", 1, 0), row("a\0b", None, 0), row("", 9, 0), row("", 8, 0))])
        )
        assert held_by(one) == held
        assert held["count", 0, b""] == row("", 8, 0).body
    with store(path) as one:
        assert held_by(one) == held
        assert ("count", 0, b"a\0b") not in held


def test_the_rows_of_a_component_are_its_own_whatever_it_is_called(path: Path) -> None:
    held: Held = {}
    names = ["count", "counts", "é", "x" * 200]
    with store(path) as one:
        for name in names:
            one.commit(Changes(states=[change(held, row("k", name, component=name), component=name)]))
    with store(path) as one:
        one.commit(Changes(states=[change(held, row("k", 2, component="é"), component="é")]))
        assert held_by(one) == held
        assert [*one.states().rows] == names


def test_known_inputs_are_those_of_the_last_time_and_what_is_the_same_is_not_written(path: Path) -> None:
    disk = FaultyFiles(path.parent)
    with store(path, disk) as one:
        one.replace(Changes(), entries=[remembered(1, size=5_000), remembered(2)])
        assert one.entries() == [remembered(1, size=5_000), remembered(2)], "in their order"
        before = (path.parent / "worker-0.db-wal").stat().st_size
        one.replace(Changes(), entries=[remembered(1, size=5_000), remembered(3), remembered(4)])
        assert (path.parent / "worker-0.db-wal").stat().st_size < before + 5_000
        one.commit(Changes(marks=[mark(1)]))
        assert one.entries() == [remembered(1, size=5_000), remembered(3), remembered(4)]
    with store(path) as one:
        assert one.states().entries == [remembered(1, size=5_000), remembered(3), remembered(4)]
        one.replace(Changes(), entries=[])
    with store(path) as one:
        assert (one.states().entries, one.entries()) == ([], [])


def test_whose_dead_letters_there_are_is_loaded_E1(path: Path) -> None:
    letters: list[Letter] = [letter(f"0-{number}", origin=2**64 - number) for number in (1, 2, 3)]
    with store(path) as one:
        one.commit(Changes(letters=letters))
        one.commit(Changes(gone=["0-2"]))
    with store(path) as one:
        assert one.loaded.dead_origins == (2**64 - 1, 2**64 - 3)


def test_forgetting_leaves_dead_letters_and_the_number_of_the_checkpoint(path: Path) -> None:
    held: Held = {}
    with store(path) as one:
        put(one, together(held, 1))
        one.conclude(3, Changes(marks=[mark(1)], letters=[letter("0-1")]))
        one.prepare(4, Changes(marks=[mark(1)], letters=[letter("0-2")]))
        one.forget()
    with store(path) as one:
        assert (one.loaded.marks, one.names(), one.checkpoint, one.prepared) == ((), ["0-1"], 3, 0)
        assert (held_by(one), one.states().entries) == ({}, [])
        new: Held = {}
        one.commit(Changes(states=[change(new, row("k", 1, component="new"), component="new")]))
        assert held_by(one) == new


# -- damage


DAMAGE = {
    "exchanged rows": "UPDATE state SET body = (SELECT max(body) FROM state)",
    "a byte of a row": "UPDATE state SET body = CAST(body || 'x' AS BLOB) WHERE key = (SELECT min(key) FROM state)",
    "an empty row": "UPDATE state SET body = x'' WHERE key = (SELECT min(key) FROM state)",
    "a lost row": "DELETE FROM state WHERE key = (SELECT min(key) FROM state)",
    "all lost": "DELETE FROM state",
    "another slot": "UPDATE state SET key = CAST(substr(key, 1, 3) || x'08' || substr(key, 5) AS BLOB)",
    "another component": "UPDATE state SET key = CAST(x'0002' || substr(key, 3) AS BLOB) WHERE key < x'0002'",
    "no component": "UPDATE state SET key = CAST(x'0909' || substr(key, 3) AS BLOB)",
    "a short key": "UPDATE state SET key = substr(key, 1, 3) WHERE key = (SELECT min(key) FROM state)",
    "a changed row of inputs": "UPDATE entries SET body = x'92c40161c40162'",
}


@pytest.mark.parametrize("what", DAMAGE)
def test_rows_that_are_not_those_that_were_written_are_found_when_they_are_loaded_F22(path: Path, what: str) -> None:
    held: Held = {}
    with store(path) as one:
        put(one, together(held, 1))
        put(one, together(held, 2))
        damaged_by(one, DAMAGE[what])
    told(path, K430=r"the state file .*worker-0\.db is damaged: (a row of|rows of) (state|entries)")


def damaged_by(one: SqliteStore, sql: str) -> None:
    with one._database.transaction() as database:
        database.run(sql)
    one._database.checkpoint()


def told(path: Path, *, K430: str) -> None:
    with store(path, checked=True) as one:
        with pytest.raises(StoreBroken):
            one.states()
        with pytest.raises(StoreBroken) as broken:
            one.states()
    error = start_error(path, broken.value)
    assert str(error.code) == "K430"
    assert "--accept-loss" in error.next
    with pytest.raises(StartError, match=K430):
        raise error


def test_a_row_that_is_older_than_the_others_is_found_F22(path: Path) -> None:
    with store(path) as one:
        held: Held = {}
        one.commit(Changes(states=[change(held, row("k", 1))]))
        (old,) = one._database.rows("SELECT key, body FROM state")
        one.commit(Changes(states=[change(held, row("k", 2))]))
        with one._database.transaction() as database:
            database.run("UPDATE state SET body = ? WHERE key = ?", (old[1], old[0]))
    told(path, K430="rows of state are missing, or are older than others")


def test_a_row_of_another_file_is_found_though_it_is_whole_F22(path: Path) -> None:
    foreign = row("foreign", 1)
    with store(path) as one:
        one.commit(Changes(states=[change({}, row("k", 1))]))
        with one._database.transaction() as database:
            state_table.write(database, 1, [foreign])
    told(path, K430="rows of state are missing, or are older than others")


def test_a_digest_that_is_not_that_of_the_rows_is_found_when_they_are_loaded(path: Path) -> None:
    """Whoever commits tells it wrong."""
    with store(path) as one:
        one.commit(Changes(states=[StateChange("count", [row("k", 1)], 7)]))
    told(path, K430="rows of state are missing")


def test_a_row_of_inputs_that_is_lost_between_opening_and_loading_is_found_F22(path: Path) -> None:
    with store(path) as one:
        put(one, together({}, 1))
        damaged_by(one, "DELETE FROM entries")
        with pytest.raises(StoreBroken, match="a row of entries is not the one that was written"):
            one.states()


@pytest.mark.parametrize("table", ["entries", "components", "prepared"])
def test_lost_rows_of_other_tables_keep_the_file_from_being_opened_F22(path: Path, table: str) -> None:
    with store(path) as one:
        put(one, together({}, 1))
        one.prepare(1, together({}, 2))
        damaged_by(one, f"DELETE FROM {table}")
    with pytest.raises(StartError, match="is damaged: rows are missing, or are older than others"), store(path):
        pass


def test_a_page_of_state_that_was_flipped_is_told_at_the_latest_when_state_is_loaded_F22(
    tmp_path: Path, path: Path
) -> None:
    held: Held = {}
    with store(path) as one:
        one.commit(Changes(states=[change(held, *(row(f"key-{number}", number) for number in range(500)))]))
        one._database.checkpoint()
    content = files_of(path.parent)["worker-0.db"]
    found = 0
    for number, offset in enumerate(range(PAGE_BYTES, len(content), 331)):
        damaged = bytearray(content)
        damaged[offset] ^= 0x10
        directory = laid_out(tmp_path / f"{number}", {"worker-0.db": bytes(damaged)})
        try:
            with store(directory / "worker-0.db", checked=True) as one:
                assert held_by(one) == held
        except (StartError, StoreBroken):
            found += 1
    assert found > 30, "the bytes that matter"


def test_the_rows_in_line_are_checked_as_one_row_is(path: Path) -> None:
    """`state_table.read` has the checksum's rule in line, for its speed."""
    with store(path) as one:
        one.commit(Changes(states=[change({}, row("k", 1), row("", "x" * 100, 0))]))
        for name, rows in one.states().rows.items():
            assert all(state.is_intact(state.seed_of(name, found.slot), found.key, found.body) for found in rows)
            assert {*rows} == {row("k", 1), row("", "x" * 100, 0)}
