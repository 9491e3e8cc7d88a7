"""Damage of a store's files: a byte that has flipped, a tail that is torn. It is told, or what is read is what was
written at some commit (F21, F22)."""

from pathlib import Path
from random import Random

import pytest
from durable_kit import begun, laid_out, letter, made, mark, store, trial

from topology.errors import StartError
from topology.storage.sqlite.database import PAGE_BYTES
from topology.storage.sqlite.store import SqliteStore
from topology.storage.sqlite.wal import commits_passed_over
from topology.storage.store import StoreBroken
from topology.storage.values import Changes

SEED = 20260104
COMMITS = 6
Seen = tuple[object, ...]


def seen(one: SqliteStore) -> Seen:
    """All that it holds."""
    loaded = one.loaded
    return (loaded.marks, loaded.begun, loaded.trials, loaded.next_letter, tuple(one.letters()))


def changes(number: int) -> Changes:
    letters = [letter(f"0-{number}", record=bytes([number]) * 6_000)]
    gone = [f"0-{number - 3}"] if number > 3 else []
    marks = [mark(number), mark(f"n{number}", partition=f"q{number}")]
    return Changes(marks=marks, begun=[begun()], trials=[trial(number)], letters=letters, gone=gone)


@pytest.fixture
def history(tmp_path: Path) -> tuple[dict[str, bytes], dict[str, bytes], list[Seen]]:
    """The files of a store whose log is empty, those of one whose process was killed, and what it held at each commit
    of the latter, the oldest first."""
    directory = tmp_path / "whole"
    directory.mkdir()
    path = made(directory / "worker-0.db")
    held = []
    with store(path) as one:
        for number in range(1, COMMITS + 1):
            one.commit(changes(number))
        one._database.checkpoint()
    with store(path) as one:
        held.append(seen(one))
    emptied = {file.name: file.read_bytes() for file in directory.iterdir()}
    with store(path) as one:
        for number in range(COMMITS + 1, 2 * COMMITS + 1):
            one.commit(changes(number))
            one.reread()
            held.append(seen(one))
        killed = {file.name: file.read_bytes() for file in directory.iterdir()}
    return emptied, killed, held


def opened(directory: Path, files: dict[str, bytes]) -> Seen | None:
    """What a store with these files holds; None where it is refused as damaged. Refusing changes nothing."""
    laid_out(directory, files)
    told = ""
    try:
        with store(directory / "worker-0.db") as one:
            return seen(one)
    except StartError as error:
        told = str(error)
    assert "worker-0.db is damaged: " in told or "worker-0.db has format" in told
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == files
    return None


def flips(content: bytes, random: Random, each_page: int, *, log: bool = False) -> list[int]:
    """Offsets to flip a byte at: some of each page, those of the file's header, many of the headers in a log."""
    pages = range(0, len(content), PAGE_BYTES)
    some = [
        offset + random.randrange(min(PAGE_BYTES, len(content) - offset)) for offset in pages for _ in range(each_page)
    ]
    heads = (
        [offset + at for offset in range(32, len(content), 24 + PAGE_BYTES) for at in range(24)] if log else range(100)
    )
    return sorted({*some, *(offset for offset in heads if random.random() < (0.3 if log else 1.0))})


def test_a_flipped_byte_of_the_file_is_told_or_changes_nothing_F22(
    tmp_path: Path, history: tuple[dict[str, bytes], dict[str, bytes], list[Seen]]
) -> None:
    emptied, _, held = history
    print("seed", SEED)
    random, told = Random(SEED), 0
    content = emptied["worker-0.db"]
    offsets = flips(content, random, 20)
    for offset in offsets:
        damaged = bytearray(content)
        damaged[offset] ^= 1 << random.randrange(8)
        found = opened(tmp_path / f"at-{offset}", {**emptied, "worker-0.db": bytes(damaged)})
        assert found in (None, held[0]), f"byte {offset} has changed what is read"
        told += found is None
    assert told > len(offsets) // 3, "the bytes that matter"


def test_a_flipped_byte_of_the_log_is_told_or_costs_the_last_commit_at_most_F22(
    tmp_path: Path, history: tuple[dict[str, bytes], dict[str, bytes], list[Seen]]
) -> None:
    """One in the last commit can't be told from one that was torn."""
    _, killed, held = history
    print("seed", SEED)
    random, told = Random(SEED), 0
    content = killed["worker-0.db-wal"]
    offsets = flips(content, random, 1, log=True)
    for offset in offsets:
        damaged = bytearray(content)
        damaged[offset] ^= 1 << random.randrange(8)
        found = opened(tmp_path / f"at-{offset}", {**killed, "worker-0.db-wal": bytes(damaged)})
        assert found in (None, *held[-2:]), f"byte {offset} has changed what is read"
        told += found is None
    assert told > len(offsets) // 3, "the bytes that matter"


def test_a_flipped_byte_in_what_says_that_a_commit_ends_is_told_F22(
    tmp_path: Path, history: tuple[dict[str, bytes], dict[str, bytes], list[Seen]]
) -> None:
    """The last commit but one, whose end is not seen to be one any more, does not hide behind the last."""
    _, killed, _ = history
    log = killed["worker-0.db-wal"]
    ends = [at for at in range(32, len(log), 24 + PAGE_BYTES) if any(log[at + 4 : at + 8])]
    for byte in range(24):
        for value in (0x00, 0x01, 0xFF):
            damaged = bytearray(log)
            damaged[ends[-2] + byte] ^= value or damaged[ends[-2] + byte] or 0x80
            found = opened(tmp_path / f"{byte}-{value}", {**killed, "worker-0.db-wal": bytes(damaged)})
            assert found is None, f"byte {byte} of the frame's header"


def test_a_torn_log_is_what_was_there_at_some_commit_wherever_it_is_torn_F21(
    tmp_path: Path, history: tuple[dict[str, bytes], dict[str, bytes], list[Seen]]
) -> None:
    _, killed, held = history
    print("seed", SEED)
    content = killed["worker-0.db-wal"]
    random = Random(SEED)
    ends = sorted({0, 1, 31, 32, 33, 56, *(random.randrange(len(content)) for _ in range(150)), len(content)})
    counts = []
    for end in ends:
        found = opened(tmp_path / f"at-{end}", {**killed, "worker-0.db-wal": content[:end]})
        assert found is not None
        counts.append(held.index(found))
    assert counts == sorted(counts)
    assert {*counts} == {*range(len(held))}


def test_a_tail_that_was_never_written_is_no_damage_F21(
    tmp_path: Path, history: tuple[dict[str, bytes], dict[str, bytes], list[Seen]]
) -> None:
    """A file system may have made the file longer, and lost what was written into it: of the last commit alone."""
    _, killed, held = history
    content = killed["worker-0.db-wal"]
    frames = range(32, len(content), 24 + PAGE_BYTES)
    last = [at for at in frames if int.from_bytes(content[at + 4 : at + 8], "big")][-2] + 24 + PAGE_BYTES
    print("seed", SEED)
    random = Random(SEED)
    for number in range(40):
        torn = bytearray(content)
        for sector in range(last // 512 + 1, len(content) // 512 + 1):
            if random.random() < 0.5:
                torn[sector * 512 : (sector + 1) * 512] = bytes(len(torn[sector * 512 : (sector + 1) * 512]))
        found = opened(tmp_path / f"torn-{number}", {**killed, "worker-0.db-wal": bytes(torn)})
        assert found in held[-2:]


def test_rows_that_are_whole_but_not_those_that_were_written_are_told_F22(tmp_path: Path) -> None:
    path = made(tmp_path / "worker-0.db")
    with store(path) as one:
        one.commit(changes(1))
        one.commit(changes(2))
    for number, sql in enumerate(
        (
            "DELETE FROM marks WHERE number = (SELECT max(number) FROM marks)",
            "DELETE FROM letters",
            "UPDATE marks SET key = (SELECT key FROM marks ORDER BY number DESC), number = 999 WHERE number = 1",
            "UPDATE trials SET body = x'00'",
            "UPDATE own SET body = x'90'",
            "DELETE FROM own",
            "DROP TABLE trials",
        )
    ):
        files = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
        directory = laid_out(tmp_path / f"changed-{number}", files)
        with store(directory / "worker-0.db") as one:
            with one._database.transaction() as database:
                database.run(sql)
            one._database.checkpoint()
        with pytest.raises(StartError, match="is damaged: "), store(directory / "worker-0.db"):
            pass


def test_a_flipped_byte_of_a_prepared_checkpoint_is_told_or_changes_nothing_F22(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    path = made(tmp_path / "whole" / "worker-0.db")
    with store(path) as one:
        one.prepare(1, changes(1))
        one._database.checkpoint()
    with store(path) as one:
        one.resolve(1)
        expected = seen(one)
        one.prepare(2, changes(2))
        one._database.checkpoint()
        files = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    assert expected[0] == (mark(1), mark("n1", partition="q1"))
    with store(path) as one:
        one.resolve(2)
        after = seen(one)
    print("seed", SEED)
    random, told = Random(SEED), 0
    offsets = flips(files["worker-0.db"], random, 20)
    for offset in offsets:
        damaged = bytearray(files["worker-0.db"])
        damaged[offset] ^= 1 << random.randrange(8)
        directory = laid_out(tmp_path / f"at-{offset}", {**files, "worker-0.db": bytes(damaged)})
        try:
            with store(directory / "worker-0.db") as one:
                assert seen(one) == expected
                one.resolve(2)
                assert seen(one) == after, f"byte {offset} has changed what is read"
        except (StartError, StoreBroken):
            told += 1
    assert told > len(offsets) // 3, "the bytes that matter"


def test_a_log_that_is_no_log_is_looked_through_without_an_error() -> None:
    random = Random(SEED)
    for length in (0, 1, 31, 32, 55, 56, 57, 4_000, 9_000):
        for _ in range(20):
            assert commits_passed_over(random.randbytes(length)) <= 1
        assert commits_passed_over(bytes(length * 9)) == 0
