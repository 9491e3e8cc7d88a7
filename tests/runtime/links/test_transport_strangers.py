"""Who may not come in, and what may not be bound: real garbage, wrong keys, addresses that won't do."""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import zmq
from transport_kit import BYTES_MAX, WAIT_S, Net, checked, send_all, until

from topology.errors import StartError
from topology.runtime.links import addresses, zeromq
from topology.runtime.links.zeromq import CurveKeys, Transport, new_keys

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)  # of ZMTP 3.0


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="t-") as name:
        yield Path(name)


@pytest.fixture(params=["ipc", "tcp"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def garbage(random: Random) -> dict[str, bytes]:
    return {
        "random": random.randbytes(500),
        "long": random.randbytes(300_000),
        "zmtp 1": b"\x05\x00abcd\x03\x00zz",
        "zmtp 2": b"\xff" + bytes(8) + b"\x7f\x01\x05" + b"\0\0\0\3abc",
        "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + b"a" * 400,
        "nothing": b"",
        "truncated": GREETING[:11],
        "greeting": GREETING,
        "command": GREETING + b"\x04\x05READY",
        "mechanism": GREETING.replace(b"NULL", b"XXXX"),
        "lengths": GREETING + b"\x06" + b"\xff" * 8 + b"q" * 100,
    }


async def test_garbage_is_counted_and_good_frames_go_on_f34(
    kind: str, short: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seed = Random().getrandbits(32)
    print("seed", seed)
    kinds = garbage(Random(seed))
    frames = [b"%d" % number for number in range(3_000)]
    with contextlib.closing(Net(kind, short)) as net:
        net.add(0)
        net.add(1).connect(0, net.addresses[0])
        sending = asyncio.create_task(send_all(net, 1, 0, frames))
        for data in kinds.values():
            with net.raw(0) as stranger:
                stranger.settimeout(1.0)
                with contextlib.suppress(OSError):
                    stranger.sendall(data)
                await asyncio.sleep(0.005)
        await sending
        await until(lambda: len(net.got[0]) == len(frames))
        await until(lambda: net.ends[0].strangers >= len(kinds), "the count of strangers")
        assert net.got[0] == frames
        assert net.ends[0].strangers == len(kinds)
        checked(net)
        assert 0 < len(caplog.records) <= 8
        caplog.clear()
        net.ends[0].check(time.monotonic() + 10)
        assert not caplog.records


async def test_one_that_says_nothing_is_shown_out(kind: str, short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeromq, "HANDSHAKE_MS", 200)
    with contextlib.closing(Net(kind, short)) as net:
        net.add(0)
        with net.raw(0) as silent:
            silent.settimeout(WAIT_S)
            while await asyncio.to_thread(silent.recv, 100):
                pass
        await until(lambda: net.ends[0].strangers == 1)


async def refused(net: Net, before: int, **options: bytes) -> None:
    """A PUSH with these options gets nothing to worker 0, and is counted."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        push = context.socket(zmq.PUSH)
        push.set(zmq.LINGER, 0)
        for name, value in options.items():
            push.set(getattr(zmq, name), value)
        push.connect(net.addresses[0])
        push.send(b"evil")
        await until(lambda: net.ends[0].strangers > before, "the count of strangers")
        push.close(0)
    finally:
        context.term()


async def test_only_this_runs_keys_come_in_s1(short: Path) -> None:
    with contextlib.closing(Net("tcp", short)) as net:
        net.add(0)
        net.add(1).connect(0, net.addresses[0])
        own, other = net.keys[2], new_keys([2])[2]
        kinds: list[dict[str, bytes]] = [
            {},
            {"CURVE_SERVERKEY": net.public[1], "CURVE_PUBLICKEY": own.public, "CURVE_SECRETKEY": own.secret},
            {"CURVE_SERVERKEY": net.public[0], "CURVE_PUBLICKEY": other[0], "CURVE_SECRETKEY": other[1]},
        ]
        for options in kinds:
            await refused(net, net.ends[0].strangers, **options)
        await send_all(net, 1, 0, [b"good"])
        await until(lambda: bool(net.got[0]))
        assert net.got[0] == [b"good"]
        checked(net)


async def test_nothing_leaves_without_the_peers_key(short: Path) -> None:
    """Worker 1 takes another's key for that of worker 0: it sends nothing that somebody else could read."""
    with contextlib.closing(Net("tcp", short)) as net:
        net.add(0)
        net.keys[1] = CurveKeys(net.keys[1].public, net.keys[1].secret, {**net.public, 0: net.public[3]})
        net.add(1).connect(0, net.addresses[0])
        await until(lambda: net.ends[0].strangers > 0)
        assert not net.ends[1].send(0, b"x")
        assert net.room[1] == []


async def test_a_frame_over_the_limit_does_not_arrive_and_others_do(kind: str, short: Path) -> None:
    with contextlib.closing(Net(kind, short)) as net:
        net.add(0)
        net.add(1).connect(0, net.addresses[0])
        await send_all(net, 1, 0, [bytes(BYTES_MAX + 1), bytes(BYTES_MAX), b"small"])
        await until(lambda: len(net.got[0]) == 2)
        assert [len(data) for data in net.got[0]] == [BYTES_MAX, 5]
        assert net.ends[1].oversized == 1


async def test_a_frame_over_the_limit_that_another_sends_costs_its_own_connection_s3(short: Path) -> None:
    with contextlib.closing(Net("ipc", short)) as net:
        net.add(0)
        net.add(1).connect(0, net.addresses[0])
        with net.raw(0) as stranger:
            ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH"
            stranger.sendall(GREETING + b"\x04" + bytes([len(ready)]) + ready)
            stranger.sendall(b"\x02" + (1 << 40).to_bytes(8, "big") + bytes(100))
            stranger.settimeout(WAIT_S)
            with contextlib.suppress(ConnectionError):
                while await asyncio.to_thread(stranger.recv, 1000):
                    pass
        await send_all(net, 1, 0, [b"good"])
        await until(lambda: bool(net.got[0]))
        assert net.got[0] == [b"good"]


# -- what can't be bound


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("tcp://192.0.2.1", "is not an address of this machine"),
        ("tcp://no-such-host.invalid", "can't be resolved"),
        ("tcp://0.0.0.0:0", "is no address that peers can connect to"),
        ("tcp://127.0.0.1:99999", "write tcp://host or tcp://host:port"),
        ("tcp://127.0.0.1:x", "write tcp://host or tcp://host:port"),
        ("tcp://127.0.0.1/path", "write tcp://host or tcp://host:port"),
        ("tcp://", "write tcp://host or tcp://host:port"),
        ("/" + "x" * 200, "set XDG_RUNTIME_DIR or TMPDIR to a shorter directory"),
        ("/no/such/directory/socket", "is in no directory that exists"),
    ],
)
async def test_an_address_that_wont_do_is_one_sentence(address: str, sentence: str, short: Path) -> None:
    with contextlib.closing(Net("tcp", short)) as net:
        end = net.add(0)
        end.close()
        net.ends[0] = Transport(print, print, bytes_max=1, peers=1, keys=net.keys[0])
        with pytest.raises(StartError, match=sentence) as told:
            net.ends[0].bind(address)
        assert "\n" not in str(told.value)


async def test_a_port_in_use_is_one_sentence(short: Path) -> None:
    with contextlib.closing(Net("tcp", short)) as net:
        net.add(0)
        second = net.ends[1] = Transport(print, print, bytes_max=1, peers=1, keys=net.keys[1])
        with pytest.raises(StartError, match=r"is in use by another program\n.*give another port"):
            second.bind(net.addresses[0])


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "192.0.2.1"])
async def test_tcp_without_keys_is_refused_s1(host: str) -> None:
    end = Transport(print, print, bytes_max=1, peers=1)
    with contextlib.closing(end), pytest.raises(StartError, match="can't be bound without CURVE keys"):
        end.bind(f"tcp://{host}")


async def test_a_second_bind_steals_no_path_f24(short: Path) -> None:
    with contextlib.closing(Net("ipc", short)) as net:
        net.add(0)
        net.add(1).connect(0, net.addresses[0])
        second = net.ends[2] = Transport(print, print, bytes_max=1, peers=1)
        with pytest.raises(StartError, match="exists already"):
            second.bind(net.addresses[0].removeprefix("ipc://"))
        await send_all(net, 1, 0, [b"undisturbed"])
        await until(lambda: net.got[0] == [b"undisturbed"])


@pytest.mark.parametrize(
    ("version", "missing", "sentence"),
    [((4, 3, 4), "", "too old for Kedge"), ((4, 3, 5), "curve", "without curve"), ((4, 3, 5), "ipc", "without ipc")],
)
def test_a_libzmq_that_wont_do_is_one_sentence(
    version: tuple[int, int, int], missing: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zmq, "zmq_version_info", lambda: version)
    monkeypatch.setattr(zmq, "has", lambda capability: capability != missing)
    with pytest.raises(StartError, match=sentence):
        zeromq.check_library(tcp=missing != "ipc")


LIMITED = """
import asyncio, resource, sys
from topology.errors import StartError
from topology.runtime.links.zeromq import Transport
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
async def main():
    Transport(print, print, bytes_max=1, peers=8).close()
    print("soft", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
try:
    asyncio.run(main())
except StartError as error:
    print(error, error.next, sep="; ")
"""


@pytest.mark.parametrize(
    ("soft", "hard", "told"), [(32, 32, "ulimit -n"), (32, 4096, "soft"), (4096, 4096, "soft 4096")]
)
def test_too_few_file_descriptors_are_one_sentence_f15(soft: int, hard: int, told: str) -> None:
    """In a process of its own: libzmq would end it. The soft limit is raised where that helps."""
    command = [sys.executable, "-c", LIMITED, str(soft), str(hard)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert told in done.stdout
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_the_system_says_so_where_no_file_can_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def listdir(_: str) -> list[str]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(addresses.os, "listdir", listdir)
    with pytest.raises(StartError, match="ulimit -n"):
        addresses.check_room(1)
