"""Exceptions of a user's that are hard to tell: without a text, with one that raises or never ends, or of no class that
is expected. Each ends what it has to, with its name, and none is taken for a mistake of ours (K137)."""

import re
from pathlib import Path

import pytest
from cli_kit import Told, kedge, kedge_here, told

HOSTILE = """
import asyncio
import builtins
from counting import Forget, Number, Numbers
from topology import Message, Task, Topology


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Leaving(Exception):
    def __str__(self) -> str:
        raise SystemExit(9)


class Number5(Exception):
    def __str__(self) -> str:
        return 5


class Unnamed(NameError):
    def __str__(self) -> str:
        raise RuntimeError("no name")


class Base(BaseException):
    pass


class Long(Exception):
    def __str__(self) -> str:
        return "x" * 100_000 + "\\nkedge: forged \\x1b[31m"


def deep() -> None:
    deep()


def fail(kind: str) -> None:
    if kind == "RecursionError":
        deep()
    if kind == "BaseExceptionGroup":
        raise BaseExceptionGroup("two", [KeyboardInterrupt(), ValueError()])
    if kind == "CancelledError":
        raise asyncio.CancelledError
    raise {**vars(builtins), **globals()}[kind]()


class Fails(Forget):
    def __init__(self, where: str, kind: str) -> None:
        self.where, self.kind = where, kind

    def open(self, task: Task) -> None:
        if self.where == "open":
            fail(self.kind)

    def process(self, number: Number) -> None:
        if self.where == "process":
            fail(self.kind)


class Source(Numbers):
    def __init__(self, where: str, kind: str) -> None:
        super().__init__(1)
        self.where, self.kind = where, kind

    async def poll(self, limit: int) -> list[Message[Number]]:
        if self.where == "poll":
            fail(self.kind)
        return await super().poll(limit)


def topology(where: str, kind: str) -> Topology:
    if where == "factory":
        fail(kind)
    made = Topology("hostile")
    made.bolt("fails", Fails(where, kind), made.spout("numbers", Source(where, kind)).shuffle())
    return made
"""
KINDS = {
    "Mute": "Mute: its text can't be shown",
    "Leaving": "Leaving: its text can't be shown",
    "Number5": "Number5: its text can't be shown",
    "Unnamed": "Unnamed: its text can't be shown",
    "Base": "Base",
    "Long": "Long: xxxx",
    "RecursionError": "RecursionError: maximum recursion depth exceeded",
    "MemoryError": "MemoryError",
    "GeneratorExit": "GeneratorExit",
    "CancelledError": "CancelledError",
    "BaseExceptionGroup": "BaseExceptionGroup: two (2 sub-exceptions)",
}


@pytest.fixture
def hostile(folder: Path) -> Path:
    (folder / "hostile.py").write_text(HOSTILE)
    return folder


def refused(folder: Path, *arguments: object) -> Told:
    result = kedge_here("run", *arguments, cwd=folder)  # nothing of it runs
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    return told(result.stderr)


@pytest.mark.parametrize("kind", [*KINDS])
def test_whatever_a_factory_raises_is_told_and_is_no_mistake_of_ours(hostile: Path, kind: str) -> None:
    found = refused(hostile, "hostile.py", "--set", "where=factory", "--set", f"kind={kind}")
    assert found.sentence.startswith(f"hostile.py:topology raised {KINDS[kind]}")
    assert re.search(r" \(.*hostile\.py:\d+\)$", found.sentence), "long texts leave room for the place"
    assert found.code == "K123"


@pytest.mark.parametrize("kind", [*KINDS])
def test_whatever_importing_the_file_raises_is_told_and_is_no_mistake_of_ours(hostile: Path, kind: str) -> None:
    (hostile / "importing.py").write_text(f"from hostile import fail\nfail({kind!r})\n")
    found = refused(hostile, "importing.py")
    assert found.sentence.startswith(f"importing.py can't be imported: {KINDS[kind]}")
    assert found.code == "K119"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Mute", "Leaving", "Base", "MemoryError"])
@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_whatever_the_code_of_a_component_raises_ends_its_message_or_the_run_and_nothing_else(
    hostile: Path, kind: str, workers: tuple[str, ...]
) -> None:
    given = ("run", "hostile.py", "--log-format", "console", "--config", "max_replays=0", "--set", f"kind={kind}")
    at = {
        where: kedge(*given, "--set", f"where={where}", *workers, cwd=hostile) for where in ("open", "process", "poll")
    }
    assert {where: ran.returncode for where, ran in at.items()} == {"open": 3, "process": 1, "poll": 1}
    assert f"kedge: 'fails' could not be opened: {KINDS[kind]}\n" in at["open"].stderr
    assert f"raised in 'fails': {KINDS[kind]}; further ones like it are counted (K501)" in at["process"].stderr
    assert f"raised in 'numbers.0': {KINDS[kind]}; the run ends (K521)" in at["poll"].stderr
    assert KINDS[kind] in at["poll"].stdout
    assert "K137" not in "".join(ran.stderr for ran in at.values())
