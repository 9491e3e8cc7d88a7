"""A file's keys take memory up to a bound, and none is forgotten: a replay is dropped however old its line is (C6)."""

# ruff: noqa: ASYNC240  # tests look at files on the loop: nothing else runs on it

import os
import random
from functools import partial
from pathlib import Path

import pytest
from sink_kit import Alert, alert, feed, index_without_room_twice, json_rows, opened, stored, tup

from bolts import JsonLinesSink
from bolts.sinks import jsonlines, known_keys
from bolts.sinks.contract import StoreAway
from bolts.sinks.keys import sink_key
from bolts.sinks.known_keys import IN_MEMORY, KnownKeys


def key(number: int, content: bytes = b"") -> bytes:
    return sink_key(3, number * 0x9E3779B97F4A7C15 % (1 << 64), content)


def holds(known: KnownKeys, one: bytes) -> bool:
    return not known.unknown([one])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink has four keys in memory, and moves three at a time."""
    monkeypatch.setattr(known_keys, "MOVED", 3)
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
    assert len(known) <= IN_MEMORY + 1_000_000 // 997 + 1  # those that were asked for are in memory again
    known.make_room(tmp_path)
    assert len(known) <= IN_MEMORY
    known.clear()
    assert len(known) == 0


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


async def test_the_index_leaves_nothing_beside_the_file(path: Path, few: None) -> None:
    async with opened(JsonLinesSink(path, batch=7)) as sink:
        await feed(sink, [alert(number) for number in range(1, 101)])
        assert sink._store._known._index is not None
        assert os.listdir(path.parent) == [path.name]
    assert os.listdir(path.parent) == [path.name]


def test_an_index_without_room_is_asked_again_and_forgets_nothing(tmp_path: Path) -> None:
    known = KnownKeys(100)
    for number in range(200):
        known.add_all([key(number)])
    known.make_room(tmp_path)
    assert known._index is not None
    (pages,) = known._index.execute("PRAGMA page_count").fetchone()
    known._index.execute(f"PRAGMA max_page_count = {pages}")  # as on a full disk
    for number in range(200, 5000):
        known.add_all([key(number)])
    for _ in range(2):
        with pytest.raises(StoreAway, match=r"index of the lines' keys, in .*full"):
            known.make_room(tmp_path)
        assert all(holds(known, key(number)) for number in range(5000))
    known._index.execute("PRAGMA max_page_count = 1000000")
    known.make_room(tmp_path)
    assert len(known) <= 100
    assert all(holds(known, key(number)) for number in range(5000))
    assert not holds(known, key(5000))
    known.clear()


async def test_a_sink_whose_index_can_not_be_made_waits_and_stores_nothing_meanwhile(
    path: Path, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = index_without_room_twice(monkeypatch)
    async with opened(JsonLinesSink(path, batch=7)) as sink:
        out = await feed(sink, [alert(number) for number in range(1, 31)])
        assert (len(folders), len(out.acked), out.failed) == (3, 30, {})
    assert len(json_rows(path)) == 30


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_where_the_folder_takes_no_file_the_index_is_in_the_systems(tmp_path: Path) -> None:
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
