"""What is taken away from a worker's links and comes back: its socket's path, descriptors."""

import asyncio
import contextlib
import errno
import itertools
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from transport_kit import Net, send_all, until

from topology.runtime.links import zeromq
from topology.runtime.links.zeromq import PATH_S, Transport


@pytest.fixture
def short() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="t-") as name:
        yield Path(name)


_looks = itertools.count(1)


def looked(end: Transport) -> None:
    """As `check` is called now and then: each time later than the path is looked at again."""
    end.check(time.monotonic() + 2 * PATH_S * next(_looks))


def path_of(net: Net, worker: int) -> Path:
    return Path(net.addresses[worker].removeprefix("ipc://"))


async def test_a_deleted_path_is_made_again_and_links_that_stand_are_not_cut_f70(short: Path) -> None:
    with contextlib.closing(Net("ipc", short, 32)) as net:
        for worker in range(3):
            net.add(worker)
        net.ends[0].connect(1, net.addresses[1])
        await send_all(net, 0, 1, [b"before"])
        path_of(net, 1).unlink()
        looked(net.ends[1])
        assert path_of(net, 1).is_socket()
        net.ends[2].connect(1, net.addresses[1])
        await send_all(net, 2, 1, [b"one that comes later"])
        await send_all(net, 0, 1, [b"after"])
        await until(lambda: len(net.got[1]) == 3)
        assert sorted(net.got[1]) == [b"after", b"before", b"one that comes later"]


async def test_who_has_taken_the_place_of_the_path_does_not_keep_it_f70(short: Path) -> None:
    with contextlib.closing(Net("ipc", short, 32)) as net:
        net.add(0)
        path_of(net, 0).unlink()
        path_of(net, 0).write_text("not a socket")
        looked(net.ends[0])
        assert path_of(net, 0).is_socket()


async def test_a_path_that_can_t_be_made_again_is_told_once_and_made_once_it_can_f70(
    short: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = short / "run"
    place.mkdir(0o700)
    with contextlib.closing(Net("ipc", place, 32)) as net:
        net.add(0)
        path_of(net, 0).unlink()
        path_of(net, 0).mkdir()  # nothing can be bound there
        for _ in range(3):
            looked(net.ends[0])
        assert len([one for one in caplog.messages if "can't be made again" in one]) == 1
        path_of(net, 0).rmdir()
        looked(net.ends[0])
        assert path_of(net, 0).is_socket()


async def test_no_socket_is_made_in_a_directory_that_others_may_write_to_f70(short: Path) -> None:
    place = short / "run"
    place.mkdir(0o700)
    with contextlib.closing(Net("ipc", place, 32)) as net:
        net.add(0)
        path_of(net, 0).unlink()
        place.chmod(0o777)
        looked(net.ends[0])
        assert not path_of(net, 0).exists()
        place.chmod(0o700)
        looked(net.ends[0])
        assert path_of(net, 0).is_socket()


async def test_a_path_that_is_deleted_again_and_again_costs_a_bounded_number_of_descriptors_f70(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zeromq, "REBINDS_MAX", 4)
    with contextlib.closing(Net("ipc", short, 32)) as net:
        net.add(0)
        before = len(os.listdir("/dev/fd"))
        for _ in range(20):
            path_of(net, 0).unlink()
            looked(net.ends[0])
            assert path_of(net, 0).is_socket()
        await until(lambda: len(os.listdir("/dev/fd")) <= before + 4, "the end of old listeners")


async def test_a_link_that_could_not_be_made_is_made_once_there_are_descriptors_f71(
    short: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with contextlib.closing(Net("ipc", short, 32)) as net:
        for worker in range(2):
            net.add(worker)

        def no_descriptor(*_: Any) -> Any:
            raise zmq.ZMQError(errno.EMFILE)

        with monkeypatch.context() as patch:
            patch.setattr(net.ends[0], "_new_socket", no_descriptor)
            net.ends[0].connect(1, net.addresses[1])
            for _ in range(3):
                looked(net.ends[0])
        assert len([one for one in caplog.messages if "(K534)" in one]) == 1
        assert not net.ends[0].send(1, b"too early")
        looked(net.ends[0])
        await asyncio.wait_for(send_all(net, 0, 1, [b"in time"]), 5)
        await until(lambda: net.got[1] == [b"in time"])


async def test_who_is_gone_by_then_is_not_connected_to_any_more_f71(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(Net("ipc", short, 32)) as net:
        for worker in range(2):
            net.add(worker)

        def no_descriptor(*_: Any) -> Any:
            raise zmq.ZMQError(errno.EMFILE)

        with monkeypatch.context() as patch:
            patch.setattr(net.ends[0], "_new_socket", no_descriptor)
            net.ends[0].connect(1, net.addresses[1])
        net.ends[0].disconnect(1)
        looked(net.ends[0])
        await asyncio.sleep(0.1)
        assert not net.ends[0].has_room(1)
