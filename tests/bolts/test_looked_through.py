"""Files of sinks are looked through at the end of a run: damage that no write has come upon is not passed over."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from sink_kit import alert, feed, opened

from bolts import JsonLinesSink, SqliteSink
from bolts.sinks import jsonlines
from bolts.sinks.batching import BatchingSink
from bolts.sinks.sqlite import file as sqlite_file
from topology.errors import WorkerError

MAKERS = [SqliteSink, JsonLinesSink]


def damage(path: Path) -> None:
    with path.open("r+b") as file:
        for place in range(8_192, path.stat().st_size, 8_192):
            file.seek(place)
            file.write(b"\xa5" * 4_096)


@pytest.fixture(params=MAKERS, ids=["sqlite", "jsonlines"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> BatchingSink:
    make: Callable[[Path], BatchingSink] = request.param
    return make(tmp_path / "store")


async def test_damage_that_nothing_has_come_upon_is_told_with_the_file_at_the_end_f72(
    sink: BatchingSink, tmp_path: Path
) -> None:
    async with opened(sink) as one:
        out = await feed(one, [alert(number) for number in range(500)])
        assert one.broken is None
        one._looked_at = -1  # as if a later row were stored, which would have SQLite write pages anew
        damage(tmp_path / "store")
        with pytest.raises(WorkerError, match=r"store.* (is damaged|does not match its key)") as raised:
            await one.flush(out)
        assert str(raised.value.code) == "K572"
        assert one.broken is raised.value


async def test_a_file_that_is_whole_is_read_once_for_each_end_f72(sink: BatchingSink) -> None:
    async with opened(sink) as one:
        out = await feed(one, [alert(number) for number in range(50)])
        store, times = one._store, 0
        read = store.look_through

        def counted() -> bool:
            nonlocal times
            times += 1
            return bool(read())

        store.look_through = counted
        await one.flush(out)
        assert times == 0, "nothing was stored since it was read"
        await feed(one, [alert(number) for number in range(50, 60)])
        assert times == 1


async def test_a_file_that_was_taken_away_is_warned_of_f72(
    sink: BatchingSink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(sink) as one:
        out = await feed(one, [alert(number) for number in range(50)])
        one._looked_at = -1
        (tmp_path / "store").rename(tmp_path / "elsewhere")
        await one.flush(out)
        assert "could not be looked through: " in caplog.text
        assert one.broken is None


async def test_a_file_that_is_too_long_for_it_is_not_read_and_that_is_said_f72(
    sink: BatchingSink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (sqlite_file, jsonlines):
        monkeypatch.setattr(module, "LOOK_BYTES_MAX", 100)
    with caplog.at_level(logging.INFO, "kedge.bolts"):
        async with opened(sink) as one:
            await feed(one, [alert(number) for number in range(50)])
    assert "is not looked through for damage" in caplog.text
