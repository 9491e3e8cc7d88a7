"""What only `JsonLinesSink` promises: lines that hold their key (C7), recovery from what a crash leaves (F21, F22)."""

# ruff: noqa: ASYNC240  # tests look at files on the loop: nothing else runs on it

import errno
import json
import os
import random
from pathlib import Path

import pytest
from sink_kit import Recorder, Sample, alert, feed, json_rows, opened, stored, tup, until

from bolts import JsonLinesSink
from bolts.sinks import jsonlines
from topology.errors import ConfigurationError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alerts.jsonl"


async def made(path: Path, count: int = 3) -> bytes:
    """A file of that many alerts; its bytes."""
    await stored(JsonLinesSink(path), [alert(n) for n in range(1, count + 1)])
    return path.read_bytes()


async def test_a_line_is_an_object_with_key_record_and_fields_in_order(path: Path) -> None:
    await stored(JsonLinesSink(path), [tup(Sample("größe", 0.5), 1)])
    (line,) = path.read_text().splitlines()
    assert list(json.loads(line)) == ["key", "record", "name", "value"]
    assert line.startswith('{"key":"00000000000000030000000000001ef0')
    assert line.endswith('","record":"Sample","name":"größe","value":0.5}')


async def test_f21_a_tail_torn_at_any_byte_is_cut_off_and_its_record_stored_again(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = await made(path)
    second = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    for cut in range(second, len(whole)):
        path.write_bytes(whole[:cut])
        caplog.clear()
        async with opened(JsonLinesSink(path)) as sink:
            assert path.read_bytes() == whole[:second]
            out = await feed(sink, [alert(3), alert(2), alert(1)])
            assert len(out.acked) == 3
            assert sink.duplicates == 2
        assert path.read_bytes() == whole
        assert (f"torn tail of {cut - second} bytes" in caplog.text) == (cut > second)


async def test_f21_a_torn_first_line_is_cut_off(path: Path) -> None:
    whole = await made(path, 1)
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        await stored(JsonLinesSink(path), [alert(1)])
        assert path.read_bytes() == whole


async def test_f20_zeros_that_a_power_loss_leaves_in_the_tail_are_cut_off(path: Path) -> None:
    whole = await made(path)
    for tail in (b"\0" * 5000, b'{"key":"12\0\0\0\0"}\n', b"\0\0\n\0\0\n\0"):
        path.write_bytes(whole + tail)
        async with opened(JsonLinesSink(path)):
            assert path.read_bytes() == whole


async def test_f22_a_flipped_byte_in_any_stored_line_is_found_and_nothing_is_changed(path: Path) -> None:
    whole = await made(path, 4)
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    for _ in range(150):
        lines = whole.splitlines(keepends=True)
        number = choose.randrange(3)
        # beyond the 32 digits of origin and identity, which nothing checks: a hash is over the content
        at = choose.choice([*range(0, 8), *range(40, len(lines[number]))])
        damaged = bytearray(lines[number])
        damaged[at] ^= 1 << choose.randrange(7)
        lines[number] = bytes(damaged)
        data = b"".join(lines)
        path.write_bytes(data)
        with pytest.raises(ConfigurationError, match=r"line \d of .* does not match its key"):
            async with opened(JsonLinesSink(path)):
                pass
        assert path.read_bytes() == data


@pytest.mark.parametrize("text", ["my notes", "my notes\n", "{}\n", '{"a":1}', '{"key":"mine"}', "\n", '{"key":"00'])
async def test_somebody_elses_file_is_refused_and_left_as_it_was(path: Path, text: str) -> None:
    path.write_text(text)
    if text == '{"key":"00':  # what a crash leaves of our first line
        await stored(JsonLinesSink(path), [])
        assert path.read_text() == ""
        return
    with pytest.raises(ConfigurationError, match="line 1 of"):
        async with opened(JsonLinesSink(path)):
            pass
    assert path.read_text() == text


async def test_an_empty_file_is_a_beginning(path: Path) -> None:
    path.touch()
    await stored(JsonLinesSink(path), [alert(1)])
    assert len(json_rows(path)) == 1


@pytest.mark.parametrize("change", ["append", "truncate"])
async def test_a_file_that_another_program_changes_meanwhile_is_left_alone(path: Path, change: str) -> None:
    async with opened(JsonLinesSink(path)) as sink:
        await feed(sink, [alert(1)])
        if change == "append":
            with path.open("a") as other:
                other.write("mine\n")
        else:
            os.truncate(path, 0)
        before = path.read_bytes()
        out = Recorder()
        sink.execute(alert(2), out)
        await until(lambda: "another program changed it" in sink.away)
        assert path.read_bytes() == before
    assert not out.acked


@pytest.mark.parametrize("change", ["removed", "replaced"])
async def test_a_file_that_loses_its_name_while_it_is_opened_gets_no_line(
    path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would read it; what stands under the name then is the sink's file."""
    sync, other = jsonlines.sync_folder, b"" if change == "replaced" else None

    def late(folder: Path) -> None:
        sync(folder)
        monkeypatch.undo()
        path.unlink()
        if other is not None:
            path.write_bytes(other)

    monkeypatch.setattr(jsonlines, "sync_folder", late)
    await stored(JsonLinesSink(path), [alert(1)])
    assert len(json_rows(path)) == 1


async def test_a_sink_whose_file_cannot_be_cut_lets_go_of_it_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    store = jsonlines.JsonLinesStore(str(path))
    store.open()
    store._clean = False
    monkeypatch.setattr(os, "ftruncate", fails)
    store.close()
    monkeypatch.undo()
    again = jsonlines.JsonLinesStore(str(path))
    again.open()
    again.close()


async def test_replays_alone_write_nothing(path: Path) -> None:
    whole = await made(path)
    status = path.stat()
    await stored(JsonLinesSink(path), [alert(n) for n in range(1, 4)])
    assert path.read_bytes() == whole
    assert path.stat().st_mtime_ns == status.st_mtime_ns
