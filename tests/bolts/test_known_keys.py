"""A file's keys take memory up to a bound, and none is forgotten: a replay is dropped however old its line is (C6)."""

# ruff: noqa: ASYNC240  # tests look at files on the loop: nothing else runs on it

import os
import random
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest
from sink_kit import Alert, alert, feed, json_rows, key_runs_without_room_twice, opened, sink_key, stored, tup

from bolts import JsonLinesSink
from bolts.sinks import jsonlines, key_runs
from bolts.sinks.contract import SinkStoreBroken, StoreAway
from bolts.sinks.keys import KEY_BYTES
from bolts.sinks.known_keys import IN_MEMORY, KnownKeys


def key(number: int, content: bytes = b"") -> bytes:
    return sink_key(3, number * 0x9E3779B97F4A7C15 % (1 << 64), content)


def holds(known: KnownKeys, one: bytes) -> bool:
    return not known.unknown([one])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink has four keys in memory, and merges three runs at a time."""
    monkeypatch.setattr(key_runs, "MERGED", 3)
    monkeypatch.setattr(jsonlines, "KnownKeys", partial(KnownKeys, 4))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alerts.jsonl"


def test_a_million_keys_stay_within_the_bound_and_all_are_known(tmp_path: Path) -> None:
    known = KnownKeys()
    for number in range(1_000_000):
        known.add_all([key(number)])
        if not number % 1000:
            known.make_room(tmp_path)
            assert len(known) <= IN_MEMORY
    known.make_room(tmp_path)
    assert all(holds(known, key(number)) for number in range(0, 1_000_000, 997))
    assert not any(holds(known, key(number)) for number in range(1_000_000, 1_020_000))
    assert len(known) <= IN_MEMORY
    assert len(known._runs) <= 2 * key_runs.MERGED
    known.clear()
    assert (len(known), len(known._runs)) == (0, 0)


def test_keys_are_known_and_divergent_as_if_all_were_in_memory(tmp_path: Path, few: None) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    known, model, pairs = KnownKeys(4), set[bytes](), set[bytes]()
    for _ in range(5000):
        one = key(choose.randrange(300), b"%d" % choose.choice([0, 0, 0, 1, 2]))
        assert holds(known, one) == (one in model)
        if one not in model:
            assert bool(known.add_all([one])) == (one[:16] in pairs)
            model.add(one)
            pairs.add(one[:16])
        if not choose.randrange(4):
            known.make_room(tmp_path)
            assert len(known) <= 4
    known.clear()


async def test_a_replay_of_a_line_that_memory_has_not_is_dropped_in_this_run_and_the_next(
    path: Path, few: None
) -> None:
    alerts = [alert(number) for number in range(1, 101)]
    async with opened(JsonLinesSink(path, batch=7)) as sink:
        await feed(sink, alerts)
        out = await feed(sink, alerts)
        assert (sink.stored, sink.duplicates, len(out.acked)) == (100, 100, 100)
        assert len(sink._store._known) <= 4 + 7
    whole = path.read_bytes()
    async with opened(JsonLinesSink(path, batch=7)) as sink:
        assert len(sink._store._known) <= 4 + jsonlines.KEYS_READ
        await feed(sink, [*alerts, *alerts, alert(101)])
        assert (sink.stored, sink.duplicates) == (1, 200)
    assert path.read_bytes()[: len(whole)] == whole
    assert len(json_rows(path)) == 101


async def test_another_content_for_an_identity_that_memory_has_not_is_stored_and_counted(path: Path, few: None) -> None:
    await stored(JsonLinesSink(path), [alert(number) for number in range(1, 101)])
    async with opened(JsonLinesSink(path, batch=7)) as sink:
        await feed(sink, [alert(number) for number in range(101, 131)])
        other = [tup(Alert("192.0.2.1", 7, None), number) for number in (1, 2, 101)]
        await feed(sink, other)
        await feed(sink, other)
        assert (sink.stored, sink.divergent, sink.duplicates) == (33, 3, 3)


async def test_a_file_with_more_lines_than_memory_has_keys_is_opened_within_the_bound(
    path: Path, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored(JsonLinesSink(path), [alert(number) for number in range(1, 101)])
    monkeypatch.setattr(jsonlines, "KEYS_READ", 1)
    async with opened(JsonLinesSink(path)) as sink:
        assert len(sink._store._known) <= 4


async def test_the_runs_leave_nothing_beside_the_file(path: Path, few: None) -> None:
    async with opened(JsonLinesSink(path, batch=7)) as sink:
        await feed(sink, [alert(number) for number in range(1, 101)])
        assert len(sink._store._known._runs) > 1
        assert os.listdir(path.parent) == [path.name]
    assert os.listdir(path.parent) == [path.name]


class Full:
    """A file of a disk that takes so many bytes."""

    def __init__(self, file: IO[bytes], room: int) -> None:
        self._file, self.room = file, room
        self.seek, self.read, self.close = file.seek, file.read, file.close

    def write(self, data: bytes) -> None:
        if len(data) > self.room:
            raise OSError(28, "No space left on device")
        self.room -= len(data)
        self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


@pytest.mark.parametrize("room", [0, 24 * 150, 24 * 450], ids=["no file", "half a run", "runs, and not them merged"])
def test_runs_without_room_are_asked_again_and_forget_nothing(
    tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    made, left = key_runs._made_in, room

    def small(folder: Path) -> Any:
        nonlocal left
        if not left:
            raise OSError(28, "No space left on device")
        file = Full(made(folder), left)
        left = max(0, left - 24 * 100)
        return file

    monkeypatch.setattr(key_runs, "_made_in", small)
    known = KnownKeys(99)
    added, refused = 0, 0
    for _ in range(6):
        try:
            known.make_room(tmp_path)
        except StoreAway:
            refused += 1
        known.add_all([key(number) for number in range(added, added + 100)])
        added += 100
    assert refused
    for _ in range(2):
        with pytest.raises(StoreAway, match=r"index of the lines' keys, in .*No space left"):
            known.make_room(tmp_path)
        assert all(holds(known, key(number)) for number in range(added))
    monkeypatch.setattr(key_runs, "_made_in", made)
    known.make_room(tmp_path)
    assert len(known) == 0
    assert len(known._runs) < key_runs.MERGED
    assert all(holds(known, key(number)) for number in range(added))
    assert not holds(known, key(added))
    known.clear()


def test_a_run_that_has_become_shorter_is_broken_and_forgets_no_key_silently(tmp_path: Path) -> None:
    known = KnownKeys(4)
    known.add_all([key(number) for number in range(100)])
    known.make_room(tmp_path)
    (run,) = known._runs._sizes[0]
    os.truncate(run._file.fileno(), 50 * KEY_BYTES)
    with pytest.raises(SinkStoreBroken, match="shorter than it was written"):
        known.unknown([key(number) for number in range(100)])
    known.clear()


def test_pairs_of_one_bucket_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a pair whose bytes are in the middle of other keys."""
    monkeypatch.setattr(key_runs, "BITS", 0)
    one, two = bytes(range(24)), bytes(range(24, 48))
    across = (one + two)[8:24] + bytes(8)
    known = KnownKeys(0)
    known.add_all([one, two])
    known.make_room(tmp_path)
    assert known.unknown([one, two, across]) == [across]
    assert known.add_all([across]) == []
    known.clear()


async def test_a_sink_whose_runs_can_not_be_made_waits_and_stores_nothing_meanwhile(
    path: Path, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = key_runs_without_room_twice(monkeypatch)
    async with opened(JsonLinesSink(path, batch=7)) as sink:
        out = await feed(sink, [alert(number) for number in range(1, 31)])
        assert (len(out.acked), out.failed) == (30, {})
        assert len(folders) > 2
    assert len(json_rows(path)) == 30


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_where_the_folder_takes_no_file_the_runs_are_in_the_systems(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    known = KnownKeys(4)
    for number in range(100):
        known.add_all([key(number)])
    try:
        known.make_room(tmp_path)
        assert len(known) <= 4
        assert all(holds(known, key(number)) for number in range(100))
    finally:
        tmp_path.chmod(0o700)
        known.clear()


@pytest.mark.parametrize("damage", ["cut short", "unreadable"])
def test_a_run_that_can_not_be_read_breaks_the_store(tmp_path: Path, damage: str) -> None:
    """Its file has no name and no copy: only a new process makes it again, from the lines."""
    known = KnownKeys(0)
    one = key(1)
    known.add_all([one])
    known.make_room(tmp_path)
    (run,) = known._runs._sizes[0]
    descriptor = run._file.fileno()
    if damage == "cut short":
        os.ftruncate(descriptor, 0)
    else:
        folder = os.open(tmp_path, os.O_RDONLY)
        os.dup2(folder, descriptor)
        os.close(folder)
    with pytest.raises(SinkStoreBroken, match="index of the lines' keys"):
        known.unknown([one])
    known.clear()
