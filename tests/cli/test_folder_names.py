"""A folder may be called anything but "/" and NUL: an escape sequence and a line end in its name are told as text by
each command, in each message and in each line that is offered to be typed (S26)."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from subprocess import run

import pytest
from cli_kit import Result, kedge, kedge_here

EVIL = "x\x1b]0;pwn\x07\nkedge: forged\x1b[2J\u202e"
APP = Path(__file__).with_name("cli_kit.py")
SMALL = """
from bolts import JsonLinesSink, SqliteSink
from spouts import FileTail, Items
from topology import Bolt, Record, State, Topology


class Word(Record):
    text: str


class Keep(Bolt):
    def process(self, word: Word, state: State[int]) -> None:
        if BAD:
            raise ValueError(__file__)
        state.set(1)


def topology(bad: bool = False, sink: str = "", tail: str = "") -> Topology:
    global BAD
    BAD = bad
    made = Topology("small")
    words = made.spout("words", FileTail(tail) if tail else Items([Word("a"), Word("b")]))
    kept = made.bolt("keep", Keep(), words.fields("text"))
    if sink:
        made.bolt("sink", (SqliteSink if sink.endswith("db") else JsonLinesSink)(sink), words.global_())
    return made
"""


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    folder = tmp_path / EVIL
    folder.mkdir()
    (folder / "app.py").write_text(SMALL)
    (folder / "broken.py").write_text("raise RuntimeError('no')\n")
    (folder / "untyped.py").write_text(SMALL.replace("word: Word", "word"))
    (folder / "letters.txt").write_text("{}\n")
    return folder


def lines(folder: Path) -> Iterator[tuple[object, ...]]:
    """Commands that say something of a folder: where it is used, is missing, is a file, or is none of ours."""
    state = folder / "state"
    places = (folder, folder / "none", folder / "app.py", state)
    files = (*(folder / f"{name}.py" for name in ("app", "none", "broken", "untyped")), f"{folder}/app.py:none")
    for file in files:
        yield ("check", file)
        yield ("graph", file)
    for file in files[1:]:
        yield ("run", file)
    yield ("run", folder)
    yield ("run", files[0], "--state-dir", folder)
    yield ("run", files[0], "--state-dir", state)
    yield ("run", files[0], "--state-dir", folder / "app.py")
    yield ("run", files[0], "--state-dir", folder / "none" / "none")
    yield ("run", files[0], "--state-dir", state, "--set", f"sink={folder / 'none' / 'out.db'}")
    yield ("run", files[0], "--state-dir", folder / "a", "--set", f"sink={folder / 'none' / 'out.db'}")
    yield ("run", files[0], "--state-dir", folder / "b", "--set", f"sink={folder / 'none' / 'out.jsonl'}")
    yield ("run", files[0], "--state-dir", folder / "c", "--set", f"sink={folder}")
    yield ("run", files[0], "--state-dir", folder / "d", "--set", f"tail={folder}")
    yield ("run", files[0], "--state-dir", folder / "e", "--set", "bad=true", "--config", "max_replays=0")
    yield ("run", files[0], "--state-dir", folder / "f", "--config", folder / "none.toml")
    yield ("graph", files[0], "--output", folder / "none" / "a.svg")
    yield ("graph", files[0], "--output", folder / "a.none")
    yield ("graph", files[0], "--output", folder)
    yield ("new", folder)
    yield ("new", folder / "app.py")
    yield ("new", folder / "new")
    for at in (*places, folder / "e"):
        yield ("stop", "--state-dir", at)
        yield ("stop", at)
        yield ("dead", "list", "--state-dir", at)
        yield ("dead", "list", "--topology", at)
        yield ("dead", "show", EVIL, "--state-dir", at)
        yield ("dead", "replay", EVIL, "--state-dir", at)
        yield ("dead", "drop", EVIL, "--state-dir", at)
        yield ("state", "show", "--state-dir", at)
        yield ("state", "show", EVIL, "--state-dir", at)
        yield ("state", "export", "keep", "--state-dir", at, "-o", folder / "none" / "out")
        yield ("state", "export", "keep", "--state-dir", at, "-o", folder)
        yield ("state", "import", "keep", folder / "letters.txt", "--state-dir", at)
        yield ("state", "import", "keep", folder / "none", "--state-dir", at)
    yield (EVIL,)
    yield ("explain", EVIL)
    yield ("completion", EVIL)
    yield ("run", files[0], f"--{EVIL}")
    yield ("run", files[0], "--set", EVIL)
    yield ("run", files[0], "--config", f"{EVIL}=1")


def hurts(result: Result) -> list[str]:
    """Lines in which a terminal would obey the folder's name, or that pass for lines of ours."""
    said = (result.stdout + result.stderr).split("\n")
    return [one for one in said if not one.expandtabs().isprintable() or one.startswith("kedge: forged")]


def test_a_folders_name_is_told_as_text_by_each_command(evil: Path) -> None:
    told = [kedge_here(*line, cwd=cwd) for cwd in (evil.parent, evil) for line in lines(evil)]
    assert not [(one.args, found) for one in told if (found := hurts(one))]
    ours = [one for one in told if "broken.py" not in str(one.args) and "bad=true" not in one.args]
    assert not [one.stderr for one in ours if "Traceback" in one.stderr]


def test_the_line_that_goes_on_from_a_run_is_shown_as_text_and_can_be_typed(evil: Path) -> None:
    first = kedge("run", evil / "app.py", "--state-dir", evil / "state", cwd=evil.parent)
    assert (first.returncode, hurts(first)) == (0, [])
    (line,) = (one for one in first.stdout.splitlines() if one.startswith("try next: "))
    bash = which("bash")
    if bash is None:
        pytest.skip("needs a shell that knows $'...'")
    found = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    typed = [bash, "-c", line.removeprefix("try next: ")]
    second = run(typed, cwd=evil.parent, env=found, capture_output=True, text=True)
    assert (second.returncode, second.stderr.count("small: 1 spout")) == (0, 1), second.stderr
