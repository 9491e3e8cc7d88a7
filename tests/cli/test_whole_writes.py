"""What is written is written whole, whatever comes in the middle of it."""

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from topology.cli.output.screen import Screen
from topology.text import write_line

TEXT = "漢字 and others " * 40_000  # more than a pipe has room for


@contextmanager
def disturbed(by_signal: threading.Event) -> Iterator[None]:
    """Meanwhile a signal comes again and again, and its handler does nothing but set this."""
    before = signal.signal(signal.SIGALRM, lambda *_: by_signal.set())
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.005)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals of POSIX, which Windows lacks")
@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "PYTHONUNBUFFERED"])
@pytest.mark.parametrize("what", ["a line", "what stands above the view"])
def test_signals_amid_a_write_cost_none_of_it(what: str, buffered: bool) -> None:
    """The pipe is full when the first one comes, and nobody has read from it yet."""
    ours, theirs = os.pipe()
    raw = io.FileIO(theirs, "w")
    stream = io.TextIOWrapper(io.BufferedWriter(raw) if buffered else raw, "utf-8", write_through=not buffered)  # type: ignore[arg-type]
    found = b""
    signalled = threading.Event()

    def read() -> None:
        nonlocal found
        signalled.wait()
        while data := os.read(ours, 65_536):
            found += data

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with disturbed(signalled):
            if what == "a line":
                write_line(stream, TEXT)
            else:
                Screen(stream).above([TEXT])
    finally:
        stream.close()
        reader.join()
        os.close(ours)
    assert found.decode() == f"{TEXT}\n"
