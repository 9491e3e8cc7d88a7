"""How many connections a process may have to the ipc socket of a worker. Rule S25."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from topology.runtime.links.crowding import CONNECTIONS_MAX, HURRY_S, Crowd

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux names the process at the other end here")


class Door:
    """A socket that listens, what has come to it, and who counts that."""

    def __init__(self, path: str, ends: contextlib.ExitStack) -> None:
        self.path, self._ends = path, ends
        self._listening = ends.enter_context(socket.socket(socket.AF_UNIX))
        self._listening.bind(path)
        self._listening.listen()
        self.crowd = Crowd(path)

    def accepted(self) -> socket.socket:
        """The next connection that waits."""
        return self._ends.enter_context(self._listening.accept()[0])

    def connected(self) -> tuple[socket.socket, socket.socket]:
        """A connection of this process: its end, and the one that was accepted."""
        mine = self._ends.enter_context(socket.socket(socket.AF_UNIX))
        mine.connect(self.path)
        mine.settimeout(5)
        return mine, self.accepted()


@pytest.fixture
def door() -> Iterator[Door]:
    usual_s = sys.getswitchinterval()
    with tempfile.TemporaryDirectory(prefix="d-") as place, contextlib.ExitStack() as ends:
        yield Door(str(Path(place, "socket")), ends)
    sys.setswitchinterval(usual_s)


def full(door: Door) -> list[socket.socket]:
    """As many as this process may have."""
    accepted = [door.connected()[1] for _ in range(CONNECTIONS_MAX)]
    assert all(door.crowd.came(one.fileno()) for one in accepted)
    return accepted


def test_one_more_than_a_process_may_have_is_shut_and_the_others_stay(door: Door) -> None:
    accepted = full(door)
    mine, theirs = door.connected()
    assert not door.crowd.came(theirs.fileno())
    assert mine.recv(1) == b""
    for one in accepted:
        one.send(b"x")


def test_one_that_has_ended_makes_room_for_another(door: Door) -> None:
    door.crowd.gone(full(door)[0].fileno())
    assert door.crowd.came(door.connected()[1].fileno())
    assert not door.crowd.came(door.connected()[1].fileno())


def test_another_process_comes_in_beside_a_crowd(door: Door) -> None:
    full(door)
    code = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.send(s.recv(1))"
    with subprocess.Popen([sys.executable, "-c", code, door.path]) as other:
        theirs = door.accepted()
        assert door.crowd.came(theirs.fileno())
        theirs.send(b"x")
        assert theirs.recv(1) == b"x"
    assert other.returncode == 0


def test_a_number_that_is_another_file_by_now_is_not_shut(door: Door) -> None:
    full(door)
    one, other = socket.socketpair()
    reading, writing = os.pipe()
    with one, other:
        assert all(door.crowd.came(number) for number in (one.fileno(), writing))
        one.send(b"x")
        assert other.recv(1) == b"x"
        os.write(writing, b"x")
    os.close(reading)
    os.close(writing)
    assert door.crowd.came(reading), "nor is it missed where it is none"


def test_the_wait_for_the_interpreter_is_short_in_a_crowd_and_as_before_once_it_is_over(door: Door) -> None:
    sys.setswitchinterval(0.004)
    full(door)
    assert sys.getswitchinterval() == pytest.approx(0.004)
    for _ in range(3):
        door.crowd.came(door.connected()[1].fileno())
        assert sys.getswitchinterval() == pytest.approx(HURRY_S)
    door.crowd.calm()
    assert sys.getswitchinterval() == pytest.approx(0.004)
