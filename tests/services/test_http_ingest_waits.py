"""`HttpIngest`: requests that wait, names of messages, the end of a run, and addresses."""

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from http_kit import (
    JSON,
    LINES,
    array,
    asked,
    asked_now,
    certificate_in,
    free_port,
    ingest,
    item_json,
    numbers,
    until,
)

from spouts.http import accepted
from spouts.http.ingest import HttpIngest
from spouts.payload.formats import Json, Msgpack
from topology import ConfigurationError
from topology.clients.tls import Tls
from topology.testing.sources import SourceItem
from topology.testing.sources.driver import DrivenSource, Memory

# -- waiting for the end


async def test_an_answer_comes_when_all_messages_are_done_or_settled() -> None:
    async with ingest() as (source, port):
        done = asyncio.ensure_future(asked(port, array(1, 2), "/?wait=ack"))
        prefers = asyncio.ensure_future(asked(port, item_json(3), headers={**JSON, "Prefer": "respond-async, wait"}))
        settled = asyncio.ensure_future(asked(port, array(4, 5), "/?wait=settled"))
        await source.take(5, 5)
        ids = {message.record.number: message.id for message in source.messages}
        source.spout.ack(ids[1])
        source.spout.ack(ids[3])
        assert (await prefers).body == {"done": 1}
        for number in (2, 4, 5):
            source.spout.ack(ids[number])
        assert ((await done).status, (await done).body) == (200, {"done": 2})
        source.spout.settled([ids[4], ids[1]], "")
        await asyncio.sleep(0.1)
        assert not settled.done()
        source.spout.settled([ids[5]], "")
        assert (await settled).body == {"done": 2}


async def test_dead_messages_are_named() -> None:
    async with ingest() as (source, port):
        waits = [asyncio.ensure_future(asked(port, array(1, 2, 3), f"/?wait={wait}")) for wait in ("ack", "settled")]
        await source.take(6, 5)
        for message in source.messages:
            dead = message.record.number == 2
            (source.spout.fail if dead else source.spout.ack)(message.id)
        source.spout.settled([message.id for message in source.messages], "")
        for wait in waits:
            assert ((await wait).status, (await wait).body["dead"]) == (422, [1])


async def test_after_the_time_limit_the_same_key_waits_on() -> None:
    async with ingest(wait_s=0.3) as (source, port):
        headers = {**JSON, "Idempotency-Key": "a"}
        late = await asked(port, array(1, 2), "/?wait=ack", headers=headers)
        assert (late.status, late.body["done"], late.body["of"]) == (504, 0, 2)
        await source.take(2, 5)
        source.spout.ack(source.messages[0].id)
        late = await asked(port, array(1, 2), "/?wait=ack", headers={**headers, "Prefer": "wait=0"})
        assert (late.status, late.body["done"]) == (504, 1)
        again = asyncio.ensure_future(asked(port, array(1, 2), "/?wait=ack", headers=headers))
        await asyncio.sleep(0.1)
        source.spout.ack(source.messages[1].id)
        assert ((await again).status, (await again).body) == (200, {"done": 2, "known": 2})
        await source.rest(0.1)
        assert all(not ticket.waits for ticket in source.spout._accepted._over.values())
    assert len(source.messages) == 2


async def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind() -> None:
    async with ingest() as (source, port):
        with socket.create_connection(("127.0.0.1", port), 10) as one:
            head = (
                b"POST /?wait=ack HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            )
            one.sendall(head % len(item_json(1)) + item_json(1))
            await source.take(1, 5)
            (ticket,) = source.spout._accepted._under_way.values()
            await until(lambda: len(ticket.waits) == 1, "the wait")
        await until(lambda: not ticket.waits, "the end of the wait")
        source.spout.ack(source.messages[0].id)
        source.spout.settled([source.messages[0].id], "")
        assert (source.spout._accepted.waiting, len(source.spout._accepted._over)) == (0, 0)


# -- names


async def test_a_key_names_the_message_and_with_the_index_those_of_a_batch() -> None:
    async with ingest() as (source, port):
        await asked(port, item_json(1), headers={**JSON, "Idempotency-Key": '"order 1"'})
        await asked(port, array(2, 3), headers={**JSON, "Idempotency-Key": "KEY"})
        await asked(port, item_json(4), headers={**JSON, "Idempotency-Key": "KEY/1"})
        await asked(port, item_json(5), headers={**JSON, "Idempotency-Key": "KEY%2F1"})
        utf_8 = "é".encode().decode("latin-1")
        await asked(port, item_json(6) + b"\n" + item_json(7), headers={**LINES, "Idempotency-Key": utf_8})
        assert (await asked(port, item_json(8), headers={**JSON, "Idempotency-Key": "é"})).status == 400
        await source.take(7, 5)
    assert [message.id for message in source.messages] == [
        *("order 1", "KEY/0", "KEY/1", "KEY%2F1", "KEY%252F1", "é/0", "é/1")
    ]


async def test_a_request_that_is_sent_again_joins_the_first_and_is_answered_at_once_when_it_is_done() -> None:
    async with ingest() as (source, port):
        headers = {**JSON, "Idempotency-Key": "a"}
        waits = [asyncio.ensure_future(asked(port, item_json(1), "/?wait=ack", headers=headers)) for _ in range(5)]
        await source.take(1, 5)
        await until(lambda: source.spout._accepted.known == 4, "the other requests")
        assert (await asked(port, item_json(1), headers=headers)).body == {"accepted": 1, "known": 1}
        source.spout.ack("a")
        for answer in await asyncio.gather(*waits):
            assert answer.status == 200
        assert (await asked(port, item_json(1), "/?wait=ack", headers=headers)).body == {"done": 1, "known": 1}
        settled = asyncio.ensure_future(asked(port, item_json(1), "/?wait=settled", headers=headers))
        await asyncio.sleep(0.1)
        assert not settled.done()
        source.spout.settled(["a"], "")
        assert (await settled).status == 200
        await source.rest(0.1)
    assert numbers(source) == [1]


async def test_the_same_key_with_another_body_is_refused() -> None:
    async with ingest() as (source, port):
        headers = {**JSON, "Idempotency-Key": "a"}
        assert (await asked(port, array(1, 2), headers=headers)).status == 202
        for other in (array(1, 3), array(1, 2, 3), array(1)):
            assert (await asked(port, other, headers=headers)).status == 409
        await source.take(2, 5)
        await source.settle(source.messages)
        assert (await asked(port, array(1, 3), headers=headers)).status == 409
        assert (await asked(port, array(1, 2), headers=headers)).status == 202
        await source.rest(0.1)
    assert numbers(source) == [1, 2]


async def test_a_dead_message_stays_dead_until_it_is_replayed_by_hand() -> None:
    async with ingest() as (source, port):
        headers = {**JSON, "Idempotency-Key": "a"}
        await asked(port, item_json(1), headers=headers)
        await source.take(1, 5)
        source.spout.fail("a")
        source.spout.settled(["a"], "")
        assert (await asked(port, item_json(1), "/?wait=ack", headers=headers)).status == 422
        source.spout.ack("a")
        assert (await asked(port, item_json(1), "/?wait=ack", headers=headers)).status == 200


async def test_the_oldest_names_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepted, "KNOWN_MAX", 2)
    async with ingest() as (source, port):
        for key in "abc":
            await asked(port, item_json(1), headers={**JSON, "Idempotency-Key": key})
        await source.take(3, 5)
        await source.settle(source.messages)
        for key, known in (("c", {"known": 1}), ("b", {"known": 1}), ("a", {})):
            answer = await asked(port, item_json(1), headers={**JSON, "Idempotency-Key": key})
            assert answer.body == {"accepted": 1, **known}


async def test_names_of_its_own_never_come_again() -> None:
    memory = Memory()
    found: list[Any] = []
    for _ in range(3):  # the driver's task has the same random numbers each time
        async with ingest(memory) as (source, port):
            await asked(port, array(1, 2))
            await asked(port, item_json(3))
            await source.take(3, 5)
            found += [message.id for message in source.messages]
    assert len({*found}) == 9
    assert all(str(name).startswith("/") for name in found), "no key begins so"


async def test_a_field_may_name_the_message_and_ints_need_not_grow() -> None:
    async with ingest(value=Json(SourceItem, id="number")) as (source, port):
        await asked(port, array(5, 3), headers={**JSON, "Idempotency-Key": "ignored"})
        assert (await asked(port, array(3, 4))).body == {"accepted": 2, "known": 1}
        other = await asked(port, b'{"number": 3, "text": "other"}')
        assert (other.status, "'3'" in other.body["error"]) == (409, True)
        twice = await asked(port, b"[%s, %s]" % (item_json(8), item_json(8)), "/")
        assert twice.body == {"accepted": 2, "known": 1}
        await source.rest(0.1)
    assert [message.id for message in source.messages] == ["5", "3", "4", "8"]


# -- the begin and the end


async def test_before_the_run_reads_nothing_is_accepted_for_a_client_that_does_not_wait() -> None:
    port = free_port()
    source = DrivenSource(HttpIngest(port, value=SourceItem), Memory())
    try:
        await source.open()
        assert (await asked(port, target="/healthz", method="GET")).status == 503
        answer = await asked(port, item_json(1))
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        waits = asyncio.ensure_future(asked(port, item_json(2), "/?wait=ack"))
        await source.take(1, 5)
        assert (await asked(port, target="/healthz", method="GET")).status == 200
        assert (await asked(port, item_json(3))).status == 202
        await source.settle(source.messages)
        assert (await waits).status == 200
        await source.rest(0.1)
        assert numbers(source) == [2, 3]
    finally:
        await source.close()


async def test_a_run_that_drains_takes_nothing_more_emits_what_it_has_and_answers_who_waits() -> None:
    async with ingest() as (source, port):
        waits = asyncio.ensure_future(asked(port, array(1, 2), "/?wait=ack"))
        within = source.spout.polling_within
        await until(lambda: within.ahead == 2, "two messages")
        within.stop()
        answer = await asked(port, item_json(3))
        assert (answer.status, answer.headers["Connection"]) == (503, "close")
        assert (await asked(port, target="/healthz", method="GET")).status == 503
        await source.take(2, 5)
        assert within.ahead == 0
        assert not await within.late()
        await source.settle(source.messages)
        assert (await waits).status == 200
    assert numbers(source) == [1, 2]


async def test_a_client_that_waits_when_the_source_closes_is_told_to_send_it_again() -> None:
    async with ingest() as (source, port):
        waits = asyncio.ensure_future(asked(port, array(1, 2), "/?wait=ack"))
        await source.take(2, 5)
        started_at = time.monotonic()
        await source.close()
        assert time.monotonic() - started_at < 3
        assert ((await waits).status, (await waits).headers["Retry-After"]) == (503, "1")
        source.spout.settled([source.messages[0].id], "")  # a late checkpoint
        with pytest.raises(ConnectionError):
            asked_now(port, item_json(3))


async def test_health_says_how_much_waits() -> None:
    async with ingest(max_waiting=7, token="t") as (_, port):
        await asked(port, array(1, 2), headers={**JSON, "Authorization": "Bearer t"})
        answer = await asked(port, target="/healthz", method="GET")
        assert (answer.status, answer.body) == (200, {"status": "ok", "waiting": 2, "max_waiting": 7})
        assert (await asked(port, target="/healthz", method="HEAD")).status == 200


# -- addresses and certificates


async def test_a_busy_port_is_one_sentence() -> None:
    async with ingest() as (_, port):
        with pytest.raises(
            ConfigurationError, match=rf"^HttpIngest: 127\.0\.0\.1:{port} is in use by another program; "
        ):
            await DrivenSource(HttpIngest(port), Memory()).open()


async def test_an_address_of_another_machine_is_one_sentence() -> None:
    for host in ("192.0.2.1", "no.such.host.invalid"):
        with pytest.raises(ConfigurationError, match=f"^HttpIngest: {host} is no address of this machine"):
            await DrivenSource(HttpIngest(f"{host}:8080"), Memory()).open()


async def test_all_addresses_and_ipv6_can_be_listened_at() -> None:
    for address, connect in (("0.0.0.0", "127.0.0.1"), ("[::1]", "::1")):
        port = free_port()
        source = DrivenSource(HttpIngest(f"{address}:{port}", value=SourceItem), Memory())
        await source.open()
        try:
            assert f"{address}:{port}" in next(iter(source.spout.summary()))
            socket.create_connection((connect, port), 5).close()
        finally:
            await source.close()


async def test_tls_serves_those_who_trust_the_certificate_and_asks_for_theirs(tmp_path: Path) -> None:
    certificate, key = certificate_in(tmp_path)
    (tmp_path / "other").mkdir()
    other, other_key = certificate_in(tmp_path / "other")
    context = ssl.create_default_context(cafile=certificate)
    with_own = ssl.create_default_context(cafile=certificate)
    with_own.load_cert_chain(other, other_key)
    for tls, uses in ((Tls(certificate=certificate, key=key), context),
                      (Tls(certificate=certificate, key=key, ca=other), with_own)):  # fmt: skip
        async with ingest(tls=tls) as (source, port), aiohttp.ClientSession() as client:
            url = f"https://localhost:{port}/"
            async with client.post(url, data=item_json(1), headers=JSON, ssl=uses) as answer:
                assert answer.status == 202
            if tls.ca:
                with pytest.raises(aiohttp.ClientError):
                    await client.post(url, data=item_json(2), headers=JSON, ssl=context)
            with pytest.raises((ConnectionError, OSError)):
                await asked(port, item_json(3))
            await source.take(1, 5)
        assert numbers(source) == [1]


@pytest.mark.parametrize(
    ("address", "options", "said"),
    [
        (0, {}, "an address is a port from 1 to 65535, or HOST:PORT, not 0"),
        ("8080x", {}, "an address is a port"),
        (":8080", {}, "an address is a port"),
        (True, {}, "an address is a port"),
        ("a:b:c", {}, "an address is a port"),
        (8080, {"path": "orders"}, "path begins with /"),
        (8080, {"path": "/healthz"}, "path begins with /"),
        (8080, {"token": ""}, "token is empty"),
        (8080, {"max_body_bytes": 0}, "max_body_bytes is a number from 1 to"),
        (8080, {"max_body_bytes": 1e6}, "max_body_bytes is a number from 1 to"),
        (8080, {"max_waiting": -1}, "max_waiting is a number from 1 to 1,000,000"),
        (8080, {"wait_s": 0}, "wait_s is a number of seconds"),
        (8080, {"body_s": float("inf")}, "body_s is a number of seconds"),
        (8080, {"value": Msgpack(SourceItem)}, "its bodies are JSON"),
        (8080, {"value": Json(SourceItem, fields={"text": "topic"})}, "there is no 'topic' beside its payloads"),
    ],
)
def test_wrong_arguments_are_one_sentence(address: Any, options: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        HttpIngest(address, **options)
    text = str(raised.value).partition("\n  next:")[0]
    assert text.startswith("HttpIngest: ")
    assert said in text
    assert "\n" not in text


async def test_curl_can_send(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    large = tmp_path / "large.json"
    large.write_bytes(b"[" + b",\n".join(map(item_json, range(1, 10_001))) + b"]")
    async with ingest(max_body_bytes=4_000_000) as (source, port):
        command = ["curl", "-sS", "-w", "%{http_code}", "-H", "Content-Type: application/json", "--data-binary"]

        async def curl(*options: str) -> str:
            process = await asyncio.create_subprocess_exec(
                *command, *options, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            return (await process.communicate())[0].decode()

        assert await curl(f"@{large}", f"http://127.0.0.1:{port}/") == '{"accepted": 10000}202'
        await source.take(10_000, 20)
        await source.settle(source.messages)
        assert (await curl("{}", f"http://127.0.0.1:{port}/")).endswith("400")
    assert sorted(numbers(source)) == [*range(1, 10_001)]
    assert json.loads(large.read_bytes())[-1]["number"] == 10_000
