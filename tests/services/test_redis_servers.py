"""`RedisStreamSource` and `RedisSink` with servers that ask for a password, are full, lose their data, stand still, are
replicas, or are nodes of a cluster."""

import asyncio
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from redis_server import OwnRedis, own_redis

from bolts.sinks.redis import calls
from bolts.sinks.redis.sink import RedisSink
from spouts.servers.redis import RedisStreamSource
from topology import ConfigurationError, NotYet, Secret
from topology.clients.tls import Tls
from topology.testing.sinks.driver import RecordedAnswers, delivery, feed, give, item, opened
from topology.testing.sources import SourceItem
from topology.testing.sources.driver import DrivenSource, Memory, within

pytestmark = pytest.mark.service("redis")

COME_S = 30.0


def added(server: OwnRedis, numbers: Sequence[int], stream: str = "items", **options: Any) -> None:
    with server.client(**options) as one, one.pipeline(transaction=False) as pipe:
        for number in numbers:
            pipe.xadd(stream, {"data": f'{{"number": {number}, "text": "item {number}"}}'})
        pipe.execute()


def driven(url: str | Secret, memory: Memory | None = None, stream: str = "items", **options: Any) -> DrivenSource:
    return DrivenSource(RedisStreamSource(url, stream, **{"value": SourceItem, **options}), memory or Memory())


def numbers(source: DrivenSource) -> list[int]:
    return [message.record.number for message in source.messages]


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


# -- who may come in


async def test_a_wrong_password_is_refused_and_a_right_one_is_not_shown(tmp_path: Path) -> None:
    with own_redis(tmp_path, "--requirepass", "right-secret") as server:
        where = f"127.0.0.1:{server.port}"
        for url in (f"redis://{where}", f"redis://:wrong-secret@{where}"):
            with pytest.raises(ConfigurationError) as of_source:
                await driven(url).open()
            with pytest.raises(ConfigurationError) as of_sink:
                async with opened(RedisSink(Secret(url), "items")):
                    pass
            assert str(of_source.value).startswith(f"RedisStreamSource: redis://{where} refuses this user or password")
            assert str(of_sink.value).startswith(f"RedisSink: redis://{where} refuses this user or password")
            assert "wrong-secret" not in str(of_source.value) + str(of_sink.value)
        right = f"redis://:right-secret@{where}"
        async with opened(RedisSink(right, "items")) as sink:
            out = await feed(sink, [delivery(item(1))])
        source = driven(right)
        await source.open()
        await source.take(1, COME_S)
        shown = " ".join([*source.spout.summary(), *sink.summary(), repr(source.spout.url)])
        await source.close()
    assert out.numbers == numbers(source) == [1]
    assert "right-secret" not in shown


@pytest.mark.parametrize("denied", ["xreadgroup", "xack", "xdel", "xgroup", "type"])
async def test_a_user_who_may_not_read_is_refused_when_the_source_is_opened(tmp_path: Path, denied: str) -> None:
    with own_redis(tmp_path) as server:
        with server.client() as one:
            one.execute_command("ACL", "SETUSER", "ann", "on", ">x", "~*", "&*", "+@all", f"-{denied}")
        source = driven(f"redis://ann:x@127.0.0.1:{server.port}", delete_confirmed=True)
        with pytest.raises(ConfigurationError, match=f"does not let this user do that: .*{denied}"):
            await source.open()


async def test_rights_that_are_taken_away_and_given_again_lose_nothing(tmp_path: Path) -> None:
    with own_redis(tmp_path) as server, server.client() as one:
        one.execute_command("ACL", "SETUSER", "ann", "on", ">x", "~*", "&*", "+@all")
        url = f"redis://ann:x@127.0.0.1:{server.port}"
        source = driven(url, stale_after_s=1)  # so that requests are short
        await source.open()
        added(server, range(1, 11))
        await source.take(10, COME_S)
        async with opened(RedisSink(url, "out", batch=10)) as sink:
            await feed(sink, [delivery(item(1))])
            one.execute_command("ACL", "SETUSER", "ann", "-xreadgroup", "-evalsha")
            giving = asyncio.ensure_future(feed(sink, [delivery(item(2))]))
            polling = asyncio.ensure_future(source.poll())
            assert await within(COME_S, lambda: "does not let this user" in source.spout.away)
            assert await within(COME_S, lambda: "does not let this user" in sink.away)
            one.execute_command("ACL", "SETUSER", "ann", "+xreadgroup", "+evalsha")
            added(server, range(11, 21))
            await asyncio.wait((polling,), timeout=COME_S)
            await source.take(20, COME_S)
            assert (await giving).numbers == [2]
        await source.close()
    assert sorted(numbers(source)) == [*range(1, 21)]


@pytest.mark.parametrize(
    ("rights", "options"),
    [
        (["~*", "-xadd"], {}),
        (["~*", "-evalsha"], {}),
        (["~items"], {}),  # not the keys of known outputs
        (["~*", "-evalsha"], {"kind": "hash", "key": ("number",), "revision": "revision"}),
    ],
)
async def test_a_user_who_may_not_write_is_refused_when_the_sink_is_opened(
    tmp_path: Path, rights: list[str], options: dict[str, Any]
) -> None:
    with own_redis(tmp_path) as server:
        with server.client() as one:
            one.execute_command("ACL", "SETUSER", "ann", "on", ">x", "+@all", *rights)
        with pytest.raises(ConfigurationError, match="does not let this user do that"):
            async with opened(RedisSink(f"redis://ann:x@127.0.0.1:{server.port}", "items", **options)):
                pass


async def test_the_rights_that_the_page_names_are_enough(tmp_path: Path) -> None:
    reads = ["type", "xgroup", "xinfo", "xrange", "xreadgroup", "xpending", "xclaim", "xack", "xdel"]
    scripts = ["type", "evalsha", "eval", "exists"]
    users: dict[str, list[str]] = {
        "reads": ["~items", *reads],
        "adds": ["~out", "~{out}:kedge:*", *scripts, "xadd", "set"],
        "keeps": ["~last", "~last:*", *scripts, "hget", "hexists", "hset", "hdel"],
        "tells": ["~told", "&told", "type", "publish"],
    }
    with own_redis(tmp_path) as server, server.client() as one:
        for name, (*rights,) in users.items():
            rules = [right if right[0] in "~&" else f"+{right}" for right in rights]
            one.execute_command("ACL", "SETUSER", name, "on", ">x", "resetchannels", *rules)
        added(server, [1])
        urls = {name: f"redis://{name}:x@127.0.0.1:{server.port}" for name in users}
        source = driven(urls["reads"], delete_confirmed=True, stale_after_s=1)
        await source.open()
        await source.take(1, COME_S)
        await source.settle(source.messages)
        assert await within(COME_S, lambda: one.xlen("items") == 0)
        await source.rest(1.5)  # a sign of life, and a look for others
        assert source.spout.away == ""
        await source.close()
        for sink in (
            RedisSink(urls["adds"], "out"),
            RedisSink(urls["keeps"], "last", kind="hash", key=("number",), revision="revision"),
            RedisSink(urls["tells"], "told", kind="channel"),
        ):
            async with opened(sink) as each:
                assert (await feed(each, [delivery(item(1))])).numbers == [1]


async def test_a_connection_is_encrypted_and_a_server_without_a_known_authority_is_refused(tmp_path: Path) -> None:
    key, certificate = certificate_in(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    files = ("--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-ca-cert-file", str(certificate))
    with own_redis(tmp_path, "--tls-port", str(port), *files, "--tls-auth-clients", "no") as server:
        if not await within(5, lambda: "Ready to accept connections" in (tmp_path / "server.log").read_text()):
            pytest.skip("this redis-server has no TLS")
        url, trusted = f"rediss://127.0.0.1:{port}", Tls(ca=str(certificate))
        async with opened(RedisSink(url, "items", tls=trusted)) as sink:
            await feed(sink, [delivery(item(1))])
        source = driven(url, tls=trusted)
        await source.open()
        await source.take(1, COME_S)
        await source.close()
        assert numbers(source) == [1]
        for stranger in (driven(url), driven(f"rediss://127.0.0.1:{server.port}", tls=trusted)):
            with pytest.raises(NotYet, match=r"can't be used: "):
                await stranger.open()
            await stranger.close()
        with pytest.raises(NotYet, match="certificate"):
            async with opened(RedisSink(url, "items")):
                pass


# -- servers in trouble


async def test_a_full_server_and_a_replica_are_waited_for(tmp_path: Path) -> None:
    with own_redis(tmp_path) as server, server.client() as one:
        async with opened(RedisSink(server.url, "items", batch=10)) as sink:
            await feed(sink, [delivery(item(1))])
            for trouble, over, why in (
                (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"), "OOM"),
                (("REPLICAOF", "127.0.0.1", "9"), ("REPLICAOF", "NO", "ONE"), "READONLY"),
            ):
                one.execute_command(*trouble)
                out = RecordedAnswers()
                first = 2 if why == "OOM" else 40
                giving = asyncio.ensure_future(feed(sink, [delivery(item(n)) for n in range(first, first + 20)], out))
                assert await within(COME_S, lambda why=why: why in sink.away), sink.away
                one.execute_command(*over)
                await giving
                assert sorted(out.numbers) == [*range(first, first + 20)]
                assert (out.failed, sink.away) == ([], "")
        assert one.xlen("items") == 41


async def test_a_replica_is_not_yet_a_server_to_begin_with(tmp_path: Path) -> None:
    with own_redis(tmp_path, "--replicaof", "127.0.0.1 9") as server:
        with pytest.raises(NotYet, match="READONLY"):
            async with opened(RedisSink(server.url, "items")):
                pass
        with pytest.raises(NotYet, match="READONLY"):
            await driven(server.url).open()


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_server_that_is_killed_gives_again_what_it_has_kept(tmp_path: Path, keeps: bool) -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always") if keeps else ("--appendonly", "no")
    with own_redis(tmp_path, *options) as server:
        source = driven(server.url, begin="new")
        await source.open()
        added(server, range(1, 51))
        await source.take(50, COME_S)
        await source.settle(source.messages[:20])
        await asyncio.sleep(0.2)
        server.stop()
        polling = asyncio.ensure_future(source.poll())
        assert await within(COME_S, lambda: bool(source.spout.away))
        server.start()
        added(server, range(51, 101))
        await asyncio.wait((polling,), timeout=COME_S)
        await source.take(100, COME_S)
        await source.settle(source.messages)
        with server.client() as one:
            settled = await within(COME_S, lambda: one.xpending("items", "kedge-conformance-source")["pending"] == 0)
            kept = one.xlen("items")
        await source.close()
    assert sorted(numbers(source)) == [*range(1, 101)]
    assert settled
    assert kept == (100 if keeps else 50)


async def test_a_server_that_stands_still_is_said_and_loses_nothing(tmp_path: Path) -> None:
    with own_redis(tmp_path) as server:
        source = driven(server.url)
        await source.open()
        added(server, range(1, 11))
        await source.take(10, COME_S)
        async with opened(RedisSink(server.url, "out", batch=10)) as sink:
            await feed(sink, [delivery(item(1))])
            server.tell(signal.SIGSTOP)
            out = RecordedAnswers()
            await give(sink, [delivery(item(2))], out)
            polling = asyncio.ensure_future(source.poll())
            assert await within(COME_S, lambda: "has not answered within" in sink.away), sink.away
            assert await within(COME_S, lambda: bool(source.spout.away))
            server.tell(signal.SIGCONT)
            added(server, range(11, 21))
            await asyncio.wait((polling,), timeout=COME_S)
            await source.take(20, COME_S)
            assert await within(COME_S, lambda: out.numbers == [2])
        with server.client() as one:
            assert one.xlen("out") == 2
        await source.close()
    assert sorted(numbers(source)) == [*range(1, 21)]


async def test_an_ack_may_wait_for_replicas(tmp_path: Path) -> None:
    with own_redis(tmp_path / "main") as main:
        async with opened(RedisSink(main.url, "items", wait_replicas=1)) as sink:
            out = RecordedAnswers()
            giving = asyncio.ensure_future(feed(sink, [delivery(item(1))], out))
            assert await within(COME_S, lambda: "0 of 1 replicas" in sink.away), sink.away
            assert not out.acked
            with own_redis(tmp_path / "copy", "--replicaof", f"127.0.0.1 {main.port}") as copy:
                await giving
                assert out.numbers == [1]
                with copy.client() as one:
                    assert one.xlen("items") == 1
        with main.client() as one:
            assert one.xlen("items") == 1


async def test_replicas_that_are_too_slow_make_no_entry_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "REPLICAS_S", 0.05)
    with own_redis(tmp_path / "main") as main, main.client() as looking:
        async with opened(RedisSink(main.url, "items", remembers_s=0, wait_replicas=1)) as sink:
            out = RecordedAnswers()
            giving = asyncio.ensure_future(feed(sink, [delivery(item(number)) for number in range(5)], out))
            assert await within(COME_S, lambda: "0 of 1 replicas" in sink.away and "retry 4" in sink.away), sink.away
            assert looking.xlen("items") == 5
            with own_redis(tmp_path / "copy", "--replicaof", f"127.0.0.1 {main.port}"):
                await giving
            assert out.numbers == [0, 1, 2, 3, 4]
        assert looking.xlen("items") == 5


async def test_an_entry_that_a_restarted_server_has_lost_is_added_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "REPLICAS_S", 0.05)
    with own_redis(tmp_path / "main") as main:
        async with opened(RedisSink(main.url, "items", remembers_s=0, wait_replicas=1)) as sink:
            giving = asyncio.ensure_future(feed(sink, [delivery(item(1))]))
            assert await within(COME_S, lambda: "0 of 1 replicas" in sink.away), sink.away
            main.stop()
            main.start()
            with (
                own_redis(tmp_path / "copy", "--replicaof", f"127.0.0.1 {main.port}") as copy,
                copy.client() as looking,
            ):
                assert len((await giving).acked) == 1
                assert looking.xlen("items") == 1


# -- clusters


def cluster_of(servers: Sequence[OwnRedis]) -> None:
    """Make a cluster of these servers, each with an equal share of the slots."""
    share = 16_384 // len(servers)
    for at, server in enumerate(servers):
        last = 16_383 if server is servers[-1] else (at + 1) * share - 1
        with server.client() as one:
            one.execute_command("CLUSTER", "ADDSLOTSRANGE", at * share, last)
            for other in servers:
                one.execute_command("CLUSTER", "MEET", "127.0.0.1", other.port)


def is_up(servers: Sequence[OwnRedis]) -> bool:
    for server in servers:
        with server.client() as one:
            about = one.execute_command("CLUSTER", "INFO")
            text = about.decode() if isinstance(about, bytes) else str(about)
            if "ok" not in text.partition("cluster_state")[2][:8] or "16384" not in text:
                return False
    return True


async def test_in_a_cluster_both_find_the_node_of_their_key(tmp_path: Path) -> None:
    options = ("--cluster-enabled", "yes")
    with own_redis(tmp_path / "one", *options) as one, own_redis(tmp_path / "two", *options) as two:
        cluster_of([one, two])
        assert await within(COME_S, lambda: is_up([one, two]))
        for target in ("items", "alerts", "c", "d"):  # slots of both nodes
            async with opened(RedisSink(one.url, target)) as sink:
                out = await feed(sink, [delivery(item(number)) for number in (1, 2, 1)])
                assert len(out.acked) == 3, out.failed
            source = driven(two.url, stream=target)
            await source.open()
            await source.take(2, COME_S)
            await source.rest()
            await source.close()
            assert numbers(source) == [1, 2]
        hashes: dict[str, Any] = {"kind": "hash", "key": ("number",), "revision": "revision"}
        with pytest.raises(ConfigurationError, match=r"is a cluster, .* put the target into braces, '{latest}'"):
            async with opened(RedisSink(one.url, "latest", **hashes)):
                pass
        for target in ("{latest}", "{c}"):
            async with opened(RedisSink(one.url, target, **hashes)) as sink:
                out = await feed(sink, [delivery(item(number)) for number in range(1, 20)])
                assert len(out.acked) == 19, out.failed
        with redis.RedisCluster(port=one.port, host="127.0.0.1") as whole:
            assert whole.hget("{c}:7", "text") == b"item 7"


async def test_a_slot_that_moves_to_another_node_is_followed(tmp_path: Path) -> None:
    options = ("--cluster-enabled", "yes")
    with own_redis(tmp_path / "one", *options) as one, own_redis(tmp_path / "two", *options) as two:
        cluster_of([one, two])
        assert await within(COME_S, lambda: is_up([one, two]))
        with one.client() as client:
            slot: Any = client.execute_command("CLUSTER", "KEYSLOT", "items")
        here, there = (one, two) if slot < 8_192 else (two, one)
        async with opened(RedisSink(one.url, "items", remembers_s=0)) as sink:
            await feed(sink, [delivery(item(1))])
            source = driven(one.url)
            await source.open()
            await source.take(1, COME_S)
            with here.client() as old, there.client() as new:
                name = new.execute_command("CLUSTER", "MYID")
                old.delete("items")
                for each in (old, new):
                    each.execute_command("CLUSTER", "SETSLOT", slot, "NODE", name)
            out = await feed(sink, [delivery(item(2))])
            assert out.numbers == [2]
            await source.take(2, COME_S)
            await source.close()
        with there.client() as new:
            assert new.xlen("items") == 1
    assert numbers(source) == [1, 2]
