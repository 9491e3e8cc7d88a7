"""Files of sinks that the system does not give at the start, and may give soon: a sink waits for them. F73."""

import asyncio
import os
import resource
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from sink_kit import KINDS, Kind, alert, feed, json_rows, key_runs_without_room_twice, opened

from bolts import JsonLinesSink
from bolts.sinks import batching, jsonlines, key_runs
from bolts.sinks.files import lacking
from bolts.sinks.known_keys import KnownKeys
from topology.errors import NotYet

Take = Callable[[], Callable[[], None]]


@pytest.fixture
def take_descriptors() -> Iterator[Take]:
    """Takes all descriptors that this process may have; what it returns gives them back."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []

    def take() -> Callable[[], None]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            return give_back

    def give_back() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        while taken:
            os.close(taken.pop())

    yield take
    give_back()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_a_sink_that_is_given_no_descriptor_at_the_start_waits_for_one_F73(
    kind: Kind, tmp_path: Path, take_descriptors: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "OPENING_S", 30.0)
    path = tmp_path / "store"
    asyncio.get_running_loop().call_later(0.3, take_descriptors())
    async with opened(kind.make(path)) as sink:
        out = await feed(sink, [alert(1), alert(2)])
        assert (len(out.acked), out.failed) == (2, {})
    assert len(kind.rows(path)) == 2


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_a_sink_that_is_given_none_within_the_first_look_is_not_there_yet_and_can_be_opened_later_F73(
    kind: Kind, tmp_path: Path, take_descriptors: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "OPENING_S", 0.3)
    prototype = kind.make(tmp_path / "store")
    give_back = take_descriptors()
    with pytest.raises(NotYet, match="can't be opened"):
        async with opened(prototype):
            raise AssertionError("it is open")
    give_back()
    async with opened(prototype) as sink:
        assert len((await feed(sink, [alert(1)])).acked) == 1


async def test_a_file_whose_keys_had_no_room_for_their_index_is_locked_again_F73(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "OPENING_S", 30.0)
    path = tmp_path / "alerts.jsonl"
    async with opened(JsonLinesSink(path)) as sink:
        await feed(sink, [alert(number) for number in range(1, 31)])
    folders = key_runs_without_room_twice(monkeypatch)
    monkeypatch.setattr(key_runs, "MERGED", 100)
    monkeypatch.setattr(jsonlines, "KEYS_READ", 5)
    monkeypatch.setattr(jsonlines, "KnownKeys", partial(KnownKeys, 4))
    async with opened(JsonLinesSink(path)) as sink:
        out = await feed(sink, [alert(number) for number in range(1, 32)])
        assert (len(out.acked), out.failed) == (31, {})
        assert len(folders) > 2
    assert len(json_rows(path)) == 31


def test_a_folder_that_is_missing_lacks_nothing_that_may_come_F73(tmp_path: Path) -> None:
    assert lacking(tmp_path) == ""
    assert lacking(tmp_path / "none") == ""
