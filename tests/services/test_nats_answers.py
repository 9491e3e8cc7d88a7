"""What `NatsSink` makes of answers and errors: of streams, of services, of accounts, and about permissions."""

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest
from nats_kit import count, jetstream, numbered
from nats_server import own_server

from bolts.sinks.publishing.publisher import Outgoing
from bolts.sinks.servers.nats import NatsSink, answer_of, is_final
from topology.clients.errors import ServerAway
from topology.testing.sinks.driver import RecordedAnswers, give, item, opened, within

pytestmark = pytest.mark.service("nats")

SOON_S = 8.0  # less than the time that a server has for its answers


@pytest.mark.parametrize("denied", [["items.A"], ["items.a"], ["items.A", "items.a"]])
async def test_of_subjects_that_differ_in_capital_letters_only_the_denied_ones_fail(
    tmp_path: Path, denied: list[str]
) -> None:
    settings = f"""
    authorization: {{users: [
        {{user: root, password: all}}
        {{user: sink, password: some, permissions: {{publish: {{deny: {json.dumps(denied)}}}}}}}
    ]}}
    """
    subjects = ["items.A", "items.a", "items.b", "items.a", "items.A"]
    with own_server(tmp_path, settings=settings) as server:
        async with jetstream(server.port, user="root", password="all") as js:
            await js.add_stream(name="ITEMS", subjects=["items.*"], duplicate_window=900)
        url = f"nats://sink:some@127.0.0.1:{server.port}"
        async with opened(NatsSink(url, lambda record: subjects[record.number], stream="ITEMS")) as sink:
            out = RecordedAnswers()
            await give(sink, numbered(range(5)), out)
            assert await within(SOON_S, lambda: len(out.acked) + len(out.failed) == 5), sink.away
        assert sorted(out.numbers) == [number for number in range(5) if subjects[number] not in denied]
        whys = {f"the server refuses it: no permission to publish to {subject}" for subject in denied}
        assert {why for _, why in out.failed} == whys
        assert await count("ITEMS", server.port, user="root", password="all") == len(out.acked)


async def test_errors_that_come_late_are_not_those_of_a_subject_with_the_same_small_letters(tmp_path: Path) -> None:
    settings = """
    authorization: {users: [
        {user: root, password: all}
        {user: sink, password: some, permissions: {publish: {deny: "items.A"}}}
    ]}
    """
    with own_server(tmp_path, settings=settings) as server:
        async with jetstream(server.port, user="root", password="all") as js:
            await js.add_stream(name="ITEMS", subjects=["items.*"], duplicate_window=900)
        url = f"nats://sink:some@127.0.0.1:{server.port}"
        publisher = NatsSink(url, lambda record: record.text, stream="ITEMS")._make_publisher()
        await publisher.open()
        for turn in range(20):
            denied, allowed = (
                [Outgoing(f"{turn:024x}{number:024x}", b"x", item(number, text=subject)) for number in numbers]
                for subject, numbers in (("items.A", range(500)), ("items.a", range(500, 503)))
            )
            assert len((await publisher.publish(denied)).refused) == 500
            assert not (await publisher.publish(allowed)).refused
        await publisher.close()
        assert await count("ITEMS", server.port, user="root", password="all") == 60


@pytest.mark.parametrize("how", ["the server ends", "reading ends", "sending fails"])
@pytest.mark.parametrize("when", ["before the call", "in the call"])
async def test_a_lost_connection_is_not_blamed_on_an_error_about_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, how: str
) -> None:
    settings = """
    authorization: {users: [
        {user: root, password: all}
        {user: sink, password: some, permissions: {publish: {deny: "items.secret"}}}
    ]}
    """
    with own_server(tmp_path, settings=settings) as server:
        async with jetstream(server.port, user="root", password="all") as js:
            await js.add_stream(name="ITEMS", subjects=["items.*"], duplicate_window=900)
        silent = await nats.connect(f"nats://root:all@127.0.0.1:{server.port}", allow_reconnect=False)
        await silent.subscribe("heard")
        await silent.flush()
        url = f"nats://sink:some@127.0.0.1:{server.port}"
        publisher = NatsSink(url, lambda record: record.text, stream="ITEMS")._make_publisher()
        await publisher.open()
        secret, waits = (
            Outgoing(f"{number:048x}", b"x", item(number, text=text))
            for number, text in enumerate(["items.secret", "heard"])
        )
        if when == "before the call":
            assert (await publisher.publish([secret])).refused
        used = publisher._client  # type: ignore[attr-defined]
        publish = used.publish

        async def fails(subject: str, *rest: Any) -> None:
            await publish(subject, *rest)
            if subject == "heard" and how == "sending fails":
                assert await within(SOON_S, lambda: "items.secret" in str(used.last_error))
                raise OSError("broken pipe")

        monkeypatch.setattr(used, "publish", fails)
        publishing = asyncio.ensure_future(publisher.publish([waits] if when == "before the call" else [secret, waits]))
        assert await within(SOON_S, lambda: "items.secret" in str(used.last_error))
        await asyncio.sleep(0.2)
        if how == "the server ends":
            server.stop()
        elif how == "reading ends":
            used._reading_task.cancel()
        with pytest.raises(ServerAway, match="can't be used") as raised:
            await publishing
        assert "ermission" not in str(raised.value)
        await publisher.close()
        await silent.close()


async def test_an_account_that_is_full_is_waited_for_until_it_has_room(tmp_path: Path) -> None:
    settings = """
    accounts: {A: {jetstream: {max_file: 300K, max_mem: 100K}, users: [{user: sink, password: some}]}}
    """
    with own_server(tmp_path, settings=settings) as server:
        user = {"user": "sink", "password": "some"}
        async with jetstream(server.port, **user) as js:
            await js.add_stream(name="ITEMS", subjects=["items.*"], duplicate_window=900)
            url = f"nats://sink:some@127.0.0.1:{server.port}"
            async with opened(NatsSink(url, "items.all", body=lambda record: "x" * 20_000)) as sink:
                out = RecordedAnswers()
                await give(sink, numbered(range(20)), out)
                assert await within(SOON_S, lambda: "resource limits exceeded for account" in sink.away), sink.away
                await js.purge_stream("ITEMS")
                assert await within(SOON_S, lambda: len(out.acked) == 20), sink.away
    assert not out.failed


@pytest.mark.parametrize(
    ("answer", "is_answer"),
    [
        ({"stream": "ITEMS", "seq": 7}, True),
        ({"stream": "ITEMS", "seq": 0, "error": {"code": 400, "err_code": 10002, "description": "full"}}, True),
        ({"error": {"code": 503, "err_code": 10077, "description": "an old server names no stream"}}, True),
        ({"stream": "ITEMS", "error": {"code": 503, "description": "raft: not leader"}}, True),
        ({"seq": 7}, False),
        ({"stream": 7, "seq": 7}, False),
        ({"stream": "ITEMS"}, False),
        ({"stream": "ITEMS", "seq": "7"}, False),
        ({"stream": "ITEMS", "seq": 7, "error": "unknown order"}, False),
        ({"error": "unknown order"}, False),
        ({"error": {"code": 404}}, False),
        ([{"stream": "ITEMS", "seq": 7}], False),
    ],
)
def test_only_what_a_stream_answers_is_an_answer(answer: Any, is_answer: bool) -> None:
    assert answer_of(json.dumps(answer).encode()) == (answer if is_answer else None)


@pytest.mark.parametrize(
    ("code", "number", "final"),
    [
        (400, 10054, True),  # message size exceeds maximum allowed
        (400, 10109, True),  # invalid operation on sealed stream
        (400, None, True),
        (400, 10002, False),  # resource limits exceeded for account
        (400, 10120, False),  # no JetStream default or applicable tiered limit present
        (409, 10158, False),  # duplicate message id is in process
        (429, 10167, False),  # too many requests
        (500, 10047, False),  # insufficient storage resources available
        (503, 10023, False),  # insufficient resources
        ("400", [], False),
    ],
)
def test_an_error_of_a_stream_is_final_only_if_it_is_the_messages_own(code: Any, number: Any, final: bool) -> None:
    assert is_final({"code": code, "err_code": number}) == final
