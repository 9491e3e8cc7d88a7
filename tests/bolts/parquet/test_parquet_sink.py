"""`ParquetSink` on a disk: the suite that all sinks go through, files and their names, and what it refuses."""

# ruff: noqa: ASYNC240  # tests look at files on the loop: nothing else runs on it

import asyncio
import logging
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet_kit import LocalSubject, PartitionedSubject, dataset, files_of, rows_of, stored

from bolts.sinks.parquet import places
from bolts.sinks.parquet import sink as sink_module
from bolts.sinks.parquet.places import LocalPlace
from bolts.sinks.parquet.remembered import RememberedKeys
from bolts.sinks.parquet.sink import ParquetSink
from topology.errors import ConfigurationError
from topology.records import Record
from topology.secrets import Secret
from topology.testing.sinks import SINK_CHECKS, check_sink
from topology.testing.sinks.driver import (
    Answers,
    RecordedAnswers,
    delivery,
    feed,
    flush,
    give,
    item,
    opened,
    within,
)

WITHIN_S = 30.0  # on a busy machine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "items"


def items(*numbers: int) -> list[Any]:
    return [delivery(item(number)) for number in numbers]


@pytest.mark.parametrize("subject", [LocalSubject, PartitionedSubject])
@pytest.mark.parametrize("check", SINK_CHECKS)
def test_the_sink_keeps_the_contract(check: str, subject: type[LocalSubject], folder: Path) -> None:
    if left_out := check_sink(check, subject(str(folder))):
        assert "upsert" in left_out or "lost" in left_out or "one task" in left_out, left_out
        pytest.skip(left_out)


# -- files


async def test_a_file_is_full_or_its_time_is_over_or_the_input_has_ended(folder: Path) -> None:
    async with opened(ParquetSink(folder, rows_per_file=10, seconds_per_file=0.2)) as sink:
        out = RecordedAnswers()
        await give(sink, items(*range(1, 11)), out)
        assert await within(WITHIN_S, lambda: len(out.acked) == 10)
        assert [pq.ParquetFile(path).metadata.num_rows for path in files_of(folder)] == [10]
        started = time.monotonic()
        await give(sink, items(11, 12), out)
        assert await within(WITHIN_S, lambda: len(out.acked) == 12)
        assert time.monotonic() - started >= 0.19, "a lone row waits for more"
    async with opened(ParquetSink(folder, rows_per_file=10, seconds_per_file=60)) as sink:
        await feed(sink, items(13))
    assert [pq.ParquetFile(path).metadata.num_rows for path in files_of(folder)] == [10, 2, 1]


async def test_rows_beyond_a_full_file_wait_for_their_own_time(folder: Path) -> None:
    async with opened(ParquetSink(folder, rows_per_file=10, seconds_per_file=0.4)) as sink:
        out = RecordedAnswers()
        await give(sink, items(*range(1, 14)), out)
        assert await within(WITHIN_S, lambda: len(out.acked) == 10)
        await asyncio.sleep(0.1)
        assert len(out.acked) == 10
        assert await within(WITHIN_S, lambda: len(out.acked) == 13)


async def test_rows_that_wait_are_not_acked_and_fail_when_the_sink_closes(folder: Path) -> None:
    out = RecordedAnswers()
    async with opened(ParquetSink(folder, rows_per_file=10, seconds_per_file=60)) as sink:
        await give(sink, items(1, 2), out)
        await asyncio.sleep(0.1)
        assert (out.acked, files_of(folder)) == ([], [])
    assert [why for _, why in out.failed] == ["the sink was closed before this was stored"] * 2


async def test_inputs_that_wait_for_long_are_touched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_module, "TOUCH_S", 0.05)
    touched = []

    class Touched(Answers):
        def touch(self, tup: Any) -> None:
            touched.append(tup.record.number)

    async with opened(ParquetSink(folder, rows_per_file=10, seconds_per_file=60)) as sink:
        out = Touched()
        await give(sink, items(1, 2), out)
        assert await within(WITHIN_S, lambda: touched[:4] == [1, 2, 1, 2])
        await flush(sink, out)


async def test_a_file_has_typed_columns_the_key_and_checksums(folder: Path) -> None:
    await stored(ParquetSink(folder, compression="zstd"), items(*range(1, 101)))
    (path,) = files_of(folder)
    file = pq.ParquetFile(path, page_checksum_verification=True)
    names = ["number", "revision", "text", "value", "kedge_key"]
    assert file.schema_arrow.names == names
    assert [str(field.type) for field in file.schema_arrow] == [
        *("int64", "int64", "string", "double", "fixed_size_binary[24]")
    ]
    assert not any(field.nullable for field in file.schema_arrow)
    columns = [file.metadata.row_group(0).column(place) for place in range(5)]
    assert [column.compression for column in columns] == ["ZSTD"] * 4 + ["UNCOMPRESSED"]
    key = rows_of(folder)[0]["kedge_key"]
    assert key[:16] == (3).to_bytes(8, "big") + (7920).to_bytes(8, "big")
    assert file.schema_arrow.metadata[b"kedge.record"] == b"SinkItem"


@pytest.mark.parametrize("compression", ["snappy", "gzip", "lz4", "brotli", "none"])
async def test_files_are_compressed_as_asked(folder: Path, compression: str) -> None:
    await stored(ParquetSink(folder, compression=compression), items(1, 2))
    used = pq.ParquetFile(files_of(folder)[0]).metadata.row_group(0).column(0).compression
    assert used.lower() == {"none": "uncompressed"}.get(compression, compression)


async def test_names_sort_by_time_and_nothing_unfinished_is_left(folder: Path) -> None:
    for number in range(5):
        await stored(ParquetSink(folder), items(number))
    assert [row["number"] for row in rows_of(folder)] == [*range(5)]
    assert {path.suffix for path in folder.iterdir()} == {".parquet"}


# -- partitions


class Visit(Record):
    country: str | None
    year: int
    text: str


def visits(*places: tuple[str | None, int]) -> list[Any]:
    return [delivery(Visit(*place, f"visit {number}"), message=number) for number, place in enumerate(places)]


async def test_fields_name_folders_that_readers_know(folder: Path) -> None:
    given: list[tuple[str | None, int]] = [("NO", 2025), ("SE", 2026), ("NO", 2026), (None, 2026), ("a/b=c%å ", 2026)]
    for _ in range(2):
        out = await stored(ParquetSink(folder, partition_by=("country", "year")), visits(*given))
        assert len(out.acked) == 5
    assert len(files_of(folder)) == 5, "a replay is known, in each folder"
    table = dataset(folder, partitioning="hive").to_pylist()
    found = sorted((row["text"], row["country"], row["year"]) for row in table)
    assert found == [(f"visit {n}", country, year) for n, (country, year) in enumerate(given)]
    assert (folder / "country=NO" / "year=2025").is_dir()


async def test_a_function_names_folders_and_fields_stay(folder: Path) -> None:
    def by(visit: Visit) -> str:
        return f"decade={visit.year // 10 * 10}/{visit.country}"

    await stored(ParquetSink(folder, partition_by=by), visits(("NO", 2019), ("SE", 2026)))
    names = [path.relative_to(folder).parent.as_posix() for path in files_of(folder)]
    assert sorted(names) == ["decade=2010/NO", "decade=2020/SE"]
    assert [row["year"] for row in rows_of(folder)] == [2019, 2026]


@pytest.mark.parametrize(
    "made", ["", "/etc", "../up", "a//b", "a/../../b", ".hidden", "_x", "a\\b", "a\0b", "x" * 300, 7]
)
async def test_a_function_cannot_lead_elsewhere(folder: Path, made: Any) -> None:
    out = await stored(ParquetSink(folder, partition_by=lambda _: made), visits(("NO", 1)))
    ((_, why),) = out.failed
    assert "Visit: its partition is " in why or "too long" in why
    assert not files_of(folder.parent)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("/".join(["abcdefgh"] * 600), "is too long: a path may have 700 bytes"),
        ("/".join("a" * 40), "has more than 32 folders"),
    ],
)
async def test_a_row_whose_folder_has_too_long_a_path_fails_alone(folder: Path, made: str, why: str) -> None:
    sink = ParquetSink(folder, partition_by=lambda visit: made if visit.year == 2 else "good")
    out = await stored(sink, visits(("NO", 1), ("SE", 2), ("DK", 3)))
    assert [(tup.record.year, why in said) for tup, said in out.failed] == [(2, True)]
    assert sorted(row["year"] for row in rows_of(folder)) == [1, 3]


async def test_a_row_fails_alone_if_the_sinks_own_path_leaves_its_file_no_room(tmp_path: Path) -> None:
    deep = tmp_path
    while len(str(deep)) < 3_700:
        deep /= "x" * 200
    deep.mkdir(parents=True)
    long = "/".join(["y" * 200] * 3)
    sink = ParquetSink(deep, partition_by=lambda visit: long if visit.year == 2 else "good")
    out = await stored(sink, visits(("NO", 1), ("SE", 2)))
    assert [tup.record.year for tup in out.acked] == [1]
    assert "would have too long a path" in out.failed[0][1]


async def test_a_row_without_a_folder_fails_alone(folder: Path) -> None:
    def by(visit: Visit) -> str:
        return f"ratio={10 // visit.year}"

    out = await stored(ParquetSink(folder, partition_by=by), visits(("NO", 1), ("SE", 0), ("DK", 2)))
    assert [why for _, why in out.failed] == [
        "Visit: its partition could not be made: ZeroDivisionError: integer division or modulo by zero"
    ]
    assert sorted(row["country"] for row in rows_of(folder)) == ["DK", "NO"]
    out = await stored(ParquetSink(folder, partition_by="country"), visits(("", 1)))
    assert "country: '' names no folder" in out.failed[0][1]


@pytest.mark.parametrize(("escaped", "name"), [("with%20space", "with space"), ("%C3%B8", "ø"), ("a%25b", "a%b")])
async def test_a_file_url_may_have_percent_escapes(tmp_path: Path, escaped: str, name: str) -> None:
    await stored(ParquetSink(f"file://{tmp_path}/{escaped}"), items(1))
    assert [path.name for path in tmp_path.iterdir()] == [name]


# -- replays


async def test_a_replay_is_known_as_long_as_it_is_remembered_and_then_stored_again(folder: Path) -> None:
    await stored(ParquetSink(folder), items(1, 2))
    (path,) = files_of(folder)
    old = datetime.now(UTC) - timedelta(hours=2)
    path.rename(path.with_name(f"{old:%Y%m%dT%H%M%S.%f}Z-{path.stem[-16:]}.parquet"))
    await stored(ParquetSink(folder, remembers_s=3 * 3600), items(1, 2))
    await stored(ParquetSink(folder, remembers_s=None), items(1, 2))
    assert [row["number"] for row in rows_of(folder)] == [1, 2]
    await stored(ParquetSink(folder, remembers_s=3600), items(1, 3))
    assert [row["number"] for row in rows_of(folder)] == [1, 2, 1, 3]


def keys(*numbers: int) -> list[bytes]:
    return [number.to_bytes(24, "big") for number in numbers]


def test_keys_are_remembered_for_the_time_and_forgotten_after_twice_that(tmp_path: Path) -> None:
    known = RememberedKeys(10.0)
    known.make_room(tmp_path, 0.0)
    known.add(keys(1 << 64, 2 << 64))
    known.make_room(tmp_path, 10.0)
    assert known.unknown(keys(1 << 64, 3 << 64)) == keys(3 << 64)
    assert known.add(keys((1 << 64) + 5)) == keys((1 << 64) + 5), "another content of a row that is remembered"
    known.make_room(tmp_path, 19.0)
    assert known.unknown(keys(2 << 64)) == []
    known.make_room(tmp_path, 20.0)
    assert known.unknown(keys(1 << 64, 2 << 64)) == keys(1 << 64, 2 << 64)
    known.clear()


async def test_many_rows_are_known_by_keys_on_the_disk(folder: Path) -> None:
    count = 70_000  # more than are in memory
    tuples = items(*range(count))
    sink = ParquetSink(folder, rows_per_file=20_000)
    await stored(sink, tuples)
    out = await stored(sink, tuples)
    assert len(out.acked) == count
    assert sum(pq.ParquetFile(path).metadata.num_rows for path in files_of(folder)) == count


async def test_a_write_that_was_cut_short_is_repeated_under_the_same_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is there, and the sink does not hear of it: as after a lost answer of a store of objects."""
    put = LocalPlace.put
    lost = []

    def once(self: LocalPlace, name: str, data: Any) -> None:
        put(self, name, data)
        if not lost:
            lost.append(name)
            raise places.StoreAway("the answer is lost")

    monkeypatch.setattr(LocalPlace, "put", once)
    out = await stored(ParquetSink(folder), items(1, 2, 3))
    assert len(out.acked) == 3
    assert [path.name for path in files_of(folder)] == lost
    assert [row["number"] for row in rows_of(folder)] == [1, 2, 3]


async def test_what_a_killed_process_left_unfinished_is_removed_and_other_files_are_not_touched(folder: Path) -> None:
    await stored(ParquetSink(folder), items(1))
    (folder / "sub").mkdir()
    leftover = folder / "sub" / ".kedge-unfinished-x.parquet"
    leftover.write_bytes(b"half")
    pq.write_table(pa.table({"number": [9]}), folder / "others.parquet")
    await stored(ParquetSink(folder), items(1, 2))
    assert not leftover.exists()
    assert [row["number"] for row in rows_of(folder)] == [1, 2, 9]


# -- what is refused, away or broken


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rows_per_file": 0}, "rows_per_file is a number of rows of at least 1, not 0"),
        ({"seconds_per_file": 61}, "seconds_per_file is a number, 0 to 60, not 61"),
        ({"compression": "zip"}, "compression is zstd, snappy"),
        ({"remembers_s": 0}, "remembers_s is a number of seconds above 0, or None, not 0"),
        ({"partition_by": ("a", "a")}, "partition_by is a field"),
        ({"path": ""}, "path is a folder or a URL"),
        ({"path": "s3://"}, "s3:// is no URL of a store of objects"),
        ({"path": "s3://bucket:80/path"}, "s3://bucket:80/path is no URL of a store of objects"),
        ({"path": Secret("s3://KEY:12/word@bucket/path")}, "s3://bucket/path is no URL of a store of objects"),
        ({"path": Secret("gs://KEY:se#word@bucket/path")}, "in a password write %2F for /"),
        ({"path": Secret("hdfs://ann:12?word@host/path")}, "hdfs://host/path is no URL of a store of objects"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_sentence(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ParquetSink(**{"path": "x", **settings})
    text = str(caught.value).partition("\n  next:")[0]
    assert text.startswith("ParquetSink: ")
    assert words in text
    assert "word@" not in text
    assert "\n" not in text


async def refusal(sink: ParquetSink, tasks: int = 1) -> str:
    with pytest.raises(ConfigurationError) as caught:
        async with opened(sink, tasks):
            pass
    return str(caught.value).partition("\n  next:")[0]


async def test_a_folder_that_cannot_be_used_is_refused_in_one_sentence(folder: Path) -> None:
    folder.parent.joinpath("file").write_text("x")
    for path in (folder / "deeper" / "still", folder.parent / "file"):
        text = await refusal(ParquetSink(path))
        assert text.startswith(f"ParquetSink: {path} can't be used: ")
    async with opened(ParquetSink(folder)):
        assert "is being written by another sink" in await refusal(ParquetSink(folder))
    assert "writes its file from one" in await refusal(ParquetSink(folder), tasks=2)


async def test_a_damaged_file_is_refused_with_its_name(folder: Path) -> None:
    await stored(ParquetSink(folder), items(*range(100)))
    (path,) = files_of(folder)
    whole = path.read_bytes()
    key = (3).to_bytes(8, "big") + (7920).to_bytes(8, "big")
    for damaged in (b"", whole[:-9], whole.replace(key, bytes(16))):
        path.write_bytes(damaged)
        text = await refusal(ParquetSink(folder))
        assert text.startswith(f"ParquetSink: {path.name} in {folder} is damaged: "), text
    pq.write_table(pa.table({"number": [1]}), path)
    assert "has no column of keys" in await refusal(ParquetSink(folder))


class Other(Record):
    number: str
    more: int = 0


async def test_rows_that_do_not_go_with_the_files_fail_and_new_columns_do_not(folder: Path) -> None:
    async with opened(ParquetSink(folder)) as sink:
        out = await feed(sink, [*items(1), delivery(Other("one"), message=2)])  # type: ignore[arg-type]
        assert "it stores SinkItem, and can't store Other too" in out.failed[0][1]
    out = await stored(ParquetSink(folder), [delivery(Other("one"), message=2)])  # type: ignore[arg-type]
    assert "column 'number' is int64 there, and string here" in out.failed[0][1]

    class Wider(Record):
        number: int
        more: int

    out = await stored(ParquetSink(folder), [delivery(Wider(2, 3), message=3)])  # type: ignore[arg-type]
    assert len(out.acked) == 1
    assert dataset(folder).column_names == ["number", "revision", "text", "value", "kedge_key"]


async def test_a_full_disk_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = RecordedAnswers()
    async with opened(ParquetSink(folder, seconds_per_file=0)) as sink:
        write, full = os.write, [True]

        def short(descriptor: int, data: Any) -> int:
            if full[0]:
                raise OSError(28, "No space left on device")
            return write(descriptor, data)

        monkeypatch.setattr(places.os, "write", short)
        await give(sink, items(1), out)
        assert await within(WITHIN_S, lambda: "No space left" in sink.away)
        assert [path.name for path in folder.iterdir()] == [".kedge-lock"]
        full[0] = False
        assert await within(WITHIN_S, lambda: len(out.acked) == 1)
        assert sink.away == ""
    assert [row["number"] for row in rows_of(folder)] == [1]


async def test_a_failed_sync_ends_the_process_and_acks_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    out = RecordedAnswers()
    async with opened(ParquetSink(folder, seconds_per_file=0)) as sink:
        monkeypatch.setattr(places, "sync_file", fails)
        await give(sink, items(1), out)
        assert await within(WITHIN_S, lambda: sink.broken is not None)
        assert "could not be synced" in str(sink.broken)
        assert not out.acked
        assert not files_of(folder)


async def test_sources_that_wait_for_the_sink_are_hinted_at_once(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_module, "QUIET_S", 0.1)
    out = RecordedAnswers()
    async with opened(ParquetSink(folder, rows_per_file=5_000, seconds_per_file=0.4)) as sink:
        await give(sink, items(*range(1_500)), out)
        assert await within(WITHIN_S, lambda: len(out.acked) == 1_500)
        await give(sink, items(*range(2_000, 3_500)), out)
        assert await within(WITHIN_S, lambda: len(out.acked) == 3_000)
    hints = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(hints) == 1
    assert "a file has 1500 rows, and not 5000" in hints[0]
    assert "max_pending" in hints[0]


async def test_the_summary_counts_rows_and_files(folder: Path) -> None:
    async with opened(ParquetSink(folder, rows_per_file=2)) as sink:
        await feed(sink, items(1, 2, 3, 1))
        assert [*sink.summary()] == [f"3 rows stored in 2 files in {folder}, 1 known already"]
