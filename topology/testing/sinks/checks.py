"""The checks of the conformance suite of sinks: each is an async function that takes a subject, and raises
AssertionError with the broken promise.

Knows subjects and how a sink is driven; no store, and nothing that runs them.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from typing import Any, Final, Literal, Protocol

from topology.components import Bolt
from topology.core.tuples import Tuple
from topology.testing.left_out import LeftOut
from topology.testing.sinks.driver import RecordedAnswers, SinkItem, delivery, feed, give, item, opened, within

COUNT: Final = 300  # items that most checks store: several batches
KILLED_AFTER: Final = 120  # acks of another process before it is killed
SAID_S: Final = 20.0  # seconds until a sink has noticed that its store is away
CLOSE_S: Final = 8.0  # seconds that `close` may take while the store is away; a run allows ten


class Subject(Protocol):
    """See `sinks.SinkSubject`."""

    mode: Literal["append", "upsert"]
    tasks: int
    ordered: bool

    def make(self) -> Bolt: ...
    def rows(self) -> Sequence[tuple[int, int]]: ...
    def bad(self) -> Sequence[SinkItem]: ...
    def away(self) -> AbstractContextManager[object]: ...
    def lost_answer(self) -> AbstractContextManager[object]: ...
    def elsewhere(self) -> tuple[str, Sequence[Any]]: ...


def all_items(count: int = COUNT) -> list[Tuple[Any]]:
    return [delivery(item(number)) for number in range(1, count + 1)]


def numbers(subject: Subject) -> list[int]:
    return [number for number, _ in subject.rows()]


def assert_exact(subject: Subject, count: int = COUNT) -> None:
    """Assert that each item is one row."""
    stored = Counter(numbers(subject))
    missing = [number for number in range(1, count + 1) if number not in stored]
    twice = [number for number, times in stored.items() if times > 1]
    assert not missing, f"these were acked and are not stored: {missing[:10]} ({len(missing)} in all)"
    assert not twice, f"these are stored more than once: {twice[:10]} ({len(twice)} in all)"


def assert_acked(out: RecordedAnswers, count: int, why: str = "what is stored, or known to be, is acked") -> None:
    failed = f"; failed: {out.failed[0][1]}" if out.failed else ""
    assert len(out.acked) == count, f"{why}: {len(out.acked)} of {count} were{failed}"


def assert_rows(subject: Subject, wanted: list[tuple[int, int]], why: str) -> None:
    stored = sorted(subject.rows())
    assert stored == wanted, f"{why}: (number, revision) should be {wanted}, and are {stored}"


async def each_output_is_stored_once_in_its_order_and_acked(subject: Subject) -> None:
    async with opened(subject.make()) as sink:
        out = await feed(sink, all_items())
    assert not out.failed, f"failed: {out.failed[0][1]}"
    assert sorted(out.numbers) == list(range(1, COUNT + 1)), "each tuple is acked once"
    assert_exact(subject)
    in_order = not subject.ordered or numbers(subject) == list(range(1, COUNT + 1))
    assert in_order, "rows are stored in the order in which they came"


async def a_replay_is_dropped_and_acked(subject: Subject) -> None:
    async with opened(subject.make()) as sink:
        await feed(sink, all_items())
        out = await feed(sink, all_items())
    assert_acked(out, COUNT, "a replay of what is stored is acked")
    assert_exact(subject)


async def a_replay_after_a_restart_is_dropped_and_acked(subject: Subject) -> None:
    for _ in range(2):
        async with opened(subject.make()) as sink:
            assert_acked(await feed(sink, all_items()), COUNT)
    assert_exact(subject)


async def c5_one_emission_by_two_subscriptions_is_one_row(subject: Subject) -> None:
    async with opened(subject.make()) as sink:
        out = await feed(sink, [delivery(item(1)), delivery(item(1), subscription=7)])
    assert_acked(out, 2)
    assert_exact(subject, 1)


async def c9_what_a_batch_holds_twice_is_one_row(subject: Subject) -> None:
    async with opened(subject.make()) as sink:
        out = await feed(sink, [delivery(item(number)) for number in (1, 2, 1, 1, 3, 2)])
    assert_acked(out, 6)
    assert_exact(subject, 3)


async def c11_nothing_is_acked_before_another_reader_sees_it(subject: Subject) -> None:
    early: list[int] = []

    def look(tup: Tuple[Any]) -> None:
        if tup.record.number not in numbers(subject):
            early.append(tup.record.number)

    async with opened(subject.make()) as sink:
        await feed(sink, all_items(60), RecordedAnswers(look))
    assert not early, f"acked before they were committed: {early[:10]}"


async def f46_a_bad_row_fails_alone_and_the_rest_of_its_batch_is_stored(subject: Subject) -> None:
    good = all_items(60)
    bad = [delivery(record, message=5_000 + place) for place, record in enumerate(subject.bad())]
    mixed = [*good[:20], *bad, *good[20:]]
    async with opened(subject.make()) as sink:
        out = await feed(sink, mixed)
    acked_bad = [tup.record for tup in out.acked if any(tup is refused for refused in bad)]
    assert not acked_bad, f"acked, and can't be stored as it is: {acked_bad[:3]!r}"
    failed_good = [(tup.record, why) for tup, why in out.failed if not any(tup is refused for refused in bad)]
    assert not failed_good, f"failed for another row's sake: {failed_good[:3]!r}"
    assert all(why for _, why in out.failed), "a failure says why"
    assert_exact(subject, 60)
    assert len(subject.rows()) == 60, "nothing of the bad rows is stored"


async def f43_a_store_that_is_away_fails_nothing_and_is_used_again_when_it_is_back(subject: Subject) -> None:
    out = RecordedAnswers()
    async with opened(subject.make()) as sink:
        await feed(sink, all_items(10))
        with subject.away():
            giving = asyncio.ensure_future(feed(sink, all_items(), out))
            assert await within(SAID_S, lambda: bool(sink.away or out.failed)), (
                "`away` does not say why nothing is stored"
            )
            assert not out.failed, f"failed because the store was away: {out.failed[0][1]}"
        await giving
        assert not out.failed, f"failed because the store was away: {out.failed[0][1]}"
        assert sink.away == "", "`away` is empty once the store is back"
    assert_exact(subject)


async def close_fails_what_waits_and_does_not_wait_for_a_store_that_is_away(subject: Subject) -> None:
    out, loop = RecordedAnswers(), asyncio.get_running_loop()
    async with AsyncExitStack() as opened_sink:
        sink = await opened_sink.enter_async_context(opened(subject.make()))
        with subject.away():
            waiting = await give(sink, all_items(20), out)
            assert await within(SAID_S, lambda: bool(sink.away)), "`away` does not say why nothing is stored"
            started_at = loop.time()
            await opened_sink.aclose()
            took = loop.time() - started_at
    assert took < CLOSE_S, f"close took {took:.1f} s"
    assert all(map(out.is_done, waiting)), "close leaves no tuple without an ack or a failure"
    async with opened(subject.make()) as sink:
        await feed(sink, all_items(20))
    assert_exact(subject, 20)


async def c10_after_a_lost_answer_the_same_rows_are_there_once(subject: Subject) -> None:
    async with opened(subject.make()) as sink:
        await feed(sink, all_items(10))
        with subject.lost_answer():
            out = await feed(sink, all_items())
        assert not out.failed, f"failed though the outcome was not known: {out.failed[0][1]}"
    assert_exact(subject)


async def two_tasks_that_race_store_each_output_once(subject: Subject) -> None:
    if subject.tasks < 2:
        raise LeftOut("one task writes the store")
    async with opened(subject.make(), 2, 0) as first, opened(subject.make(), 2, 1) as second:
        answers = await asyncio.gather(feed(first, all_items()), feed(second, reversed(all_items())))
    for out in answers:
        assert_acked(out, COUNT)
    assert_exact(subject)


async def f1_what_a_killed_process_has_acked_is_stored_and_the_rest_comes_once(subject: Subject) -> None:
    made_by, arguments = subject.elsewhere()
    command = [
        sys.executable,
        "-m",
        "topology.testing.sinks.killed_process",
        made_by,
        json.dumps(arguments),
        str(COUNT * 10),
    ]
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "PYTHONPATH": path}, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        acked = [int(await process.stdout.readline() or -1) for _ in range(KILLED_AFTER)]
        assert -1 not in acked, "the other process has ended by itself: its error stands above"
    finally:
        if process.returncode is None:
            process.kill()
        rest = (await process.stdout.read()).splitlines(keepends=True)
        await process.wait()
    acked += [int(line) for line in rest if line.endswith(b"\n")]
    async with opened(subject.make()) as sink:  # recovers
        stored = set(numbers(subject))
        lost = [number for number in acked if number not in stored]
        assert not lost, f"acked by a process that was killed, and not stored: {lost[:10]}"
        await feed(sink, all_items(COUNT * 10))
    assert_exact(subject, COUNT * 10)


async def c6_it_says_for_how_long_it_remembers_and_what_an_ack_stands_for(subject: Subject) -> None:
    sink: Any = subject.make()
    assert getattr(sink, "drops_replays", False) is True, "`drops_replays = True` says that it is an idempotent sink"
    remembers_s = getattr(sink, "remembers_s", 0)
    assert remembers_s is None or remembers_s > 0, "`remembers_s` is a number of seconds, or None for ever"
    assert getattr(sink, "durability", ""), "`durability` says what an ack stands for"


async def b2_another_content_under_one_identity_is_stored_and_counted(subject: Subject) -> None:
    first, second = item(1), SinkItem(1, 2, "another", 0.5)
    async with opened(subject.make()) as sink:
        out = await feed(sink, [delivery(first), delivery(second, message=1)])
        assert_acked(out, 2)
        await feed(sink, [delivery(first), delivery(second, message=1)])
        assert getattr(sink, "divergent", 1) == 1, "`divergent` counts it, and its replays are none"
    assert_rows(subject, [(1, 1), (1, 2)], "both contents are stored, each once")


async def c1_equal_contents_of_two_messages_are_two_rows(subject: Subject) -> None:
    async with opened(subject.make()) as sink:
        out = await feed(sink, [delivery(item(1), message=message) for message in (1, 2, 3)])
    assert_acked(out, 3)
    assert numbers(subject) == [1, 1, 1], "another message is another output, whatever it holds"


async def c8_the_highest_revision_stays_in_whatever_order_they_come(subject: Subject) -> None:
    orders = [(1, 2, 3), (3, 2, 1), (2, 3, 1), (2, 1, 3), (1, 3, 2), (3, 1, 2)]
    for together in (True, False):
        start = 100 * (1 + together)
        async with opened(subject.make()) as sink:
            tuples = [
                delivery(
                    item(start + place, revision, f"revision {revision}"), message=start * 10 + place * 10 + revision
                )
                for place, order in enumerate(orders)
                for revision in order
            ]
            for part in [tuples] if together else [[tup] for tup in tuples]:
                out = await feed(sink, part)
                assert_acked(out, len(part), "a lower revision is acked, as there is nothing to do for it")
        found = {number: revision for number, revision in subject.rows() if number >= start and number < start + 6}
        assert found == {start + place: 3 for place in range(6)}, f"in {'one batch' if together else 'turn'}: {found}"


async def c8_a_late_attempt_after_a_restart_undoes_nothing(subject: Subject) -> None:
    for revision in (5, 4):
        async with opened(subject.make()) as sink:
            await feed(sink, [delivery(item(1, revision, f"revision {revision}"), message=revision)])
    assert_rows(subject, [(1, 5)], "a lower revision that comes after a restart changes nothing")


async def c9_a_lower_revision_is_not_acked_for_a_higher_one_that_is_refused(subject: Subject) -> None:
    bad = SinkItem(1, 9, "a lone surrogate: \udc80", 0.0)
    async with opened(subject.make()) as sink:
        out = await feed(
            sink, [delivery(item(1, 1), message=1), delivery(bad, message=2), delivery(item(1, 2), message=3)]
        )
    assert [tup.record for tup, _ in out.failed] == [bad], "the row that can't be stored fails, and no other"
    assert_acked(out, 2)
    assert_rows(subject, [(1, 2)], "the highest revision of those that can be stored is stored")


async def b2_another_content_of_one_revision_is_counted_and_the_first_stays(subject: Subject) -> None:
    async with opened(subject.make()) as sink:
        await feed(sink, [delivery(item(1, 1, "first"))])
        out = await feed(sink, [delivery(item(1, 1, "second"))])
        assert_acked(out, 1)
        assert getattr(sink, "divergent", 1) == 1, "`divergent` counts it"
        await feed(sink, [delivery(item(1, 1, "first"))])
        assert getattr(sink, "divergent", 1) == 1, "the first content stays: its replay is not another one"
    assert_rows(subject, [(1, 1)], "one key is one row")


BOTH: Final = (
    each_output_is_stored_once_in_its_order_and_acked,
    a_replay_is_dropped_and_acked,
    a_replay_after_a_restart_is_dropped_and_acked,
    c5_one_emission_by_two_subscriptions_is_one_row,
    c9_what_a_batch_holds_twice_is_one_row,
    c11_nothing_is_acked_before_another_reader_sees_it,
    f46_a_bad_row_fails_alone_and_the_rest_of_its_batch_is_stored,
    f43_a_store_that_is_away_fails_nothing_and_is_used_again_when_it_is_back,
    close_fails_what_waits_and_does_not_wait_for_a_store_that_is_away,
    c10_after_a_lost_answer_the_same_rows_are_there_once,
    two_tasks_that_race_store_each_output_once,
    f1_what_a_killed_process_has_acked_is_stored_and_the_rest_comes_once,
    c6_it_says_for_how_long_it_remembers_and_what_an_ack_stands_for,
)
APPEND: Final = (
    b2_another_content_under_one_identity_is_stored_and_counted,
    c1_equal_contents_of_two_messages_are_two_rows,
)
UPSERT: Final = (
    c8_the_highest_revision_stays_in_whatever_order_they_come,
    c8_a_late_attempt_after_a_restart_undoes_nothing,
    c9_a_lower_revision_is_not_acked_for_a_higher_one_that_is_refused,
    b2_another_content_of_one_revision_is_counted_and_the_first_stays,
)
