"""The checks of the conformance suite of sources: each is an async function that takes a subject, and raises
AssertionError with the broken promise.

Knows subjects and how a source is driven; no server, and nothing that runs them.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Final, Protocol

from topology.components import Message, Spout
from topology.errors import ConfigurationError, NotYet
from topology.testing.left_out import LeftOut
from topology.testing.sources.driver import DrivenSource, Memory, is_malformed, within

COUNT: Final = 300  # messages of most checks
COME_S: Final = 30.0  # seconds until messages have come
SAID_S: Final = 20.0  # seconds until a source has noticed that its server is away
CLOSE_S: Final = 8.0  # seconds that `close` may take; a run allows ten
REFUSED_S: Final = 15.0  # seconds that `open` may take without a server


class SourceToCheck(Protocol):
    """See `suite.SourceSubject`."""

    tasks: int
    again_s: float
    begins_where_it_left: bool

    def make(self) -> Spout: ...
    def put(self, numbers: Sequence[int]) -> None: ...
    def number(self, record: Any) -> int: ...
    def put_bad(self) -> bytes: ...
    def away(self) -> AbstractContextManager[object]: ...
    def missing(self) -> Spout: ...
    def elsewhere(self) -> tuple[str, Sequence[Any]]: ...


@asynccontextmanager
async def opened(
    subject: SourceToCheck, memory: Memory | None = None, tasks: int = 1, index: int = 0
) -> AsyncIterator[DrivenSource]:
    """Yield a task's own copy of the source, opened; close it at the end, as a run does."""
    source = DrivenSource(subject.make(), memory or Memory(), tasks, index)
    try:
        await source.open()
        yield source
    finally:
        await source.close()


async def put(subject: SourceToCheck, numbers: Iterable[int]) -> None:
    await asyncio.to_thread(subject.put, [*numbers])


def numbers_of(subject: SourceToCheck, messages: Iterable[Message[Any]]) -> list[int]:
    return [subject.number(message.record) for message in messages if not is_malformed(message)]


def assert_exact(found: Sequence[int], wanted: Iterable[int], why: str) -> None:
    """Assert that each number is there once."""
    counts, wanted = Counter(found), {*wanted}
    missing = sorted(wanted - counts.keys())
    twice = sorted(number for number, times in counts.items() if times > 1)
    other = sorted(counts.keys() - wanted)
    assert not missing, f"{why}: these did not come: {missing[:10]} ({len(missing)} in all)"
    assert not twice, f"{why}: these came more than once: {twice[:10]} ({len(twice)} in all)"
    assert not other, f"{why}: these were not expected: {other[:10]} ({len(other)} in all)"


async def each_message_comes_once_and_has_an_id_of_its_own(subject: SourceToCheck) -> None:
    async with opened(subject) as source:
        await put(subject, range(1, COUNT + 1))
        await source.take(COUNT, COME_S)
        messages = await source.rest()
    assert_exact(numbers_of(subject, messages), range(1, COUNT + 1), "of a source that nothing disturbs")
    assert len({(each.partition, each.id) for each in messages}) == COUNT, "each message has an id of its own"


async def what_waits_at_the_begin_comes_too(subject: SourceToCheck) -> None:
    if not subject.begins_where_it_left:
        raise LeftOut("its server keeps nothing")
    await put(subject, range(1, COUNT + 1))
    async with opened(subject) as source:
        await source.take(COUNT, COME_S)
    assert_exact(numbers_of(subject, source.messages), range(1, COUNT + 1), "of messages that were there before")


async def a_cancelled_poll_loses_nothing(subject: SourceToCheck) -> None:
    async with opened(subject) as source:
        putting = asyncio.ensure_future(put_slowly(subject))
        loop = asyncio.get_running_loop()
        until = loop.time() + COME_S
        while len(source.messages) < COUNT and loop.time() < until and not source.ended:
            polling = asyncio.ensure_future(source.poll(7))
            await asyncio.wait((polling,), timeout=0.002)
            polling.cancel()
            await asyncio.wait((polling,))
            if not polling.cancelled() and (error := polling.exception()) is not None:
                raise error
        await putting
    assert_exact(numbers_of(subject, source.messages), range(1, COUNT + 1), "of polls that were cancelled")


async def put_slowly(subject: SourceToCheck) -> None:
    for begin in range(1, COUNT + 1, 20):
        await put(subject, range(begin, begin + 20))
        await asyncio.sleep(0.01)


async def what_is_settled_does_not_come_again(subject: SourceToCheck) -> None:
    if not subject.begins_where_it_left:
        raise LeftOut("its server keeps nothing")
    memory = Memory()
    async with opened(subject, memory) as source:
        await put(subject, range(1, COUNT + 1))
        await source.take(COUNT, COME_S)
        await source.settle(source.messages)
    async with opened(subject, memory) as source:
        await put(subject, range(COUNT + 1, COUNT + 11))
        await source.take(10, COME_S + subject.again_s)
        found = numbers_of(subject, await source.rest())
    assert_exact(found, range(COUNT + 1, COUNT + 11), "after a restart, when all before was settled")


async def what_is_not_settled_comes_again_under_the_same_id(subject: SourceToCheck) -> None:
    if not subject.begins_where_it_left:
        raise LeftOut("its server keeps nothing")
    memory = Memory()
    async with opened(subject, memory) as source:
        await put(subject, range(1, COUNT + 1))
        first = [*await source.take(COUNT, COME_S)]
        await source.settle(first[::3])
    settled = {*numbers_of(subject, first[::3])}
    async with opened(subject, memory) as source:
        await source.take(COUNT - len(settled), COME_S + subject.again_s)
        again = [*await source.rest()]
    wanted = {*range(1, COUNT + 1)} - settled
    assert_exact(numbers_of(subject, again), wanted, "after a restart, of what was not settled")
    if subject.make().given_again == "same":
        ids = {subject.number(each.record): (each.partition, each.id) for each in first}
        other = [each for each in again if ids[subject.number(each.record)] != (each.partition, each.id)]
        assert not other, f"given again under another id: {other[:3]}; `given_again` says so of a source"


async def what_a_killed_process_had_not_settled_comes_again(subject: SourceToCheck) -> None:
    made_by, arguments = subject.elsewhere()
    await put(subject, range(1, COUNT + 1))
    command = [sys.executable, "-m", "topology.testing.sources.killed_process", made_by, json.dumps(arguments)]
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "PYTHONPATH": path}, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    settled: list[int] = []
    try:
        async with asyncio.timeout(COME_S):
            while len(settled) < COUNT // 3:
                line = await process.stdout.readline()
                assert line, "the other process has ended by itself: its error stands above"
                settled.append(int(line))
    finally:
        if process.returncode is None:
            process.kill()
        rest = (await process.stdout.read()).splitlines(keepends=True)
        await process.wait()
    settled += [int(line) for line in rest if line.endswith(b"\n")]
    async with opened(subject) as source:
        loop = asyncio.get_running_loop()
        until = loop.time() + COME_S + subject.again_s
        wanted = {*range(1, COUNT + 1)} - {*settled}
        while not wanted <= {*numbers_of(subject, source.messages)} and loop.time() < until:
            await source.rest(0.2)
    missing = sorted(wanted - {*numbers_of(subject, source.messages)})
    assert not missing, f"given to a process that was killed, and not again: {missing[:10]} ({len(missing)} in all)"


async def a_server_that_goes_away_and_comes_back_loses_nothing(subject: SourceToCheck) -> None:
    half = COUNT // 2
    async with opened(subject) as source:
        await put(subject, range(1, half + 1))
        await source.take(half, COME_S)
        with subject.away():
            polling = asyncio.ensure_future(source.poll())
            said = await within(SAID_S, lambda: bool(getattr(source.spout, "away", "")) or polling.done())
            assert said, "`away` does not say why nothing comes"
            assert not polling.done() or polling.exception() is None, f"poll raised {polling.exception()!r}"
        await put(subject, range(half + 1, COUNT + 1))
        await asyncio.wait((polling,), timeout=COME_S + subject.again_s)
        polling.cancel()
        await source.take(COUNT, COME_S + subject.again_s)
        assert not getattr(source.spout, "away", ""), "`away` is empty once the server is back"
        await source.settle(source.messages)
    assert_exact(numbers_of(subject, source.messages), range(1, COUNT + 1), "of a server that was away")


async def close_does_not_wait_for_a_server_that_is_away(subject: SourceToCheck) -> None:
    loop = asyncio.get_running_loop()
    source = DrivenSource(subject.make(), Memory())
    await source.open()
    try:
        await put(subject, range(1, 51))
        await source.take(50, COME_S)
        with subject.away():
            await source.settle(source.messages)
            await within(SAID_S, lambda: bool(getattr(source.spout, "away", "")))
            started_at = loop.time()
            await source.close()
            took = loop.time() - started_at
        assert took < CLOSE_S, f"close took {took:.1f} s"
    finally:
        await source.close()


async def a_payload_that_does_not_fit_is_malformed_and_nothing_else_is(subject: SourceToCheck) -> None:
    async with opened(subject) as source:
        await put(subject, range(1, 11))
        data = await asyncio.to_thread(subject.put_bad)
        await put(subject, range(11, 21))
        await source.take(21, COME_S)
        messages = await source.rest()
    bad = [message.record for message in messages if is_malformed(message)]
    assert [record.data for record in bad] == [data], f"malformed: {bad}"
    assert bad[0].error, "a malformed record says what is wrong"
    assert_exact(numbers_of(subject, messages), range(1, 21), "beside a malformed one")


async def a_missing_server_is_said_in_one_sentence(subject: SourceToCheck) -> None:
    source = DrivenSource(subject.missing(), Memory())
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    try:
        await source.open()
    except (NotYet, ConfigurationError) as error:
        text = str(error).partition("\n  next:")[0]
        assert len(text.splitlines()) == 1, f"not one line: {text!r}"
    else:
        raise AssertionError("open raises NotYet or ConfigurationError without its server")
    finally:
        await source.close()
    assert loop.time() - started_at < REFUSED_S, "open waits for too long; NotYet makes the run ask again"


async def two_tasks_share_the_messages(subject: SourceToCheck) -> None:
    if subject.tasks < 2:
        raise LeftOut("it has one task")
    async with opened(subject, None, 2, 0) as first, opened(subject, None, 2, 1) as second:
        await put(subject, range(1, COUNT + 1))
        loop = asyncio.get_running_loop()
        until = loop.time() + COME_S
        while len(first.messages) + len(second.messages) < COUNT and loop.time() < until:
            await asyncio.gather(first.rest(0.1), second.rest(0.1))
        await asyncio.gather(first.rest(), second.rest())
    found = numbers_of(subject, [*first.messages, *second.messages])
    assert_exact(found, range(1, COUNT + 1), "of two tasks")


async def it_can_be_closed_twice_and_before_it_is_open(subject: SourceToCheck) -> None:
    source = DrivenSource(subject.make(), Memory())
    await source.close()
    await source.open()
    await source.close()
    await source.close()


CHECKS: Final = (
    each_message_comes_once_and_has_an_id_of_its_own,
    what_waits_at_the_begin_comes_too,
    a_cancelled_poll_loses_nothing,
    what_is_settled_does_not_come_again,
    what_is_not_settled_comes_again_under_the_same_id,
    what_a_killed_process_had_not_settled_comes_again,
    a_server_that_goes_away_and_comes_back_loses_nothing,
    close_does_not_wait_for_a_server_that_is_away,
    a_payload_that_does_not_fit_is_malformed_and_nothing_else_is,
    a_missing_server_is_said_in_one_sentence,
    two_tasks_share_the_messages,
    it_can_be_closed_twice_and_before_it_is_open,
)
