"""FileTail and the lines: ends, halves, bytes that are no text, long lines (F50); and what is no file to read (S5)."""

import asyncio
import os
import tempfile
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from source_kit import Reading, make_task

from spouts import FileTail, Line, first_mtime
from topology.errors import ConfigurationError, StartError
from topology.storage.directory.state_dir import MemoryNotes

REAL_LOG = Path(__file__).parents[2] / "../shared/data/loghub/OpenSSH_2k.log"


async def read(path: Path, limit: int = 128, **options: Any) -> Reading:
    reading = Reading(FileTail(path, **options), limit=limit)
    await reading.to_the_end()
    reading.close()
    return reading


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [(0, "")]),
        (b"a\nb\n", [(0, "a"), (2, "b")]),
        (b"a\r\nb\r\n", [(0, "a"), (3, "b")]),
        (b"a\r\r\n\r\n", [(0, "a\r"), (4, "")]),
        (b"a\rb\n", [(0, "a\rb")]),
        (b"a\nb", [(0, "a"), (2, "b")]),
        (b"a\nb\r", [(0, "a"), (2, "b\r")]),
        (b"a\x00b\n\x00\n", [(0, "a\x00b"), (4, "\x00")]),
        ("é\nß\r\n\u2028x\x85y\n".encode(), [(0, "é"), (3, "ß"), (7, "\u2028x\x85y")]),
        (b"a\x0bb\x0cc\x1cd\n", [(0, "a\x0bb\x0cc\x1cd")]),
    ],
)
async def test_a_line_ends_at_lf_or_crlf_and_its_id_is_the_offset_of_its_start(
    tmp_path: Path, content: bytes, expected: list[tuple[int, str]]
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(content)
    reading = await read(path)
    assert [(one.id, one.record.text) for one in reading.emitted] == expected
    assert all(one.record.raw is None for one in reading.emitted)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"caf\xe9", b"\xed\xa0\x80", b"\xc0\x80", b"a\xffb\x00"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
async def test_bytes_that_are_not_utf8_are_kept_beside_a_readable_text(
    tmp_path: Path, content: bytes, end: bytes
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"before\n" + content + end)
    reading = await read(path)
    assert [one.record for one in reading.emitted] == [
        Line("before"),
        Line(content.decode("utf-8", "replace"), content),
    ]


def oracle(content: bytes) -> list[tuple[int, bytes]]:
    """(offset, bytes) of each line, by another way than the shipped one."""
    lines, offset = [], 0
    for line in content.splitlines(keepends=True) if b"\r" not in content else _lines_with_cr(content):
        text = line[:-2] if line.endswith(b"\r\n") else line[:-1] if line.endswith(b"\n") else line
        lines.append((offset, text))
        offset += len(line)
    return lines


def _lines_with_cr(content: bytes) -> list[bytes]:
    pieces = [piece + b"\n" for piece in content.split(b"\n")]
    pieces[-1] = pieces[-1][:-1]
    return pieces if pieces[-1] else pieces[:-1]


FRAGMENTS = st.sampled_from([b"\n", b"\r\n", b"\r", b"\x00", b"a", b"bc", "é".encode(), "\U0001f30d".encode(), b"\xff"])
CONTENTS = st.lists(FRAGMENTS, max_size=60).map(b"".join)


def original(record: Line) -> bytes:
    return record.raw if record.raw is not None else record.text.encode()


@settings(deadline=None)  # each example writes a file
@given(content=CONTENTS, block_bytes=st.integers(1, 40), limit=st.integers(1, 9))
@example(content=b"a\r\nb", block_bytes=1, limit=1)
def test_whatever_the_bytes_and_wherever_the_blocks_end_the_lines_are_the_file_s(
    content: bytes, block_bytes: int, limit: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.log"
        path.write_bytes(content)
        reading = asyncio.run(read(path, limit, block_bytes=block_bytes))
    assert [(one.id, original(one.record)) for one in reading.emitted] == oracle(content)


@settings(deadline=None)  # each example writes a file
@given(content=CONTENTS, block_bytes=st.integers(1, 40), max_line_bytes=st.integers(1, 12))
@example(content=b"abcd\r\n", block_bytes=9, max_line_bytes=3)
@example(content=b"\r\r\r\r\r\r\r\n", block_bytes=9, max_line_bytes=2)
def test_lines_that_are_too_long_come_in_pieces_that_leave_nothing_out(
    content: bytes, block_bytes: int, max_line_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.log"
        path.write_bytes(content)
        reading = asyncio.run(read(path, block_bytes=block_bytes, max_line_bytes=max_line_bytes))
    end, ends = 0, []
    for one in reading.emitted:
        assert isinstance(one.id, int)
        ends.append(content[end : one.id])
        piece = original(one.record)
        assert len(piece) <= max_line_bytes + 1
        assert content[one.id : one.id + len(piece)] == piece
        end = one.id + len(piece)
    ends.append(content[end:])
    assert set(ends) <= {b"", b"\n", b"\r\n"}
    assert len(set(reading.pairs)) == len(reading.emitted)


async def test_pieces_of_a_long_line_are_cut_between_characters_and_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.log"
    path.write_text("x" + "é" * 100 + "\nshort\n" + "y" * 100 + "\n")
    reading = await read(path, max_line_bytes=16)
    assert all(one.record.raw is None for one in reading.emitted)
    assert "".join(reading.texts) == "x" + "é" * 100 + "short" + "y" * 100
    assert [one.getMessage() for one in caplog.records] == [
        f"{path} has a line of more than 16 bytes; such lines come in pieces"
    ]


async def test_a_line_of_any_length_takes_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.touch()
    os.truncate(path, 64 << 20)  # a hole: NULs, without a newline
    spout = FileTail(path)
    spout.open(make_task(), {})
    total = 0
    tracemalloc.start()
    while messages := await spout.poll(128):
        total += sum(len(message.record.text) for message in messages)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    spout.close()
    assert total == 64 << 20
    assert peak < 12 << 20


async def test_no_half_line_is_emitted_while_the_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"")
    reading = Reading(FileTail(path, follow=True, poll_interval_s=0.001))
    with path.open("ab", buffering=0) as writer:
        for number in range(20):
            for part in (b"li", b"ne ", "é".encode()[:1], "é".encode()[1:], str(number).encode(), b"\r"):
                writer.write(part)
                poll = asyncio.create_task(reading.poll())
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert not poll.done()
                poll.cancel()
                await asyncio.wait([poll])
            writer.write(b"\n")
            await reading.until(number + 1)
    assert reading.texts == [f"line é{number}" for number in range(20)]
    reading.close()


async def test_a_cancelled_poll_has_lost_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("line 0\n")
    reading = Reading(FileTail(path, follow=True, poll_interval_s=0.001))
    with path.open("a") as writer:
        for number in range(1, 100):
            await reading.until(number)
            poll = asyncio.create_task(reading.poll())
            for _ in range(number % 4):
                await asyncio.sleep(0)
            poll.cancel()
            await asyncio.wait([poll])
            writer.write(f"line {number}\n")
            writer.flush()
    await reading.until(100)
    assert reading.texts == [f"line {number}" for number in range(100)]
    reading.close()


async def test_an_empty_file_that_is_followed_waits_for_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.touch()
    reading = Reading(FileTail(path, follow=True, poll_interval_s=0.001))
    poll = asyncio.create_task(reading.poll())
    await asyncio.sleep(0)
    assert not poll.done()
    path.write_text("here\n")
    await asyncio.wait_for(poll, 10)
    assert reading.texts == ["here"]
    reading.close()


@pytest.mark.skipif(not REAL_LOG.exists(), reason="the real sshd log is not beside the repository")
async def test_a_real_log_with_crlf_ends_comes_line_by_line() -> None:
    content = REAL_LOG.read_bytes()
    reading = await read(REAL_LOG)
    assert content.count(b"\r\n") >= 1_999
    assert reading.texts == content.decode().removesuffix("\r\n").split("\r\n")


# -- what is no file to read


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("fifo", "it is a FIFO, and only regular files are"),
        ("directory", "it is a directory, and only regular files are"),
        ("device", "it is a device, and only regular files are"),
        ("link to a fifo", "it is a FIFO, and only regular files are"),
        ("below a file", "Not a directory"),
        ("name with a NUL", "embedded null byte"),
    ],
)
@pytest.mark.parametrize("follows", [True, False])
async def test_only_regular_files_are_read_and_the_refusal_is_one_sentence_with_the_path(
    tmp_path: Path, kind: str, reason: str, follows: bool
) -> None:
    path = tmp_path / "a.log"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "device":
            path = Path("/dev/zero")
        case "link to a fifo":
            os.mkfifo(tmp_path / "pipe")
            path.symlink_to(tmp_path / "pipe")
        case "below a file":
            path.touch()
            path = path / "b.log"
        case "name with a NUL":
            path = tmp_path / "a\x00.log"
    spout = FileTail(path, follow=follows)
    with pytest.raises(ConfigurationError) as caught:
        spout.open(make_task(), {})
    assert str(caught.value) == f"the file {str(path)!r} can't be read: {reason}"
    spout.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.touch(mode=0)
    with pytest.raises(ConfigurationError, match="can't be read: Permission denied"):
        FileTail(path).open(make_task(), {})


async def test_several_tasks_senseless_numbers_positions_and_damaged_notes_are_refused(tmp_path: Path) -> None:
    path, notes = tmp_path / "a.log", MemoryNotes()
    path.write_text("a\n")
    with pytest.raises(ConfigurationError, match="'lines' reads one file, so it has one task, not 2"):
        FileTail(path).open(make_task(tasks=2), {})
    for option in ("max_line_bytes", "block_bytes", "poll_interval_s", "rotated_wait_s"):
        with pytest.raises(ConfigurationError, match=f"{option} is above 0"):
            FileTail(path, **{option: 0})  # type: ignore[arg-type]
    reading = Reading(FileTail(path), make_task(notes))
    (only,) = await reading.to_the_end()
    reading.close()
    with pytest.raises(ConfigurationError, match="a byte offset, not '0'"):
        FileTail(path).open(make_task(notes), {only.partition: "0"})
    notes.set("files of lines", "[[1, 2]]")
    with pytest.raises(StartError, match="damaged"):
        FileTail(path).open(make_task(notes), {})


async def test_a_refused_open_leaves_no_file_open(tmp_path: Path) -> None:
    path, notes = tmp_path / "a.log", MemoryNotes()
    path.write_text("a\n")
    notes.set("files of lines", "nonsense")
    before = os.listdir("/proc/self/fd")
    with pytest.raises(StartError):
        FileTail(path).open(make_task(notes), {})
    assert len(os.listdir("/proc/self/fd")) == len(before)


# -- the time of a log without years


def test_the_first_mtime_stays_what_it_was_when_first_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, notes = tmp_path / "a.log", MemoryNotes()
    path.touch()
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    expected = datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert first_mtime(path, notes) == expected
    os.utime(path, (0, 0))
    monkeypatch.chdir(tmp_path)
    assert first_mtime("a.log", notes) == expected
    path.unlink()
    assert first_mtime(str(path), notes) == expected
    assert first_mtime(path.parent, notes) != expected


def test_the_first_mtime_of_a_missing_file_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"the file '.*a\.log' can't be read: No such file or directory"):
        first_mtime(tmp_path / "a.log", MemoryNotes())
