"""The suite of sources finds what it is for: a source that keeps the contract passes, and each broken one is found
out."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from table_source import TableSource, TableSubject

from acker.identity import MessageId
from topology import Message, NotYet, Spout, Task
from topology.testing.sources import SOURCE_CHECKS, SourceSubject, check_source

# -- sources that are broken, each in one way


class GivesTwice(TableSource):
    """Under two ids: else a run would take the second for the first."""

    async def poll(self, limit: int) -> list[Message[Any]]:
        taken = await super().poll(max(1, limit // 2))
        return [each for one in taken for each in (one, Message(one.record, one.id + 1_000_000))][:limit]


class OneIdForAll(TableSource):
    def message(self, number: int, payload: bytes) -> Message[Any]:
        return Message(super().message(number, payload).record, "always")


class LosesWhatACancelledPollTook(TableSource):
    async def poll(self, limit: int) -> list[Message[Any]]:
        taken = await super().poll(limit)
        await asyncio.sleep(0.001)
        return taken


class CountsAnewInEachRun(TableSource):
    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        super().open(task, positions)
        self.number = len(positions) * 1_000

    def message(self, number: int, payload: bytes) -> Message[Any]:
        self.number += 1
        return Message(super().message(number, payload).record, self.number)


class SettlesWhenItGives(TableSource):
    async def poll(self, limit: int) -> list[Message[Any]]:
        taken = await super().poll(limit)
        super().settled([message.id for message in taken], "")
        return taken


class RaisesWhileAway(TableSource):
    def rows(self, limit: int) -> list[tuple[int, bytes]]:
        found = super().rows(limit)
        if self.away:
            raise OSError(self.away)
        return found


class SaysNothingWhileAway(TableSource):
    def rows(self, limit: int) -> list[tuple[int, bytes]]:
        found = super().rows(limit)
        self.away = ""
        return found


class DropsWhatDoesNotFit(TableSource):
    async def poll(self, limit: int) -> list[Message[Any]]:
        return [message for message in await super().poll(limit) if type(message.record).__name__ == "SourceItem"]


class GivesAllToEachTask(TableSource):
    def rows(self, limit: int) -> list[tuple[int, bytes]]:
        vars(self)["task"] = type(self.task)(**{**vars(self.task), "tasks": 1, "index": 0})
        return super().rows(limit)


class SaysMuchOfAMissingTable(TableSource):
    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        try:
            super().open(task, positions)
        except NotYet as error:
            raise NotYet(f"{error}\nand more") from error


class IgnoresAMissingTable(TableSource):
    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        self.task = task


class NeedsToBeOpenToClose(TableSource):
    def close(self) -> None:
        del self.task


class ClosesSlowly(TableSource):
    async def close(self) -> None:  # type: ignore[override]
        await asyncio.sleep(1.0)


class GivesMoreThanTheLimit(TableSource):
    def rows(self, limit: int) -> list[tuple[int, bytes]]:
        return super().rows(limit + 1)


# Each with the check that finds it, and what that says.
BROKEN: list[tuple[type[Spout], str, str]] = [
    (GivesTwice, "each_message_comes_once_and_has_an_id_of_its_own", "came more than once"),
    (OneIdForAll, "each_message_comes_once_and_has_an_id_of_its_own", "did not come"),
    (GivesMoreThanTheLimit, "each_message_comes_once_and_has_an_id_of_its_own", "returned 129 messages"),
    (LosesWhatACancelledPollTook, "a_cancelled_poll_loses_nothing", "did not come"),
    (CountsAnewInEachRun, "what_is_not_settled_comes_again_under_the_same_id", "under another id"),
    (SettlesWhenItGives, "what_is_not_settled_comes_again_under_the_same_id", "did not come"),
    (SettlesWhenItGives, "what_a_killed_process_had_not_settled_comes_again", "and not again"),
    (RaisesWhileAway, "a_server_that_goes_away_and_comes_back_loses_nothing", "poll raised"),
    (SaysNothingWhileAway, "a_server_that_goes_away_and_comes_back_loses_nothing", "`away` does not say"),
    (DropsWhatDoesNotFit, "a_payload_that_does_not_fit_is_malformed_and_nothing_else_is", "malformed: []"),
    (GivesAllToEachTask, "two_tasks_share_the_messages", "came more than once"),
    (SaysMuchOfAMissingTable, "a_missing_server_is_said_in_one_sentence", "not one line"),
    (IgnoresAMissingTable, "a_missing_server_is_said_in_one_sentence", "open raises NotYet or"),
    (ClosesSlowly, "close_does_not_wait_for_a_server_that_is_away", "close took"),
]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not found after some seconds is not found."""
    from topology.testing.sources import checks

    monkeypatch.setattr(checks, "COME_S", 2.0)
    monkeypatch.setattr(checks, "SAID_S", 1.0)
    monkeypatch.setattr(checks, "CLOSE_S", 0.5)


@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_a_source_of_a_users_that_keeps_the_contract_passes(check: str, tmp_path: Path) -> None:
    assert not check_source(check, TableSubject(str(tmp_path / "table.db")))


@pytest.mark.parametrize(("kind", "check", "why"), BROKEN, ids=lambda value: getattr(value, "__name__", value)[:40])
@pytest.mark.usefixtures("quick")
def test_a_broken_source_is_found_out(kind: type[Spout], check: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=why.replace("[", r"\[").replace("]", r"\]")):
        check_source(check, TableSubject(str(tmp_path / "table.db"), kind.__name__))


@pytest.mark.usefixtures("quick")
def test_a_source_that_can_not_be_closed_before_it_is_open_raises_its_own_error(tmp_path: Path) -> None:
    subject = TableSubject(str(tmp_path / "table.db"), "NeedsToBeOpenToClose")
    with pytest.raises(AttributeError):
        check_source("it_can_be_closed_twice_and_before_it_is_open", subject)


def test_what_a_subject_does_not_support_is_left_out_with_the_reason(tmp_path: Path) -> None:
    class Bare(SourceSubject):
        begins_where_it_left = False

        def make(self) -> Spout:
            return TableSource(str(tmp_path / "table.db"))

        def put(self, numbers: Sequence[int]) -> None:
            TableSubject(str(tmp_path / "table.db")).put(numbers)

    TableSubject(str(tmp_path / "table.db"))
    assert check_source("two_tasks_share_the_messages", Bare()) == "it has one task"
    assert check_source("what_waits_at_the_begin_comes_too", Bare()) == "its server keeps nothing"
    assert "does not say how its server is away" in check_source(
        "a_server_that_goes_away_and_comes_back_loses_nothing", Bare()
    )
