"""`topology.run(workers=N)` and `serve(workers=N)` in a program of the user's: its workers make the topology anew."""

import signal
import sqlite3
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spouts import Items
from topology import Bolt, ConfigurationError, Record, Topology
from topology.codes.command_line import TOPOLOGY_NOT_IMPORTABLE
from topology.runtime.launch import made_again, recipe

PATIENCE_S = 120.0  # for what takes two seconds on a quiet machine

WORDS = '''
"""Counts; a word that is `deadly` takes its worker's process with it, once."""
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial

from bolts import SqliteSink
from spouts import Items, Tick, Ticker
from topology import Bolt, Record, State, Topology

logging.basicConfig(level="WARNING")


class Word(Record):
    text: str


class Long(Record):
    text: str


class Measure(Bolt):
    def process(self, word: Word) -> Iterator[Long]:
        if word.text == "deadly" and not os.path.exists("died"):
            open("died", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        yield Long(f"{word.text} by {os.getpid()}" if word.text == "who" else word.text)


def made(count: int = 100, *, last: str = "last") -> Topology:
    topology = Topology("words")
    words = topology.spout("words", Items([*(Word(f"word {n}") for n in range(count)), Word(last)]))
    long = topology.bolt("measure", Measure(), words.shuffle(), tasks=2)
    topology.bolt("store", SqliteSink("words.db"), long.global_())
    return topology


'''


def program(folder: Path, text: str, *, words: str = WORDS) -> Path:
    (folder / "words.py").write_text(words + text)
    return folder / "words.py"


def ran(file: Path, *, status: int = 0) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        [sys.executable, file.name], cwd=file.parent, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert result.returncode == status, result.stderr
    return result


def rows(folder: Path) -> list[str]:
    with sqlite3.connect(folder / "words.db") as store:
        return [text for (text,) in store.execute("SELECT text FROM long")]


def test_a_program_runs_its_topology_on_several_processes_and_has_the_report(tmp_path: Path) -> None:
    text = """
topology = made(last="who")
if __name__ == "__main__":
    before = signal.getsignal(signal.SIGTERM)
    report = topology.run(workers=2)
    assert signal.getsignal(signal.SIGTERM) is before
    print(os.getpid(), report.ended, report.snapshot.total("acked"), report.snapshot.workers, report.exit_status)
"""
    pid, *told = ran(program(tmp_path, text)).stdout.split()
    assert told == ["ended", "101", "2", "0"]
    kept = {one.name.removesuffix("-wal").removesuffix("-shm") for one in tmp_path.iterdir()}
    assert kept <= {"words.py", "words.db", "__pycache__"}, "nothing else is kept"
    stored = rows(tmp_path)
    assert len({*stored}) == len(stored) == 101
    assert f"who by {pid}" not in stored, "the bolts are in other processes"


def test_a_worker_that_dies_is_replaced_and_sources_are_read_from_their_start(tmp_path: Path) -> None:
    text = """
if __name__ == "__main__":
    report = made(300, last="deadly").run(workers=2, made_by=partial(made, 300, last="deadly"))
    print(report.ended, report.restarts)
"""
    result = ran(program(tmp_path, text))
    assert result.stdout.split() == ["ended", "1"]
    assert "was killed by SIGKILL" in result.stderr
    assert sorted(rows(tmp_path)) == sorted([*(f"word {n}" for n in range(300)), "deadly"])


def test_a_state_directory_that_a_program_has_used_is_gone_on_with(tmp_path: Path) -> None:
    text = """
topology = made()
if __name__ == "__main__":
    print([topology.run(workers=2, state_dir="state").snapshot.total("emitted") for _ in range(2)])
"""
    assert ran(program(tmp_path, text)).stdout == "[101, 0]\n"
    assert len(rows(tmp_path)) == 101


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_a_run_of_a_program_and_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    text = """
class Hear(Bolt):
    def process(self, tick: Tick) -> None:
        with open(f"pid-{os.getpid()}", "w"):
            pass


topology = Topology("endless")
topology.bolt("hear", Hear(), topology.spout("ticks", Ticker(0.01)).shuffle(), tasks=2)
if __name__ == "__main__":
    report = topology.run(workers=2)
    print(report.ended, report.aborted)
"""
    file = program(tmp_path, text)
    running = subprocess.Popen([sys.executable, file.name], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: len(pids(tmp_path)) == 2 or running.poll() is not None)
        running.send_signal(number)
        out, _ = running.communicate(timeout=PATIENCE_S)
    finally:
        running.kill()
    assert out == "stopped 0\n"
    assert not [pid for pid in pids(tmp_path) if Path(f"/proc/{pid}").exists()]


def pids(folder: Path) -> list[int]:
    return [int(one.name.partition("-")[2]) for one in folder.glob("pid-*")]


def until(true: Any) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it has not come to that"
        time.sleep(0.05)


def test_serve_runs_workers_beside_what_the_program_does_until_it_is_told_to_stop(tmp_path: Path) -> None:
    text = """
topology = Topology("endless")
topology.bolt("hear", SqliteSink("ticks.db"), topology.spout("ticks", Ticker(0.01)).global_())


async def main() -> None:
    stop = asyncio.Event()
    serving = asyncio.ensure_future(topology.serve(workers=1, stop=stop.wait()))
    while not os.path.exists("ticks.db"):
        await asyncio.sleep(0.01)
    stop.set()
    print((await serving).ended)


if __name__ == "__main__":
    asyncio.run(main())
"""
    assert ran(program(tmp_path, text)).stdout == "stopped\n"


def test_a_program_without_a_main_guard_ends_with_a_sentence_and_starts_nothing(tmp_path: Path) -> None:
    result = ran(program(tmp_path, "topology = made()\ntopology.run(workers=2)\n"), status=1)
    assert "runs its topology 'words' while it is loaded" in result.stderr
    assert "if __name__ == '__main__'" in result.stderr
    assert "(K133" in result.stderr
    assert not (tmp_path / "words.db").exists()


def test_at_pythons_prompt_there_is_no_file_that_a_worker_could_import(tmp_path: Path) -> None:
    text = f"{WORDS}\ntopology = made()\ntopology.run(workers=2)\n"
    result = subprocess.run(
        [sys.executable], cwd=tmp_path, input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert "is in no file, so worker processes can't import it" in result.stderr
    assert "(K193" in result.stderr


# -- by which words a worker finds it


class Word(Record):
    text: str


class Drop(Bolt):
    def process(self, word: Word) -> None:
        return None


def make(count: int = 3, of: dict[str, Any] | None = None) -> Topology:
    topology = Topology(f"words{(of or {}).get('kind', '')}")
    topology.bolt("drop", Drop(), topology.spout("words", Items([Word("x")] * count)).shuffle())
    return topology


def make_nothing() -> Any:
    return 3


at_the_top = make()


def test_a_topology_at_the_top_of_a_module_is_found_by_its_name() -> None:
    told = recipe(at_the_top, None)
    assert (told["where"], told["attribute"], told["values"]) == (__name__, "at_the_top", None)
    assert made_again(**told) is at_the_top


def test_a_function_is_called_anew_with_the_values_of_its_partial_and_the_settings_decided_on() -> None:
    topology = make()
    topology.config = type(topology.config)(max_pending=7)
    told = recipe(topology, partial(make, 5, of={"kind": "-many"}))
    again = made_again(**told)
    assert (again.name, again.config.max_pending) == ("words-many", 7)


@pytest.mark.parametrize(
    "value",
    [Path("x"), object(), (1, 2), {1: "x"}, [{"deep": [b"", Path()]}], 2**64, -(2**63) - 1],
)
def test_a_value_that_would_not_arrive_as_it_is_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="which is not plain") as caught:
        recipe(make(), partial(make, of=value))  # type: ignore[arg-type]
    assert caught.value.code is TOPOLOGY_NOT_IMPORTABLE


def test_a_value_that_holds_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ConfigurationError, match="which is not plain"):
        recipe(make(), partial(make, circle))  # type: ignore[arg-type]


def test_a_function_within_another_is_no_way_to_make_it_anew() -> None:
    def within() -> Topology:
        return make()

    for function in (within, lambda: make(), Topology, Drop().process):
        with pytest.raises(ConfigurationError, match="not a function at the top level of a module"):
            recipe(make(), function)  # type: ignore[arg-type]


def test_a_topology_that_no_module_has_says_how_it_can_be_made() -> None:
    with pytest.raises(ConfigurationError, match="no module has the topology 'words' at its top level") as caught:
        make().run(workers=2)
    assert "made_by=" in caught.value.next


def test_what_makes_something_else_is_told_by_the_worker() -> None:
    with pytest.raises(ConfigurationError, match="it has to return a Topology"):
        made_again(**recipe(make(), make_nothing))


@pytest.mark.parametrize("workers", [0, -1, 65, 2.0, "2", True])
def test_a_number_of_workers_that_can_not_be_is_refused(workers: Any) -> None:
    with pytest.raises(ConfigurationError, match="workers takes a whole number from 1 to 64"):
        at_the_top.run(workers=workers)
