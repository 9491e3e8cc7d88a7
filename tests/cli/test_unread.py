"""A stderr that nobody reads, or only late: the run goes on all the same (F60), and what is read then is whole."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from cli_kit import KEDGE, PATIENCE_S, environment, wait_for

CHATTY = """
import logging
import sys
from counting import Number, Numbers
from topology import Bolt, Topology


class Chatty(Bolt):
    def __init__(self, size: int, aloud: bool) -> None:
        self.size, self.aloud = size, aloud

    def process(self, number: Number) -> None:
        if self.aloud:
            print(f"printed {number.value}", file=sys.stderr)
        logging.getLogger("chatty").warning(f"{number.value} " + "x" * self.size)


def topology(count: int = 2000, size: int = 500, aloud: bool = False) -> Topology:
    made = Topology("chatty")
    made.bolt("chatty", Chatty(size, aloud), made.spout("numbers", Numbers(count)).shuffle())
    return made
"""


@pytest.fixture
def chatty(folder: Path) -> Path:
    (folder / "chatty.py").write_text(CHATTY)
    return folder


def begun(folder: Path, stderr: int, *arguments: object) -> "subprocess.Popen[bytes]":
    with (folder / "stdout.txt").open("wb") as out:
        return subprocess.Popen(
            [KEDGE, "run", *map(str, arguments), "--json"],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=stderr,
        )


def acked(folder: Path) -> int:
    return int(json.loads((folder / "stdout.txt").read_text())["spouts"]["numbers"]["acked"])


@pytest.mark.slow
@pytest.mark.parametrize("log_format", ["auto", pytest.param("json", marks=pytest.mark.slow)])
@pytest.mark.parametrize("workers", [(), ("--workers", 2)])
def test_a_run_whose_stderr_nobody_reads_does_its_work_and_ends_F60(
    chatty: Path, workers: tuple[object, ...], log_format: str
) -> None:
    reading, writing = os.pipe()
    process = begun(chatty, writing, "chatty.py", "--log-format", log_format, *workers)
    os.close(writing)
    try:
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        os.close(reading)
    assert acked(chatty) == 2000


@pytest.mark.parametrize("size", [100, 9000])
def test_what_is_read_late_is_whole_and_in_order_and_what_had_no_room_is_counted(chatty: Path, size: int) -> None:
    reading, writing = os.pipe()
    arguments = ("chatty.py", "--log-format", "json", "--set", f"size={size}", "--set", "count=1500")
    process = begun(chatty, writing, *arguments)
    os.close(writing)
    try:
        wait_for(lambda: (chatty / "stdout.txt").stat().st_size > 0 or process.poll() is not None, "the figures")
        begun_at = time.monotonic()
        with os.fdopen(reading, "rb") as pipe:
            lines = pipe.read().splitlines()
        assert time.monotonic() - begun_at < PATIENCE_S
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
    said = [json.loads(line) for line in lines]
    numbers = [int(one["event"].partition(" ")[0]) for one in said if one["logger"] == "chatty"]
    left_out = sum(
        int(one["event"].partition(" ")[0].replace(",", "")) for one in said if "had no room" in one["event"]
    )
    assert numbers == sorted(numbers)
    if size == 100:
        assert len(numbers) == 1500
    else:  # 13 MB: more than may wait
        assert left_out > 0
        assert 1500 - len(numbers) <= left_out <= 1500 - len(numbers) + 4, "but for lines of ours"
    assert acked(chatty) == 1500


def test_a_stderr_that_is_read_has_lines_in_the_order_in_which_they_were_said(chatty: Path) -> None:
    process = subprocess.run(
        [KEDGE, "run", "chatty.py", "--set", "aloud=true", "--set", "count=60"],
        cwd=chatty,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    lines = [line for line in process.stderr.splitlines() if line.startswith("printed ") or "chatty" in line]
    said = [
        line.split()[1] if line.startswith("printed ") else json.loads(line)["event"].split()[0] for line in lines[2:]
    ]
    assert said == [str(number) for number in range(60) for _ in range(2)]
