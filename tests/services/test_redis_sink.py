"""`RedisSink` on a real server, by the suite that all sinks go through, and its own options."""

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from answers_proxy import AnswersProxy
from redis_kit import PORT, RedisSinkSubject, client, deleted, reached

from bolts.sinks.redis.sink import RedisSink
from topology import Config, ConfigurationError, Record
from topology.runtime.worker.sink_horizon import replay_horizon_s
from topology.testing.sinks import SINK_CHECKS, check_sink
from topology.testing.sinks.driver import RecordedAnswers, delivery, feed, item, opened, within

pytestmark = pytest.mark.service("redis")

URL = f"redis://127.0.0.1:{PORT}"


@pytest.fixture
def target() -> Iterator[str]:
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


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("check", SINK_CHECKS)
def test_the_sink_keeps_the_contract(
    check: str, mode: Literal["append", "upsert"], target: str, proxy: AnswersProxy
) -> None:
    subject = RedisSinkSubject(target, mode)
    subject.proxy = proxy
    left_out = check_sink(check, subject)
    assert left_out in ("", "it is about append mode", "it is about upsert mode")


class Reading(Record):
    sensor: str
    at: datetime
    celsius: float | None
    tags: tuple[str, ...] = ()


def reading(sensor: str, minute: int, celsius: float | None, *tags: str) -> Any:
    at = datetime(2026, 3, 1, 12, minute, tzinfo=UTC)
    return Reading(sensor, at, celsius, tags)


async def stored(sink: RedisSink, *records: Any, first: int = 1) -> RecordedAnswers:
    """The answers of a sink that is given these records."""
    async with opened(sink) as one:
        return await feed(one, [delivery(record, message=number) for number, record in enumerate(records, first)])


# -- streams


async def test_an_entry_has_the_body_the_class_and_the_key(target: str) -> None:
    await stored(RedisSink(URL, target), item(1))
    with client() as one:
        ((_, fields),) = one.xrange(target)
        (marked,) = one.scan_iter(f"{{{target}}}:kedge:*", count=10_000)
        assert 800 < one.ttl(marked) <= 900
    assert fields[b"data"] == b'{"number":1,"revision":1,"text":"item 1","value":0.125}'
    assert fields[b"kedge-record"] == b"SinkItem"
    assert marked == f"{{{target}}}:kedge:".encode() + fields[b"kedge-key"]


async def test_a_body_may_be_made_by_a_function(target: str) -> None:
    await stored(RedisSink(URL, target, body=lambda record: f"<{record.number}>"), item(7))
    with client() as one:
        ((_, fields),) = one.xrange(target)
    assert fields[b"data"] == b"<7>"


async def test_a_stream_keeps_about_max_length_entries(target: str) -> None:
    await stored(RedisSink(URL, target, max_length=100), *map(item, range(1, 1_001)))
    with client() as one:
        assert 100 <= one.xlen(target) < 400
        assert one.xrevrange(target, count=1)[0][1][b"data"].startswith(b'{"number":1000')


@pytest.mark.parametrize(("remembers_s", "entries"), [(0, 2), (900.0, 1)])
async def test_an_output_is_known_after_a_restart_if_it_is_remembered(
    target: str, remembers_s: float, entries: int
) -> None:
    for _ in range(2):
        sink = RedisSink(URL, target, remembers_s=remembers_s)
        assert sink.drops_replays is bool(remembers_s)
        await stored(sink, item(1))
    with client() as one:
        assert one.xlen(target) == entries


async def test_an_output_is_forgotten_after_remembers_s(target: str) -> None:
    with client() as looking:
        for _ in range(2):
            await stored(RedisSink(URL, target, remembers_s=0.001), item(1))
            assert await within(5, lambda: not [*looking.scan_iter(f"{{{target}}}:kedge:*", count=10_000)])
        assert looking.xlen(target) == 2


def test_the_default_remembers_for_as_long_as_a_replay_may_come() -> None:
    remembers_s = RedisSink(URL, "alerts").remembers_s
    assert remembers_s is not None
    assert remembers_s >= replay_horizon_s(Config())


async def test_scripts_that_the_server_has_forgotten_are_sent_again(target: str) -> None:
    async with opened(RedisSink(URL, target)) as sink:
        await feed(sink, [delivery(item(1))])
        with client() as one:
            one.script_flush()
        out = await feed(sink, [delivery(item(2))])
    assert out.numbers == [2]


async def test_a_target_of_another_type_is_refused_at_the_start_and_refuses_records_later(target: str) -> None:
    with client() as one:
        one.set(target, "text")
        with pytest.raises(ConfigurationError, match=f"^RedisSink: '{target}' of {URL} is a string, and no stream"):
            await stored(RedisSink(URL, target), item(1))
        one.delete(target)
        async with opened(RedisSink(URL, target)) as sink:
            await feed(sink, [delivery(item(1))])
            one.delete(target)
            one.set(target, "text")
            out = await feed(sink, [delivery(item(2))])
            assert "Redis refuses it: WRONGTYPE" in out.failed[0][1]
            one.delete(target)
            out = await feed(sink, [delivery(item(2))])  # it was not noted as known
        assert out.numbers == [2]
        assert one.xlen(target) == 1


async def test_large_bodies_are_sent_in_several_rounds(target: str) -> None:
    records = [item(number, text="x" * 3_000_000) for number in range(1, 8)]
    out = await stored(RedisSink(URL, target), *records)
    assert sorted(out.numbers) == [*range(1, 8)]
    with client() as one:
        assert one.xlen(target) == 7


# -- hashes


def hashes(target: str, **options: Any) -> RedisSink:
    return RedisSink(URL, target, kind="hash", **{"key": ("sensor",), "revision": "at", **options})


async def test_a_hash_has_the_fields_as_texts_and_none_of_a_field_that_is_none(target: str) -> None:
    await stored(hashes(target), reading("oven", 1, 85.5, "hot", "big"))
    with client() as one:
        found = one.hgetall(f"{target}:oven")
        assert found == {
            b"sensor": b"oven",
            b"at": b"2026-03-01T12:01:00.000000Z",
            b"celsius": b"85.5",
            b"tags": b'["hot","big"]',
        }
        await stored(hashes(target), reading("oven", 2, None), first=2)
        assert one.hgetall(f"{target}:oven") == {
            b"sensor": b"oven",
            b"at": b"2026-03-01T12:02:00.000000Z",
            b"tags": b"[]",
        }


async def test_another_content_of_one_revision_is_divergent_and_the_same_one_is_known(target: str) -> None:
    first = reading("oven", 1, None, "a")
    async with opened(hashes(target)) as sink:
        others = [reading("oven", 1, None), reading("oven", 1, 1.0, "a")]
        records = [first, first, *others]
        await feed(sink, [delivery(record, message=number) for number, record in enumerate(records, 1)])
        assert (sink.stored, sink.duplicates, sink.divergent) == (1, 3, 2)


async def test_keys_of_several_fields_do_not_meet(target: str) -> None:
    class Pair(Record):
        number: int
        one: str
        other: str

    records = [Pair(1, "a:b", "c"), Pair(1, "a", "b:c"), Pair(1, "a%3Ab", "c")]
    await stored(hashes(target, key=("one", "other"), revision="number"), *records)
    with client() as one:
        assert sorted(one.scan_iter(f"{target}:*", count=10_000)) == sorted(
            f"{target}:{key}".encode() for key in ("a%3Ab:c", "a:b%3Ac", "a%253Ab:c")
        )


@pytest.mark.parametrize(
    ("low", "high"), [(9, 10), (-10, -9), (-1, 0), (-1, 1), (2**53, 2**53 + 1), (-(2**63), 2**63 - 1)]
)
async def test_revisions_are_numbers_of_64_bits(target: str, low: int, high: int) -> None:
    class Numbered(Record):
        number: int
        revision: int

    ordered = (Numbered(1, low), Numbered(1, high), Numbered(2, high), Numbered(2, low))
    await stored(hashes(target, key=("number",), revision="revision"), *ordered)
    with client() as one:
        assert [one.hget(f"{target}:{number}", "revision") for number in (1, 2)] == [str(high).encode()] * 2


async def test_a_key_of_another_type_and_a_revision_of_another_kind_fail_alone(target: str) -> None:
    with client() as one:
        one.set(f"{target}:text", "text")
        one.hset(f"{target}:other", "at", "yesterday")
        one.hset(f"{target}:without", "else", "kept")
        out = await stored(hashes(target), *[reading(name, 1, 1.0) for name in ("text", "other", "without", "good")])
        assert sorted(tup.record.sensor for tup in out.acked) == ["good", "without"]
        assert one.hget(f"{target}:without", "else") == b"kept"
    reasons = {tup.record.sensor: why for tup, why in out.failed}
    assert "WRONGTYPE" in reasons["text"]
    assert "its revision there is 'yesterday'" in reasons["other"]


async def test_a_second_record_class_is_refused(target: str) -> None:
    class Other(Record):
        sensor: str
        at: datetime

    out = await stored(hashes(target), reading("oven", 1, 1.0), Other("oven", datetime(2026, 1, 1, tzinfo=UTC)))
    assert len(out.acked) == 1
    assert "hold Reading, and not Other" in out.failed[0][1]


async def test_a_key_whose_values_have_several_types_is_refused(target: str) -> None:
    class Mixed(Record):
        name: Literal[1, "1"]
        at: datetime

    out = await stored(hashes(target, key=("name",)), Mixed(1, datetime(2026, 1, 1, tzinfo=UTC)))
    assert "its values have several types" in out.failed[0][1]


# -- channels


async def test_a_channel_gets_each_record_and_nothing_is_kept(target: str) -> None:
    sink = RedisSink(URL, target, kind="channel")
    assert not sink.drops_replays
    with client() as one, one.pubsub(ignore_subscribe_messages=True) as heard:
        heard.subscribe(target)
        heard.get_message(timeout=5)
        await stored(sink, item(1), item(2))
        found = [heard.get_message(timeout=5)["data"][:11] for _ in range(2)]
        assert found == [b'{"number":1', b'{"number":2']
        assert not one.exists(target)


# -- arguments


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"kind": "list"}, 'kind is "stream", "hash" or "channel"'),
        ({"remembers_s": -1}, "remembers_s is a number of seconds"),
        ({"max_length": 0}, "max_length is a number of entries"),
        ({"wait_replicas": -1}, "wait_replicas is a number of replicas"),
        ({"key": ("number",)}, 'key and revision belong to kind="hash"'),
        ({"kind": "hash"}, "upsert mode needs key="),
        ({"kind": "hash", "key": ("number",)}, "upsert mode needs revision="),
        ({"kind": "hash", "key": ("number",), "revision": "at", "body": str}, "has the fields of its record"),
        ({"kind": "channel", "wait_replicas": 1}, "a channel stores nothing"),
        ({"kind": "channel", "max_length": 1}, 'max_length belongs to kind="stream"'),
        ({"kind": "channel", "remembers_s": 0}, 'remembers_s belongs to kind="stream"'),
        ({"batch": 0}, "batch is a number of tuples"),
    ],
)
def test_a_wrong_argument_is_refused_in_a_sentence(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        RedisSink(URL, "alerts", **options)
    assert str(raised.value).startswith("RedisSink: ")
    assert why in str(raised.value)


@pytest.mark.parametrize("url", ["redis://", "http://a", "redis://a/x", "redis://a?db=1", "redis://a:99999", "a b"])
def test_a_wrong_url_is_refused_without_its_password(url: str) -> None:
    url = url.replace("//a", "//ann:hidden@a")
    with pytest.raises(ConfigurationError) as raised:
        RedisSink(url, "alerts")
    assert str(raised.value).startswith("RedisSink: url is redis://USER:PASSWORD@HOST:PORT/DATABASE")
    assert "hidden" not in str(raised.value)
