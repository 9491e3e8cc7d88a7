"""`AmqpSource` on a real server: its options, its ids, and what it says of what is wrong."""

import asyncio
import contextlib
import logging
import secrets
import struct
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import aiormq
import pytest
from amqp_kit import PORT, URL, Queue, at, channel, publish_changed, reached
from tcp_proxy import TcpProxy

from spouts.broker.deliveries import ConfirmedPrefix
from spouts.payload.formats import Json
from spouts.servers.amqp import AmqpSource
from topology import ConfigurationError, Record, Secret
from topology.clients.amqp import AmqpChannel, connected, version_of
from topology.clients.tls import Tls
from topology.testing.sources import SourceItem
from topology.testing.sources.driver import DrivenSource, Memory, within

pytestmark = pytest.mark.service("amqp")

COME_S = 30.0


@pytest.fixture
async def queue() -> Any:
    try:
        await reached()
    except Exception as error:
        pytest.skip(f"no RabbitMQ to test with on port {PORT} ({error}); CONTRIBUTING.md says how to start one")
    one = Queue(f"kedge-{secrets.token_hex(6)}")
    await one.make()
    yield one
    await one.delete()


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    one = TcpProxy(PORT)
    yield one
    one.close()


class Defaulted(Record):
    text: str
    number: str = ""


def body(number: int) -> bytes:
    return b'{"number": %d, "text": "item %d"}' % (number, number)


def source(queue: Queue, port: int = PORT, **options: Any) -> AmqpSource[Any]:
    return AmqpSource(at(port), queue.name, **{"value": SourceItem, **options})


def numbers(driven: DrivenSource) -> list[int]:
    return [message.record.number for message in driven.messages]


async def refusal(spout: AmqpSource[Any]) -> str:
    """What `open` says."""
    driven = DrivenSource(spout, Memory())
    with pytest.raises(ConfigurationError) as raised:
        await driven.open()
    await driven.close()
    return str(raised.value)


async def test_fields_and_the_event_time_come_from_what_is_beside_the_payload(queue: Queue) -> None:
    class BesideAmqp(Record):
        number: int
        queue: str
        exchange: str
        message_id: str
        correlation_id: str
        type: str
        content_type: str
        redelivered: bool
        origin: str
        weight: int

    facts = ("exchange", "message_id", "correlation_id", "type", "content_type", "redelivered")
    fields = {name: name for name in facts} | {
        "queue": "routing_key",
        "origin": "header:origin",
        "weight": "header:weight",
    }
    when = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    properties: dict[str, Any] = {
        "correlation_id": "c",
        "message_type": "login",
        "content_type": "text/csv",
        "timestamp": when,
        "headers": {"origin": "test", "weight": 3},
    }
    await queue.publish([b'{"number": 7}'], ["seven"], **properties)
    driven = DrivenSource(source(queue, value=Json(BesideAmqp, fields=fields)), Memory())
    await driven.open()
    (message,) = await driven.take(1, COME_S)
    await driven.close()
    wanted = BesideAmqp(7, queue.name, "", "seven", "c", "login", "text/csv", False, "test", 3)
    assert message.record == wanted
    assert message.at == when
    assert str(message.id).startswith("seven#")


async def test_a_message_that_was_sent_twice_under_one_id_is_one_and_leaves_the_queue(queue: Queue) -> None:
    await queue.publish([body(1), body(1), body(2)], ["a", "a", "b"])
    driven = DrivenSource(source(queue), Memory())
    await driven.open()
    await driven.take(2, COME_S)
    await driven.rest()
    await driven.settle(driven.messages)
    await queue.publish([body(1)], ["a"])  # once more, when it is done
    await driven.rest()
    await driven.close()
    assert numbers(driven) == [1, 2]
    assert await queue.waiting() == 0, "each of the four deliveries is acknowledged"


async def test_an_id_that_a_producer_uses_twice_hides_no_message(queue: Queue) -> None:
    await queue.publish([body(1), body(2)], ["same", "same"])
    driven = DrivenSource(source(queue), Memory())
    await driven.open()
    await driven.take(2, COME_S)
    await driven.close()
    assert numbers(driven) == [1, 2]
    assert len({message.id for message in driven.messages}) == 2


async def test_messages_without_ids_are_told_once_and_keep_their_names_over_a_lost_connection(
    queue: Queue, proxy: TcpProxy, caplog: pytest.LogCaptureFixture
) -> None:
    spout = source(queue, proxy.port)
    assert spout.given_again == "other ids"
    driven = DrivenSource(spout, Memory())
    with caplog.at_level(logging.WARNING, "kedge.spouts"):
        await driven.open()
        await queue.publish([body(1), body(1), body(2)], [None] * 3, headers={"origin": "test"})
        await driven.take(3, COME_S)
        proxy.reset()
        await queue.publish([body(3)], [None])
        await driven.take(4, COME_S)
        await driven.rest()
        await driven.settle(driven.messages)
        again = "".join(driven.spout.summary())
        await driven.close()
    assert sorted(numbers(driven)) == [1, 1, 2, 3]
    assert "3 given again" in again
    assert await queue.waiting() == 0
    told = [record.getMessage() for record in caplog.records if "message-id" in record.getMessage()]
    assert len(told) == 1
    assert "Json(…, id=…)" in told[0]


async def test_messages_without_ids_are_malformed_if_ids_are_required(queue: Queue) -> None:
    spout = source(queue, requires_ids=True)
    assert spout.given_again == "same"
    await queue.publish([body(1), body(2)], ["one", None])
    driven = DrivenSource(spout, Memory())
    await driven.open()
    await driven.take(2, COME_S)
    await driven.close()
    (first, second) = driven.messages
    assert first.record == SourceItem(1, "item 1")
    assert second.record.data == body(2)
    assert "no message-id" in second.record.error


async def test_a_field_names_the_messages_whatever_their_message_ids_are(queue: Queue) -> None:
    spout = source(queue, value=Json(SourceItem, id="text"))
    assert spout.given_again == "same"
    await queue.publish([body(1), body(2), body(1)], ["x", "x", "y"])
    driven = DrivenSource(spout, Memory())
    await driven.open()
    await driven.take(2, COME_S)
    await driven.rest()
    await driven.settle(driven.messages)
    await driven.close()
    assert [message.id for message in driven.messages] == ["item 1", "item 2"]
    assert await queue.waiting() == 0


async def test_another_content_under_the_id_of_a_field_is_malformed_and_the_same_content_is_one_message(
    queue: Queue,
) -> None:
    driven = DrivenSource(source(queue, value=Json(SourceItem, id="number")), Memory())
    await driven.open()
    other, late = b'{"number": 1, "text": "other"}', b'{"number": 2, "text": "late"}'
    await queue.publish([body(1), other, body(1), body(2)], [None] * 4)
    await driven.take(3, COME_S)
    await driven.settle(driven.messages)
    await driven.rest()
    await queue.publish([late, body(2)], [None] * 2)  # when the first 2 is done
    await driven.take(4, COME_S)
    await driven.rest()
    await driven.settle(driven.messages[3:])
    await driven.close()
    assert [getattr(message.record, "data", message.record) for message in driven.messages] == [
        *(SourceItem(1, "item 1"), other, SourceItem(2, "item 2"), late)
    ]
    assert driven.messages[1].record.error == "the id '1' was used for other content"
    assert len({message.id for message in driven.messages}) == 4
    assert await queue.waiting() == 0, "each is acknowledged"


async def test_what_a_field_names_is_one_message_after_a_lost_connection(queue: Queue, proxy: TcpProxy) -> None:
    driven = DrivenSource(source(queue, proxy.port, value=Json(SourceItem, id="number")), Memory())
    await driven.open()
    await queue.publish([body(1), body(2)], [None] * 2)
    await driven.take(2, COME_S)
    proxy.reset()
    await queue.publish([body(3)], [None])
    await driven.take(3, COME_S)
    await driven.rest()
    await driven.settle(driven.messages)
    malformed = driven.spout.malformed
    await driven.close()
    assert numbers(driven) == [1, 2, 3]
    assert malformed == 0
    assert await queue.waiting() == 0


async def test_what_is_settled_in_any_order_leaves_the_queue_and_the_rest_is_given_back(queue: Queue) -> None:
    await queue.publish([body(number) for number in range(1, 11)])
    driven = DrivenSource(source(queue), Memory())
    await driven.open()
    await driven.take(10, COME_S)
    by_number = {message.record.number: message for message in driven.messages}
    for part in ((5, 9), (2, 1), (3,)):
        await driven.settle([by_number[number] for number in part])
        await driven.rest(0.05)
    await driven.close()
    assert [message.body for message in await queue.take_all()] == [body(number) for number in (4, 6, 7, 8, 10)]


def test_one_frame_confirms_all_deliveries_up_to_the_first_that_is_not_done() -> None:
    prefix = ConfirmedPrefix()
    for tag in range(1, 9):
        prefix.add(tag)
    assert prefix.confirm([2, 4]) == (0, [2, 4])
    assert prefix.confirm([1]) == (1, [])
    assert prefix.confirm([3, 5, 7]) == (5, [7])
    assert prefix.confirm([6, 8]) == (8, [])
    prefix.add(9)
    assert prefix.confirm([9]) == (9, [])


async def test_rabbitmq_gives_no_more_than_prefetch_until_some_are_settled(queue: Queue) -> None:
    await queue.publish([body(number) for number in range(1, 26)])
    driven = DrivenSource(source(queue, prefetch=10), Memory())
    await driven.open()
    await driven.take(25, 1.0)
    assert numbers(driven) == [*range(1, 11)]
    await driven.settle(driven.messages[:4])
    await driven.take(14, COME_S)
    await driven.rest()
    assert numbers(driven) == [*range(1, 15)]
    await driven.settle(driven.messages)
    await driven.take(24, COME_S)
    await driven.close()
    assert numbers(driven) == [*range(1, 25)]


async def test_a_missing_queue_is_said_and_made_only_if_it_is_declared() -> None:
    one = Queue(f"kedge-{secrets.token_hex(6)}")
    said = await refusal(source(one))
    assert said.startswith(f"AmqpSource: there is no queue {one.name} of amqp://127.0.0.1:{PORT}")
    for declare in ("durable", "quorum"):
        driven = DrivenSource(source(one, declare=declare), Memory())
        try:
            await driven.open()
            await one.publish([body(1)])
            await driven.take(1, COME_S)
            await driven.close()
            assert numbers(driven) == [1]
            other = "quorum" if declare == "durable" else "durable"
            assert "PRECONDITION_FAILED" in await refusal(source(one, declare=other))
        finally:
            await driven.close()
            await one.delete()


@pytest.fixture
async def missing() -> AsyncIterator[Queue]:
    """A queue that the test makes, or does not."""
    try:
        await reached()
    except Exception as error:
        pytest.skip(f"no RabbitMQ to test with ({error})")
    found = Queue(f"kedge-{secrets.token_hex(6)}")
    yield found
    await found.delete()


async def limit_of(queue: Queue) -> int | None:
    """The delivery limit that a quorum queue was declared with."""
    for limit in (None, -1):
        asked = {"x-queue-type": "quorum", "x-delivery-limit": limit}
        with contextlib.suppress(aiormq.exceptions.ChannelPreconditionFailed):
            await queue.make(arguments={name: value for name, value in asked.items() if value is not None})
            return limit
    raise AssertionError("another limit")


@pytest.mark.parametrize(("version", "limit"), [((3, 13), None), ((4, 0), -1), ((4, 3), -1), ((0, 0), None)])
async def test_a_quorum_queue_is_made_without_a_delivery_limit(
    missing: Queue, version: tuple[int, int], limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RabbitMQ 3 has none unless one is said, and takes -1 for 0: each message that is given back is dropped then."""
    monkeypatch.setattr(AmqpChannel, "version", version)
    driven = DrivenSource(source(missing, declare="quorum"), Memory())
    await driven.open()
    await driven.close()
    assert await limit_of(missing) == limit


async def test_a_quorum_queue_that_is_there_with_a_limit_is_read_and_the_log_says_so(
    missing: Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await missing.make(arguments={"x-queue-type": "quorum"})
    monkeypatch.setattr(AmqpChannel, "version", (4, 0))
    driven = DrivenSource(source(missing, declare="quorum"), Memory())
    with caplog.at_level(logging.WARNING, "kedge.spouts"):
        await driven.open()
    await missing.publish([body(1)])
    await driven.take(1, COME_S)
    await driven.close()
    assert numbers(driven) == [1]
    (told,) = [record.getMessage() for record in caplog.records if "delivery limit" in record.getMessage()]
    assert told.startswith(f"queue {missing.name} of amqp://127.0.0.1:{PORT} is there already")


async def test_the_version_of_the_server_is_known(queue: Queue) -> None:
    opened = await connected(Secret(URL), needed_by="AmqpSource", confirms=False)
    await opened.close()
    assert opened.version >= (3, 8)


@pytest.mark.parametrize(
    ("properties", "version"),
    [
        ({"product": "RabbitMQ", "version": "4.1.0-rc.2"}, (4, 1)),
        ({"product": "RabbitMQ", "version": "3.10.8"}, (3, 10)),
        ({"product": "RabbitMQ", "version": "x"}, (0, 0)),
        ({"product": "Another", "version": "4.1.0"}, (0, 0)),
        ({}, (0, 0)),
    ],
)
def test_a_version_is_read_of_what_rabbitmq_says(properties: dict[str, str], version: tuple[int, int]) -> None:
    assert version_of(properties) == version


async def test_a_stream_is_refused_as_it_keeps_what_is_acknowledged() -> None:
    one = Queue(f"kedge-{secrets.token_hex(6)}")
    await one.make(arguments={"x-queue-type": "stream"})
    try:
        driven = DrivenSource(source(one), Memory())
        await driven.open()
        await one.publish([body(1)])
        with pytest.raises(ConfigurationError, match=f"queue {one.name} of .* is a stream"):
            await driven.take(1, COME_S)
        await driven.close()
    finally:
        await one.delete()


async def test_a_queue_that_is_deleted_and_made_again_is_read_on(queue: Queue) -> None:
    driven = DrivenSource(source(queue), Memory())
    await driven.open()
    await queue.publish([body(1)])
    await driven.take(1, COME_S)
    polling = asyncio.ensure_future(driven.poll())
    await queue.delete()
    assert await within(COME_S, lambda: "there is no queue" in driven.spout.away), driven.spout.away
    await queue.make()
    await queue.publish([body(2)])
    await asyncio.wait((polling,), timeout=COME_S)
    await driven.close()
    assert numbers(driven) == [1, 2]


async def test_a_queue_that_another_consumer_has_for_itself_is_refused(queue: Queue) -> None:
    async with channel() as other:
        await other.basic_consume(queue.name, lambda message: None, exclusive=True)
        said = await refusal(source(queue))
    assert said.startswith(f"AmqpSource: queue {queue.name} of")
    assert "ACCESS_REFUSED" in said


WHEN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NANOSECONDS = struct.pack(">Q", int(WHEN.timestamp()) * 10**9)
SECONDS = struct.pack(">Q", int(WHEN.timestamp()))
ODD: dict[str, tuple[dict[bytes, bytes], dict[str, Any]]] = {
    "nanoseconds": ({SECONDS: NANOSECONDS}, {"timestamp": WHEN, "message_id": "odd"}),
    "message-id": ({b"\x03odd": b"\x03\xff\xfed"}, {"message_id": "odd"}),
    "header": ({SECONDS: NANOSECONDS}, {"message_id": "odd", "headers": {"origin": "test", "sent": WHEN}}),
}


@pytest.mark.parametrize("kind", ODD)
async def test_a_message_with_a_property_that_cannot_be_read_comes_without_it_and_so_do_those_behind_it(
    queue: Queue, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    changes, properties = ODD[kind]
    await queue.publish([body(1)])
    await publish_changed(queue, body(2), changes, **properties)
    await queue.publish([body(number) for number in range(3, 6)])
    driven = DrivenSource(source(queue), Memory())
    with caplog.at_level(logging.WARNING, "kedge.amqp"):
        await driven.open()
        await driven.take(5, COME_S)
    retries = driven.spout._retries.retries
    await driven.settle(driven.messages)
    await driven.close()
    assert numbers(driven) == [1, 2, 3, 4, 5]
    assert driven.messages[1].at is None
    assert str(driven.messages[1].id).startswith("/" if kind == "message-id" else "odd#")
    assert retries == 0
    assert await queue.waiting() == 0
    (told,) = [record.getMessage() for record in caplog.records if record.name == "kedge.amqp"]
    assert "a message has a " in told
    assert "comes without it" in told


async def test_a_routing_key_that_is_not_utf_8_comes_with_question_marks(queue: Queue) -> None:
    class Routed(Record):
        number: int
        key: str

    async with channel() as binding:
        await binding.queue_bind(queue.name, "amq.topic", routing_key="#")
    await publish_changed(queue, b'{"number": 1}', {b"kay": b"k\xffy"}, exchange="amq.topic", key=f"{queue.name}.kay")
    driven = DrivenSource(source(queue, value=Json(Routed, fields={"key": "routing_key"})), Memory())
    await driven.open()
    (message,) = await driven.take(1, COME_S)
    await driven.close()
    assert message.record == Routed(1, f"{queue.name}.k?y")


async def test_a_wrong_password_or_virtual_host_is_refused_in_a_sentence_without_the_password() -> None:
    try:
        await reached()
    except Exception as error:
        pytest.skip(f"no RabbitMQ to test with ({error})")
    spout = AmqpSource(Secret(f"amqp://guest:wrong-secret@127.0.0.1:{PORT}"), "q")
    said = await refusal(spout)
    assert said.startswith(f"AmqpSource: amqp://127.0.0.1:{PORT} refuses this user or password")
    assert "wrong-secret" not in said + repr(vars(spout))
    said = await refusal(AmqpSource(f"{URL}/not-there", "q"))
    assert f"AmqpSource: amqp://127.0.0.1:{PORT}/not-there refuses the virtual host 'not-there'" in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"url": "http://127.0.0.1"}, "url is amqp://"),
        ({"url": "amqp://"}, "url is amqp://"),
        ({"url": "amqp://[half"}, "url is amqp://"),
        ({"tls": Tls()}, "tls needs a url that begins with amqps://"),
        ({"queue": ""}, "queue is a name"),
        ({"queue": "ü" * 128}, "queue is a name of at most 255 bytes"),
        ({"declare": "stream"}, 'declare is None, "durable" or "quorum"'),
        ({"prefetch": 0}, "prefetch is a number of messages"),
        ({"prefetch": 65_536}, "prefetch is a number of messages up to 65,535"),
        ({"value": dict}, "not dict"),
        ({"value": Json(Defaulted, id="number")}, "id names a field without a default"),
        ({"value": Json(SourceItem, id="nothing")}, "no field 'nothing' for id"),
        ({"value": Json(SourceItem, fields={"text": "topic"})}, "there is content_type, correlation_id, exchange"),
    ],
)
def test_a_wrong_argument_is_refused_in_a_sentence(options: dict[str, Any], why: str) -> None:
    given = {"url": "amqp://127.0.0.1", "queue": "items", **options}
    with pytest.raises(ConfigurationError) as raised:
        AmqpSource(**given)
    assert str(raised.value).startswith("AmqpSource: ")
    assert why in str(raised.value)
