"""`SparkResults`: rows of batches as messages, where it goes on, which files go, and when it has ended."""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

import pyarrow as pa
from spark_kit import HandedOver

from bridge.arrow.schema import to_table
from bridge.files.query import Epoch, QueryFolder
from bridge.handover.results import SparkResults
from topology import ConfigurationError, Record
from topology.codes.code import FRESH
from topology.codes.settings import DAMAGED_SPARK_HANDOVER
from topology.codes.startup import SPARK_QUERY_FILES_MISSING
from topology.components import Positions, Task
from topology.storage.directory.state_dir import MemoryNotes


class Row(Record):
    number: int


class Place:
    """A query's folder, with its driver and its hand-over played by the test."""

    def __init__(self, folder: Path) -> None:
        self.base = folder
        self.folder = QueryFolder(folder / "spark" / "rows")
        self.input = HandedOver(folder / "spark" / "rows", "given")
        self.epoch = Epoch()
        self.folder.begin(self.epoch)
        self.notes = MemoryNotes()

    def write(self, number: int, rows: Sequence[int]) -> None:
        self.folder.write(number, pa.Table.from_batches([to_table(Row, [Row(one) for one in rows])]))

    def end(self) -> None:
        self.input.end()
        self.folder.end(self.epoch, {"given": {"0": self.input.next[0]}})

    def opened(self, position: int | None = None) -> SparkResults[Row]:
        spout = SparkResults(Row, "rows", ["given"])
        task = Task("t", "rows", 0, 1, Any, Random(0), self.notes, folder_of=lambda: self.base)  # type: ignore[arg-type]
        known = Positions() if position is None else Positions({"": position}, {"": self.folder.name("these")})
        spout.open(task, known)
        return spout


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def rows(spout: SparkResults[Row], limit: int = 100) -> list[tuple[int, int]]:
    """The next poll: ids and numbers."""
    return [(int(one.id), one.record.number) for one in await asyncio.wait_for(spout.poll(limit), 10)]


async def test_rows_come_in_the_order_of_batches_under_ids_of_batch_and_row_and_then_it_ends(place: Place) -> None:
    place.write(3, [30, 31, 32])
    place.write(7, [70])
    spout = place.opened()
    assert await rows(spout, 2) == [(3 << 32, 30), (3 << 32 | 1, 31)]
    assert await rows(spout) == [(3 << 32 | 2, 32)]
    assert await rows(spout) == [(7 << 32, 70)]
    place.end()
    assert await rows(spout) == []


async def test_it_waits_for_a_batch_and_a_cancelled_poll_has_lost_nothing(place: Place) -> None:
    spout = place.opened()
    waiting = asyncio.create_task(spout.poll(10))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    second = asyncio.create_task(rows(spout))
    await asyncio.sleep(0)
    assert not second.done()
    place.write(0, [1])
    assert await second == [(0, 1)]


async def test_it_goes_on_at_the_oldest_row_that_is_not_done_in_the_same_results_only(place: Place) -> None:
    place.write(1, [10])
    place.write(2, [20, 21])
    place.write(3, [30])
    assert await rows(place.opened(2 << 32 | 1)) == [(2 << 32 | 1, 21)]
    assert place.folder.batches() == [2, 3]  # what is before the position is done
    (place.folder.results / "name").write_text("other results")
    assert await rows(place.opened()) == [(2 << 32, 20), (2 << 32 | 1, 21)]


async def test_the_file_of_a_batch_goes_with_its_last_row_but_the_newest_stays(place: Place) -> None:
    """By the newest the driver knows what it has written, should Spark repeat the batch."""
    for number in (1, 2, 4):
        place.write(number, [number, number])
    spout = place.opened()
    ids = [id for _ in range(3) for id, _ in await rows(spout)]
    spout.settled([ids[0], ids[2], ids[3]], "")
    assert place.folder.batches() == [1, 4]
    spout.settled([ids[1]], "")
    assert place.folder.batches() == [4]
    spout.settled(ids[4:6], "")
    assert place.folder.batches() == [4]
    place.write(4, [9])
    place.write(3, [9])
    assert place.folder.read(4).to_pylist() == [{"number": 4}, {"number": 4}]
    assert place.folder.batches() == [4]
    place.write(5, [5, 5])
    spout.settled([id for id, _ in await rows(spout)], "")
    assert place.folder.batches() == [5]


async def test_the_file_of_rows_that_no_decided_checkpoint_has_is_there_for_the_next_run_P11(place: Place) -> None:
    for number in (0, 1):
        place.write(number, [number, number])
    spout = place.opened()
    ids = [id for _ in range(2) for id, _ in await rows(spout)]
    for id in ids:
        spout.ack(id)  # done, and then the process dies before a checkpoint
    assert await rows(place.opened(0)) == [(0, 0), (1, 0)]


async def test_an_end_of_an_earlier_run_or_epoch_is_none(place: Place) -> None:
    place.end()
    place.input.begin()
    spout = place.opened()
    waiting = asyncio.create_task(rows(spout))
    place.input.put([Row(1)])
    place.input.end()  # handed over, and not yet through Spark
    await asyncio.sleep(0.05)
    assert not waiting.done()
    place.epoch = Epoch(1, 0, {"given": {"0": 0}})
    place.folder.begin(place.epoch)
    place.folder.end(Epoch(0), {"given": {"0": 1}})
    await asyncio.sleep(0.05)
    assert not waiting.done()
    place.end()
    assert await waiting == []


async def test_a_file_that_is_damaged_is_named(place: Place) -> None:
    place.write(0, [1])
    place.folder.batch(0).write_bytes(b"none of ours")
    with pytest.raises(ConfigurationError, match=r"results of query 'rows' can't be read: .*batch-000000000000.arrow"):
        await rows(place.opened())


async def test_a_byte_that_was_changed_in_a_file_of_results_is_noticed(place: Place) -> None:
    """F22: Arrow itself would give another number."""
    place.write(0, [*range(100)])
    whole = place.folder.batch(0).read_bytes()
    at = whole.index((57).to_bytes(8, "little"))
    place.folder.batch(0).write_bytes(whole[:at] + b"\x01" + whole[at + 1 :])
    said = r"results of query 'rows' can't be read: .*arrow does not match its checksum: it was changed"
    with pytest.raises(ConfigurationError, match=said):
        await rows(place.opened())


async def test_results_of_an_earlier_release_have_no_checksum_and_are_read(place: Place) -> None:
    place.folder.results.mkdir(parents=True)
    with pa.ipc.new_file(place.folder.batch(0), (table := to_table(Row, [Row(7)])).schema) as writer:
        writer.write(table)
    assert await rows(place.opened()) == [(0, 7)]


async def test_results_that_are_none_of_the_class_are_told_with_what_to_do(place: Place) -> None:
    """What the columns' types don't say: the values of an enum."""
    place.folder.write(0, pa.table({"number": pa.array(["neither"])}))
    spout = place.opened()
    with pytest.raises(ConfigurationError, match="results of query 'rows' can't be read: ") as caught:
        await rows(spout)
    assert caught.value.next == f"change the query so that each row fits Row; then {FRESH}"


async def test_an_epoch_that_can_t_be_read_is_named(place: Place) -> None:
    place.end()
    (place.folder.folder / "epoch").write_text("{")
    with pytest.raises(ConfigurationError, match=r"rows/epoch can't be read \(Expecting property name") as caught:
        await rows(place.opened())
    assert caught.value.code is DAMAGED_SPARK_HANDOVER


def test_results_that_are_gone_are_told_and_not_begun_anew(place: Place) -> None:
    """Those that are not done would be missing, with nothing said."""
    place.write(0, [1])
    name = dict(place.opened().partitions())
    assert dict(place.opened().partitions()) == name
    shutil.rmtree(place.folder.results)
    with pytest.raises(
        ConfigurationError, match=r"results/name is missing, but query 'rows' has already used it"
    ) as caught:
        place.opened()
    assert caught.value.code is SPARK_QUERY_FILES_MISSING


def test_results_have_a_name_of_their_own_in_each_folder(tmp_path: Path) -> None:
    """C2: batches are numbered from 0 in each, and none may be taken for one of another."""
    names = [dict(Place(tmp_path / name).opened().partitions()) for name in ("a", "b")]
    assert names[0].keys() == {""}
    assert names[0] != names[1]
    again = Place(tmp_path / "a").opened().partitions()
    assert dict(again) == names[0]
