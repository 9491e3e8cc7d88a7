"""`RedisStreamSource` on a real server, by the suite that all sources go through, and its own options."""

import asyncio
import json
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from answers_proxy import AnswersProxy
from redis_kit import PORT, RedisSourceSubject, client, deleted, reached
from slow_proxy import SlowProxy

from spouts.payload.formats import Json, Msgpack, Payload
from spouts.servers.redis import RedisStreamSource
from topology import ConfigurationError, Record
from topology.clients.tls import Tls
from topology.dead_letters import Malformed
from topology.testing.sources import SOURCE_CHECKS, check_source
from topology.testing.sources.driver import DrivenSource, Memory, within

pytestmark = pytest.mark.service("redis")

COME_S = 30.0
URL = f"redis://127.0.0.1:{PORT}"


@pytest.fixture
def stream() -> Iterator[str]:
    try:
        reached()
    except Exception as error:
        pytest.skip(f"no Redis to test with on port {PORT} ({error}); CONTRIBUTING.md says how to start one")
    name = f"kedge-{secrets.token_hex(6)}"
    yield name
    deleted(name)


@pytest.fixture
def proxy() -> Iterator[AnswersProxy]:
    one = AnswersProxy(PORT)
    yield one
    one.close()


@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_the_source_keeps_the_contract(check: str, stream: str, proxy: AnswersProxy) -> None:
    subject = RedisSourceSubject(stream)
    subject.proxy = proxy
    assert not check_source(check, subject)


def driven(stream: str, memory: Memory | None = None, tasks: int = 1, index: int = 0, **options: Any) -> DrivenSource:
    return DrivenSource(RedisStreamSource(URL, stream, **options), memory or Memory(), tasks, index)


def texts(source: DrivenSource) -> list[str]:
    return [message.record.text for message in source.messages]


class Reading(Record):
    sensor: str
    celsius: float
    stream: str = ""
    where: str = ""


# -- payloads


async def given(stream: str, *entries: dict[str, Any], **options: Any) -> list[Any]:
    """The messages that a source gives for these entries."""
    source = driven(stream, **options)
    with client() as one:
        for entry in entries:
            one.xadd(stream, entry)
    await source.open()
    await source.take(len(entries), COME_S)
    await source.close()
    return source.messages


async def test_the_fields_of_an_entry_may_be_those_of_the_record(stream: str) -> None:
    class Typed(Record):
        number: int
        celsius: float
        hot: bool
        at: datetime
        note: str | None = None

    entry = {"number": "7", "celsius": "85.5", "hot": "true", "at": "2026-03-01T12:00:00Z", "more": "ignored"}
    (message,) = await given(stream, entry, value=Json(Typed, at="at"), payload_field=None)
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert message.record == Typed(7, 85.5, True, at)
    assert message.at == at


async def test_fields_that_do_not_fit_are_malformed_with_all_fields_as_json(stream: str) -> None:
    bad = {"sensor": "oven", "celsius": "hot"}, {"sensor": b"\xff", "celsius": "1"}
    first, second = await given(stream, *bad, value=Reading, payload_field=None)
    assert isinstance(first.record, Malformed)
    assert json.loads(first.record.data) == {"sensor": "oven", "celsius": "hot"}
    assert "celsius" in first.record.error
    assert second.record.error == "its field 'sensor' is not UTF-8"
    assert json.loads(second.record.data) == {"sensor": "\\xff", "celsius": "1"}


async def test_other_fields_of_an_entry_are_beside_the_payload(stream: str) -> None:
    value = Json(Reading, fields={"stream": "stream", "where": "header:room"})
    entry = {"body": '{"sensor": "oven", "celsius": 85.5}', "room": "kitchen"}
    (message,) = await given(stream, entry, value=value, payload_field="body")
    assert message.record == Reading("oven", 85.5, stream, "kitchen")


async def test_an_entry_without_the_payload_field_is_malformed(stream: str) -> None:
    (message,) = await given(stream, {"other": "text"})
    assert message.record.error == "the entry has no field 'data'"
    assert json.loads(message.record.data) == {"other": "text"}
    assert ("header:other", "text") in message.record.attributes


async def test_an_id_is_the_entry_s_and_the_event_time_is_in_it(stream: str) -> None:
    class Beside(Record):
        id: str

    def read(payload: Payload) -> Beside:
        return Beside(payload.attributes["id"])

    with client() as one:
        now = datetime.now(UTC)
        one.xadd(stream, {"data": "x"})
        one.xadd(stream, {"data": "x"}, id=f"{2**63}-5")  # no time
        ids = [entry.decode() for entry, _ in one.xrange(stream)]
    messages = await given(stream, value=read)
    assert messages == []  # `given` has waited for none
    source = driven(stream, value=read)
    await source.open()
    first, second = await source.take(2, COME_S)
    await source.close()
    assert [first.id, second.id] == [first.record.id, second.record.id] == ids
    assert first.at is not None
    assert abs(first.at - now) < timedelta(minutes=1)
    assert second.at is None


# -- the group


async def test_a_new_group_may_begin_at_the_next_entry_and_later_runs_go_on(stream: str) -> None:
    with client() as one:
        one.xadd(stream, {"data": "old"})
        first = driven(stream, begin="new")
        await first.open()
        await first.close()
        one.xadd(stream, {"data": "new"})
    again = driven(stream, begin="new")
    await again.open()
    await again.take(1, COME_S)
    await again.close()
    assert texts(again) == ["new"]


@pytest.mark.parametrize("delete", [False, True])
async def test_settled_entries_are_acknowledged_and_may_be_deleted(stream: str, delete: bool) -> None:
    source = driven(stream, delete_confirmed=delete, group="mine")
    await source.open()
    with client() as one:
        for number in range(5):
            one.xadd(stream, {"data": str(number)})
        await source.take(5, COME_S)
        await source.settle(source.messages[:3])
        assert await within(COME_S, lambda: one.xpending(stream, "mine")["pending"] == 2)
        await source.close()
        assert one.xlen(stream) == (2 if delete else 5)


async def test_names_of_group_and_consumers_are_the_same_in_each_run(stream: str) -> None:
    sources = [driven(stream, tasks=2, index=index) for index in range(2)]
    with client() as one:
        for source in sources:
            await source.open()
            one.xadd(stream, {"data": "x"})
            await source.rest()
        (group,) = one.xinfo_groups(stream)
        consumers = sorted(each["name"] for each in one.xinfo_consumers(stream, group["name"]))
        for source in sources:
            await source.close()
    assert group["name"] == b"kedge-conformance-source"
    assert consumers == [b"kedge-conformance-source-0", b"kedge-conformance-source-1"]


async def test_entries_of_a_consumer_that_is_gone_are_claimed_by_one_task(stream: str) -> None:
    with client() as one:
        one.xgroup_create(stream, "mine", "0", mkstream=True)
        for number in range(50):
            one.xadd(stream, {"data": str(number)})
        one.xreadgroup("mine", "gone", {stream: ">"})
    sources = [driven(stream, tasks=2, index=index, group="mine", stale_after_s=1) for index in range(2)]
    for source in sources:
        await source.open()
        await source.rest(0.1)
        assert texts(source) == [], "it may still be there"
    for source in sources:
        await source.rest(2.5)
    for source in sources:
        await source.close()
    assert sorted(int(text) for source in sources for text in texts(source)) == [*range(50)]


async def test_entries_of_a_consumer_that_lives_stay_its_own_however_long_they_take(stream: str) -> None:
    slow, other = (driven(stream, tasks=2, index=index, stale_after_s=1) for index in range(2))
    await slow.open()
    with client() as one:
        for number in range(3):
            one.xadd(stream, {"data": str(number)})
        await slow.take(3, COME_S)
        await other.open()
        await other.rest(3.5)
        pending = one.xpending_range(stream, "kedge-conformance-source", "-", "+", 10)
        await other.close()
        await slow.close()
    assert texts(other) == []
    assert {each["consumer"] for each in pending} == {b"kedge-conformance-source-0"}


async def test_entries_that_were_given_to_a_dead_connection_of_the_same_consumer_come_too(stream: str) -> None:
    source = driven(stream, prefetch=1, stale_after_s=1)
    await source.open()
    with client() as one:
        one.xadd(stream, {"data": "0"})
        assert await within(COME_S, lambda: source.spout.received == 1)  # it reads no more now
        for text in ("1", "2"):
            one.xadd(stream, {"data": text})
        group = "kedge-conformance-source"
        assert one.xreadgroup(group, f"{group}-0", {stream: ">"})[0][1]
        await source.take(1, COME_S)
        await source.settle(source.messages)
        one.xadd(stream, {"data": "3"})
        await source.take(4, COME_S)
    await source.close()
    assert sorted(texts(source)) == ["0", "1", "2", "3"]


async def test_an_entry_that_was_deleted_while_it_was_pending_is_passed_over_and_logged(
    stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = driven(stream)
    await first.open()
    with client() as one:
        for number in range(3):
            one.xadd(stream, {"data": str(number)})
        await first.take(3, COME_S)
        await first.close()
        gone = first.messages[1].id
        one.xdel(stream, gone)
        again = driven(stream)
        await again.open()
        await again.take(2, COME_S)
        await again.close()
        assert texts(again) == ["0", "2"]
        assert f"1 entries were deleted or trimmed before they were acknowledged, the first is {gone}" in caplog.text
        assert one.xpending(stream, "kedge-conformance-source")["pending"] == 2


@pytest.mark.parametrize("begin", ["all", "new"])
async def test_a_stream_that_is_deleted_is_read_from_its_start_when_it_is_there_again(stream: str, begin: str) -> None:
    source = driven(stream, begin=begin)
    await source.open()
    with client() as one:
        one.xadd(stream, {"data": "one"})
        await source.take(1, COME_S)
        one.delete(stream)
        await asyncio.sleep(0.01)  # an entry of the same millisecond would have the same id
        one.xadd(stream, {"data": "two"})
        await source.take(2, COME_S)
    await source.close()
    assert texts(source) == ["one", "two"]


async def test_a_group_that_is_destroyed_goes_on_where_it_was(stream: str) -> None:
    source = driven(stream)
    await source.open()
    with client() as one:
        one.xadd(stream, {"data": "one"})
        await source.take(1, COME_S)
        one.xgroup_destroy(stream, "kedge-conformance-source")
        one.xadd(stream, {"data": "two"})
        await source.take(2, COME_S)
    await source.close()
    assert texts(source) == ["one", "two"]
    assert "given again" not in " ".join(source.spout.summary())


@pytest.mark.parametrize("settled", [0, 4])
async def test_entries_under_way_are_pending_again_in_a_group_that_is_made_again(stream: str, settled: int) -> None:
    memory, group = Memory(), "kedge-conformance-source"
    first = driven(stream, memory)
    await first.open()
    with client() as looking:
        for number in range(10):
            looking.xadd(stream, {"data": str(number)})
        await first.take(10, COME_S)
        await first.settle(first.messages[1 : settled + 1])
        assert await within(COME_S, lambda: looking.xpending(stream, group)["pending"] == 10 - settled)
        looking.xgroup_destroy(stream, group)
        assert await within(COME_S, lambda: bool(looking.xinfo_groups(stream)))
        assert await within(COME_S, lambda: looking.xpending(stream, group)["pending"] == 10 - settled)
        looking.xadd(stream, {"data": "10"})
        await first.take(11, COME_S)
    await first.rest()
    assert texts(first) == [str(number) for number in range(11)]
    memory.given.clear()  # as if it had not had a position: the group alone gives them again
    await first.close()
    again = driven(stream, memory)
    await again.open()
    await again.take(11 - settled, COME_S)
    await again.rest()
    await again.close()
    assert texts(again) == ["0", *(str(number) for number in range(settled + 1, 11))]


async def test_each_task_s_entries_under_way_are_pending_again_whoever_makes_the_group(
    stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spouts.servers.redis.BEAT_S", 0.2)
    group, memory = "kedge-conformance-source", Memory()
    tasks = [driven(stream, memory, 2, index, prefetch=2) for index in range(2)]
    with client() as looking:
        for number in range(8):
            looking.xadd(stream, {"data": str(number)})
        for task in tasks:
            await task.open()
            await task.take(2, COME_S)  # two more have come, so that it does not read
        assert await within(COME_S, lambda: looking.xpending(stream, group)["pending"] == 8)
        looking.xgroup_destroy(stream, group)
        await tasks[0].take(4, COME_S)
        assert await within(COME_S, lambda: bool(looking.xinfo_groups(stream)))
        assert await within(COME_S, lambda: looking.xpending(stream, group)["pending"] == 8)
    for task in tasks:
        await task.close()


async def test_entries_that_are_too_many_for_a_slow_line_come_in_smaller_reads(
    stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spouts.servers.redis.BLOCK_S", 0.2)
    monkeypatch.setattr("spouts.servers.redis.ANSWER_S", 0.8)
    with client() as looking:
        for _ in range(100):
            looking.xadd(stream, {"data": b"x" * 20_000})
    proxy = SlowProxy(PORT, 5e5)
    try:  # 32 entries take 1.3 s, and may take 1 s
        source = DrivenSource(RedisStreamSource(f"redis://127.0.0.1:{proxy.port}", stream, prefetch=64), Memory())
        await source.open()
        await source.take(100, COME_S)
        await source.close()
    finally:
        proxy.close()
    assert len(source.messages) == 100


async def test_a_run_whose_group_is_gone_begins_at_its_position(stream: str) -> None:
    memory = Memory()
    first = driven(stream, memory)
    await first.open()
    with client() as one:
        for number in range(4):
            one.xadd(stream, {"data": str(number)})
        await first.take(4, COME_S)
        await first.settle(first.messages[:2])
        await first.close()
        one.xgroup_destroy(stream, "kedge-conformance-source")
        one.xadd(stream, {"data": "4"})
    again = driven(stream, memory, begin="new")
    await again.open()
    await again.take(3, COME_S)
    await again.rest()
    await again.close()
    assert texts(again) == ["2", "3", "4"]
    assert again.repeated == 0


async def test_a_lost_confirmation_is_made_again(stream: str, proxy: AnswersProxy) -> None:
    source = DrivenSource(RedisStreamSource(f"redis://127.0.0.1:{proxy.port}", stream), Memory())
    await source.open()
    with client() as one:
        for number in range(10):
            one.xadd(stream, {"data": str(number)})
        await source.take(10, COME_S)
        proxy.reset()
        await source.settle(source.messages)
        assert await within(COME_S, lambda: one.xpending(stream, "kedge-conformance-source")["pending"] == 0)
        one.xadd(stream, {"data": "10"})
        await source.take(11, COME_S)
    await source.close()
    assert texts(source) == [str(number) for number in range(11)]


async def test_more_entries_than_prefetch_wait_at_the_server(stream: str) -> None:
    source = driven(stream, prefetch=10)
    with client() as one:
        for number in range(100):
            one.xadd(stream, {"data": str(number)})
        await source.open()
        await source.take(1, COME_S)
        assert one.xpending(stream, "kedge-conformance-source")["pending"] <= 20
        await source.take(100, COME_S)
        await source.close()
    assert texts(source) == [str(number) for number in range(100)]


# -- what is refused


async def test_a_key_that_is_no_stream_is_refused(stream: str) -> None:
    with client() as one:
        one.set(stream, "text")
    with pytest.raises(ConfigurationError) as raised:
        await driven(stream).open()
    assert str(raised.value).startswith(f"RedisStreamSource: '{stream}' of {URL} is a string, and no stream")


async def test_a_wrong_password_is_refused_in_a_sentence_without_it(stream: str) -> None:
    url = f"redis://ann:wrong-secret@127.0.0.1:{PORT}"
    with pytest.raises(ConfigurationError) as raised:
        await DrivenSource(RedisStreamSource(url, stream), Memory()).open()
    assert str(raised.value).startswith(f"RedisStreamSource: {URL} refuses this user or password")
    assert "wrong-secret" not in str(raised.value)


async def test_a_database_that_is_not_there_is_refused(stream: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^RedisStreamSource: {URL}/4711 refuses: DB index is out of range"):
        await DrivenSource(RedisStreamSource(f"{URL}/4711", stream), Memory()).open()


async def test_a_position_of_another_source_is_refused(stream: str) -> None:
    memory = Memory()
    memory.given[""] = {4711: None}
    with pytest.raises(ConfigurationError, match="a position in a stream of Redis is an entry's id, not 4711"):
        await driven(stream, memory).open()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"begin": "later"}, 'begin is "all" or "new"'),
        ({"stale_after_s": 0}, "stale_after_s is a number of seconds of at least 1"),
        ({"prefetch": -1}, "prefetch is a number of messages"),
        ({"group": ""}, "group is a text that is not empty"),
        ({"payload_field": 7}, "payload_field is a text"),
        ({"payload_field": None, "value": Msgpack(Reading)}, "Msgpack reads none"),
        ({"value": Json(Reading, id="sensor")}, "leave out id"),
        ({"value": Json(Reading, fields={"where": "topic"})}, "there is id, stream"),
        ({"tls": Tls()}, "tls needs a url that begins with rediss://"),
    ],
)
def test_a_wrong_argument_is_refused_in_a_sentence(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        RedisStreamSource("redis://127.0.0.1", "logins", **options)
    assert str(raised.value).startswith("RedisStreamSource: ")
    assert why in str(raised.value)
