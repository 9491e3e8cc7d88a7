"""What stands on a terminal while a frame is drawn in place and other things are written to it. pyte is the one."""

import io
import logging
import os
import sys
import time

import pyte
import pytest

from topology.cli.output import screen as screens
from topology.cli.output.live import LiveView
from topology.cli.output.rates import RateShape
from topology.cli.output.screen import BURST, HIDE, PENDING_MAX, SHOW, Above, Screen, shown, written_above

FRAME = ["title", "row one", "row two"]


class Terminal(io.StringIO):
    """A stream whose other end is a terminal's screen."""

    encoding = "utf-8"  # type: ignore[assignment]

    def __init__(self, columns: int = 40, rows: int = 12) -> None:
        super().__init__()
        self.columns, self.rows = columns, rows
        self.emulated = pyte.HistoryScreen(columns, rows, history=1000)
        self.emulated.set_mode(pyte.modes.LNM)  # the kernel's: a line end is a return too
        self._stream = pyte.Stream(self.emulated)
        self.written = ""

    def write(self, text: str) -> int:
        self._stream.feed(text)
        self.written += text
        return len(text)

    def isatty(self) -> bool:
        return True

    def display(self) -> list[str]:
        """The lines that are on the screen, up to the last one with something in it."""
        lines = [line.rstrip() for line in self.emulated.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def everything(self) -> list[str]:
        """What has scrolled away, and what stands there."""
        top = self.emulated.history.top
        gone = ["".join(line[x].data for x in range(self.columns)).rstrip() for line in top]
        return [*gone, *self.display()]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    one = Terminal()
    monkeypatch.setattr(Screen, "size", lambda self: (self._stream.columns, self._stream.rows))
    return one


def test_a_frame_is_drawn_in_place_and_again_only_where_it_has_changed(terminal: Terminal) -> None:
    screen = Screen(terminal)
    screen.draw(FRAME, FRAME)
    before = terminal.written
    screen.draw(FRAME, FRAME)
    assert terminal.written == before
    screen.draw(["title", "row 1"], ["title", "row 1"])
    assert terminal.display() == ["title", "row 1"]
    screen.draw(FRAME, FRAME)
    assert terminal.display() == FRAME
    assert terminal.written.count(HIDE) == 1


def test_what_is_written_above_stays_and_the_frame_below_it_is_whole(terminal: Terminal) -> None:
    screen = Screen(terminal)
    screen.draw(FRAME, FRAME)
    for number in range(30):
        screen.above([f"line {number}"])
        screen.draw([*FRAME[:2], f"row {number}"], FRAME)
    assert terminal.everything() == [*(f"line {number}" for number in range(30)), *FRAME[:2], "row 29"]


def test_lines_above_that_are_wider_than_the_terminal_wrap_and_lose_nothing(terminal: Terminal) -> None:
    screen = Screen(terminal)
    screen.draw(FRAME, FRAME)
    screen.above(["x" * 100])
    assert terminal.display() == ["x" * 40, "x" * 40, "x" * 20, *FRAME]


def test_a_line_of_the_frame_that_is_wider_than_it_seems_wraps_nothing(terminal: Terminal) -> None:
    """Emulators disagree on how wide some characters are."""
    screen = Screen(terminal)
    for _ in range(3):
        screen.above(["above"])
        screen.draw(["title", "y" * 60, "last"], ["title", "y" * 39, "last"])
        screen.draw(FRAME, FRAME)
    assert terminal.display() == ["above", "above", "above", *FRAME]


def test_a_frame_that_is_cleared_leaves_the_cursor_and_nothing_else(terminal: Terminal) -> None:
    screen = Screen(terminal)
    screen.draw(FRAME, FRAME)
    screen.above(["above"])
    screen.clear()
    assert terminal.display() == ["above"]
    assert terminal.written.endswith(SHOW)
    assert (terminal.emulated.cursor.y, terminal.emulated.cursor.x) == (1, 0)
    screen.above(["after"])
    assert terminal.display() == ["above", "after"]


def test_many_lines_at_once_are_written_without_the_frame_until_it_is_drawn_anew(terminal: Terminal) -> None:
    screen = Screen(terminal)
    screen.draw(FRAME, FRAME)
    drawn = terminal.written.count("title")
    for number in range(10 * BURST):
        screen.above([f"line {number}"])
    assert terminal.written.count("title") - drawn == BURST
    screen.draw(FRAME, FRAME)
    assert terminal.everything() == [*(f"line {number}" for number in range(10 * BURST)), *FRAME]


def test_a_terminal_that_has_become_narrower_and_rewrapped_the_frame_keeps_none_of_it(terminal: Terminal) -> None:
    screen = Screen(terminal)
    wide = ["t" * 39, "a" * 30, "b" * 10]
    screen.above(["above"])
    screen.draw(wide, wide)
    terminal.columns = 20
    terminal.emulated.reset()
    terminal.emulated.set_mode(pyte.modes.LNM)
    terminal.emulated.resize(12, 20)
    terminal.write("above\n" + "t" * 39 + "\n" + "a" * 30 + "\n" + "b" * 10 + "\r")  # as terminals do that rewrap
    screen.draw(FRAME, FRAME)
    assert terminal.display() == ["above", *FRAME]


def test_an_encoding_that_lacks_a_character_moves_no_column(terminal: Terminal) -> None:
    terminal.encoding = "ascii"
    Screen(terminal).draw(["a … b", "漢"], ["a … b", "漢"])
    assert terminal.display() == ["a ? b", "?"]


# -- what others print


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain 漢字", "plain 漢字"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m"),
        ("up \x1b[2A \x1b]0;pwn\x07 \x9b2J", "up \\x1b[2A \\x1b]0;pwn\\x07 \\x9b2J"),
        ("\u202egnp.exe \u200b \ud800", "\\u202egnp.exe \\u200b \\ud800"),
        ("10 %\r20 %\r30 %\r", "30 %"),
        ("a\tb", "a       b"),
        ("a\vb\fc\x85d\u2028e", "a\\x0bb\\x0cc\\x85d\\u2028e"),
    ],
)
def test_what_is_printed_keeps_its_colours_and_moves_no_cursor(text: str, seen: str) -> None:
    assert shown(text) == seen, "S11"


def test_lines_are_written_above_once_they_end_and_what_has_none_at_the_end(terminal: Terminal) -> None:
    screen = Screen(terminal)
    screen.draw(FRAME, FRAME)
    above = Above(screen, terminal)
    print("half a ", end="", file=above, flush=True)
    assert terminal.display() == FRAME
    print("line", "and another", sep="\n", file=above)
    print("no end", end="", file=above)
    assert terminal.display() == ["half a line", "and another", *FRAME]
    above.end()
    assert terminal.display() == ["half a line", "and another", "no end", *FRAME]
    screen.clear()
    print("at exit", end="", file=above)
    assert terminal.display() == ["half a line", "and another", "no end", "at exit"]
    assert above.isatty()


def test_a_line_without_an_end_has_a_bound(terminal: Terminal) -> None:
    above = Above(Screen(terminal), terminal)
    for _ in range(12):
        above.write("x" * (PENDING_MAX // 10))
    assert terminal.written.count("\n") == 1


@pytest.mark.parametrize("state", ["\r{} % done", "{} % done\r"])
def test_a_line_that_is_written_over_and_over_takes_no_memory_and_ends_as_it_was_last(
    terminal: Terminal, state: str
) -> None:
    above = Above(Screen(terminal), terminal)
    for done in range(PENDING_MAX // 2):
        above.write(state.format(done))
    assert terminal.written == ""
    above.write("\n")
    assert terminal.display() == [f"{PENDING_MAX // 2 - 1} % done"]


def test_a_line_of_single_characters_costs_no_more_the_longer_it_is(terminal: Terminal) -> None:
    above = Above(Screen(terminal), terminal)
    begun = time.process_time()
    for _ in range(PENDING_MAX):
        above.write(".")
    assert time.process_time() - begun < 1.0, "it would be some 10 s, were all of it copied each time"
    assert terminal.written == ""


def test_bytes_go_the_way_of_text(terminal: Terminal) -> None:
    screen = Screen(terminal)
    screen.draw(FRAME, FRAME)
    above = Above(screen, terminal)
    half = "häuser \x1b[2J\n".encode()
    above.buffer.write(half[:2])
    above.buffer.write(half[2:])
    above.buffer.flush()
    assert terminal.display() == ["häuser \\x1b[2J", *FRAME]


def test_nothing_is_drawn_while_the_terminal_is_another_job_s(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "fileno", lambda: 2, raising=False)
    monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp())
    screen = Screen(terminal)
    monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp() + 1)
    screen.draw(FRAME, FRAME)
    assert terminal.written == ""
    screen.above(["a line of the log"])
    assert terminal.display() == ["a line of the log"]


def test_who_never_had_the_foreground_draws_as_under_the_timeout_command(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.devnull, "w") as file:
        monkeypatch.setattr(terminal, "fileno", file.fileno, raising=False)
        monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp() + 1)
        Screen(terminal).draw(FRAME, FRAME)
    assert terminal.display() == FRAME


def test_prints_and_handlers_of_the_log_go_above_and_are_given_back(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(screens, "_same", lambda stream, other: True)
    logger = logging.getLogger("somebody.else")
    handler = logging.StreamHandler(terminal)
    logger.addHandler(handler)
    try:
        screen = Screen(terminal)
        screen.draw(FRAME, FRAME)
        with written_above(screen):
            print("to stdout")
            print("to stderr", file=sys.stderr)
            logger.warning("logged \x1b[2J")
        assert terminal.display() == ["to stdout", "to stderr", "logged \\x1b[2J", *FRAME]
        assert sys.stdout is sys.stderr is handler.stream is terminal
    finally:
        logger.removeHandler(handler)


def test_a_stdout_that_is_no_terminal_is_left_alone(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", file)
    with written_above(Screen(terminal)):
        print("a result \x1b[2J")
    assert file.getvalue() == "a result \x1b[2J\n"


def test_a_large_topology_is_looked_at_less_often(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    seconds = []
    for components, workers in ((20, 4), (100, 8), (100, 64)):
        names = {f"bolt-{number}": "bolt" for number in range(components)}
        seconds.append(LiveView(RateShape("large", names, {worker: {} for worker in range(workers)})).every_s)
    assert seconds == [0.25, 0.4, 2.0]
