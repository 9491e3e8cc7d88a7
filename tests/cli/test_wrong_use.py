"""Whatever is wrong with a command line ends in one clear sentence on stderr, an exit status, and no traceback."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from cli_kit import KEDGE, Told, kedge, kedge_here, one_sentence, started, told


def refused(folder: Path, *arguments: object, status: int = 2, env: Mapping[str, str] | None = None) -> str:
    result = kedge(*arguments, cwd=folder, env=env)
    assert result.returncode == status, result.stderr
    assert result.stdout == ""
    return one_sentence(result)


def refused_here(folder: Path, *arguments: object) -> str:
    """As `refused`, in this process: for what is refused before anything runs."""
    result = kedge_here(*arguments, cwd=folder)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    return one_sentence(result)


def raised(folder: Path, *arguments: object, status: int = 2) -> Told:
    """As `refused_here`, for what the user's own code has raised: with a traceback."""
    result = kedge_here(*arguments, cwd=folder)
    assert result.returncode == status, result.stderr
    assert result.stdout == ""
    found = told(result.stderr)
    assert found.frames
    return found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "counting.py", "--frsh"], "there is no option --frsh; did you mean '--fresh'?"),
        (["rnu", "counting.py"], "there is no command 'rnu'; did you mean 'run'?"),
        (["run"], "kedge run needs FILE-OR-MODULE[:NAME]"),
        (
            ["run", "counting.py", "--for", "abc"],
            "--for takes a time, 8s, 2m, 1h, 500ms or a number of seconds, not 'abc'",
        ),
        (
            ["run", "counting.py", "--for", "8 parsecs"],
            "--for takes a time, 8s, 2m, 1h, 500ms or a number of seconds, not",
        ),
        (["run", "counting.py", "--for", "0s"], "--for takes a number of seconds above 0, not 0"),
        (["run", "counting.py", "--log-level", "loud"], "--log-level takes 'debug', 'info', 'warning' or 'error', not"),
        (["run", "counting.py", "--log-format", "jsn"], "not 'jsn'; did you mean 'json'?"),
        (["run", "counting.py", "--fresh=3"], "--fresh takes no value"),
        (["run", "counting.py", "--workers="], "--workers takes a whole number, not ''"),
        (["run", "counting.py", "--state-dir"], "--state-dir needs a value: DIR"),
        (["run", "counting.py", "-w", "2"], "there is no option -w"),
        (["run", "counting.py", "x", "y"], "kedge run takes one argument and no more, not 'x y' too"),
        (["run", "counting.py", "--for", "-1"], "--for takes a number of seconds above 0, not -1"),
        (["run", "conting.py"], "there is no file conting.py; did you mean 'counting.py'?"),
        (["run", "nowhere/x.py"], "there is no file nowhere/x.py"),
        (["run", "."], "'.' is neither a Python file (….py) nor the dotted name of a module"),
        (["run", "./"], "./ is a folder"),
        (["run", "conting"], "there is no module 'conting'"),
        (["run", "counting.inner"], "there is no module 'counting.inner'"),
        (["run", "counting.py:topolgy"], "counting.py has no 'topolgy'; did you mean 'topology'?"),
        (
            ["run", "counting.py:Odd"],
            "counting.py:Odd is a class; name a Topology, or a function that returns one",
        ),
        (["run", "counting.py", "--set", "count"], "--set takes key=value, not 'count'"),
        (["run", "counting.py", "--set", "count=many"], "--set count=many: 'many' is not a whole number"),
        (["run", "counting.py", "--set", "cuont=1"], "takes no 'cuont'; did you mean 'count'? It takes count, fail_at"),
        (["run", "counting.py", "--set", "count=1", "--set", "count=2"], "--set count=… is given twice"),
        (
            ["run", "counting.py", "--config", "max_pendng=5"],
            "there is no setting 'max_pendng'; did you mean 'max_pending'?",
        ),
        (["run", "counting.py", "--config", "max_pending=0"], "max_pending is a whole number of at least 1, not 0"),
        (["run", "counting.py", "--config", "guarantee=exactly-once"], "is not 'at-least-once' or 'at-most-once'"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_status_2(folder: Path, arguments: list[str], said: str) -> None:
    assert said in refused_here(folder, *arguments)


def test_wrong_use_is_the_same_in_a_process_of_its_own(folder: Path) -> None:
    assert "there is no option --frsh; did you mean '--fresh'?" in refused(folder, "run", "counting.py", "--frsh")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\n", "broken.py has no 'topology'"),
        ("from topology import Topology\n\ndef alerts() -> Topology: ...\n", "did you mean broken.py:alerts?"),
        ("topology = 3\n", "broken.py:topology is of type int; name a Topology, or a function that returns one"),
        ("def topology(): return 3\n", "broken.py:topology returned a value of type int; it has to return a Topology"),
        ("async def topology(): ...\n", "returned a value of type coroutine"),
        ("def topology(path): ...\n", "broken.py:topology needs a value for 'path'"),
        (
            "from __future__ import annotations\ndef topology(path: Nowhere = 1): ...\n",
            "parameters of broken.py:topology can't be read",
        ),
        ("def topology() -> 'topology.Topology': ...\n", "parameters of broken.py:topology can't be read"),
    ],
)
def test_what_is_no_topology_is_one_sentence(folder: Path, source: str, said: str) -> None:
    (folder / "broken.py").write_text(source)
    for command in ("run", "check"):
        assert said in refused_here(folder, command, "broken.py")


@pytest.mark.parametrize(
    ("source", "said", "code"),
    [
        ("def topology(:\n", "{path}:1: ", "K116"),
        ("import no_such_thing\n", "No module named 'no_such_thing' ({path}:1)", "K117"),
        ("\nfrom bolts import SqlSink\n", "cannot import name 'SqlSink' from 'bolts'", "K119"),
        ("def topology():\n    raise ValueError('\\x1b[31mno')\n", "raised ValueError: \\x1b[31mno ({path}:2)", "K123"),
        ("def topology():\n    raise SystemExit(0)\n", "raised SystemExit: 0 ({path}:2)", "K123"),
        ("raise SystemExit\n", "broken.py can't be imported: SystemExit ({path}:1)", "K119"),
    ],
)
def test_what_a_topologys_file_raises_is_its_traceback_and_one_sentence_with_file_and_line(
    folder: Path, source: str, said: str, code: str
) -> None:
    (folder / "broken.py").write_text(source)
    for command in ("run", "check"):
        found = raised(folder, command, "broken.py")
        assert said.replace("{path}", str(folder / "broken.py")) in found.sentence
        assert f'File "{folder / "broken.py"}", line ' in found.frames
        assert "\x1b" not in found.frames
        assert found.code == code


def test_a_sentence_of_the_users_own_is_told_as_it_is_without_a_traceback(folder: Path) -> None:
    (folder / "broken.py").write_text(
        "from topology import ConfigurationError\ndef topology(): raise ConfigurationError('no key in vault')\n"
    )
    result = kedge("run", "broken.py", cwd=folder)
    assert (result.returncode, one_sentence(result, ours=False)) == (2, "no key in vault")


def test_an_error_in_a_sibling_names_the_sibling(folder: Path) -> None:
    (folder / "helper.py").write_text("\n\n1 / 0\n")
    (folder / "broken.py").write_text("import helper\n")
    found = raised(folder, "run", "broken.py")
    assert f"ZeroDivisionError: division by zero ({folder / 'helper.py'}:3)" in found.sentence
    assert found.frames.index("broken.py") < found.frames.index("helper.py") < found.frames.index("1 / 0")


def test_debug_shows_the_whole_traceback(folder: Path) -> None:
    (folder / "broken.py").write_text("import no_such_thing\n")
    result = kedge("run", "broken.py", "--debug", cwd=folder)
    assert result.returncode == 2
    assert "Traceback" in result.stderr
    assert 'broken.py", line 1' in result.stderr
    assert result.stderr.splitlines()[-2].startswith("kedge: broken.py can't be imported")


def test_what_was_mistyped_has_no_traceback_even_with_debug(folder: Path) -> None:
    result = kedge("run", "counting.py", cwd=folder, env={"KEDGE_DEBUG": "ouch"})
    assert (result.returncode, one_sentence(result)) == (2, "KEDGE_DEBUG takes true or false, not 'ouch'")
    assert "Traceback" not in result.stderr


def test_a_file_that_can_not_be_looked_for_is_named(folder: Path) -> None:
    name = "a" * 300 + ".py"
    assert f"{name} can't be read: File name too long" in refused(folder, "run", name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(folder: Path) -> None:
    (folder / "counting.py").chmod(0)
    assert "counting.py can't be read: Permission denied" in refused(folder, "run", "counting.py")


def test_set_on_a_topology_object_says_that_it_has_nowhere_to_go(folder: Path) -> None:
    (folder / "plain.py").write_text("from counting import topology as made\ntopology = made()\n")
    assert "--set count=… sets no parameter: plain.py:topology is a Topology" in refused(
        folder, "run", "plain.py", "--set", "count=3"
    )


def test_a_setting_in_the_environment_that_is_no_number_is_named_as_it_was_given(folder: Path) -> None:
    said = refused(folder, "run", "counting.py", env={"KEDGE_MAX_PENDING": "lots"})
    assert said == "KEDGE_MAX_PENDING=lots: 'lots' is not a whole number"


def test_check_tells_all_mistakes_with_file_and_line_and_exit_status_2(folder: Path) -> None:
    (folder / "mistaken.py").write_text(
        "from counting import Forget, Numbers\n"
        "from topology import Bolt, Topology\n"
        "class Nothing(Bolt):\n"
        "    pass\n"
        "topology = Topology('mistaken')\n"
        "numbers = topology.spout('numbers', Numbers(1))\n"
        "topology.bolt('nothing', Nothing(), numbers.shuffle())\n"
        "topology.bolt('nobody', Nothing(), numbers.shuffle())\n"
    )
    for command in ("check", "run"):
        result = kedge(command, "mistaken.py", cwd=folder)
        assert result.returncode == 2
        assert "Traceback" not in result.stderr
        assert "kedge: topology 'mistaken' has " in result.stderr
        assert f"{folder / 'mistaken.py'}:7: " in result.stderr
        assert f"{folder / 'mistaken.py'}:8: " in result.stderr
    assert not (folder / ".kedge").exists()


def test_check_says_when_there_is_no_mistake_and_runs_nothing(folder: Path) -> None:
    result = kedge("check", "counting.py", "--set", "count=3", cwd=folder)
    assert (result.returncode, result.stdout) == (0, "counting: 1 spout, 2 bolts, no mistakes\n")
    assert not (folder / ".kedge").exists()


FORGETFUL = """
from collections.abc import Iterator
from counting import Forget, Number, Numbers
from topology import Bolt, Config, Topology


class Third(Bolt):
    def __init__(self) -> None:
        self.seen = []

    def process(self, number: Number) -> Iterator[Number]:
        self.seen.append(number.value)
        if len(self.seen) == 3:
            yield number


def topology(guarantee: str = "at-least-once") -> Topology:
    topology = Topology("forgetful", Config(guarantee=guarantee))
    numbers = topology.spout("numbers", Numbers(3))
    topology.bolt("forget", Forget(), topology.bolt("third", Third(), numbers.shuffle()).shuffle())
    return topology
"""


def test_state_in_a_bolts_attributes_is_warned_of_by_check_and_at_the_start_of_a_run_B4(folder: Path) -> None:
    (folder / "forgetful.py").write_text(FORGETFUL)
    warning = f"{folder / 'forgetful.py'}:20: 'third': Third keeps self.seen from record to record: "
    checked = kedge("check", "forgetful.py", cwd=folder)
    assert (checked.returncode, checked.stdout) == (0, "forgetful: 1 spout, 2 bolts, no mistakes, 1 warning\n")
    assert checked.stderr.startswith(f"warning: {warning}")
    assert len(checked.stderr.splitlines()) == 1
    ran = kedge("run", "forgetful.py", cwd=folder)
    assert (ran.returncode, ran.stderr.count(warning)) == (0, 1)
    assert ran.stderr.index(warning) < ran.stderr.index("records/s")


def test_where_nothing_is_replayed_there_is_nothing_to_warn_of(folder: Path) -> None:
    (folder / "forgetful.py").write_text(FORGETFUL)
    checked = kedge("check", "forgetful.py", "--set", "guarantee=at-most-once", cwd=folder)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_configuration_that_is_no_config_is_a_mistake_and_no_traceback(folder: Path) -> None:
    (folder / "mapped.py").write_text(
        "from counting import Forget, Numbers\n"
        "from topology import Topology\n"
        "topology = Topology('mapped', config={'max_pending': 3})\n"
        "topology.bolt('forget', Forget(), topology.spout('numbers', Numbers(1)).shuffle())\n"
    )
    for arguments in (["check"], ["run"], ["run", "--config", "max_pending=5"]):
        result = kedge(arguments[0], "mapped.py", *arguments[1:], cwd=folder, env={"KEDGE_MAX_REPLAYS": "2"})
        assert result.returncode == 2
        assert "Traceback" not in result.stderr
        assert f"{folder / 'mapped.py'}:3: config is a Config(…), not a dict" in result.stderr


def test_a_missing_input_file_is_the_users_to_mend(folder: Path) -> None:
    (folder / "tail.py").write_text(
        "from bolts import Print\nfrom spouts import FileTail\nfrom topology import Topology\n"
        "topology = Topology('tail')\n"
        "topology.bolt('print', Print(), topology.spout('lines', FileTail('nowhere.log')).shuffle())\n"
    )
    assert "nowhere.log" in refused(folder, "run", "tail.py")


def test_a_second_run_on_a_locked_state_directory_is_exit_status_3(folder: Path) -> None:
    with started("run", "endless.py", "--state-dir", "state", cwd=folder) as first:
        first.until_said("records/s")
        said = refused(folder, "run", "endless.py", "--state-dir", "state", status=3)
    assert said.startswith("the state directory state is in use by another run")


def test_an_exception_of_the_users_in_open_shows_their_frames_only_and_exit_status_3(folder: Path) -> None:
    (folder / "opens.py").write_text(
        "from counting import Forget, Numbers\n"
        "from topology import Task, Topology\n"
        "class Away(Forget):\n"
        "    def open(self, task: Task) -> None:\n"
        "        raise OSError('the database is away')\n"
        "topology = Topology('opens')\n"
        "topology.bolt('away', Away(), topology.spout('numbers', Numbers(1)).shuffle())\n"
    )
    result = kedge("run", "opens.py", cwd=folder)
    assert result.returncode == 3
    found = told(result.stderr)
    assert (found.sentence, found.code) == ("'away' could not be opened: OSError: the database is away", "K401")
    assert found.frames.startswith("  Traceback (most recent call last):\n")
    assert found.frames.splitlines()[1].endswith('opens.py", line 5, in open')


def test_a_full_disk_behind_stdout_is_told_and_not_passed_over(folder: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [KEDGE, "run", "counting.py", "--json"],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 1
    found = told(result.stderr)
    assert (found.sentence, found.code) == ("the output can't be written: No space left on device", "K134")
