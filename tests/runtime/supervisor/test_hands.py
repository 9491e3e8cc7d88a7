"""One process as its supervisor sees it. The processes are real, and say or do what no worker would."""

import asyncio
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from topology.runtime.control.messages import OUTSIDE, Beat, Begin, Flush, Linked, Word
from topology.runtime.os_process.output import Output
from topology.runtime.os_process.reap import how_it_ended
from topology.runtime.supervisor import worker_handle
from topology.runtime.supervisor.worker_handle import MAY_BECOME, WorkerHandle, WorkerState

PATIENCE_S = 20.0
BEGIN = Begin(1, (7, 8), 1, 2, "nowhere:nothing", {}, [], "", "ipc", b"", {}, 0)
PREAMBLE = "import os, sys, time, socket; s = socket.socket(fileno=int(sys.argv[1])); "
SAY = "from topology.runtime.control.messages import packed, Beat, Linked; "


class Heard:
    """What one hand has told its supervisor."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.lines: list[tuple[int, str, str]] = []
        self.ended = 0

    async def until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, (self.words, self.lines)
            await asyncio.sleep(0.01)


def is_reaped(pid: int) -> bool:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


@asynccontextmanager
async def process(
    monkeypatch: pytest.MonkeyPatch, code: str, *, output: bool = False
) -> AsyncIterator[tuple[WorkerHandle, Heard]]:
    """A process that runs this code in place of a worker's."""
    monkeypatch.setattr(worker_handle, "command", lambda fd: [sys.executable, "-c", PREAMBLE + code, str(fd)])
    heard = Heard()

    def ended(handle: WorkerHandle) -> None:
        heard.ended += 1

    handle = WorkerHandle(
        BEGIN,
        os.environ,
        heard=lambda _, word: heard.words.append(word),
        ended=ended,
        output=Output(lambda *line: heard.lines.append(line)) if output else None,
    )
    try:
        yield handle, heard
    finally:
        handle.kill()
        await handle.quiet()
        assert heard.ended == 1
        assert is_reaped(handle.pid)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("sys.exit(0)", "ended with status 0"),
        ("os._exit(70)", "ended with status 70"),
        ("os.kill(os.getpid(), 11)", "was killed by SIGSEGV"),
        ("os.kill(os.getpid(), 9)", "was killed by SIGKILL (it had used "),
        ("raise SystemError", "ended with status 1"),
    ],
)
async def test_how_a_process_ended_is_told_in_words_f6(monkeypatch: pytest.MonkeyPatch, code: str, why: str) -> None:
    async with process(monkeypatch, code, output=True) as (handle, _):
        await handle.quiet()
    assert handle.why.startswith(why)


@pytest.mark.parametrize(
    ("code", "outside"), [("os._exit(70)", False), (f"os._exit({OUTSIDE})", True), ("os.kill(os.getpid(), 9)", True)]
)
async def test_a_broken_disk_is_no_more_laid_to_messages_than_a_kill_E6(
    monkeypatch: pytest.MonkeyPatch, code: str, outside: bool
) -> None:
    async with process(monkeypatch, code) as (handle, _):
        await handle.quiet()
    assert handle.killed is outside


def test_a_signal_without_a_name_is_told_by_its_number() -> None:
    assert (how_it_ended(-50), how_it_ended(-15)) == ("was killed by signal 50", "was killed by SIGTERM")


async def test_memory_worth_a_word_is_told_with_the_death_f14(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_handle, "BIG_BYTES", 64 << 20)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # Linux has a child begin with its parent's peak
    async with process(monkeypatch, f"x = b'x' * ({own + 100} << 20); os._exit(1)") as (handle, _):
        await handle.quiet()
    megabytes = float(handle.why.removeprefix("ended with status 1 (it had used ").split()[0].replace(",", ""))
    assert own + 100 <= megabytes < own + 200


async def test_the_memory_of_its_parent_is_not_told_as_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_handle, "BIG_BYTES", 1 << 20)
    async with process(monkeypatch, "os._exit(1)") as (handle, _):
        await handle.quiet()
    assert handle.why == "ended with status 1"


async def test_the_first_reason_for_killing_it_is_the_one_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with process(monkeypatch, "time.sleep(60)") as (handle, _):
        handle.kill("it was too slow")
        handle.kill("it was too late")
        await handle.quiet()
    assert handle.why == "was killed, as it was too slow"
    handle.kill("it is gone already, and its number may be another's")


async def test_a_process_is_not_killed_once_its_number_may_be_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = threading.Event()
    killed: list[int] = []
    wait4 = os.wait4

    def slow(pid: int, options: int) -> Any:
        found = wait4(pid, options)
        freed.set()
        time.sleep(0.3)  # the reaper is held up, with the number free
        return found

    monkeypatch.setattr(os, "wait4", slow)
    async with process(monkeypatch, "os._exit(3)") as (handle, _):
        assert await asyncio.to_thread(freed.wait, PATIENCE_S)
        with monkeypatch.context() as patch:
            patch.setattr(os, "kill", lambda pid, number: killed.append(pid))
            handle.kill("it was too slow")
        await handle.quiet()
    assert killed == []
    assert handle.why == "ended with status 3"


async def test_what_a_process_has_said_before_it_died_is_heard_first(monkeypatch: pytest.MonkeyPatch) -> None:
    code = SAY + "s.sendall(b''.join(packed(Linked(n)) for n in range(5000))); os._exit(3)"
    async with process(monkeypatch, code) as (handle, heard):
        await handle.quiet()
    assert heard.words == [Linked(n) for n in range(5_000)]


@pytest.mark.parametrize(
    "code",
    [
        "s.sendall(b'HTTP/1.1 200 OK')",
        "s.sendall(bytes([2, 0, 0, 0, 0xc1, 0xc1]))",
        "s.sendall(bytes([9, 0, 0, 0]) + b'{' * 9)",
    ],
)
async def test_a_process_that_talks_nonsense_is_killed(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    async with process(monkeypatch, f"{code}; time.sleep(60)") as (handle, heard):
        await handle.quiet()
    assert handle.why.startswith("was killed, as it has said what it should not: ")
    assert heard.words == []


async def test_a_process_that_reads_nothing_neither_holds_us_up_nor_fills_our_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_handle, "OUT_BYTES_MAX", 8 << 20)
    async with process(monkeypatch, "time.sleep(60)") as (handle, _):
        since = time.monotonic()
        for number in range(9):
            handle.say(Flush(number, "x" * (1 << 20)))
        assert time.monotonic() - since < 2.0
        await handle.quiet()
    assert handle.why == "was killed, as it does not read what it is told"


async def test_a_process_that_reads_late_gets_everything_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    code = SAY + (
        "from topology.runtime.control.messages import Unpacker; time.sleep(0.5); u = Unpacker(orders=True); n = 0\n"
        "while n < 101:\n"
        "    for order in u.fed(s.recv(1 << 16)):\n"
        "        s.sendall(packed(Linked(getattr(order, 'number', 1000)))); n += 1\n"
    )
    async with process(monkeypatch, code) as (handle, heard):
        for number in range(100):
            handle.say(Flush(number, "x" * 100_000))
        await handle.quiet()
    assert heard.words == [Linked(1000), *(Linked(n) for n in range(100))]


async def test_a_process_that_closes_its_control_socket_and_lives_on_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_handle, "PARTING_S", 0.2)
    async with process(monkeypatch, "s.close(); time.sleep(60)") as (handle, _):
        await handle.quiet()
    assert handle.why == "was killed, as it has closed its control socket"


async def test_a_process_is_reaped_though_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async with process(monkeypatch, SAY + "s.sendall(packed(Beat())); time.sleep(60)") as (handle, heard):
        await heard.until(lambda: heard.words == [Beat()])
        os.kill(handle.pid, signal.SIGSTOP)
        handle.kill("it stands still")
        await handle.quiet()
    assert handle.why == "was killed, as it stands still"


async def test_signals_of_the_group_are_held_back_until_a_process_lets_them_in(monkeypatch: pytest.MonkeyPatch) -> None:
    code = SAY + "import signal; s.sendall(packed(Linked(len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))))"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    async with process(monkeypatch, code) as (handle, heard):
        await handle.quiet()
    assert heard.words == [Linked(len(before | {signal.SIGINT, signal.SIGTERM}))]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


async def test_what_a_process_writes_is_told_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "print('one\\ntwo', flush=True); sys.stderr.write('half a line'); sys.stderr.flush(); os.write(2, b'\\xff')"
    async with process(monkeypatch, code, output=True) as (handle, heard):
        await handle.quiet()
    assert [line for _, name, line in heard.lines if name == "stdout"] == ["one", "two"]
    assert [line for _, name, line in heard.lines if name == "stderr"] == ["half a line\\xff"]
    assert {worker for worker, _, _ in heard.lines} == {1}


async def test_a_line_without_end_is_told_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    async with process(monkeypatch, "sys.stdout.write('x' * 1_000_000)", output=True) as (handle, heard):
        await handle.quiet()
    lines = [line for _, _, line in heard.lines]
    assert len(lines) > 10
    assert "".join(lines) == "x" * 1_000_000


async def test_a_child_that_has_the_pipe_still_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_handle, "PARTING_S", 0.2)
    code = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    async with process(monkeypatch, code, output=True) as (handle, heard):
        await asyncio.wait_for(handle.quiet(), 10)
    os.kill(int(heard.lines[0][2]), signal.SIGKILL)


def test_a_life_ends_once_and_only_forwards() -> None:
    assert all(WorkerState.DEAD in MAY_BECOME[state] for state in WorkerState if MAY_BECOME[state])
    assert [state for state in WorkerState if not MAY_BECOME[state]] == [WorkerState.ENDED, WorkerState.DEAD]
    assert [state for state in WorkerState if WorkerState.SPAWNED in MAY_BECOME[state]] == []
