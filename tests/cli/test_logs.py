"""The log of `kedge run`: one look whoever logs, with worker, component and task; JSON that can be read whole."""

import json
import logging
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_kit import KEDGE, PATIENCE_S, environment, kedge, kedge_here

SPEAKING = """
import asyncio
import logging
import warnings

import structlog
from counting import Forget, Number, Numbers
from topology import Bolt, Message, Task, Topology

{setup}
log = logging.getLogger("shop")
struct = structlog.get_logger("shop.struct")
log.warning("at import")


class Source(Numbers):
    async def poll(self, limit: int) -> list[Message[Number]]:
        log.info("polling")
        return await super().poll(limit)

    def ack(self, message_id: object) -> None:
        log.info("acked", extra={{"id": message_id}})


class First(Bolt):
    def open(self, task: Task) -> None:
        log.info("opening")

    def process(self, number: Number) -> list[Number]:
        struct.warning("seen %s", "twice", number=number.value, why="two words", level="mine", odd=object)
        return [number]

    def close(self) -> None:
        log.info("closing")


class Second(Bolt):
    async def process(self, number: Number) -> None:
        log.info("before")
        await asyncio.sleep(0.001)
        log.info("after")
        await asyncio.to_thread(log.info, "in a thread")
        await asyncio.create_task(self.own())
        secret = "password-1234"
        try:
            raise ValueError("\\x1b[2J no\\nkedge: forged")
        except ValueError:
            log.exception("it failed\\n00:00:00 error forged %s", len(secret))
        warnings.warn("careful")
        log.debug("too fine")

    async def own(self) -> None:
        log.info("in a task of its own")

    def flush(self, out: object) -> None:
        log.info("flushing")

    def summary(self) -> list[str]:
        log.info("summing up")
        return []


def topology(count: int = 1) -> Topology:
    made = Topology("speaking")
    numbers = made.spout("numbers", Source(count))
    first = made.bolt("first", First(), numbers.shuffle())
    made.bolt("second", Second(), first.fields("value"), tasks=2)
    return made
"""
PLACES = {  # text → the component whose code logs it
    "polling": "numbers",
    "acked": "numbers",
    "opening": "first",
    "seen twice": "first",
    "closing": "first",
    "before": "second",
    "after": "second",
    "in a thread": "second",
    "in a task of its own": "second",
    "flushing": "second",
    "summing up": "second",
}


@pytest.fixture
def speaking(folder: Path) -> Path:
    (folder / "speaking.py").write_text(SPEAKING.format(setup=""))
    return folder


def events(text: str) -> list[dict[str, Any]]:
    """The JSON lines among these."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("workers", [None, 2])
def test_each_entry_names_worker_component_and_task_whoever_logs_it(speaking: Path, workers: int | None) -> None:
    many = () if workers is None else ("--workers", workers)
    result = kedge("run", "speaking.py", *many, cwd=speaking)
    assert result.returncode == 0, result.stderr
    found = events(result.stderr)
    for text, component in PLACES.items():
        at = [(one["component"], one["task"], one["worker"]) for one in found if one["event"] == text]
        assert at, text
        assert {place[0] for place in at} == {component}, text
        assert {place[1] for place in at} <= {0, 1}
        assert {place[2] for place in at} <= {*range(workers or 1)}
    assert {one["task"] for one in found if one["event"] == "flushing"} == {0, 1}


def test_entries_have_their_time_level_logger_and_own_fields(speaking: Path) -> None:
    found = events(kedge("run", "speaking.py", cwd=speaking).stderr)
    seen = next(one for one in found if one["event"] == "seen twice")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", seen.pop("timestamp"))
    assert seen == {
        "level": "warning",
        "logger": "shop.struct",
        "event": "seen twice",
        "worker": 0,
        "component": "first",
        "task": 0,
        "number": 0,
        "why": "two words",
        "level_": "mine",  # what is called like ours
        "odd": "<class 'object'>",
    }
    assert [one["id"] for one in found if one["event"] == "acked"] == [0]
    assert not [one for one in found if one["event"] == "too fine"]
    warned = next(one for one in found if one["logger"] == "py.warnings")
    assert "UserWarning: careful" in warned["event"]
    assert warned["component"] == "second"


@pytest.mark.parametrize("workers", [(), ("--workers", 2)])
def test_a_traceback_has_no_values_S12_and_no_text_forges_a_line_S11(
    speaking: Path, workers: tuple[object, ...]
) -> None:
    for log_format in ("auto", "console", "json"):
        shown = kedge("run", "speaking.py", "--fresh", *workers, "--log-format", log_format, cwd=speaking).stderr
        assert "password-1234" not in shown.replace('secret = "password-1234"', "")
        assert "\x1b" not in shown
        assert not [line for line in shown.splitlines() if line.startswith(("kedge: forged", "00:00:00"))]
        assert "ValueError" in shown
        assert "structlog" not in shown


@pytest.mark.parametrize("workers", [(), ("--workers", 2)])
def test_with_json_every_line_on_stderr_is_one_object(speaking: Path, workers: tuple[object, ...]) -> None:
    result = kedge("run", "speaking.py", *workers, "--log-format", "json", "--json", cwd=speaking)
    assert result.returncode == 0
    found = [json.loads(line) for line in result.stderr.splitlines()]
    assert all({"timestamp", "level", "logger", "event"} <= {*one} for one in found)
    assert found[0]["event"].endswith(": speaking.py")
    progress = [one for one in found if "records_per_s" in one]
    assert progress[-1]["acked"] == 1
    assert {"at import", "seen twice"} <= {one["event"] for one in found}


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["run", "nowhere.py"], ["run", "speaking.py", "--nothing"], ["rnu"]])
def test_with_json_an_error_is_an_object_too(speaking: Path, arguments: list[str]) -> None:
    for given, env in ((("--log-format", "json"), {}), ((), {"KEDGE_LOG_FORMAT": "json"})):
        result = kedge(*arguments, *given, cwd=speaking, env=env)
        assert result.returncode == 2
        assert [json.loads(line)["level"] for line in result.stderr.splitlines()][-1] == "error"


def test_console_lines_say_where_and_what_and_keep_tracebacks_below(speaking: Path) -> None:
    shown = kedge("run", "speaking.py", "--log-format", "console", "--workers", "2", cwd=speaking).stderr
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    seen = r"warning  \[first\.0 w[01]\] seen twice  number=0  why='two words'  level_=mine  odd=\"<class 'object'>\""
    assert re.search(rf"^{time} {seen}  logger=shop\.struct$", shown, re.M), shown
    failed = rf"^{time} error    \[second\.[01] w[01]\] it failed  logger=shop\n    00:00:00 error forged 13\n    Trace"
    assert re.search(failed, shown, re.M), shown


def test_auto_is_console_on_a_terminal(speaking: Path) -> None:
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb", buffering=0) as terminal:
        process = subprocess.Popen(
            [KEDGE, "run", "speaking.py"],
            cwd=speaking,
            env=environment({"TERM": "dumb", "NO_COLOR": "1"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=follower,
        )
        os.close(follower)
        shown = b""
        while True:
            try:
                data = terminal.read(65536)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            shown += data
        assert process.wait(PATIENCE_S) == 0
    assert re.search(rb"\d\d:\d\d:\d\d warning  \[first\.0\] seen twice", shown), shown
    assert b"{" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("--workers", 2)])
def test_the_level_holds_for_everybody_in_each_process(speaking: Path, workers: tuple[object, ...]) -> None:
    for given, least in (
        (("--log-level", "error"), "error"),
        (("--log-level", "debug"), "debug"),
        (("--debug",), "debug"),
    ):
        result = kedge("run", "speaking.py", "--fresh", *workers, *given, cwd=speaking)
        levels = {one["level"] for one in events(result.stderr)}
        assert levels == ({"error"} if least == "error" else {"debug", "info", "warning", "error"})


CONFIGURED = {
    "basic": "import sys; logging.basicConfig(stream=sys.stdout, format='mine: %(message)s')",
    "dict": (
        "import logging.config; logging.config.dictConfig({'version': 1, 'root': {'handlers': ['h']}, 'handlers': "
        "{'h': {'class': 'logging.StreamHandler', 'stream': 'ext://sys.stdout', 'formatter': 'f'}}, "
        "'formatters': {'f': {'format': 'mine: %(message)s'}}})"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*CONFIGURED])
@pytest.mark.parametrize("workers", [(), ("--workers", 2)])
def test_logging_that_a_topology_sets_up_is_left_to_it_and_ours_comes_all_the_same(
    folder: Path, kind: str, workers: tuple[object, ...]
) -> None:
    (folder / "speaking.py").write_text(SPEAKING.format(setup=CONFIGURED[kind]))
    result = kedge("run", "speaking.py", *workers, "--set", "count=1", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "mine: it failed" in result.stdout
    assert not [one for one in events(result.stderr) if one["logger"].startswith("shop")]
    (folder / "failing.py").write_text(
        "import logging\n" + CONFIGURED[kind] + "\nfrom counting import topology as made\n"
        "def topology():\n    return made(5, fail_at=3)\n"
    )
    failing = kedge("run", "failing.py", *workers, "--config", "max_replays=0", cwd=folder)
    assert [one["logger"] for one in events(failing.stderr) if one["event"].startswith("message 3")] == ["kedge"]


@pytest.mark.parametrize("workers", [(), ("--workers", 2)])
def test_logging_that_a_bolt_sets_up_as_it_opens_does_not_silence_ours(
    folder: Path, workers: tuple[object, ...]
) -> None:
    (folder / "opening.py").write_text(
        "import logging.config\nfrom counting import Odd, Numbers\nfrom topology import Topology\n"
        "class Sets(Odd):\n    def open(self, task):\n"
        "        logging.config.dictConfig({'version': 1, 'disable_existing_loggers': True})\n"
        "def topology():\n    made = Topology('opening')\n"
        "    made.bolt('sets', Sets(3), made.spout('numbers', Numbers(5)).shuffle())\n    return made\n"
    )
    result = kedge("run", "opening.py", *workers, "--config", "max_replays=0", cwd=folder)
    assert result.returncode == 1
    assert [one["logger"] for one in events(result.stderr) if one["event"].startswith("message 3")] == ["kedge"]


def test_structlog_that_a_topology_sets_up_is_left_to_it(folder: Path) -> None:
    setup = "structlog.configure(processors=[structlog.processors.KeyValueRenderer()])"
    (folder / "speaking.py").write_text(SPEAKING.format(setup=setup))
    result = kedge("run", "speaking.py", cwd=folder)
    assert "number=0" in result.stdout
    assert not [one for one in events(result.stderr) if one["event"] == "seen twice"]
    assert [one for one in events(result.stderr) if one["event"] == "polling"]


NOISY = """
import logging
import sys
from counting import Number, Numbers
from topology import Bolt, Topology


class Noisy(Bolt):
    def process(self, number: Number) -> None:
        print("printed", number.value, file=sys.stderr)
        logging.getLogger("noisy").warning("x" * 9_000)


def topology(count: int = 300) -> Topology:
    made = Topology("noisy")
    made.bolt("noisy", Noisy(), made.spout("numbers", Numbers(count)).fields("value"), tasks=2)
    return made
"""


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("log_format", ["auto", "json"])
def test_long_lines_of_json_are_whole_beside_what_two_workers_print(
    folder: Path, log_format: str, unbuffered: str
) -> None:
    """Longer than what a pipe takes in one piece (PIPE_BUF), from three processes."""
    (folder / "noisy.py").write_text(NOISY)
    env = {"PYTHONUNBUFFERED": unbuffered}
    result = kedge("run", "noisy.py", "--workers", "2", "--log-format", log_format, cwd=folder, env=env)
    assert result.returncode == 0
    lines = result.stderr.splitlines()
    printed = [line for line in lines if line.startswith("printed ")]
    assert {*printed} == {f"printed {number}" for number in range(300)}, "what user code prints stays as it is"
    found = [json.loads(line) for line in lines if "x" * 100 in line or (log_format == "json" and line not in printed)]
    assert sum(one["event"] == "x" * 9_000 for one in found) == 300
    if log_format == "json":
        assert (found[-1]["exit_status"], found[-1]["spouts"]["numbers"]["acked"]) == (0, 300)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_lines_that_two_workers_print_on_the_same_stdout_are_whole(folder: Path, unbuffered: str) -> None:
    (folder / "noisy.py").write_text(NOISY.replace("file=sys.stderr", "number.value, 'end', file=sys.stdout"))
    result = kedge("run", "noisy.py", "--workers", "2", cwd=folder, env={"PYTHONUNBUFFERED": unbuffered})
    printed = [line for line in result.stdout.splitlines() if "printed" in line or "end" in line.split()]
    assert {*printed} == {f"printed {number} {number} end" for number in range(300)}


def test_a_command_in_the_process_of_a_test_leaves_its_log_as_it_was(tmp_path: Path) -> None:
    """A second handler prints all entries twice, and without `propagate` a later test finds none of them."""
    logger = logging.getLogger("kedge")
    before = [*logger.handlers], [*logging.getLogger().handlers], logger.level, logger.propagate
    assert kedge_here("run", "nothing.py", cwd=tmp_path).returncode == 2
    assert ([*logger.handlers], [*logging.getLogger().handlers], logger.level, logger.propagate) == before
