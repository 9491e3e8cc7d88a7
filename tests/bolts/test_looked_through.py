"""Files of sinks are looked through at the end of a run: damage that no write has come upon is not passed over."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


Change = Callable[[list[bytes]], list[bytes]]


def _with_digit(lines: list[bytes]) -> list[bytes]:
    """Another digit in the first half of a key, which the hash of the content does not cover."""
    at = lines[3].index(b'":"') + 3
    digit = b"1" if lines[3][at : at + 1] != b"1" else b"2"
    return [*lines[:3], lines[3][:at] + digit + lines[3][at + 1 :], *lines[4:]]


@pytest.mark.parametrize(
    "change",
    [lambda lines: [lines[1], lines[0], *lines[2:]], lambda lines: [lines[1], *lines[1:]], _with_digit],
    ids=["two lines change places", "a line is there twice and another is not", "a digit of a key"],
)
async def test_a_json_lines_file_of_whole_lines_that_are_not_those_that_were_written_is_damaged_f72(
    change: Change, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    async with opened(JsonLinesSink(path)) as one:
        out = await feed(one, [alert(number) for number in range(10)])
        lines = path.read_bytes().splitlines(keepends=True)
        changed = b"".join(change(lines))
        assert len(changed) == path.stat().st_size
        with path.open("r+b") as file:
            file.write(changed)
        one._looked_at = -1
        with pytest.raises(WorkerError, match="does not hold the lines that were written: it was damaged, or edited"):
            await one.flush(out)


async def test_a_json_lines_file_is_whole_after_a_torn_tail_and_in_a_second_run_f72(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(JsonLinesSink(path)) as one:
        await feed(one, [alert(number) for number in range(10)])
    with path.open("ab") as file:
        file.write(b'{"key":"00')  # as a crash leaves it
    async with opened(JsonLinesSink(path)) as one:
        out = await feed(one, [alert(number) for number in range(5, 20)])
        one._looked_at = -1
        await one.flush(out)
        assert one.broken is None
        assert (one.stored, one.duplicates) == (10, 5)


async def test_a_json_lines_file_is_whole_after_a_write_that_failed_in_the_middle_f72(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    write, failed = os.write, 0

    def half(fd: int, data: Any) -> int:
        nonlocal failed
        if failed == 0 and os.fstat(fd).st_ino == path.stat().st_ino:
            failed = 1
            return write(fd, data[: len(data) // 2])
        if failed == 1 and os.fstat(fd).st_ino == path.stat().st_ino:
            failed = 2
            raise OSError(28, "No space left on device")
        return write(fd, data)

    async with opened(JsonLinesSink(path)) as one:
        await feed(one, [alert(number) for number in range(10)])
        monkeypatch.setattr(os, "write", half)
        out = await feed(one, [alert(number) for number in range(10, 20)])
        one._looked_at = -1
        await one.flush(out)
        assert failed == 2
        assert one.broken is None
        assert len(path.read_bytes().splitlines()) == 20
