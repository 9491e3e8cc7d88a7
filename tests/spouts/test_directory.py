"""`Directory`: which files are read, in which order and how far; their names, options, and what goes wrong."""

import asyncio
import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from directory_kit import WAIT_S, DirectorySubject, names_in, opened, place, read_all, texts

from spouts.directory.progress import EPOCHS_MAX
from spouts.directory.spout import Directory
from spouts.payload.formats import Json, Msgpack
from topology.dead_letters import Malformed
from topology.errors import ConfigurationError, NotYet
from topology.records import Record
from topology.testing.sources import SOURCE_CHECKS, SourceItem, check_source
from topology.testing.sources.driver import DrivenSource, Memory

SHM = next((path for path in ("/dev/shm",) if Path(path).is_dir()), None)


class From(Record):
    n: int
    file: str


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    made.mkdir()
    return made


@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_the_source_keeps_the_contract(check: str, folder: Path) -> None:
    assert not check_source(check, DirectorySubject(str(folder)))


# -- which files, and their lines


async def test_files_are_read_in_the_order_of_their_names_and_lines_have_their_offsets(folder: Path) -> None:
    place(folder / "b.log", b"b1\r\nb2")
    place(folder / "a.log", b"a1\n\na3\n")
    source = await read_all(Directory(folder / "*.log"))
    assert texts(source) == ["a1", "", "a3", "b1", "b2"]
    assert [(message.partition.split("@")[0], message.id) for message in source.messages] == [
        *(("a.log", offset) for offset in (0, 3, 4)),
        *(("b.log", offset) for offset in (0, 4)),
    ]


async def test_packed_files_have_the_offsets_of_their_unpacked_content(folder: Path) -> None:
    lines = [f"line {number} " + "x" * (number % 50) for number in range(20_000)]
    place(folder / "a.log.gz", "".join(f"{line}\n" for line in lines).encode())
    source = await read_all(Directory(folder / "*"))
    assert texts(source) == lines
    ids = [message.id for message in source.messages]
    assert ids == [sum(len(line) + 1 for line in lines[:at]) for at in (0, 1, 2)] + ids[3:]
    assert ids == sorted({*ids})


async def test_a_glob_goes_into_folders_and_leaves_hidden_files_out(folder: Path) -> None:
    for name in ("one.log", "x/two.log", "x/y/three.log", ".hidden.log", "x/.part.log", ".git/four.log", "other.txt"):
        place(folder / name, name.encode())
    (folder / "folder.log").mkdir()
    (folder / "linked.log").symlink_to(folder / "other.txt")
    (folder / "broken.log").symlink_to(folder / "none")
    os.mkfifo(folder / "fifo.log")
    source = await read_all(Directory(folder / "**" / "*.log"))
    assert texts(source) == ["other.txt", "one.log", "x/two.log", "x/y/three.log"]
    assert [message.partition.split("@")[0] for message in source.messages] == [
        "linked.log",
        "one.log",
        "x/two.log",
        "x/y/three.log",
    ]


async def test_a_pattern_may_be_one_file_and_may_have_a_bracket_in_its_path(tmp_path: Path) -> None:
    place(tmp_path / "[a]" / "x.log", b"text\n")
    assert texts(await read_all(Directory(tmp_path / "[[]a]" / "*.log"))) == ["text"]
    assert texts(await read_all(Directory(tmp_path / "[[]a]" / "x.log"))) == ["text"]


async def test_names_that_are_no_utf8_are_read_and_stay_apart(folder: Path) -> None:
    for name in (b"a\xff.log", b"a\xfe.log", "ä\n.log".encode()):
        place(folder / os.fsdecode(name), b"x\n")
    source = await read_all(Directory(folder / "*.log"))
    assert len({message.partition for message in source.messages}) == 3
    assert all(message.partition.encode() for message in source.messages)


async def test_json_lines_become_records_that_know_their_file(folder: Path) -> None:
    place(folder / "x" / "a.json", b'{"n": 1}\n\n{"n": "x"}\n{"n": 3}')
    source = await read_all(Directory(folder / "*" / "*.json", value=Json(From, fields={"file": "file"})))
    first, bad, last = (message.record for message in source.messages)
    assert (first, last) == (From(1, "x/a.json"), From(3, "x/a.json"))
    assert type(bad) is Malformed
    assert bad.attributes == (("file", "x/a.json"),)


async def test_a_long_line_comes_in_pieces_or_is_malformed(folder: Path) -> None:
    place(folder / "a", b"0123456789abcdef\nx\n")
    assert texts(await read_all(Directory(folder / "*", max_line_bytes=10))) == ["0123456789", "abcdef", "x"]
    source = await read_all(Directory(folder / "*", value=SourceItem, max_line_bytes=10))
    assert source.messages[0].record.data == b"0123456789"
    assert "max_line_bytes" in source.messages[0].record.error


async def test_empty_files_and_an_empty_folder_give_nothing_and_end(folder: Path) -> None:
    assert not (await read_all(Directory(folder / "*"))).messages
    place(folder / "empty", b"")
    place(folder / "empty.gz", b"")
    place(folder / "z", b"\n\n")
    assert not (await read_all(Directory(folder / "*", value=SourceItem, after="delete"))).messages
    assert names_in(folder) == []


async def test_a_file_that_comes_while_others_are_read_is_read_too(folder: Path) -> None:
    place(folder / "b", b"b\n")
    async with opened(Directory(folder / "*")) as source:
        await source.take(1, WAIT_S)
        place(folder / "a", b"a\n")
        await source.take(100, WAIT_S)
        assert source.ended
    assert texts(source) == ["b", "a"]


# -- complete files


async def test_a_file_that_is_being_written_is_read_once_it_is_quiet(folder: Path) -> None:
    spout = Directory(folder / "*", follow=True, quiet_s=1.0, poll_interval_s=0.05)
    async with opened(spout) as source:
        with (folder / "a").open("w") as file:
            for number in range(8):
                file.write(f"{number}\n")
                file.flush()
                await source.rest(0.2)
                assert not source.messages, "it is not complete"
        await source.take(8, WAIT_S)
        assert texts(source) == [str(number) for number in range(8)]
        assert not await source.rest() or len(source.messages) == 8


async def test_an_old_file_need_not_be_watched(folder: Path) -> None:
    place(folder / "a", b"a\n")
    os.utime(folder / "a", (1e9, 1e9))
    async with opened(Directory(folder / "*", follow=True, quiet_s=3600.0)) as source:
        assert await source.take(1, 10.0)


async def test_a_file_that_changes_after_it_was_read_is_another_file(folder: Path) -> None:
    place(folder / "a", b"1\n2\n")
    async with opened(Directory(folder / "*", follow=True, quiet_s=0, poll_interval_s=0.02)) as source:
        await source.take(2, WAIT_S)
        with (folder / "a").open("a") as file:
            file.write("3\n")
        await source.take(5, WAIT_S)
        assert texts(source) == ["1", "2", "1", "2", "3"]
        assert len({message.partition for message in source.messages}) == 2


async def test_a_file_that_changes_while_it_is_read_comes_again_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = b"".join(b"%07d\n" % number for number in range(100_000))
    path = place(folder / "a", content)
    async with opened(Directory(folder / "*", follow=True, quiet_s=0, poll_interval_s=0.02)) as source:
        await source.take(10, WAIT_S)
        with path.open("ab") as file:
            file.write(b"more\n")
        await source.take(200_001, WAIT_S)
    first, second = dict.fromkeys(message.partition for message in source.messages)
    assert [m.record.text for m in source.messages if m.partition == first] == content.decode().splitlines()
    assert [m.record.text for m in source.messages if m.partition == second] == [*content.decode().splitlines(), "more"]
    assert "has changed while it was read, and is read again from its start" in caplog.text


async def test_a_file_that_is_cut_while_it_is_read_loses_only_what_is_gone(folder: Path) -> None:
    path = place(folder / "a", b"".join(b"%07d\n" % number for number in range(100_000)))
    async with opened(Directory(folder / "*", follow=True, quiet_s=0, poll_interval_s=0.02)) as source:
        await source.take(10, WAIT_S)
        path.write_bytes(b"short\n")
        await source.rest()
    assert texts(source)[-1] == "short"


async def test_another_file_of_the_same_name_is_another_partition_also_after_a_restart(folder: Path) -> None:
    memory = Memory()
    place(folder / "a", b"same\n")
    await read_all(Directory(folder / "*"), memory)
    place(folder / "a", b"same\n")
    source = await read_all(Directory(folder / "*"), memory)
    assert texts(source) == ["same"]
    assert len(memory.given) == 2


# -- resuming


@pytest.mark.parametrize("ending", ["", ".gz"])
async def test_a_file_resumes_at_its_first_line_that_is_not_done(folder: Path, ending: str) -> None:
    lines = [f"line {number}" for number in range(50_000)]
    place(folder / f"a{ending}", "".join(f"{line}\n" for line in lines).encode())
    memory = Memory()
    async with opened(Directory(folder / "*"), memory) as source:
        await source.take(30_000, WAIT_S)
        await source.settle(source.messages[:20_000])
    async with opened(Directory(folder / "*"), memory) as again:
        await again.poll()
        assert again.messages[0].record.text == "line 20000", "it begins there, and not at the file's start"
        await again.rest()
    assert texts(again) == lines[20_000:]
    assert again.repeated == 0
    assert {m.partition for m in again.messages} == {m.partition for m in source.messages}


async def test_files_that_are_done_are_not_opened_again(folder: Path) -> None:
    memory = Memory()
    for number in range(20):
        place(folder / f"{number}", b"1\n2\n")
    assert len((await read_all(Directory(folder / "*"), memory)).messages) == 40
    place(folder / "new", b"new\n")
    again = await read_all(Directory(folder / "*"), memory)
    assert texts(again) == ["new"]
    assert again.repeated == 0
    assert next(iter(again.spout.summary()), "").startswith("1 file ") or not [*again.spout.summary()]


async def test_files_that_are_not_done_come_again_and_again_under_the_same_names(folder: Path) -> None:
    memory = Memory()
    for number in range(10):
        place(folder / f"{number}", b"1\n2\n3\n")
    seen = [
        [(m.partition, m.id) for m in (await read_all(Directory(folder / "*"), memory, settles=False)).messages]
        for _ in range(3)
    ]
    assert seen[0] == seen[1] == seen[2]
    assert len({*seen[0]}) == 30


async def test_any_interruption_gives_each_line_once_and_always_by_its_name(folder: Path) -> None:
    chance = random.Random(4711)
    memory, lines, files = Memory(), dict[tuple[str, object], str](), 0
    wanted: set[str] = set()
    for _ in range(25):
        for _ in range(chance.randrange(4)):
            files += 1
            content = [f"{files} {number}" for number in range(chance.randrange(40))]
            wanted.update(content)
            name = f"{chance.randrange(10**6)}{chance.choice(['', '.gz'])}"
            place(folder / name, "".join(f"{line}\n" for line in content).encode())
        async with opened(Directory(folder / "*", follow=True, quiet_s=0, poll_interval_s=0.01), memory) as source:
            for _ in range(chance.randrange(12)):
                polling = asyncio.ensure_future(source.poll(chance.randrange(1, 30)))
                await asyncio.wait((polling,), timeout=chance.choice([0, 0.005, 0.05]))
                polling.cancel()
                await asyncio.wait((polling,))
                if source.messages:
                    await source.settle(chance.sample(source.messages, chance.randrange(len(source.messages) + 1)))
            for message in source.messages:
                assert lines.setdefault((message.partition, message.id), message.record.text) == message.record.text
    last = await read_all(Directory(folder / "*"), memory)
    for message in last.messages:
        assert lines.setdefault((message.partition, message.id), message.record.text) == message.record.text
    assert sorted(lines.values()) == sorted(wanted)
    assert {*memory.done} == {*lines}


# -- tasks, and bounds


async def test_each_file_belongs_to_one_task_whichever_number_there_is(folder: Path) -> None:
    for number in range(60):
        place(folder / f"{number}.log", f"{number} a\n{number} b\n".encode())
    found = []
    for index in range(3):
        async with opened(Directory(folder / "*.log"), None, 3, index) as source:
            await source.take(1_000, WAIT_S)
        assert source.messages, "each task has some"
        found += texts(source)
    assert sorted(found) == sorted(f"{number} {part}" for number in range(60) for part in "ab")


async def test_partitions_stay_few_however_many_files_there_are(folder: Path) -> None:
    for number in range(300):
        place(folder / f"{number}", b"x\n")
    async with opened(Directory(folder / "*")) as source:
        while not source.ended:
            await source.poll()
            assert len(source.spout.partitions()) <= EPOCHS_MAX
            assert source.spout.partitions() is source.spout.partitions()
    assert len(source.messages) == 300


async def test_one_file_is_open_at_a_time(folder: Path) -> None:
    for number in range(200):
        place(folder / f"{number}", b"x\n" * 10)
    async with opened(Directory(folder / "*")) as source:
        while not source.ended:
            await source.poll(3)
            links = [os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd") if is_open(each)]
            assert sum(link.startswith(str(folder)) and link != str(folder) for link in links) <= 1


def is_open(descriptor: str) -> bool:
    try:
        os.fstat(int(descriptor))
    except OSError:
        return False
    return True


# -- what goes wrong


async def test_a_damaged_packed_file_gives_what_can_be_unpacked_and_stays(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = b"".join(b"%d %d\n" % (number, random.Random(number).getrandbits(64)) for number in range(50_000))
    whole = place(folder / "a.gz", lines).read_bytes()
    (folder / "a.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "b.gz").write_bytes(b"not packed at all")
    place(folder / "c", b"last\n")
    source = await read_all(Directory(folder / "*", after="delete"))
    assert texts(source)[-1] == "last"
    assert texts(source)[:-1] == lines.decode().splitlines()[: len(source.messages) - 1]
    assert len(source.messages) > 10_000
    assert names_in(folder) == ["a.gz", "b.gz"]
    assert caplog.text.count("can't be unpacked") == 2


async def test_files_that_vanish_before_they_are_read_are_no_trouble(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(9):
        place(folder / f"{number}", b"x\n")
    async with opened(Directory(folder / "*")) as source:
        await source.poll()
        for number in range(3, 9):
            (folder / f"{number}").unlink()
        await source.take(100, WAIT_S)
    assert len(source.messages) == 3
    assert not caplog.records


async def test_a_file_that_cannot_be_read_is_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spouts.directory.spout.RETRY_S", 0.2)
    place(folder / "a", b"".join(b"%07d\n" % number for number in range(100_000)))
    place(folder / "b", b"other\n")
    pread, failing = os.pread, [False]

    def breaks(descriptor: int, size: int, offset: int) -> bytes:
        if failing[0] and offset > 300_000:
            raise OSError(5, "Input/output error")
        return pread(descriptor, size, offset)

    monkeypatch.setattr("spouts.directory.content.os.pread", breaks)
    failing[0] = True
    async with opened(Directory(folder / "*", follow=True, quiet_s=0, poll_interval_s=0.02)) as source:
        await source.rest(1.0)
        assert "other" in texts(source), "other files go on"
        failing[0] = False
        await source.take(100_001, WAIT_S)
    assert [text for text in texts(source) if text != "other"] == [f"{number:07}" for number in range(100_000)]
    assert caplog.text.count("Input/output error") == 1
    assert len({message.partition for message in source.messages}) == 2


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Directory(""), "pattern is a glob"),
        (lambda: Directory("a\0b"), "pattern is a glob"),
        (lambda: Directory("*", quiet_s=-1), "quiet_s is a number of seconds of at least 0"),
        (lambda: Directory("*", poll_interval_s=0), "poll_interval_s is a number of seconds above 0"),
        (lambda: Directory("*", after="keep"), 'after is None, "delete" or "move:FOLDER"'),
        (lambda: Directory("*", after="move:"), 'after is None, "delete" or "move:FOLDER"'),
        (lambda: Directory("*", max_line_bytes=-1), "max_line_bytes is a number of bytes"),
        (lambda: Directory("*", value=Json(From, id="n")), "leave out id"),
        (lambda: Directory("*", value=Msgpack(From)), "use JSON"),
        (lambda: Directory("*", value=Json(From, fields={"file": "peer"})), "there is file"),
    ],
)
def test_a_wrong_argument_is_one_sentence(make: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        make()
    assert str(caught.value).startswith("Directory: ")
    assert len(str(caught.value).splitlines()) == 1


async def test_folders_that_cannot_be_used_are_one_sentence(tmp_path: Path, folder: Path) -> None:
    async def said(spout: Any, kind: type[Exception] = ConfigurationError) -> str:
        with pytest.raises(kind) as caught:
            await DrivenSource(spout, Memory()).open()
        return str(caught.value).partition("\n  next:")[0]

    missing = tmp_path / "none" / "*"
    assert await said(Directory(missing)) == (
        f"Directory: the folder '{tmp_path}/none' can't be read: No such file or directory"
    )
    assert (await said(Directory(missing, follow=True), NotYet)).endswith("No such file or directory")
    assert await said(Directory(folder)) == f"Directory: '{folder}' is a folder; name its files, as by '{folder}/*'"
    (tmp_path / "file").write_text("")
    assert "can't be used" in await said(Directory(folder / "*", after=f"move:{tmp_path / 'file'}"))
    if SHM is not None and os.stat(SHM).st_dev != os.stat(folder).st_dev:
        assert "another file system" in await said(Directory(folder / "*", after=f"move:{SHM}"))


@pytest.fixture(autouse=True)
def _no_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
