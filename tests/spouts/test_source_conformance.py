"""One body for all sources: what every source promises about ids, partitions, epochs and positions (C2, E3)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from source_kit import Reading, make_task

from spouts import FileTail, Items, Line, Paced
from topology.storage.directory.state_dir import MemoryNotes


@dataclass(frozen=True)
class Case:
    """A source over ten messages; `make(variant)` has the same messages for the same variant."""

    name: str
    make: Callable[[Path, str], Any]


def numbered(variant: str, width: int) -> list[str]:
    return [f"{variant} {number} " + "é" * (number % 3) + "x" * width for number in range(10)]


def file_with(width: int) -> Callable[[Path, str], FileTail]:
    def make(folder: Path, variant: str) -> FileTail:
        path = folder / "a.log"
        content = "".join(f"{text}\r\n" for text in numbered(variant, width)).encode()
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)  # in place: the inode stays
        return FileTail(path, block_bytes=64)

    return make


CASES = [
    Case("file longer than 1,024 bytes", file_with(width=200)),
    Case("file shorter than 1,024 bytes", file_with(width=0)),
    Case("paced file", lambda folder, variant: Paced(file_with(width=200)(folder, variant), rate=1e6)),
    Case("paced items", lambda _, variant: Paced(Items([Line(text) for text in numbered(variant, 0)]), rate=1e6)),
    Case("items", lambda _, variant: Items([Line(text) for text in numbered(variant, 0)])),
]
LIMITS = [1, 3, 128]


@pytest.fixture(params=CASES, ids=[case.name for case in CASES])
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.mark.parametrize("limit", LIMITS)
async def test_every_message_comes_once_in_order_with_a_growing_id(case: Case, tmp_path: Path, limit: int) -> None:
    reading = Reading(case.make(tmp_path, "first"), limit=limit)
    emitted = await reading.to_the_end()
    ids = [one.id for one in emitted]
    assert [text.split("x")[0].strip("é") for text in reading.texts] == [f"first {number} " for number in range(10)]
    assert ids == sorted(set(ids))
    assert len(set(reading.pairs)) == 10
    reading.close()


async def test_the_mapping_of_partitions_is_the_same_object_while_nothing_has_changed(
    case: Case, tmp_path: Path
) -> None:
    reading = Reading(case.make(tmp_path, "first"), limit=1)
    await reading.poll()
    before = reading.spout.partitions()
    await reading.to_the_end()
    assert reading.spout.partitions() is before
    reading.close()


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
async def test_after_a_restart_the_same_messages_have_the_same_identities(
    case: Case, tmp_path: Path, closed: bool
) -> None:
    notes = MemoryNotes()
    first = Reading(case.make(tmp_path, "first"), make_task(notes), limit=2)
    await first.until(6)
    if closed:
        first.close()
    second = Reading(case.make(tmp_path, "first"), make_task(notes))
    await second.to_the_end()
    assert second.pairs[: len(first.pairs)] == first.pairs
    assert len(second.pairs) == 10


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("read_before", range(1, 11))
async def test_recreated_from_zero_no_message_is_taken_for_an_earlier_one(
    case: Case, tmp_path: Path, closed: bool, read_before: int
) -> None:
    """C2: the same ids come again, with other content."""
    notes = MemoryNotes()
    first = Reading(case.make(tmp_path, "first"), make_task(notes), limit=1)
    await first.until(read_before)
    if closed:
        first.close()
    second = Reading(case.make(tmp_path, "other"), make_task(notes))
    await second.to_the_end()
    assert {one.id for one in first.emitted} <= {one.id for one in second.emitted}
    assert not set(first.pairs) & set(second.pairs)
    assert len(second.pairs) == 10


@pytest.mark.parametrize("resumed_at", range(10))
async def test_resumed_at_a_message_it_emits_that_one_and_all_behind_it(
    case: Case, tmp_path: Path, resumed_at: int
) -> None:
    """E3: a position is the id of the oldest message that is not done; ids have gaps."""
    notes = MemoryNotes()
    whole = Reading(case.make(tmp_path, "first"), make_task(notes))
    emitted = await whole.to_the_end()
    whole.close()
    oldest = emitted[resumed_at]
    rest = Reading(case.make(tmp_path, "first"), make_task(notes), {oldest.partition: oldest.id})
    assert await rest.to_the_end() == emitted[resumed_at:]
    rest.close()


async def test_a_source_closes_whether_or_not_it_was_read(case: Case, tmp_path: Path) -> None:
    Reading(case.make(tmp_path, "first")).close()
    case.make(tmp_path, "first").close()
