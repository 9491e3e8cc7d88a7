"""Calls of logging that are wrong, huge or made in odd places: each is one entry, whichever process it comes from; no
exception reaches who logs, and no line on stderr is torn or forged (S11)."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_kit import kedge

HOSTILE = '''
import logging
import os
import sys
import threading

import structlog
from counting import Number, Numbers
from topology import Bolt, Topology

log = logging.getLogger("shop")
struct = structlog.get_logger("shop.struct")


class Evil:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no str")


class Gone:
    def __del__(self) -> None:
        log.warning("in __del__")


def chained(depth: int) -> Exception:
    last = ValueError("the first")
    for number in range(depth):
        try:
            raise ValueError(f"number {number}") from last
        except ValueError as error:
            last = error
    return last


def fork() -> None:
    """A process of its own, as of `multiprocessing` where it forks."""
    if (child := os.fork()) == 0:
        log.warning("in a fork\\nkedge: forged \\x1b[2J")
        os._exit(0)
    os.waitpid(child, 0)


def in_thread() -> None:
    thread = threading.Thread(target=log.warning, args=("in a thread",))
    thread.start()
    thread.join()


CALLS = {
    "wrong type": lambda: log.warning("number %d", "text"),
    "too few": lambda: log.warning("numbers %s %s", 1),
    "too many": lambda: log.warning("no numbers", 1, 2),
    "no repr": lambda: log.warning("%s", Evil()),
    "no text": lambda: log.warning(Evil()),
    "struct, wrong type": lambda: struct.warning("struct %d", "text"),
    "struct, no text": lambda: struct.warning(Evil(), field=Evil()),
    "struct, positional": lambda: struct.warning("struct %s and %s", "one", "two"),
    "struct, mapping": lambda: struct.warning("struct %(name)s", {"name": "three"}),
    "fields": lambda: log.warning("fields", extra={"evil": Evil(), "\\ud800": 1, 2: 3, "nan": float("nan")}),
    "bytes": lambda: log.warning(b"\\xff\\n"),
    "a megabyte": lambda: log.warning("x" * 1_000_000),
    "surrogates": lambda: logging.getLogger("\\ud801").warning("\\ud802"),
    "control": lambda: log.warning("first\\r\\x1b[2J\\nkedge: forged"),
    "chain": lambda: log.error("chain", exc_info=chained(300)),
    "group": lambda: log.error("group", exc_info=ExceptionGroup("two\\nkedge: forged", [ValueError("a"), Mute()])),
    "mute": lambda: log.error("mute", exc_info=Mute()),
    "thread": in_thread,
    "del": Gone,
    "fork": fork,
}


class Hostile(Bolt):
    def process(self, number: Number) -> None:
        for name, call in CALLS.items():
            try:
                call()
            except Exception as error:
                print("raised", name, repr(error), file=sys.stderr)


def topology() -> Topology:
    made = Topology("hostile")
    made.bolt("hostile", Hostile(), made.spout("numbers", Numbers(1)).shuffle())
    return made
'''
WRONG = {
    "from 'number %d' with ('text',): TypeError: %d format: a real number is required, not str": 1,
    "from 'numbers %s %s' with (1,): TypeError: not enough arguments for format string": 1,
    "from 'no numbers' with (1, 2): TypeError: not all arguments converted during string formatting": 1,
    "from '%s' with a tuple that can't be shown: RuntimeError: no repr": 1,
    "from a Evil that can't be shown: RuntimeError: no repr": 2,
    "from 'struct %d' with ('text',): TypeError: %d format: a real number is required, not str": 1,
}


@pytest.fixture
def hostile(folder: Path) -> Path:
    (folder / "hostile.py").write_text(HOSTILE)
    return folder


def logged(folder: Path, log_format: str, *options: object) -> list[str]:
    result = kedge("run", "hostile.py", "--log-format", log_format, *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    assert [line for line in lines if line.startswith(("raised", "---", "kedge: forged", "Traceback"))] == []
    assert "\x1b" not in result.stderr
    return lines


def in_json(lines: list[str]) -> list[dict[str, Any]]:
    """Every line, but for what a fork of a worker can only print."""
    return [json.loads(line) for line in lines if "in a fork" not in line and not line.startswith("    ")]


@pytest.mark.parametrize("workers", [(), ("--workers", 2)])
def test_a_call_that_can_not_be_put_together_is_an_entry_that_says_where_it_is(
    hostile: Path, workers: tuple[object, ...]
) -> None:
    found = [one for one in in_json(logged(hostile, "json", *workers)) if "can't be formatted" in one["event"]]
    for text, times in WRONG.items():
        assert sum(text in one["event"] for one in found) == times, text
    assert len(found) == sum(WRONG.values())
    assert {(one["level"], one["component"], one["task"]) for one in found} == {("warning", "hostile", 0)}
    places = [one["event"] for one in found if one["logger"] == "shop"]
    assert all(f"({hostile / 'hostile.py'}:" in place for place in places)


@pytest.mark.parametrize("workers", [(), ("--workers", 2)])
def test_whatever_is_logged_is_one_entry_cut_where_it_is_too_long(hostile: Path, workers: tuple[object, ...]) -> None:
    found = {one["event"]: one for one in in_json(logged(hostile, "json", *workers))}
    assert {"struct one and two", "struct three", r"b'\xff\n'", "in a thread"} <= {*found}
    assert found["in __del__"]["component"] == "hostile"
    assert found["fields"]["evil"] == "a Evil that can't be shown"
    assert (found["fields"]["\\ud800"], found["fields"]["2"], found["fields"]["nan"]) == (1, 3, "nan")
    assert found["\\ud802"]["logger"] == "\\ud801"
    assert f"{'x' * 10_000}… (990,000 more characters)" in found
    assert "first\r\x1b[2J\nkedge: forged" in found, "in JSON it is a value"
    assert found["chain"]["exception"].endswith("ValueError: number 299"), "what was raised last"
    assert "ValueError: the first" in found["chain"]["exception"]
    assert len(found["chain"]["exception"]) < 11_000
    assert "ValueError: a" in found["group"]["exception"]
    assert "Mute: <exception str() failed>" in found["mute"]["exception"]


@pytest.mark.parametrize("log_format", ["console", "json", "auto"])
@pytest.mark.parametrize("workers", [(), ("--workers", 2)])
def test_what_a_forked_process_logs_is_not_lost_and_forges_nothing(
    hostile: Path, workers: tuple[object, ...], log_format: str
) -> None:
    said = [line for line in logged(hostile, log_format, *workers) if "in a fork" in line]
    assert len(said) == 1
    assert "warning" in said[0]
    assert "hostile" in said[0]
