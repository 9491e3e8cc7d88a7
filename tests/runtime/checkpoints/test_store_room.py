"""The room for a log and for checkpoints on one disk, and what is said of it."""

import asyncio
import logging

import pytest

from topology.runtime.checkpoints.store_room import StoreRoom


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().partition(";")[0] for record in caplog.records if record.name == "kedge"]


async def test_a_log_with_room_of_its_own_does_not_let_in_who_waits_for_checkpoints() -> None:
    room = StoreRoom()
    room.checkpoint_full("no space")
    waits = asyncio.ensure_future(room.wait())
    await asyncio.sleep(0)
    room.log_has_room()
    await asyncio.sleep(0)
    assert not waits.done()
    assert room.why_full == "no space"
    room.all_has_room()
    await waits
    assert room.why_full == ""


async def test_a_checkpoint_that_is_written_clears_the_log_too() -> None:
    room = StoreRoom()
    room.log_full("no space")
    room.all_has_room()
    await room.wait()
    assert room.why_full == ""


def test_a_full_disk_is_said_once_while_the_log_is_written_and_checkpoints_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = StoreRoom()
    with caplog.at_level(logging.WARNING, "kedge"):
        for _ in range(5):
            room.checkpoint_full("no space")
            room.log_has_room()
        room.all_has_room()
    assert said(caplog) == ["no space", "the state can be written again, and the sources are read again"]


def test_one_failure_alone_is_not_said(caplog: pytest.LogCaptureFixture) -> None:
    room = StoreRoom()
    with caplog.at_level(logging.WARNING, "kedge"):
        room.checkpoint_full("no space")
        room.all_has_room()
    assert said(caplog) == []
