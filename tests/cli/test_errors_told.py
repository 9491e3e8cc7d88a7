"""What a user's own code does wrong, through the real command, in one process and on two workers: their frames, a
sentence, what to do, and a code; nothing of ours before their first line."""

import os
import re
import sys
from pathlib import Path

import pytest
from cli_kit import Told, kedge, one_sentence, told

TWO = ("--workers", "2")
PYTHON = rf"{re.escape(str(Path(sys.executable).parent))}/python[\d.]*"  # by any of its names

WRONG = '''
import socket
import threading
from collections.abc import Iterator
from bolts import Print
from spouts import FileTail, Tick, Ticker
from topology import Bolt, Config, Message, Spout, Task, Topology


def deep(where: str) -> None:
    raise ValueError(f"no {where}\\nkedge: forged \\x1b[31m")


class Wrong(Bolt):
    """Raises in the method called `where`."""

    def __init__(self, where: str, held: object = None) -> None:
        self.where, self.held = where, held
        if where == "init":
            deep(where)

    def open(self, task: Task) -> None:
        if self.where == "open":
            deep(self.where)

    def process(self, tick: Tick) -> None:
        if self.where == "process":
            deep(self.where)

    def close(self) -> None:
        if self.where == "close":
            deep(self.where)

    def summary(self) -> list[str]:
        if self.where == "summary":
            deep(self.where)
        return []


class Broken(Spout):
    async def poll(self, limit: int) -> list[Message[Tick]]:
        deep("poll")
        return []


HELD = {
    "lock": threading.Lock,
    "socket": socket.socket,
    "file": lambda: open(__file__),
    "generator": lambda: (number for number in range(3)),
}


def topology(where: str = "", held: str = "", path: str = "", max_replays: int = 1) -> Topology:
    topology = Topology("wrong", Config(max_replays=max_replays))
    if where == "factory":
        deep(where)
    if path:
        topology.bolt("print", Print(), topology.spout("lines", FileTail(path)).shuffle())
        return topology
    every_s = 0 if where == "constructor" else 0.001
    ticks = topology.spout("ticks", Broken() if where == "poll" else Ticker(every_s, count=3))
    topology.bolt("wrong", Wrong(where, HELD[held]() if held else None), ticks.shuffle())
    return topology
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "wrong.py").write_text(WRONG)
    return tmp_path


def refused(folder: Path, *arguments: object, status: int = 2) -> Told:
    result = kedge("run", *arguments, cwd=folder)
    assert (result.returncode, result.stdout) == (status, ""), result.stderr
    return told(result.stderr)


def logged(folder: Path, where: str, *workers: str) -> tuple[int, str]:
    """A run with a console log: its exit status, and what stderr has."""
    result = kedge("run", "wrong.py", "--set", f"where={where}", "--log-format", "console", *workers, cwd=folder)
    return result.returncode, result.stderr


def frames_first(text: str, where: str) -> None:
    """A traceback in this text begins at the user's method, and nothing in it stands for a line of its own."""
    frames = text[text.index("Traceback (most recent call last):") :].splitlines()
    assert re.search(rf'File ".*wrong\.py", line \d+, in {where}$', frames[1]), text
    assert "kedge: forged \\x1b[31m" in text
    assert not any(line.startswith("kedge: forged") for line in text.splitlines())


# -- before anything runs


@pytest.mark.parametrize("workers", [(), TWO])
@pytest.mark.parametrize(("where", "method"), [("factory", "topology"), ("init", "topology")])
def test_what_the_making_of_a_topology_raises_is_shown_from_the_users_first_line(
    folder: Path, where: str, method: str, workers: tuple[str, ...]
) -> None:
    found = refused(folder, "wrong.py", "--set", f"where={where}", *workers)
    frames_first(found.frames, method)
    assert found.sentence.startswith(f"wrong.py:topology raised ValueError: no {where} … (")
    assert found.code == "K123"


@pytest.mark.parametrize("workers", [(), TWO])
def test_what_open_raises_is_shown_from_the_users_first_line_and_status_3(
    folder: Path, workers: tuple[str, ...]
) -> None:
    found = refused(folder, "wrong.py", "--set", "where=open", *workers, status=3)
    frames_first(found.frames, "open")
    assert (found.sentence, found.code) == ("'wrong' could not be opened: ValueError: no open", "K401")


def test_what_our_constructors_refuse_names_the_users_line(folder: Path) -> None:
    result = kedge("run", "wrong.py", "--set", "where=constructor", cwd=folder)
    line = 1 + WRONG.splitlines().index(
        '    ticks = topology.spout("ticks", Broken() if where == "poll" else Ticker(every_s, count=3))'
    )
    assert one_sentence(result) == "Ticker's every_s is a number of seconds of at least 0.001, not 0"
    assert f"  at: {folder / 'wrong.py'}:{line}, in topology\n" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("held", ["lock", "socket", "file", "generator"])
def test_a_bolt_that_cant_be_copied_names_the_attribute(folder: Path, held: str) -> None:
    found = refused(folder, "wrong.py", "--set", f"held={held}")
    assert found.sentence == "topology 'wrong' has 1 mistake:"
    (mistake,) = [
        line
        for line in kedge("check", "wrong.py", "--set", f"held={held}", cwd=folder).stderr.splitlines()
        if "wrong.py:" in line
    ]
    assert "'wrong': its attribute 'held' can't be copied for each task (" in mistake
    assert mistake.endswith("take resources in `open`, not in the constructor (K208)")


def test_a_lambda_is_told_what_to_write_instead(folder: Path) -> None:
    (folder / "lambdas.py").write_text(
        "from spouts import Ticker\nfrom topology import Topology, bolt\n"
        "topology = Topology('lambdas')\nticks = topology.spout('ticks', Ticker(0.01))\n"
        "topology.bolt('bare', lambda tick: None, ticks.shuffle())\n"
        "topology.bolt('made', bolt(lambda tick: None), ticks.shuffle())\n"
    )
    mistakes = kedge("check", "lambdas.py", cwd=folder).stderr.splitlines()[1:3]
    assert "lambdas.py:5: 'bare': a lambda is not a bolt; write a function by def, with annotations" in mistakes[0]
    assert "lambdas.py:6: 'made': a lambda does not say what it takes and emits; write a function" in mistakes[1]
    assert (mistakes[0][-6:], mistakes[1][-6:]) == ("(K214)", "(K215)")


@pytest.mark.parametrize("workers", [(), TWO])
def test_a_lambda_that_makes_the_topology_does_as_well_as_a_function(folder: Path, workers: tuple[str, ...]) -> None:
    (folder / "lambdas.py").write_text("from wrong import topology\nmade = lambda: topology('')\n")
    result = kedge("run", "lambdas.py:made", *workers, cwd=folder)
    assert result.returncode == 0, result.stderr


# -- what is under __main__


def test_main_is_no_module_to_run(folder: Path) -> None:
    found = refused(folder, "__main__")
    assert (found.frames, found.code) == ("", "K131")
    assert found.next == "name the file or the module that has the topology: kedge run FILE.py"


@pytest.mark.parametrize("body", ["topology = made()", "t.Topology('x').run()"])
def test_a_topology_that_is_made_under_main_only_is_told_so(folder: Path, body: str) -> None:
    (folder / "main.py").write_text(
        f"import topology as t\ndef made():\n    return t.Topology('x')\nif __name__ == '__main__':\n    {body}\n"
    )
    found = refused(folder, "main.py")
    assert found.sentence == (
        "main.py makes its topology under `if __name__ == '__main__'` only, so an import does not make it"
    )
    assert found.code == "K132"


@pytest.mark.parametrize("call", ["topology().run()", "import asyncio; asyncio.run(topology().serve())"])
def test_a_file_that_runs_its_topology_while_it_is_imported_is_refused_before_it_runs_twice(
    folder: Path, call: str
) -> None:
    (folder / "runs.py").write_text(f"from wrong import topology\n{call}\n")
    found = refused(folder, "runs.py")
    assert (found.sentence, found.code) == ("runs.py runs its topology 'wrong' while it is loaded", "K133")


def test_python_runs_a_file_that_runs_its_own_topology_and_so_does_kedge(folder: Path) -> None:
    (folder / "both.py").write_text(
        "from wrong import topology\nif __name__ == '__main__':\n    print(topology('').run().exit_status)\n"
    )
    by_python = kedge("both.py", cwd=folder, command=(sys.executable,))
    assert (by_python.returncode, by_python.stdout) == (0, "0\n"), by_python.stderr
    assert kedge("run", "both.py", cwd=folder).returncode == 0


def test_an_error_out_of_run_in_a_program_of_the_users_ends_in_what_to_do(folder: Path) -> None:
    (folder / "own.py").write_text("from wrong import topology\ntopology(held='lock').run()\n")
    result = kedge("own.py", cwd=folder, command=(sys.executable,))
    assert result.returncode == 1
    assert re.search(r"\n  next: fix each of these lines; .*\(K200: `kedge explain K200`\)\n$", result.stderr)


# -- what is not there


@pytest.mark.parametrize(
    ("source", "code", "advice"),
    [
        ("import psutil", "K118", rf"{PYTHON} -m pip install 'kedge-streams\[host\]'"),
        ("import nowhere_at_all", "K117", rf"where this kedge runs \({PYTHON}\)"),
        ("from bolts.kafka import KafkaSink", "K136", "install the version of Kedge that has it"),
    ],
)
def test_a_missing_module_says_where_it_is_to_be_installed(folder: Path, source: str, code: str, advice: str) -> None:
    blocked = "import sys\nsys.modules['psutil'] = None\n"  # as where the extra is not installed
    (folder / "imports.py").write_text(f"{blocked}{source}\n")
    found = refused(folder, "imports.py")
    assert found.frames.splitlines()[1] == f'    File "{folder / "imports.py"}", line 3, in <module>'
    assert found.sentence.endswith(f"({folder / 'imports.py'}:3)")
    assert found.code == code
    assert re.search(advice, found.next)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), TWO])
@pytest.mark.parametrize(
    ("path", "said", "code"),
    [
        ("wrnog.py", "'wrnog.py' can't be read: No such file or directory; did you mean 'wrong.py'?", "K310"),
        ("nowhere/x.log", "'nowhere/x.log' can't be read: No such file or directory", "K310"),
        (".", "'.' can't be read: it is a directory, and only regular files are", "K311"),
    ],
)
def test_a_source_that_isnt_there_is_one_sentence_and_says_where_it_was_looked_up(
    folder: Path, path: str, said: str, code: str, workers: tuple[str, ...]
) -> None:
    found = refused(folder, "wrong.py", "--set", f"path={path}", *workers)
    assert (found.frames, found.sentence, found.code) == ("", f"the file {said}", code)
    assert code == "K311" or found.next == f"fix the path; it is looked up from {folder}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_source_that_may_not_be_read_is_one_sentence(folder: Path) -> None:
    (folder / "secret.log").touch(0o000)
    assert refused(folder, "wrong.py", "--set", "path=secret.log").sentence == (
        "the file 'secret.log' can't be read: Permission denied"
    )


# -- while it runs


@pytest.mark.parametrize("workers", [(), TWO])
def test_what_process_raises_is_shown_once_and_each_dead_message_without_it(
    folder: Path, workers: tuple[str, ...]
) -> None:
    status, said = logged(folder, "process", *workers)
    assert status == 1
    frames_first(said, "process")
    assert said.count("Traceback (most recent call last):") == 1
    assert said.count("further ones like it are counted (K501)") == 1
    dead = r"is dead after 2 attempts, and kept as dead letter \d-\d: raised in 'wrong': ValueError: no process"
    assert len(re.findall(dead, said)) == 3
    assert said.count("(K520)") == 3
    assert "again, 5 times: ValueError in 'wrong' at " in said


@pytest.mark.parametrize("workers", [(), TWO])
@pytest.mark.parametrize("where", ["close", "summary"])
def test_what_close_and_summary_raise_is_shown_and_ends_nothing(
    folder: Path, where: str, workers: tuple[str, ...]
) -> None:
    status, said = logged(folder, where, *workers)
    assert status == 0
    frames_first(said, where)
    assert f"raised in 'wrong': {where}: ValueError: no {where}" in said
    assert "(K501)" in said


@pytest.mark.parametrize("workers", [(), TWO])
def test_a_source_that_raises_is_an_error_with_its_frames_and_ends_the_run(
    folder: Path, workers: tuple[str, ...]
) -> None:
    status, said = logged(folder, "poll", *workers)
    assert status == 1
    frames_first(said, "poll")
    assert re.search(r"error\b.* raised in 'ticks\.0': ValueError: no poll", said)
    assert "; the run ends (K521)" in said


def test_a_worker_that_dies_too_often_is_told_with_a_code_and_what_to_do(folder: Path) -> None:
    (folder / "dies.py").write_text(
        "import os\nfrom spouts import Tick, Ticker\nfrom topology import Bolt, Config, Topology\n"
        "class Dies(Bolt):\n    def process(self, tick: Tick) -> None:\n        os._exit(9)\n"
        "topology = Topology('dies', Config(max_restarts=1))\n"
        "topology.bolt('dies', Dies(), topology.spout('ticks', Ticker(0.01)).shuffle())\n"
    )
    result = kedge("run", "dies.py", *TWO, cwd=folder)
    assert result.returncode == 1
    assert re.search(r"worker 0 \(pid \d+\) ended with status 9.* \(K530\)", result.stderr)
    assert re.search(
        r"exit status 1: .*worker 0 died 2 times within a minute; the last time it ended with status 9\n"
        r"  next: fix the cause, or raise max_restarts   \(K531: `kedge explain K531`\)\n",
        result.stdout,
    ), result.stdout


# -- kedge explain


def test_explain_says_what_a_code_means_and_what_to_do(folder: Path) -> None:
    for given in ("K112", "k112", " K112 "):
        result = kedge("explain", given, cwd=folder)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.startswith("K112: File not found\n\n  The path is looked up")
        assert "\n  next: name an existing file" in result.stdout


def test_explain_lists_all_codes_by_group(folder: Path) -> None:
    lines = kedge("explain", cwd=folder).stdout.splitlines()
    assert lines[0] == "The command line, and loading a topology:"
    assert lines[1].startswith("  K101  ")
    assert sum(bool(re.match(r"  K\d{3}  \S", line)) for line in lines) > 140


@pytest.mark.parametrize(("given", "meant"), [("X112", "; did you mean 'K112'?"), ("\x1b[31m", ""), ("", "")])
def test_explain_of_a_code_that_there_is_not_is_one_sentence_and_status_2(folder: Path, given: str, meant: str) -> None:
    result = kedge("explain", given, cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert one_sentence(result) == f"there is no code {given!r}{meant}"
