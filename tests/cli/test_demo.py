"""`kedge demo`: what it says, what it refuses, and that it leaves nothing behind, however it ends."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cli_kit import KEDGE, Started, environment, kedge, wait_for
from kedge_examples.demo import _make

from topology.cli.main import status_of
from topology.codes.command_line import PROJECT_DIR_NOT_EMPTY
from topology.errors import ConfigurationError


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Short, as paths of sockets have to be: pytest's own is not, where several processes share out the tests."""
    with TemporaryDirectory(prefix="kedge-test-") as place:
        yield Path(place)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What the command says to a use that is wrong: one sentence, and one line of advice with a code."""
    assert status_of(["demo", *map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    sentence, *_, advice = said.err.splitlines()
    assert sentence.startswith("kedge: ")
    assert advice.startswith("  next: ")
    assert "kedge explain K1" in advice
    assert "Traceback" not in said.err
    return sentence


WRONG = {
    "no workers": (["--workers", "0"], "--workers takes a whole number from 1 to 64, not 0"),
    "too many workers": (["--workers", "65"], "--workers takes a whole number from 1 to 64, not 65"),
    "half a worker": (["--workers", "1.5"], "--workers takes a whole number, not '1.5'"),
    "a rate below 0": (["--rate", "-1"], "--rate takes a number of lines a second, or 0 for as fast as it can, not -1"),
    "a rate without an end": (["--rate", "inf"], "--rate takes a number of lines a second"),
    "a rate that is not a number": (["--rate", "nan"], "--rate takes a number of lines a second"),
    "a rate in words": (["--rate", "fast"], "--rate takes a number, not 'fast'"),
    "too short a log": (["--lines", "999"], "--lines takes a whole number from 1,000 to 1,000,000, not 999"),
    "too long a log": (["--lines", "1000001"], "--lines takes a whole number from 1,000 to 1,000,000, not 1000001"),
    "no time": (["--for", "0"], "--for takes a number of seconds above 0, not 0"),
    "a file to keep in": (["--keep", "file"], "file exists, and is not a folder"),
    "a folder that is not empty": (["--keep", "full"], "full is not empty: it has mine"),
    "a folder in a file": (["--keep", "file/one"], "file/one can't be made: Not a directory"),
    "nothing to keep in": (["--keep", ""], "a folder without a name can't be made"),
    "a target, as of run": (["alerts.py"], "kedge demo takes no argument, not 'alerts.py'"),
    "an option that there is not": (["--works", "2"], "there is no option --works; did you mean '--workers'?"),
    "an option without its value": (["--rate"], "--rate needs a value: LINES"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_use_is_told_in_a_sentence_and_makes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("")
    before = sorted(tmp_path.rglob("*"))
    assert said in refused(capsys, *arguments)
    assert sorted(tmp_path.rglob("*")) == before


def test_it_says_what_will_happen_and_how_to_stop_it_then_what_it_found_and_what_to_do_next(tmp_path: Path) -> None:
    path = f"{Path(KEDGE).parent}{os.pathsep}{os.environ['PATH']}"
    told = kedge("demo", "--rate", "10000", cwd=tmp_path, env={"TMPDIR": str(tmp_path), "PATH": path})
    assert told.returncode == 0, told.stderr
    first, second, third, *_ = told.stderr.splitlines()
    assert first == (
        "kedge demo: finds brute-force attacks in an sshd log of 20,000 lines that it makes, on 2 worker processes"
    )
    assert second == "  takes about 2 s; Ctrl-C ends it sooner"
    assert re.fullmatch(
        rf"  writes to {tmp_path}/kedge-demo-\w+, and removes it at the end \(--keep DIR keeps it\)", third
    )
    assert "store: 24 stored, 0 known already" in told.stdout
    assert "198.18.0.19       7         2025-12-31T17:10:21Z  2025-12-31T17:10:21Z" in told.stdout
    assert told.stdout.splitlines()[-1] == "try next: kedge new my-alerts   # a topology of your own, with its tests"
    assert list(tmp_path.iterdir()) == []


def test_options_of_the_log_hold_for_it_whichever_way_they_are_given(tmp_path: Path) -> None:
    given = {"KEDGE_LOG_FORMAT": "console", "KEDGE_LOG_LEVEL": "debug", "KEDGE_LINES": "1000", "TMPDIR": str(tmp_path)}
    told = kedge("demo", "--rate", "0", "--workers", "1", cwd=tmp_path, env=given)
    assert told.returncode == 0, told.stderr
    assert "sshd log of 1,000 lines" in told.stderr
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d debug ", told.stderr, re.M), told.stderr
    options = ("--log-format", "json", "--log-level", "info")
    typed = kedge("demo", "--rate", "0", "--workers", "1", *options, cwd=tmp_path, env=given)
    assert {json.loads(line)["level"] for line in typed.stderr.splitlines()} == {"info"}


def test_what_is_kept_can_be_run_again_by_the_command_that_it_ends_with_which_stores_nothing_twice(
    tmp_path: Path,
) -> None:
    told = kedge("demo", "--rate", "0", "--keep", "a folder/of mine", cwd=tmp_path, env={"TMPDIR": str(tmp_path)})
    assert told.returncode == 0, told.stderr
    kept = tmp_path / "a folder/of mine"
    assert f"  writes to {kept}, and keeps it" in told.stderr
    assert sorted(path.name for path in kept.iterdir() if not path.name.startswith("alerts.db")) == [
        "auth.log",
        "state",
    ]
    stored = rows(kept / "alerts.db")
    assert stored > 0
    (line,) = (line for line in told.stdout.splitlines() if line.startswith("try next: "))
    again = subprocess.run(
        ["/bin/sh", "-c", line.removeprefix("try next: ")],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert "store: 0 stored, " in again.stdout
    assert rows(kept / "alerts.db") == stored
    assert [path.name for path in tmp_path.iterdir()] == ["a folder"]


def rows(store: Path) -> int:
    connection = sqlite3.connect(store)
    try:
        return int(connection.execute("SELECT COUNT(*) FROM brute_force").fetchone()[0])
    finally:
        connection.close()


@contextmanager
def slow(tmp_path: Path, *options: str) -> Iterator[Started]:
    """A demo that would take minutes, in a process group of its own as on a terminal, with its temporary folder in
    `tmp`."""
    (tmp_path / "tmp").mkdir()
    stderr = tmp_path / "stderr.txt"
    with stderr.open("wb") as file, (tmp_path / "stdout.txt").open("wb") as out:
        process = subprocess.Popen(
            [KEDGE, "demo", "--rate", "100", *options],
            cwd=tmp_path,
            env=environment({"TMPDIR": str(tmp_path / "tmp")}),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=file,
            start_new_session=True,
        )
        try:
            yield Started(process, stderr)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_log_is_made_ends_it_at_once_and_nothing_is_left_behind(
    tmp_path: Path, number: signal.Signals
) -> None:
    with slow(tmp_path, "--lines", "1000000") as run:
        run.until_said("  writes to ")
        run.process.send_signal(number)
        assert run.ended() == 1, run.said()
    assert run.said().splitlines()[-1] == "kedge: interrupted before anything ran"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_alerts_are_shown_as_they_come_and_not_at_the_end_alone(tmp_path: Path) -> None:
    with slow(tmp_path, "--rate", "1000") as run:
        wait_for(lambda: "\nalert: " in "\n" + (tmp_path / "stdout.txt").read_text(), "an alert")
        assert run.process.poll() is None
        assert "has read everything" not in (tmp_path / "stdout.txt").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_it_and_nothing_is_left_behind(tmp_path: Path, number: signal.Signals) -> None:
    with slow(tmp_path) as run:
        run.until_said("try: kill -9")
        assert len(list((tmp_path / "tmp").glob("kedge-demo-*"))) == 1
        run.process.send_signal(number)
        assert run.ended() == 0, run.said()
    assert f"{number.name}: draining" in run.said()
    told = (tmp_path / "stdout.txt").read_text()
    assert "ssh-alerts was stopped and has drained" in told
    assert told.splitlines()[-1].startswith("try next: ")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_terminal_that_is_closed_ends_it_and_its_workers_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with slow(tmp_path) as run:
        run.until_said("try: kill -9")
        os.killpg(run.process.pid, signal.SIGHUP)  # as the kernel does, to all of them
        run.ended()
    assert "Traceback" not in run.said()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_kill_that_cannot_be_caught_leaves_the_folder_that_was_named_and_no_process(tmp_path: Path) -> None:
    with slow(tmp_path) as run:
        run.until_said("try: kill -9")
        run.process.kill()
        run.ended()
    (left,) = (tmp_path / "tmp").glob("kedge-demo-*")
    assert f"  writes to {left}, and removes it at the end" in run.said()
    assert (left / "auth.log").stat().st_size > 1_000_000


def test_a_disk_that_is_full_is_a_sentence_and_leaves_no_part_of_what_was_to_be_kept(tmp_path: Path) -> None:
    """A limit of a file's size stands for the disk."""
    told = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -f 100; exec '{KEDGE}' demo --keep a/b"],
        cwd=tmp_path,
        env=environment({"PYTHONDONTWRITEBYTECODE": "1"}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 2, told.stderr
    assert f"kedge: {tmp_path}/a/b/auth.log can't be written: File too large" in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_two_demos_that_keep_in_one_folder_do_not_write_over_each_other(tmp_path: Path) -> None:
    (tmp_path / "auth.log").write_text("theirs")  # since it was looked whether the folder is empty
    with pytest.raises(ConfigurationError, match=r"is not empty: it has auth\.log") as raised:
        _make(tmp_path / "auth.log", 1000)
    assert raised.value.code is PROJECT_DIR_NOT_EMPTY
    assert (tmp_path / "auth.log").read_text() == "theirs"


STARTING = """
import signal
from pathlib import Path
from topology.cli.cleanup import end_at_once, interruptible

with interruptible():
    end_at_once(lambda: Path("made").unlink())
    try:
        signal.raise_signal(signal.{name})
    finally:
        Path("an exception").touch()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_while_the_run_starts_undoes_and_ends_it_without_an_exception(tmp_path: Path, name: str) -> None:
    (tmp_path / "made").touch()
    told = subprocess.run(
        [sys.executable, "-c", STARTING.replace("{name}", name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stderr) == (1, "kedge: interrupted before anything ran\n")
    assert list(tmp_path.iterdir()) == []


def test_a_rate_that_takes_for_ever_is_told_in_words(tmp_path: Path) -> None:
    told = kedge("demo", "--rate", "1e-300", "--lines", "1000", "--for", "0.1", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "  takes more than a year; Ctrl-C ends it sooner" in told.stderr.splitlines()
