"""`Stdin`: pipes, files and terminals; what a run does with it at its end, and where it cannot work."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from spouts import Line, Paced
from spouts.payload.formats import Json, Msgpack
from spouts.stdin import Stdin
from topology.components import Task
from topology.dead_letters import Malformed
from topology.errors import ConfigurationError
from topology.records import Record
from topology.runtime.clock import LoopClock
from topology.storage.directory.state_dir import MemoryNotes
from topology.testing.sources import SOURCE_CHECKS, SourceItem, SourceSubject, check_source
from topology.testing.sources.driver import DrivenSource, Memory

WAIT_S = 40.0  # on a busy machine
TOPOLOGY = '''
"""Store each line of standard input."""
import time
from collections.abc import Iterator
from kedge import Bolt, Line, SqliteSink, Topology
from spouts.stdin import Stdin

class Slow(Bolt):
    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s

    def process(self, line: Line) -> Iterator[Line]:
        time.sleep(self.pause_s)
        yield line

def topology(out: str, pause_s: float = 0.0) -> Topology:
    topology = Topology("from-stdin")
    slow = topology.bolt("slow", Slow(pause_s), topology.spout("lines", Stdin()).shuffle())
    topology.bolt("store", SqliteSink(out), slow.shuffle())
    return topology
'''


class Number(Record):
    n: int


@pytest.fixture
def pipe() -> Iterator[int]:
    """Standard input is a pipe meanwhile. Yields its other end; the test may close it."""
    before = os.dup(0)
    read, write = os.pipe()
    os.dup2(read, 0)
    os.close(read)
    spare = os.dup(write)
    os.close(write)
    yield spare
    with contextlib.suppress(OSError):
        os.close(spare)
    os.dup2(before, 0)
    os.close(before)


class StdinSubject(SourceSubject):
    begins_where_it_left = False

    def __init__(self, write: int) -> None:
        self.write = write

    def make(self) -> Stdin[SourceItem]:
        return Stdin(value=SourceItem)

    def put(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            os.write(self.write, self.payload(number) + b"\n")

    def put_bad(self) -> bytes:
        os.write(self.write, b'{"number": "one"}\n')
        return b'{"number": "one"}'

    def missing(self) -> Stdin[SourceItem]:
        os.close(0)  # the fixture brings it back
        return self.make()


@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_the_source_keeps_the_contract(check: str, pipe: int) -> None:
    if left_out := check_source(check, StdinSubject(pipe)):
        pytest.skip(left_out)


async def given_all(spout: Any, *contents: bytes, write: int) -> DrivenSource:
    """What the source gives of a pipe that ends."""
    source = DrivenSource(spout, Memory())
    await source.open()
    for content in contents:
        os.write(write, content)
    os.close(write)
    await source.take(1_000_000, WAIT_S)
    assert source.ended
    await source.close()
    return source


async def test_lines_have_their_numbers_as_ids_and_the_last_one_needs_no_newline(pipe: int) -> None:
    source = await given_all(Stdin(), b"one\r\n\ntwo", b"\nhalf", write=pipe)
    assert [(each.id, each.record) for each in source.messages] == [
        (1, Line("one")),
        (2, Line("")),
        (3, Line("two")),
        (4, Line("half")),
    ]


async def test_bytes_that_are_no_utf8_are_kept(pipe: int) -> None:
    source = await given_all(Stdin(), b"caf\xe9\n", write=pipe)
    assert source.messages[0].record == Line("caf�", b"caf\xe9")


async def test_json_lines_become_records_and_empty_lines_nothing(pipe: int) -> None:
    source = await given_all(Stdin(value=Number), b'{"n":1}\n\n{"n":"x"}\r\n{"n":4}', write=pipe)
    assert [each.id for each in source.messages] == [1, 3, 4]
    first, bad, last = (each.record for each in source.messages)
    assert (first, last) == (Number(1), Number(4))
    assert type(bad) is Malformed
    assert bad.data == b'{"n":"x"}'


async def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"line {number}\n" for number in range(50_000)))
    before, descriptor = os.dup(0), os.open(path, os.O_RDONLY)
    os.dup2(descriptor, 0)
    os.close(descriptor)
    try:
        source = DrivenSource(Stdin(), Memory())
        await source.open()
        await source.take(100_000, WAIT_S)
        await source.close()
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert [each.record.text for each in source.messages] == [f"line {number}" for number in range(50_000)]


async def test_a_long_line_comes_in_pieces_and_a_long_json_is_malformed(pipe: int) -> None:
    source = await given_all(Stdin(max_line_bytes=10), b"0123456789abcdef\nnext\n", write=pipe)
    assert [each.record.text for each in source.messages] == ["0123456789", "abcdef", "next"]


async def test_a_json_line_that_is_too_long_is_malformed_and_the_next_one_is_read(pipe: int) -> None:
    source = await given_all(Stdin(value=Number, max_line_bytes=10), b'{"n":123456789}\n{"n":2}\n', write=pipe)
    bad, good = (each.record for each in source.messages)
    assert good == Number(2)
    assert bad.data == b'{"n":12345'
    assert "max_line_bytes" in bad.error


async def test_a_pipe_that_does_not_wait_is_waited_for(pipe: int) -> None:
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_NONBLOCK)
    source = DrivenSource(Stdin(), Memory())
    await source.open()
    await source.rest(0.2)
    os.write(pipe, b"late\n")
    await source.take(1, WAIT_S)
    await source.close()
    assert [each.record.text for each in source.messages] == ["late"]


async def test_a_full_source_stops_reading_so_the_writer_waits(pipe: int) -> None:
    source = DrivenSource(Stdin(), Memory())
    await source.open()
    os.set_blocking(pipe, False)
    written, quiet = 0, 0
    while quiet < 20:  # for so many looks, nothing more has gone in
        try:
            written += os.write(pipe, b"123456789\n" * 100)
            quiet = 0
        except BlockingIOError:
            quiet += 1
            await asyncio.sleep(0.01)
        assert written < 1 << 20, "it reads without end"
    messages = await source.take(written // 10, WAIT_S)
    assert len(messages) == written // 10, "all of it comes, once there is room"
    await source.close()


async def test_two_lives_have_other_names_though_the_seed_is_the_same(pipe: int) -> None:
    notes, epochs = MemoryNotes(), []
    for _ in range(3):
        spout: Any = Stdin()
        clock = LoopClock(asyncio.get_running_loop())
        spout.open(Task("t", "lines", 0, 1, clock, Random(1), notes), {})
        epochs.append(spout.partitions()[""])
        spout.close()
    assert [epoch.partition("-")[0] for epoch in epochs] == ["1", "2", "3"]
    assert len({*epochs}) == 3


async def test_a_second_one_is_refused_until_the_first_is_closed(pipe: int) -> None:
    first, second = DrivenSource(Stdin(), Memory()), DrivenSource(Stdin(), Memory())
    await first.open()
    with pytest.raises(ConfigurationError, match=r"^Stdin: another Stdin of this process"):
        await second.open()
    await first.close()
    await second.open()
    await second.close()


async def test_it_can_be_paced(pipe: int) -> None:
    source = await given_all(Paced(Stdin(), rate=1e6), b"a\nb\n", write=pipe)
    assert [each.record.text for each in source.messages] == ["a", "b"]


async def test_what_was_read_is_ahead_of_a_drain_and_what_comes_later_is_not_read(pipe: int) -> None:
    source = DrivenSource(Stdin(), Memory())
    await source.open()
    os.write(pipe, b"1\n2\n3\n")
    await source.poll(1)
    within = source.spout.polling_within
    within.stop()
    assert await within.late()
    assert within.ahead == 2
    os.write(pipe, b"4\n")
    await source.take(3, WAIT_S)
    assert not await within.late()
    assert [each.record.text for each in source.messages] == ["1", "2", "3"]
    await source.close()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Stdin(max_line_bytes=0), "max_line_bytes is a number of bytes of at least 1"),
        (lambda: Stdin(value=Json(Number, id="n")), "leave out id"),
        (lambda: Stdin(value=Msgpack(Number)), "use JSON"),
        (lambda: Stdin(value=Json(Number, fields={"n": "peer"})), "there is no 'peer'"),
    ],
)
def test_a_wrong_argument_is_one_sentence(make: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        make()
    assert str(caught.value).startswith("Stdin: ")
    assert "\n" not in str(caught.value)


async def test_several_tasks_and_a_folder_are_refused(pipe: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="one task"):
        await DrivenSource(Stdin(), Memory(), tasks=2).open()
    folder = os.open(tmp_path, os.O_RDONLY)
    os.dup2(folder, 0)
    os.close(folder)
    with pytest.raises(ConfigurationError, match="is a folder"):
        await DrivenSource(Stdin(), Memory()).open()


# -- whole runs


def command(folder: Path, *options: str, **settings: object) -> list[str]:
    file = folder / "from_stdin.py"
    file.write_text(TOPOLOGY)
    found = [sys.executable, "-m", "kedge", "run", str(file), "--set", f"out={folder / 'out.db'}", *options]
    for name, value in settings.items():
        found += ["--set", f"{name}={value}"]
    return found


def rows(folder: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(folder / "out.db")) as database:
        return [text for (text,) in database.execute("select text from line order by rowid")]


def wait_for_rows(folder: Path, process: "subprocess.Popen[bytes]", count: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(sqlite3.OperationalError):
            if len(rows(folder)) >= count:
                return
        time.sleep(0.05)
    raise AssertionError(f"fewer than {count} rows")


@contextlib.contextmanager
def running(arguments: Sequence[str], folder: Path, stdin: int) -> Iterator["subprocess.Popen[bytes]"]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(arguments, stdin=stdin, stdout=log, stderr=log, start_new_session=True, cwd=folder)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


@pytest.mark.parametrize("options", [("--state-dir", "state"), ("--no-state",)], ids=["state", "no state"])
def test_a_second_run_of_the_same_lines_stores_them_again(tmp_path: Path, options: tuple[str, ...]) -> None:
    for _ in range(2):
        run = subprocess.run(
            command(tmp_path, *options),
            input=b"one\ntwo\n",
            cwd=tmp_path,
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )
        assert run.returncode == 0, run.stderr
    assert rows(tmp_path) == ["one", "two"] * 2


def test_workers_do_not_have_standard_input_and_that_is_one_sentence(tmp_path: Path) -> None:
    run = subprocess.run(
        command(tmp_path, "--no-state", "--workers", "2"),
        input=b"one\n",
        cwd=tmp_path,
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert run.returncode == 2
    assert "kedge: Stdin: standard input belongs to the supervisor" in run.stderr.decode()
    assert "Traceback" not in run.stderr.decode()


def test_a_closed_standard_input_is_one_sentence(tmp_path: Path) -> None:
    shell = ["sh", "-c", 'exec "$@" <&-', "sh", *command(tmp_path, "--no-state")]
    run = subprocess.run(shell, cwd=tmp_path, capture_output=True, timeout=WAIT_S, check=False)
    assert run.returncode == 2
    assert "kedge: Stdin: standard input is closed" in run.stderr.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_whose_pipe_is_open_and_silent(tmp_path: Path, number: signal.Signals) -> None:
    with running(command(tmp_path, "--state-dir", "state"), tmp_path, subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\nhal")
        process.stdin.flush()
        wait_for_rows(tmp_path, process, 2)
        process.send_signal(number)
        assert process.wait(WAIT_S) == 0
    assert rows(tmp_path) == ["one", "two"]
    assert "the first 3 bytes of a line came before the end, and are lost" in (tmp_path / "log").read_text()


def test_a_drain_finishes_all_lines_that_were_read(tmp_path: Path) -> None:
    with running(command(tmp_path, "--state-dir", "state", pause_s=0.002), tmp_path, subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(b"line %d\n" % number for number in range(3_000)))
        process.stdin.flush()
        wait_for_rows(tmp_path, process, 10)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    found = re.search(r"([\d,]+) lines of standard input", (tmp_path / "log").read_text())
    assert found is not None
    assert rows(tmp_path) == [f"line {number}" for number in range(int(found[1].replace(",", "")))]


@pytest.mark.parametrize("typed", [b"", b"half a li"], ids=["nothing", "half a line"])
def test_ctrl_c_on_a_terminal_drains_the_run(tmp_path: Path, typed: bytes) -> None:
    terminal, far = pty.openpty()

    def takes_the_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            command(tmp_path, "--state-dir", "state"),
            cwd=tmp_path,
            stdin=far,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=takes_the_terminal,
        )
    os.close(far)
    try:
        assert termios.tcgetattr(terminal)[3] & termios.ISIG
        os.write(terminal, b"one\n")
        wait_for_rows(tmp_path, process, 1)
        os.write(terminal, typed + b"\x03")
        assert process.wait(WAIT_S) == 0, (tmp_path / "log").read_text()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(terminal)
    assert rows(tmp_path) == ["one"]
