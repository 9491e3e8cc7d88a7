"""The suite of sinks finds what it is for: a sink that keeps the contract passes, and each broken one is found out."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Never

import pytest
from shelf_kit import Shelf, ShelfSink, ShelfStore, ShelfSubject, UpsertStore

from bolts.sinks.batching import BatchingSink
from bolts.sinks.contract import SinkStore, SinkStoreBroken, StoreAway, Written
from topology.components import Collector
from topology.core.tuples import Tuple
from topology.errors import WorkerError
from topology.testing.sinks import SINK_CHECKS, SinkSubject, check_sink, driver, suite

# -- sinks that are broken, each in one way


class AcksBeforeTheCommit(ShelfSink):
    def execute(self, tup: Tuple[Any], out: Collector[Never]) -> Any:
        out.ack(tup)
        deaf: Any = _Deaf()
        return super().execute(tup, deaf)


class AcksTheBatchBeforeTheCommit(ShelfSink):
    """As a sink may that knows the runtime's own collector: all of a batch at once, and too early."""

    async def _commit(self, batch: Any) -> None:
        out = batch.outs[0]
        if hasattr(type(out), "ack_all"):
            out.ack_all(batch.tuples)
            batch = batch._replace(outs=[_Deaf() for _ in batch.outs])
        await super()._commit(batch)


class _Deaf:
    """A collector that hears nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class FailsWhileAway(ShelfSink):
    def _make_store(self) -> SinkStore:
        class Impatient(ShelfStore):
            def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
                try:
                    return super().write(tuples)
                except StoreAway as error:
                    raise ValueError("given up") from error

        return Impatient(self.shelf)


class LeavesWhatWaits(ShelfSink):
    def _fail(self, batch: Any, reason: str) -> None:
        """Says nothing."""


class SaysNothing(ShelfSink):
    durability = ""


class ForgetsItsKeys(ShelfStore):
    def __init__(self, shelf: Shelf) -> None:
        super().__init__(shelf)
        self.known: set[Any] = set()

    def knows(self, key: Any) -> bool:
        return key in self.known

    def commit(self, made: dict[Any, tuple[int, int]]) -> None:
        self.known |= made.keys()
        self.shelf.rows.update({(*key, self.shelf.writes): row for key, row in made.items()})


class NewKeyOnRetry(ShelfStore):
    def key(self, tup: Tuple[Any], content: str) -> tuple[Any, ...]:
        return tup.origin, tup.identity, content, self.shelf.writes


class KeyHasTheSubscription(ShelfStore):
    def key(self, tup: Tuple[Any], content: str) -> tuple[Any, ...]:
        return tup.origin, tup.identity, content, tup.source.tag


class SwallowsBadRows(ShelfStore):
    def refuse(self, written: Written, place: int, why: str) -> None:
        """Acked, and not stored."""


class FailsTheWholeBatch(ShelfStore):
    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        written = super().write(tuples)
        if written.refused:
            written.refused = dict.fromkeys(range(len(tuples)), next(iter(written.refused.values())))
        return written


class KeyIsTheIdentityAlone(ShelfStore):
    def key(self, tup: Tuple[Any], content: str) -> tuple[Any, ...]:
        return tup.origin, tup.identity


class KeyIsTheContentAlone(ShelfStore):
    def key(self, tup: Tuple[Any], content: str) -> tuple[Any, ...]:
        return 0, content


class LosesTheOrder(ShelfStore):
    def commit(self, made: dict[Any, tuple[int, int]]) -> None:
        super().commit(dict(reversed(made.items())))


class StoresABatchAsItIs(ShelfStore):
    """What is stored is known, but not what is in the batch."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__(shelf)
        self.rows = 0

    def key(self, tup: Tuple[Any], content: str) -> tuple[Any, ...]:
        self.rows += 1
        return tup.origin, tup.identity, content, self.rows

    def knows(self, key: Any) -> bool:
        return any(known[:3] == key[:3] for known in self.shelf.rows)


class LastWins(UpsertStore):
    def replaces(self, revision: int, known: int, other: bool) -> bool:
        return True


class ForgetsRevisions(UpsertStore):
    def __init__(self, shelf: Shelf) -> None:
        super().__init__(shelf)
        shelf.rows = {number: (number, 0) for number in shelf.rows}


class SecondContentWins(UpsertStore):
    def replaces(self, revision: int, known: int, other: bool) -> bool:
        return revision > known or (revision == known and other)


class TakesTheHighestFirst(UpsertStore):
    """Of each key the highest revision of a batch, before it has looked whether that can be stored."""

    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        highest = {one.record.number: one for one in sorted(tuples, key=lambda one: one.record.revision)}
        chosen = [place for place, one in enumerate(tuples) if highest[one.record.number] is one]
        written = super().write([tuples[place] for place in chosen])
        written.refused = {chosen[place]: why for place, why in written.refused.items()}
        return written


# Each with the check that finds it, and what that says.
BROKEN: list[tuple[type[ShelfSink], type[ShelfStore], str, str]] = [
    (
        AcksBeforeTheCommit,
        ShelfStore,
        "c11_nothing_is_acked_before_another_reader_sees_it",
        "acked before they were committed",
    ),
    (
        AcksTheBatchBeforeTheCommit,
        ShelfStore,
        "c11_nothing_is_acked_before_another_reader_sees_it",
        "acked before they were committed",
    ),
    (
        FailsWhileAway,
        ShelfStore,
        "f43_a_store_that_is_away_fails_nothing_and_is_used_again_when_it_is_back",
        "failed because the store was away",
    ),
    (
        LeavesWhatWaits,
        ShelfStore,
        "close_fails_what_waits_and_does_not_wait_for_a_store_that_is_away",
        "close leaves no tuple",
    ),
    (
        SaysNothing,
        ShelfStore,
        "c6_it_says_for_how_long_it_remembers_and_what_an_ack_stands_for",
        "says what an ack stands for",
    ),
    (ShelfSink, ForgetsItsKeys, "a_replay_after_a_restart_is_dropped_and_acked", "stored more than once"),
    (ShelfSink, ForgetsItsKeys, "two_tasks_that_race_store_each_output_once", "stored more than once"),
    (ShelfSink, NewKeyOnRetry, "c10_after_a_lost_answer_the_same_rows_are_there_once", "stored more than once"),
    (ShelfSink, NewKeyOnRetry, "a_replay_is_dropped_and_acked", "stored more than once"),
    (ShelfSink, KeyHasTheSubscription, "c5_one_emission_by_two_subscriptions_is_one_row", "stored more than once"),
    (
        ShelfSink,
        SwallowsBadRows,
        "f46_a_bad_row_fails_alone_and_the_rest_of_its_batch_is_stored",
        "acked, and can't be stored",
    ),
    (
        ShelfSink,
        FailsTheWholeBatch,
        "f46_a_bad_row_fails_alone_and_the_rest_of_its_batch_is_stored",
        "failed for another row's sake",
    ),
    (
        ShelfSink,
        KeyIsTheIdentityAlone,
        "b2_another_content_under_one_identity_is_stored_and_counted",
        "`divergent` counts it",
    ),
    (
        ShelfSink,
        KeyIsTheContentAlone,
        "c1_equal_contents_of_two_messages_are_two_rows",
        "another message is another output",
    ),
    (ShelfSink, StoresABatchAsItIs, "c9_what_a_batch_holds_twice_is_one_row", "stored more than once"),
    (
        ShelfSink,
        ShelfStore,
        "f1_what_a_killed_process_has_acked_is_stored_and_the_rest_comes_once",
        "acked by a process that was killed, and not stored",
    ),
    (ShelfSink, LastWins, "c8_the_highest_revision_stays_in_whatever_order_they_come", "in one batch"),
    (ShelfSink, LastWins, "c8_a_late_attempt_after_a_restart_undoes_nothing", "after a restart changes nothing"),
    (
        ShelfSink,
        ForgetsRevisions,
        "c8_a_late_attempt_after_a_restart_undoes_nothing",
        "after a restart changes nothing",
    ),
    (
        ShelfSink,
        TakesTheHighestFirst,
        "c9_a_lower_revision_is_not_acked_for_a_higher_one_that_is_refused",
        "of those that can be stored",
    ),
    (
        ShelfSink,
        SecondContentWins,
        "b2_another_content_of_one_revision_is_counted_and_the_first_stays",
        "the first content stays",
    ),
    (ShelfSink, LosesTheOrder, "each_output_is_stored_once_in_its_order_and_acked", "in the order in which they came"),
]


class InMemory(ShelfSubject):
    elsewhere = SinkSubject.elsewhere


@pytest.mark.parametrize("kind", [ShelfStore, UpsertStore])
@pytest.mark.parametrize("check", SINK_CHECKS)
def test_a_sink_of_a_users_that_keeps_the_contract_passes(check: str, kind: type[ShelfStore]) -> None:
    left_out = check_sink(check, InMemory(kind=kind))
    assert not left_out or "mode" in left_out or left_out == "the subject can't be made by another process"


def test_of_each_check_a_sink_is_known_that_it_finds() -> None:
    assert {check for _, _, check, _ in BROKEN} == set(SINK_CHECKS)


def test_a_check_that_fails_leaves_no_process_behind(tmp_path: Path) -> None:
    class Stuck(ShelfSubject):
        def elsewhere(self) -> tuple[str, Sequence[Any]]:
            return "shelf_kit:stuck", [str(tmp_path / "pid")]

    with pytest.raises(ValueError, match="no number"):
        check_sink("f1_what_a_killed_process_has_acked_is_stored_and_the_rest_comes_once", Stuck())
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_sink_that_leaves_a_tuple_lying_is_named_with_what_it_owes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sits(ShelfSink):
        def execute(self, tup: Tuple[Any], out: Collector[Never]) -> Any:
            return None if tup.record.number == 7 else super().execute(tup, out)

    monkeypatch.setattr(driver, "ANSWERED_S", 0.1)
    with pytest.raises(AssertionError, match=r"neither acked nor failed.*1 of 300 .*number=7"):
        check_sink("a_replay_is_dropped_and_acked", ShelfSubject(Sits))


def test_a_sink_that_hangs_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs(ShelfSink):
        async def flush(self, out: Collector[Never]) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(suite, "WITHIN_S", 0.5)
    with pytest.raises(AssertionError, match=r"does not return"):
        check_sink("a_replay_is_dropped_and_acked", ShelfSubject(Hangs))


@pytest.mark.parametrize(("sink", "kind", "check", "said"), BROKEN, ids=lambda one: getattr(one, "__name__", one)[:40])
def test_a_broken_sink_is_found_out(sink: type[ShelfSink], kind: type[ShelfStore], check: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_sink(check, ShelfSubject(sink, kind))


def test_a_sink_whose_store_is_broken_raises_in_the_suite_and_does_not_hang() -> None:
    class Broken(ShelfStore):
        def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
            raise SinkStoreBroken("fsync: input/output error")

    with pytest.raises(WorkerError, match="its store is broken"):
        check_sink("a_replay_is_dropped_and_acked", ShelfSubject(kind=Broken))


def test_what_a_subject_does_not_define_is_left_out_with_the_reason() -> None:
    class Bare(SinkSubject):
        def make(self) -> BatchingSink:
            return ShelfSink(Shelf())

        def rows(self) -> list[tuple[int, int]]:
            return []

    assert "away" in check_sink("f43_a_store_that_is_away_fails_nothing_and_is_used_again_when_it_is_back", Bare())
    assert "one task" in check_sink("two_tasks_that_race_store_each_output_once", Bare())
    assert "upsert mode" in check_sink("c8_a_late_attempt_after_a_restart_undoes_nothing", Bare())
