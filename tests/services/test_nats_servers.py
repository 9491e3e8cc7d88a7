"""`NatsSource` and `NatsSink` with servers that ask for a password, end, stand still, or lose their stream."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nats
import pytest
from nats_server import NatsServer, own_server

from bolts.sinks.servers.nats import NatsSink
from spouts.payload.formats import Json
from spouts.servers.nats import NatsSource
from topology import ConfigurationError, Record, Secret
from topology.clients.tls import Tls
from topology.testing.sinks.driver import RecordedAnswers, delivery, feed, item, opened
from topology.testing.sources import SourceItem
from topology.testing.sources.driver import DrivenSource, Memory, within

pytestmark = pytest.mark.service("nats")

COME_S = 30.0


async def stream(server: NatsServer, **options: Any) -> None:
    """A stream ITEMS with the subjects items.*, made again if it is there."""
    client = await nats.connect(f"nats://127.0.0.1:{server.port}")
    try:
        js = client.jetstream()
        await delete(js)
        await js.add_stream(name="ITEMS", subjects=["items.*"], duplicate_window=900, **options)
    finally:
        await client.close()


async def delete(js: Any) -> None:
    try:
        await js.delete_stream("ITEMS")
    except nats.js.errors.NotFoundError:
        return


async def publish(server: NatsServer, numbers: Sequence[int], subject: str = "items.all") -> None:
    client = await nats.connect(f"nats://127.0.0.1:{server.port}")
    try:
        js = client.jetstream()
        for number in numbers:
            body = json.dumps({"number": number, "text": f"item {number}"}).encode()
            await js.publish(subject, body, headers={"origin": "test"})
    finally:
        await client.close()


async def left(server: NatsServer) -> int:
    client = await nats.connect(f"nats://127.0.0.1:{server.port}")
    try:
        return int((await client.jetstream().stream_info("ITEMS")).state.messages)
    finally:
        await client.close()


async def consumers(server: NatsServer) -> list[str]:
    client = await nats.connect(f"nats://127.0.0.1:{server.port}")
    try:
        return sorted(str(found.name) for found in await client.jetstream().consumers_info("ITEMS"))
    finally:
        await client.close()


def source(server: NatsServer, **options: Any) -> NatsSource[Any]:
    return NatsSource(f"nats://127.0.0.1:{server.port}", "ITEMS", **{"value": SourceItem, **options})


def certificate_in(folder: Path) -> tuple[Path, Path]:
    """A key, and a certificate for localhost that it signs itself."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return key, certificate


def numbers(driven: DrivenSource) -> list[int]:
    return [message.record.number for message in driven.messages]


async def test_only_messages_of_the_subject_come(tmp_path: Path) -> None:
    with own_server(tmp_path) as server:
        await stream(server)
        await publish(server, [1], "items.other")
        await publish(server, [2, 3], "items.mine")
        driven = DrivenSource(source(server, subject="items.mine"), Memory())
        await driven.open()
        await driven.take(2, COME_S)
        await driven.rest()
        await driven.close()
    assert numbers(driven) == [2, 3]


async def test_a_source_that_begins_with_new_messages_leaves_the_old_ones(tmp_path: Path) -> None:
    with own_server(tmp_path) as server:
        await stream(server)
        await publish(server, [1, 2])
        driven = DrivenSource(source(server, begin="new"), Memory())
        await driven.open()
        await publish(server, [3])
        await driven.take(1, COME_S)
        await driven.rest()
        await driven.close()
    assert numbers(driven) == [3]


async def test_fields_and_the_event_time_come_from_what_is_beside_the_payload(tmp_path: Path) -> None:
    class Beside(Record):
        number: int
        subject: str
        sequence: int
        origin: str

    fields = {"subject": "subject", "sequence": "sequence", "origin": "header:origin"}
    with own_server(tmp_path) as server:
        await stream(server)
        await publish(server, [7])
        driven = DrivenSource(source(server, value=Json(Beside, fields=fields)), Memory())
        await driven.open()
        (message,) = await driven.take(1, COME_S)
        await driven.close()
    assert message.record == Beside(7, "items.all", 1, "test")
    assert message.id == 1
    assert message.at is not None
    assert message.at.tzinfo is not None


@pytest.mark.parametrize("retention", ["limits", "workqueue", "interest"])
async def test_settled_messages_leave_a_work_queue_and_none_is_lost_between_runs(
    tmp_path: Path, retention: str
) -> None:
    with own_server(tmp_path) as server:
        await stream(server, retention=nats.js.api.RetentionPolicy(retention))
        memory = Memory()
        first = DrivenSource(source(server), memory)
        await first.open()
        await publish(server, range(1, 21))
        await first.take(20, COME_S)
        await first.settle(first.messages[:12])
        await first.close()
        await publish(server, [21])  # while no run is there
        again = DrivenSource(source(server), memory)
        await again.open()
        await again.take(9, COME_S)
        await again.rest()
        await again.settle(again.messages)
        await again.close()
        assert sorted(numbers(again)) == [*range(13, 22)]
        assert await left(server) == (21 if retention == "limits" else 0)


async def test_without_a_state_directory_a_run_that_has_settled_nothing_is_begun_at_the_same_message(
    tmp_path: Path,
) -> None:
    with own_server(tmp_path) as server:
        await stream(server)
        await publish(server, [1, 2])
        for number in (3, 4):
            driven = DrivenSource(source(server, begin="new"), Memory())
            await driven.open()
            await publish(server, [number])
            await driven.take(number - 2, COME_S)
            await driven.rest()
            await driven.close()
            assert numbers(driven) == [*range(3, number + 1)]


@pytest.mark.parametrize("retention", ["limits", "interest"])
@pytest.mark.parametrize("has_state", [True, False])
async def test_a_start_finds_both_consumers_as_an_earlier_one_was_killed_between_making_and_deleting_one(
    tmp_path: Path, retention: str, has_state: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_server(tmp_path) as server:
        await stream(server, retention=nats.js.api.RetentionPolicy(retention))
        memory = Memory()

        def run() -> DrivenSource:
            return DrivenSource(source(server, durable="test"), memory if has_state else Memory())

        first = run()
        await first.open()
        await publish(server, range(1, 21))
        await first.take(20, COME_S)
        await first.settle(first.messages[:12])
        await first.close()

        async def killed(*_: Any) -> None:
            raise ConfigurationError("killed")

        with monkeypatch.context() as patched:
            patched.setattr("spouts.servers.nats.NatsConnection._delete", killed)
            with pytest.raises(ConfigurationError, match="killed"):
                await run().open()
        if retention == "interest":
            assert await consumers(server) == ["test", "test-2"]
        for number in (21, 22):
            await publish(server, [number])
            again = run()
            await again.open()
            assert len(await consumers(server)) == 1
            await again.take(number - 12, COME_S)
            await again.rest()
            await again.close()
            assert sorted(numbers(again)) == [*range(13, number + 1)]


async def test_without_a_state_directory_a_run_begins_at_what_is_not_acknowledged(tmp_path: Path) -> None:
    with own_server(tmp_path) as server:
        await stream(server)
        await publish(server, range(1, 11))
        first = DrivenSource(source(server), Memory())
        await first.open()
        await first.take(10, COME_S)
        await first.settle(first.messages[:6])
        await first.close()
        again = DrivenSource(source(server), Memory())
        await again.open()
        await again.take(4, COME_S)
        await again.rest()
        await again.close()
    assert numbers(again) == [7, 8, 9, 10]


async def test_a_stream_that_is_deleted_and_made_again_is_read_from_its_start(tmp_path: Path) -> None:
    with own_server(tmp_path) as server:
        await stream(server)
        await publish(server, range(1, 11))
        memory = Memory()
        driven = DrivenSource(source(server), memory)
        await driven.open()
        await driven.take(10, COME_S)
        await driven.settle(driven.messages)
        await driven.close()
        await asyncio.sleep(1.1)  # a stream is known by the second in which it was made
        await stream(server)
        await publish(server, range(101, 104))
        again = DrivenSource(source(server), memory)
        await again.open()
        await again.take(3, COME_S)
        await again.rest()
        await again.close()
    assert numbers(again) == [101, 102, 103]


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_a_server_that_is_killed_or_stands_still_loses_nothing(tmp_path: Path, how: str) -> None:
    with own_server(tmp_path) as server:
        await stream(server)
        await publish(server, range(1, 51))
        driven = DrivenSource(source(server), Memory())
        await driven.open()
        await driven.take(50, COME_S)
        await driven.settle(driven.messages[:20])
        if how == "killed":
            server.stop()
            polling = asyncio.ensure_future(driven.poll())
            assert await within(COME_S, lambda: bool(driven.spout.away))
            server.start()
        else:
            server.tell(signal.SIGSTOP)
            polling = asyncio.ensure_future(driven.poll())
            await asyncio.sleep(1)
            server.tell(signal.SIGCONT)
        await publish(server, range(51, 101))
        await asyncio.wait((polling,), timeout=COME_S)
        await driven.take(100, COME_S)
        await driven.rest()
        await driven.close()
    assert sorted(numbers(driven)) == [*range(1, 101)]


async def test_a_wrong_password_is_refused_in_a_sentence_without_it(tmp_path: Path) -> None:
    with own_server(tmp_path, "--user", "ann", "--pass", "right") as server:
        wrong = f"nats://ann:wrong-secret@127.0.0.1:{server.port}"
        driven = DrivenSource(NatsSource(Secret(wrong), "ITEMS"), Memory())
        with pytest.raises(ConfigurationError) as raised:
            await driven.open()
        assert str(raised.value).startswith(f"NatsSource: nats://127.0.0.1:{server.port} refuses these credentials")
        with pytest.raises(ConfigurationError) as of_sink:
            async with opened(NatsSink(wrong, "items.all")):
                pass
        assert "NatsSink: nats://127.0.0.1" in str(of_sink.value)
        assert "wrong-secret" not in str(raised.value) + str(of_sink.value) + repr(driven.spout.url)


async def test_a_missing_stream_and_a_subject_that_no_stream_takes_are_said(tmp_path: Path) -> None:
    with own_server(tmp_path) as server:
        driven = DrivenSource(source(server), Memory())
        with pytest.raises(ConfigurationError, match="there is no stream 'ITEMS'"):
            await driven.open()
        with pytest.raises(ConfigurationError, match=r"no stream takes items\.all"):
            async with opened(NatsSink(f"nats://127.0.0.1:{server.port}", "items.all")):
                pass


async def test_a_stream_that_forgets_too_soon_is_refused_with_the_command_that_helps(tmp_path: Path) -> None:
    with own_server(tmp_path) as server:
        await stream(server)
        url = f"nats://127.0.0.1:{server.port}"
        with pytest.raises(ConfigurationError, match="nats stream edit ITEMS --dupe-window 1000s"):
            async with opened(NatsSink(url, "items.all", remembers_s=1_000)):
                pass
        async with opened(NatsSink(url, "items.all", remembers_s=0)) as sink:
            assert not sink.drops_replays
            out = await feed(sink, [delivery(item(1))])
        assert len(out.acked) == 1


async def test_a_subject_may_depend_on_the_record_and_a_bad_one_fails_alone(tmp_path: Path) -> None:
    def subject(record: Any) -> str:
        return f"items.{record.number}" if record.number != 2 else "two words"

    with own_server(tmp_path) as server:
        await stream(server)
        url = f"nats://127.0.0.1:{server.port}"
        async with opened(NatsSink(url, subject, stream="ITEMS", body=lambda record: f"<{record.number}>")) as sink:
            out: RecordedAnswers = await feed(sink, [delivery(item(number)) for number in (1, 2, 3)])
        assert sorted(out.numbers) == [1, 3]
        assert [why.startswith("its subject is a text of at most 3,900 bytes") for _, why in out.failed] == [True]
        assert await left(server) == 2


async def test_a_message_that_is_too_large_for_the_server_fails_alone(tmp_path: Path) -> None:
    with own_server(tmp_path) as server:
        await stream(server)
        async with opened(NatsSink(f"nats://127.0.0.1:{server.port}", "items.all")) as sink:
            out = await feed(sink, [delivery(item(1)), delivery(item(2, text="x" * 2_000_000)), delivery(item(3))])
        assert sorted(out.numbers) == [1, 3]
        assert "max_payload" in out.failed[0][1]


async def test_a_connection_is_encrypted_and_a_server_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    key, certificate = certificate_in(tmp_path)
    options = ("--tls", "--tlscert", str(certificate), "--tlskey", str(key))
    with own_server(tmp_path, *options) as server:
        url = f"tls://127.0.0.1:{server.port}"
        client = await nats.connect(url, tls=Tls(ca=str(certificate)).for_client())
        await client.jetstream().add_stream(name="ITEMS", subjects=["items.*"])
        await client.jetstream().publish("items.all", b'{"number": 1, "text": "one"}')
        await client.close()
        driven = DrivenSource(NatsSource(url, "ITEMS", value=SourceItem, tls=Tls(ca=str(certificate))), Memory())
        await driven.open()
        await driven.take(1, COME_S)
        await driven.close()
        assert numbers(driven) == [1]
        stranger = DrivenSource(NatsSource(url, "ITEMS", value=SourceItem), Memory())
        with pytest.raises(Exception, match=r"can't be used: .*certificate"):
            await stranger.open()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"begin": "later"}, 'begin is "all" or "new"'),
        ({"prefetch": 0}, "prefetch is a number of messages"),
        ({"value": dict}, "not dict"),
        ({"value": Json(SourceItem, id="text")}, "leave out id"),
        ({"value": Json(SourceItem, fields={"text": "topic"})}, "there is delivered, sequence, subject"),
    ],
)
def test_a_wrong_argument_is_refused_in_a_sentence(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        NatsSource("nats://127.0.0.1", "ITEMS", **options)
    assert str(raised.value).startswith("NatsSource: ")
    assert why in str(raised.value)


async def test_several_tasks_are_refused_as_a_stream_has_one_order(tmp_path: Path) -> None:
    with own_server(tmp_path) as server:
        driven = DrivenSource(source(server), Memory(), tasks=2)
        with pytest.raises(ConfigurationError, match="reads one stream, so it has one task, not 2"):
            await driven.open()
