"""`HttpIngest` over real sockets: what it takes, what it answers, and what it must never do."""

import asyncio
import gzip
import socket
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from http_kit import (
    JSON,
    LINES,
    IngestSubject,
    array,
    asked,
    ingest,
    item_json,
    numbers,
    until,
)

from spouts.http import bodies, serving
from spouts.lines import Line
from spouts.payload.formats import Json, Payload
from topology import Record, Secret
from topology.testing.sources import SOURCE_CHECKS, check_source

# The checks that need a server which keeps or loses something: here the source is the server, and the tests below say
# what a client gets.
NOT_HERE = {
    "what_waits_at_the_begin_comes_too",
    "what_is_settled_does_not_come_again",
    "what_is_not_settled_comes_again_under_the_same_id",
    "what_a_killed_process_had_not_settled_comes_again",
    "a_server_that_goes_away_and_comes_back_loses_nothing",
    "close_does_not_wait_for_a_server_that_is_away",
    "a_payload_that_does_not_fit_is_malformed_and_nothing_else_is",
}


@pytest.fixture
def subject() -> Iterator[IngestSubject]:
    one = IngestSubject()
    yield one
    one.close()


@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_the_source_keeps_the_contract(check: str, subject: IngestSubject) -> None:
    left_out = check_source(check, subject)
    assert bool(left_out) == (check in NOT_HERE), left_out


def packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


# -- what it takes


@pytest.mark.parametrize(
    ("body", "headers", "wanted"),
    [
        (item_json(1), JSON, [1]),
        (b"  " + item_json(1) + b"\r\n", JSON, [1]),
        (array(1, 2, 3), JSON, [1, 2, 3]),
        (b" [ " + item_json(1) + b" ,\n" + item_json(2) + b" ] \n", JSON, [1, 2]),
        (array(1, 2), {"Content-Type": "application/vnd.orders+json; charset=UTF-8"}, [1, 2]),
        (item_json(1) + b"\n\r\n" + item_json(2), LINES, [1, 2]),
        (item_json(1) + b"\r\n" + item_json(2) + b"\n", {"Content-Type": "application/jsonl"}, [1, 2]),
        (packed(array(1, 2)), {**JSON, "Content-Encoding": "gzip"}, [1, 2]),
        (
            packed(item_json(1) + b"\n") + packed(item_json(2)),
            {**LINES, "Content-Encoding": "gzip"},
            [1, 2],
        ),
        (b"[]", JSON, []),
        (b"\n\n", LINES, []),
    ],
    ids=range(11),
)
async def test_an_object_an_array_and_lines_are_messages(body: bytes, headers: Any, wanted: list[int]) -> None:
    async with ingest() as (source, port):
        answer = await asked(port, body, headers=headers)
        assert (answer.status, answer.body) == (202, {"accepted": len(wanted)})
        assert answer.headers["Content-Type"].startswith("application/json")
        await source.rest(0.1)
    assert numbers(source) == wanted


async def test_a_body_in_chunks_is_read_to_its_end() -> None:
    async with ingest() as (source, port), aiohttp.ClientSession() as client:

        async def parts() -> Any:
            for part in (array(1, 2)[:7], array(1, 2)[7:]):
                yield part
                await asyncio.sleep(0.05)

        async with client.post(f"http://127.0.0.1:{port}/", data=parts(), headers=JSON) as answer:
            assert answer.status == 202
        await source.take(2, 5)
    assert numbers(source) == [1, 2]


class Facts(Record):
    number: int
    path: str
    sender: str
    method: str
    kind: str


async def test_facts_beside_the_payload_fill_fields_and_the_token_never_does() -> None:
    fields = {"path": "path", "sender": "remote", "method": "method", "kind": "header:x-kind"}
    seen: list[Any] = []

    def read(payload: Payload) -> Line:
        seen.append(payload.attributes)
        return Line(payload.data.decode())

    async with ingest(value=Json(Facts, fields=fields), path="/hooks/*", token="open sesame") as (source, port):
        headers = {**JSON, "X-Kind": "push é", "Authorization": "Bearer open sesame"}
        assert (await asked(port, b'{"number": 1}', "/hooks/git", headers=headers)).status == 202
        await source.take(1, 5)
    assert source.messages[0].record == Facts(1, "/hooks/git", "127.0.0.1", "POST", "push \ufffd")
    async with ingest(value=read, token="open sesame") as (source, port):
        assert (await asked(port, b"{}", headers=headers)).status == 202
        await source.take(1, 5)
    assert seen[0]["header:x-kind"] == "push \ufffd"
    assert "header:authorization" not in seen[0]
    assert "sesame" not in str(seen)


async def test_a_line_is_the_json_text_and_has_to_be_json() -> None:
    async with ingest(value=Line) as (source, port):
        assert (await asked(port, b'[{"a": 1.50}, "b", [null]]')).status == 202
        assert (await asked(port, b'{"a": NaN}')).status == 400
        assert (await asked(port, b"{} {}")).status == 400
        refused = await asked(port, b'{}\n{"a":}\n{}', headers=LINES)
        assert (refused.status, refused.body["index"]) == (400, 1)
        await source.rest(0.1)
    assert [message.record.text for message in source.messages] == ['{"a": 1.50}', '"b"', "[null]"]


# -- what it refuses, and then takes nothing of


@pytest.mark.parametrize(
    ("body", "headers", "status", "said"),
    [
        (b"", JSON, 400, "does not fit"),
        (b"hello", JSON, 400, "JSON is malformed"),
        (b"[", JSON, 400, "no JSON"),
        (b"[1,", JSON, 400, "no JSON"),
        (array(1)[:-1], JSON, 400, "no JSON"),
        (array(1) + b"x", JSON, 400, "more after the array"),
        (b"[" * 100_000, JSON, 400, "nested too deeply"),
        (b"[\xff]", JSON, 400, "no JSON"),
        (b'[{"number": 1, "text": "a"}, {"number": "2", "text": "b"}]', JSON, 400, "message 1 does not fit"),
        (item_json(1) + b"\n{}", LINES, 400, "message 1 does not fit"),
        (item_json(1), {}, 415, "Content-Type"),
        (item_json(1), {"Content-Type": "text/plain"}, 415, "application/json"),
        (item_json(1), {"Content-Type": "application/json; charset=latin-1"}, 415, "UTF-8"),
        (item_json(1), {**JSON, "Content-Encoding": "br"}, 415, "gzip"),
        (item_json(1), {**JSON, "Content-Encoding": "gzip"}, 400, "no gzip"),
        (packed(item_json(1))[:-4], {**JSON, "Content-Encoding": "gzip"}, 400, "its end is missing"),
        (b"", {**JSON, "Content-Encoding": "gzip"}, 400, "its end is missing"),
        (item_json(1), {**JSON, "Idempotency-Key": "k" * 300}, 400, "255"),
        (b"[" + b"0," * 10_000 + b"0]", JSON, 413, "10,000 messages"),
        (item_json(1) + b"\n" * 30_000, LINES, 413, "10,000 messages"),
    ],
    ids=range(20),
)
async def test_what_does_not_fit_is_refused_as_a_whole(body: bytes, headers: Any, status: int, said: str) -> None:
    async with ingest() as (source, port):
        answer = await asked(port, body, headers=headers)
        assert answer.status == status, answer
        assert said in answer.body["error"]
        assert (await asked(port, item_json(9))).status == 202, "the next request is taken"
        await source.rest(0.1)
        assert "1 requests answered by an error" in next(iter(source.spout.summary()))
    assert numbers(source) == [9]


async def test_other_paths_and_methods_are_refused() -> None:
    async with ingest(path="/orders") as (_, port):
        assert (await asked(port, item_json(1), "/")).status == 404
        assert (await asked(port, item_json(1), "/orders/1")).status == 404
        answer = await asked(port, target="/orders", method="GET")
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        assert (await asked(port, item_json(1), "/orders?wait=long")).status == 400
        assert (await asked(port, item_json(1), "/orders")).status == 202


async def test_only_the_token_opens() -> None:
    async with ingest(token=Secret("tökén")) as (source, port):
        for given in ("", "Bearer", "Bearer other", "Basic tökén", "tökén", "Bearer tökén2"):
            headers = {**JSON, **({"Authorization": given.encode().decode("latin-1")} if given else {})}
            answer = await asked(port, item_json(1), headers=headers)
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer"), given
            assert "kén" not in str(answer.body)
        headers = {**JSON, "Authorization": "bearer " + "tökén".encode().decode("latin-1")}
        assert (await asked(port, item_json(2), headers=headers)).status == 202
        assert (await asked(port, target="/healthz", method="GET")).status == 200
        await source.rest(0.1)
    assert numbers(source) == [2]


# -- sizes and times


async def test_a_huge_body_is_refused_before_it_is_sent_and_while_it_is_read() -> None:
    async with ingest(max_body_bytes=100_000) as (source, port):
        with socket.create_connection(("127.0.0.1", port), 10) as one:  # as curl does: it asks before it sends
            head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
            one.sendall(head + b"Content-Length: 100000001\r\n\r\n")
            assert (await asyncio.to_thread(one.recv, 1000)).startswith(b"HTTP/1.1 413")
        async with aiohttp.ClientSession() as client:

            async def endless() -> Any:
                for _ in range(1_000):
                    yield b" " * 1_000

            async with client.post(f"http://127.0.0.1:{port}/", data=endless(), headers=JSON) as answer:
                assert answer.status == 413
        fits = b" " * (100_000 - len(item_json(1))) + item_json(1)
        assert (await asked(port, fits)).status == 202
        assert (await asked(port, fits + b" ")).status == 413
        await source.rest(0.1)
    assert numbers(source) == [1]


async def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    async with ingest() as (source, port):
        with socket.create_connection(("127.0.0.1", port), 10) as one:
            head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
            one.sendall(head + b"Content-Length: %d\r\n\r\n" % len(item_json(1)))
            assert (await asyncio.to_thread(one.recv, 1000)) == b"HTTP/1.1 100 Continue\r\n\r\n"
            one.sendall(item_json(1))
            assert (await asyncio.to_thread(one.recv, 1000)).startswith(b"HTTP/1.1 202")
        await source.take(1, 5)


async def test_a_gzip_bomb_is_unpacked_no_further_than_a_body_may_be_long(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = 0
    unpacked = bodies._Gzip.unpacked

    def watched(self: Any, chunk: bytes, max_bytes: int) -> bytes:
        nonlocal longest
        found = unpacked(self, chunk, max_bytes)
        longest = max(longest, len(found))
        return found

    monkeypatch.setattr(bodies._Gzip, "unpacked", watched)
    bomb = packed(b" " * 100_000_000)
    assert len(bomb) < 200_000
    async with ingest(max_body_bytes=200_000) as (_, port):
        started_at = time.monotonic()
        assert (await asked(port, bomb, headers={**JSON, "Content-Encoding": "gzip"})).status == 413
        assert time.monotonic() - started_at < 10
    assert 0 < longest <= 200_001


async def test_a_body_that_comes_too_slowly_is_given_up() -> None:
    async with ingest(body_s=0.3) as (source, port):
        with socket.create_connection(("127.0.0.1", port), 10) as one:
            one.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{")
            answer = await asyncio.to_thread(one.recv, 1000)
            assert answer.startswith(b"HTTP/1.1 408")
        await source.rest(0.1)
    assert not source.messages


async def test_a_body_that_is_cut_off_brings_nothing() -> None:
    async with ingest() as (source, port):
        with socket.create_connection(("127.0.0.1", port), 10) as one:
            one.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n")
            one.sendall(b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\n" % (len(item_json(1)) + 1, item_json(1)))
        await source.rest(0.3)
        assert not source.messages
        assert source.spout._accepted.held.count == 0


async def test_a_head_that_comes_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "IDLE_S", 0.3)
    async with ingest() as (_, port):
        with socket.create_connection(("127.0.0.1", port), 10) as one:
            one.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            assert await asyncio.to_thread(one.recv, 1000) == b""


async def test_garbage_is_answered_and_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with ingest() as (_, port):
        for sent in (b"\x16\x03\x01 hello\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"GET\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port), 10) as one:
                one.sendall(sent)
                assert (await asyncio.to_thread(one.recv, 1000)).startswith(b"HTTP/1.0 400")
    assert not caplog.records


async def test_connections_over_the_limit_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CONNECTIONS_MAX", 2)
    async with ingest() as (source, port):
        held = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(2)]
        await until(lambda: len(source.spout._server._http.connections) == 2, "two connections")
        with socket.create_connection(("127.0.0.1", port), 10) as one:
            assert (await asyncio.to_thread(one.recv, 1000)).startswith(b"HTTP/1.1 503")
        for each in held:
            each.close()
        await until(lambda: not source.spout._server._http.connections, "their end")
        assert (await asked(port, item_json(1))).status == 202


async def test_bodies_over_the_limit_of_all_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODIES_BYTES_MAX", 1_000)
    async with ingest() as (source, port):
        large = b'{"number": 1, "text": "%s"}' % (b"x" * 700)
        assert (await asked(port, large)).status == 202
        answer = await asked(port, large)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        await source.take(1, 5)
        assert (await asked(port, large)).status == 202
        await source.take(2, 5)
        assert source.spout._accepted.held.count == 0


async def test_above_max_waiting_a_request_is_sent_away_as_a_whole() -> None:
    async with ingest(max_waiting=3) as (source, port):
        assert (await asked(port, array(1, 2))).status == 202
        answer = await asked(port, array(3, 4))
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert (await asked(port, array(3, 4, 5, 6))).status == 413, "it would never fit"
        await source.take(2, 5)
        assert (await asked(port, array(3, 4))).status == 503, "emitted is not done"
        await source.settle(source.messages)
        assert (await asked(port, array(3, 4))).status == 202
        await source.rest(0.1)
    assert numbers(source) == [1, 2, 3, 4]
