"""What `WebHook` does if its receiver says no, says nothing, is slow, or is not there."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from hook_kit import HookServer, Posted, hook_server

from bolts.sinks.http.client import retry_after_s
from bolts.sinks.http.retries import Retries
from bolts.sinks.http.webhook import WebHook
from topology.errors import Reject
from topology.testing.sinks.driver import RecordedAnswers, delivery, feed, give, item, opened, within
from topology.testing.virtual_time.loop import START

SOON_S = 30.0  # for what happens soon, on a busy machine


@pytest.fixture
def server() -> Iterator[HookServer]:
    with hook_server() as one:
        yield one


def deliveries(*numbers: int) -> list[Any]:
    return [delivery(item(number)) for number in numbers]


def attempts(server: HookServer) -> Counter[int]:
    """How often each record was posted."""
    return Counter(posted.json["number"] for posted in [*server.posted])


# -- answers


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422, 301, 302, 304, 307])
async def test_an_answer_that_says_never_fails_the_record_and_its_replay_is_rejected_unasked(
    server: HookServer, status: int
) -> None:
    server.answers = lambda posted: status if posted.json["number"] == 2 else None
    async with opened(WebHook(server.url)) as sink:
        out = await feed(sink, deliveries(1, 2, 3))
        assert sorted(out.numbers) == [1, 3]
        ((failed, why),) = out.failed
        assert failed.record.number == 2
        assert why.startswith(f"{server.url} answers {status} ")
        assert status == 304 or why.endswith(f": this is {status}"), "the first bytes of the answer are told"
        with pytest.raises(Reject, match=f"answers {status}"):
            sink.execute(failed, RecordedAnswers())
        assert attempts(server)[2] == 1
        assert sink.away == ""
        assert (sink.stored, sink.refusals) == (2, 1)


async def test_a_dead_letter_that_is_replayed_by_hand_is_asked_for_again(server: HookServer) -> None:
    server.answers = lambda posted: 403
    async with opened(WebHook(server.url)) as sink:
        await feed(sink, deliveries(1))
        with pytest.raises(Reject):
            sink.execute(delivery(item(1)), RecordedAnswers())
        server.answers = None
        assert (await feed(sink, deliveries(1))).numbers == [1]


async def test_a_redirect_is_not_followed(server: HookServer) -> None:
    to = web.Response(status=307, headers={"Location": f"{server.url}/elsewhere"})
    server.answers = lambda posted: to if posted.path == "/hook" else None
    async with opened(WebHook(server.url)) as sink:
        out = await feed(sink, deliveries(1))
    assert "307" in out.failed[0][1]
    assert [posted.path for posted in server.posted] == ["/hook"]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_an_answer_that_says_not_now_is_asked_again_and_nothing_fails(server: HookServer, status: int) -> None:
    server.answers = lambda posted: status if len(server.posted) <= 3 else None
    async with opened(WebHook(server.url)) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(1), out)
        assert await within(SOON_S, lambda: bool(sink.away))
        assert sink.away.startswith(f"its receiver is away ({server.url} answers {status} ")
        assert "retry" in sink.away
        assert await within(SOON_S, lambda: out.numbers == [1])
        assert sink.away == ""
    assert not out.failed
    assert len({posted.key for posted in server.posted}) == 1


async def test_the_statuses_may_be_chosen(server: HookServer) -> None:
    server.answers = lambda posted: {1: 404, 2: 503, 3: 302}[posted.json["number"]] if len(server.posted) < 9 else None
    retries = Retries(ok={200, 302}, again={404})
    async with opened(WebHook(server.url, retries=retries, concurrency=1)) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(1, 2, 3), out)
        assert await within(SOON_S, lambda: sorted(out.numbers) == [1, 3])
    assert [tup.record.number for tup, _ in out.failed] == [2]
    assert attempts(server)[1] > 1


async def test_the_time_that_a_receiver_asks_for_is_kept(server: HookServer) -> None:
    busy = web.Response(status=429, headers={"Retry-After": "2"})
    server.answers = lambda posted: busy if len(server.posted) == 1 else None
    async with opened(WebHook(server.url)) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(1), out)
        assert await within(SOON_S, lambda: bool(sink.away))
        assert "it asks to wait for 2 s" in sink.away
        await give(sink, deliveries(2, 3), out)
        assert await within(SOON_S, lambda: len(out.acked) == 3)
    first, *others = server.posted
    assert min(posted.at for posted in others) - first.at >= 1.99, "others wait too"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), (" 7 ", 7.0), ("9999999999999", 300.0), ("-1", 0.0), ("soon", 0.0), ("", 0.0), ("1.5", 0.0)],
)
def test_retry_after_is_bounded_and_nonsense_is_nothing(value: str, seconds: float) -> None:
    assert retry_after_s(value, START) == seconds


def test_retry_after_may_be_a_date() -> None:
    assert retry_after_s("Thu, 01 Jan 2026 00:00:30 GMT", START) == 30.0
    assert retry_after_s("Thu, 01 Jan 2026 10:00:00 GMT", START) == 300.0
    assert retry_after_s("Wed, 31 Dec 2025 00:00:30 GMT", START) == 0.0


async def test_of_a_batch_only_the_bad_record_fails(server: HookServer) -> None:
    server.answers = lambda posted: 400 if any(row["number"] == 13 for row in posted.json) else None
    async with opened(WebHook(server.url, batch=50, concurrency=2)) as sink:
        out = await feed(sink, deliveries(*range(40)))
    assert [tup.record.number for tup, _ in out.failed] == [13]
    stored = Counter(row["number"] for posted in server.stored.values() for row in posted.json)
    assert stored == Counter(set(range(40)) - {13})


# -- away, or only for one record


async def test_while_it_is_away_one_request_at_a_time_asks(server: HookServer) -> None:
    async def hangs(posted: Posted) -> int:
        await asyncio.sleep(0.05)
        return 503

    server.answers = hangs
    async with opened(WebHook(server.url, concurrency=8)) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(*range(100)), out)
        assert await within(SOON_S, lambda: bool(sink.away))
        assert await within(SOON_S, lambda: server.under_way == 0)
        before, server.most_under_way = len(server.posted), 0
        assert await within(SOON_S, lambda: len(server.posted) >= before + 4)
        assert server.most_under_way == 1
        server.answers = None
        assert await within(SOON_S, lambda: len(out.acked) == 100)
    assert not out.failed
    assert {row["number"] for row in (posted.json for posted in server.stored.values())} == {*range(100)}


async def test_a_record_that_only_fails_itself_stops_no_other_and_dies(server: HookServer) -> None:
    server.answers = lambda posted: 500 if posted.json["number"] == 0 else None
    numbers = iter(range(1, 100_000))
    async with opened(WebHook(server.url, concurrency=4, retries=Retries(for_s=1.5))) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(0), out)
        async with asyncio.timeout(SOON_S):
            while not out.failed:
                await give(sink, deliveries(next(numbers)), out)
                await asyncio.sleep(0.01)
        ((tup, why),) = out.failed
        assert tup.record.number == 0
        assert "answers 500 Internal Server Error: this is 500; it has failed for" in why
        assert "others are delivered" in why
        assert attempts(server)[0] >= 3
        assert sink.away == ""
        with pytest.raises(Reject, match="others are delivered"):
            sink.execute(delivery(item(0)), RecordedAnswers())
    delivered = sorted(out.numbers)
    assert len(delivered) > 50
    assert delivered == [*range(1, len(delivered) + 1)], "and all others are"


async def test_a_poisonous_record_of_a_batch_dies_alone(server: HookServer) -> None:
    server.answers = lambda posted: 500 if any(row["number"] == 5 for row in posted.json) else None
    numbers = iter(range(1_000, 100_000))
    async with opened(WebHook(server.url, batch=10, retries=Retries(for_s=0.5))) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(*range(10)), out)
        async with asyncio.timeout(SOON_S):
            while not out.failed:
                await give(sink, deliveries(next(numbers)), out)
                await asyncio.sleep(0.01)
        assert await within(SOON_S, lambda: set(range(10)) - {5} <= {*out.numbers})
    assert [tup.record.number for tup, _ in out.failed] == [5]


async def test_a_healthy_record_of_a_batch_that_failed_survives_one_failure_of_its_own(server: HookServer) -> None:
    failed_once: set[int] = set()

    def answers(posted: Posted) -> int | None:
        numbers = [row["number"] for row in posted.json]
        if 1 in numbers:
            return 500
        if len(numbers) == 1 and numbers[0] in (2, 3, 4) and numbers[0] not in failed_once:
            failed_once.add(numbers[0])
            return 503
        return None

    server.answers = answers
    others = iter(range(1_000, 100_000))
    async with opened(WebHook(server.url, batch=4, retries=Retries(for_s=0.5))) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(1, 2, 3, 4), out)
        async with asyncio.timeout(SOON_S):
            while not out.failed:
                await give(sink, deliveries(next(others)), out)
                await asyncio.sleep(0.01)
        assert await within(SOON_S, lambda: {2, 3, 4} <= {*out.numbers})
    assert [tup.record.number for tup, _ in out.failed] == [1]
    assert 2 in failed_once


async def test_an_outage_kills_nothing_however_short_the_patience_with_one_record(server: HookServer) -> None:
    server.stop()
    async with opened(WebHook(server.url, retries=Retries(for_s=0.0))) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(*range(20)), out)
        assert await within(SOON_S, lambda: "retry 4" in sink.away)
        server.start()
        assert await within(SOON_S, lambda: len(out.acked) == 20)
    assert not out.failed


async def test_after_outage_s_what_has_waited_for_so_long_dies_and_the_rest_waits(server: HookServer) -> None:
    server.stop()
    async with opened(WebHook(server.url, retries=Retries(outage_s=3.0))) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(*range(20)), out)
        await asyncio.sleep(2.0)
        await give(sink, deliveries(100), out)
        assert await within(SOON_S, lambda: len(out.failed) >= 20)
        assert {tup.record.number for tup, _ in out.failed} == {*range(20)}
        assert all("not delivered within 3 s" in why for _, why in out.failed)
        server.start()
        assert await within(SOON_S, lambda: out.numbers == [100])


async def test_a_url_that_is_away_for_some_records_does_not_stop_those_of_another(server: HookServer) -> None:
    def url(record: Any) -> str:
        return "http://127.0.0.1:9/away" if record.number % 10 == 0 else server.url

    async with opened(WebHook(url, concurrency=4)) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(*range(200)), out)
        assert await within(SOON_S, lambda: len(out.acked) == 180)
        assert not out.failed


async def test_a_receiver_that_asks_for_time_holds_up_no_other_and_is_named(server: HookServer) -> None:
    busy = web.Response(status=429, headers={"Retry-After": "300"})
    server.answers = lambda posted: busy if posted.path == "/busy" else None

    def url(record: Any) -> str:
        return f"http://localhost:{server.port}/busy" if record.number in (0, 10) else server.url

    async with opened(WebHook(url, concurrency=4)) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(0), out)
        assert await within(SOON_S, lambda: f"http://localhost:{server.port}/busy answers 429" in sink.away)
        await give(sink, deliveries(*range(10, 40)), out)
        assert await within(SOON_S, lambda: len(out.acked) == 29)
        assert f"http://localhost:{server.port}/busy answers 429" in sink.away
        assert not out.failed
    assert attempts(server)[0] == 1
    assert attempts(server)[10] == 0, "the time that it asks for is kept for all its records"


async def test_an_answer_that_does_not_come_is_asked_for_again(server: HookServer) -> None:
    async def first_hangs(posted: Posted) -> None:
        if len(server.posted) == 1:
            await asyncio.sleep(20)

    server.answers = first_hangs
    async with opened(WebHook(server.url, timeout_s=0.5)) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(1), out)
        assert await within(SOON_S, lambda: "has not answered within 0.5 s" in sink.away)
        assert await within(SOON_S, lambda: out.numbers == [1])


async def test_a_slow_record_holds_up_no_other(server: HookServer) -> None:
    async def slow(posted: Posted) -> None:
        if posted.json["number"] == 0:
            await asyncio.sleep(3)

    server.answers = slow
    async with opened(WebHook(server.url, concurrency=2)) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(*range(50)), out)
        assert await within(2.5, lambda: len(out.acked) == 49)
        assert await within(SOON_S, lambda: len(out.acked) == 50)


async def test_records_that_hang_again_and_again_leave_half_of_the_places_to_others(server: HookServer) -> None:
    hanging, most = 0, 0

    async def hangs(posted: Posted) -> None:
        nonlocal hanging, most
        number = posted.json["number"]
        if number not in range(20, 25):
            await asyncio.sleep(0.02)
            return
        is_again = sum(each.json["number"] == number for each in server.posted) > 1
        hanging += is_again
        most = max(most, hanging)
        try:
            await asyncio.sleep(20)
        finally:
            hanging -= is_again

    server.answers = hangs
    async with opened(WebHook(server.url, concurrency=6, timeout_s=0.4)) as sink:
        out = RecordedAnswers()
        await give(sink, deliveries(*range(400)), out)
        assert await within(SOON_S, lambda: len(out.acked) >= 300)
        assert sum(attempts(server)[number] > 1 for number in range(20, 25)) >= 3, "they were tried again meanwhile"
        assert most <= 3


async def test_no_more_requests_are_under_way_than_it_may(server: HookServer) -> None:
    async def slow(posted: Posted) -> None:
        await asyncio.sleep(0.02)

    server.answers = slow
    async with opened(WebHook(server.url, concurrency=5)) as sink:
        await feed(sink, deliveries(*range(60)))
    assert server.most_under_way == 5


# -- limits


async def test_no_second_has_more_requests_than_the_rate(server: HookServer) -> None:
    async with opened(WebHook(server.url, rate=20, concurrency=8)) as sink:
        started_at = time.monotonic()
        out = await feed(sink, deliveries(*range(50)))
    assert len(out.acked) == 50
    times = [posted.at for posted in server.posted]
    assert times[-1] - started_at >= 1.9, "50 requests are two full seconds, and some"
    assert max(sum(at <= other < at + 0.8 for other in times) for at in times) <= 20


async def test_when_it_is_full_an_input_waits_and_it_says_why(
    server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bolts.sinks.http import delivering

    monkeypatch.setattr(delivering, "HELD_MAX", 10)
    monkeypatch.setattr(delivering, "SLOW_S", 0.5)
    gate = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def hangs(posted: Posted) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(gate.wait(), loop))

    server.answers = hangs
    async with opened(WebHook(server.url, concurrency=2)) as sink:
        out = RecordedAnswers()
        giving = asyncio.ensure_future(give(sink, deliveries(*range(30)), out))
        assert await within(SOON_S, lambda: "slower than its input, and 10 records wait" in sink.away)
        assert not giving.done()
        gate.set()
        await giving
        assert await within(SOON_S, lambda: len(out.acked) == 30)
        assert sink.away == ""


async def test_a_replay_of_what_is_under_way_is_not_sent_twice(server: HookServer) -> None:
    async def slow(posted: Posted) -> None:
        await asyncio.sleep(0.3)

    server.answers = slow
    async with opened(WebHook(server.url)) as sink:
        out = await feed(sink, deliveries(1, 1, 1))
        assert (sink.stored, sink.duplicates) == (1, 2)
    assert len(out.acked) == 3
    assert len(server.posted) == 1


# -- the end


async def test_close_lets_a_request_under_way_end(server: HookServer) -> None:
    async def slow(posted: Posted) -> None:
        await asyncio.sleep(1.0)

    server.answers = slow
    out = RecordedAnswers()
    async with opened(WebHook(server.url, concurrency=1)) as sink:
        await give(sink, deliveries(1, 2), out)
        assert await within(SOON_S, lambda: bool(server.posted))
    assert out.numbers == [1]
    assert [(tup.record.number, why) for tup, why in out.failed] == [
        (2, "the sink was closed before this was delivered")
    ]


async def test_close_does_not_wait_for_a_server_that_hangs(server: HookServer) -> None:
    async def hangs(posted: Posted) -> None:
        await asyncio.sleep(60)

    server.answers = hangs
    out, loop = RecordedAnswers(), asyncio.get_running_loop()
    async with opened(WebHook(server.url, concurrency=3)) as sink:
        given = await give(sink, deliveries(*range(10)), out)
        assert await within(SOON_S, lambda: len(server.posted) == 3)
        started_at = loop.time()
    assert loop.time() - started_at < 8
    assert all(map(out.is_done, given))
    assert not out.acked
    with pytest.raises(RuntimeError, match="WebHook is not open"):
        sink.execute(delivery(item(1)), out)


async def test_an_input_that_waits_for_room_fails_at_the_end(
    server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bolts.sinks.http import delivering

    monkeypatch.setattr(delivering, "HELD_MAX", 5)
    server.stop()
    out = RecordedAnswers()
    async with opened(WebHook(server.url)) as sink:
        giving = asyncio.ensure_future(give(sink, deliveries(*range(6)), out))
        assert await within(SOON_S, lambda: bool(sink.away))
        assert not giving.done()
    await giving
    assert len(out.failed) == 6
    server.start()
