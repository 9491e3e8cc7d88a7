"""`kedge compare`: what it refuses before anything is measured, and what a line that it took can be repeated by."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from cli_kit import kedge, kedge_here, one_sentence, told

from bridge.compare.command import again
from bridge.compare.job import ComparisonJob

WRONG = {
    "no rate": (["--rate", "0"], "--rate takes a number of messages per second above 0, or max, not '0'", "K701"),
    "a rate below 0": (["--rate", "-5"], "--rate takes a number of messages per second above 0", "K701"),
    "a rate without an end": (["--rate", "inf"], "--rate takes a number of messages per second above 0", "K701"),
    "a rate that is no number": (["--rate", "nan"], "--rate takes a number of messages per second above 0", "K701"),
    "a rate in words": (["--rate", "fast"], "--rate takes a number of messages per second above 0, or max", "K701"),
    "a bound of no time": (["--p99", "0s"], "--p99 takes a time above 0, not 0", "K701"),
    "a bound and all at once": (
        ["--p99", "9ms", "--rate", "max"],
        "--p99 needs a first rate, but --rate is max",
        "K701",
    ),
    "a bound and a kill": (
        ["--p99", "9ms", "--kill"],
        "--p99 searches for a rate without kills, but --kill is given",
        "K701",
    ),
    "no time": (["--for", "0"], "--for takes a number of seconds above 0, not 0", "K701"),
    "a time without an end": (["--for", "inf"], "--for takes a number of seconds above 0, not inf", "K701"),
    "a time in words": (
        ["--for", "long"],
        "--for takes a time, 8s, 2m, 1h, 500ms or a number of seconds, not 'long'",
        "K101",
    ),
    "a warm-up below 0": (["--warm-up", "-1"], "--warm-up takes a number of seconds, 0 or more, not -1", "K701"),
    "no rounds": (["--rounds", "0"], "--rounds takes a whole number from 1 to 100, not 0", "K701"),
    "too many rounds": (["--rounds", "101"], "--rounds takes a whole number from 1 to 100, not 101", "K701"),
    "no modes": (["--modes", " , "], "--modes names no mode", "K701"),
    "a report in no folder": (
        ["--report", "nowhere/a.html"],
        "--report 'nowhere/a.html' is not writable: No such file or directory",
        "K702",
    ),
    "a report that is a folder": (["--report", "folder"], "--report 'folder' is not writable: it is a folder", "K702"),
    "a report without a name": (["--report", ""], "--report '.' is not writable: it is a folder", "K702"),
    "a report in a file": (
        ["--report", "counting.py/a.html"],
        "--report 'counting.py/a.html' is not writable: Not a directory",
        "K702",
    ),
    "a report that is a device": (
        ["--report", "/dev/null"],
        "--report '/dev/null' is not writable: it is not a regular file",
        "K702",
    ),
    "a report that is a link to itself": (
        ["--report", "round.html"],
        "--report 'round.html' is not writable: it is a link that leads to itself",
        "K702",
    ),
    "a picture in no folder": (["--png", "nowhere/a.png"], "--png 'nowhere/a.png' is not writable", "K702"),
    "both in one file": (
        ["--report", "a", "--png", "./a"],
        "--png 'a' is not writable: --report writes there",
        "K702",
    ),
    "an option that there is not": (["--mode", "record"], "there is no option --mode; did you mean '--modes'?", "K101"),
}


@pytest.mark.parametrize(("arguments", "said", "code"), WRONG.values(), ids=WRONG)
def test_a_wrong_use_is_told_in_a_sentence_and_leaves_nothing(
    folder: Path, arguments: list[str], said: str, code: str
) -> None:
    (folder / "folder").mkdir()
    (folder / "round.html").symlink_to("round.html")
    before = sorted(folder.rglob("*"))
    result = kedge_here("compare", "counting.py", *arguments, cwd=folder)
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    assert said in one_sentence(result)
    assert told(result.stderr).code == code
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("KEDGE_RATE", "fast", "KEDGE_RATE takes a number of messages per second above 0, or max, not 'fast'"),
        ("KEDGE_WARM_UP", "-1", "KEDGE_WARM_UP takes a number of seconds, 0 or more, not -1"),
        ("KEDGE_REPORT", "nowhere/a.html", "KEDGE_REPORT 'nowhere/a.html' is not writable"),
    ],
)
def test_a_wrong_variable_is_called_by_its_name(folder: Path, variable: str, value: str, said: str) -> None:
    result = kedge_here("compare", "counting.py", cwd=folder, env={variable: value})
    assert result.returncode == 2
    assert said in one_sentence(result)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to_is_told_before_anything_is_measured(folder: Path) -> None:
    (folder / "locked").mkdir(mode=0o500)
    result = kedge_here("compare", "counting.py", "--report", "locked/a.html", cwd=folder)
    assert "--report 'locked/a.html' is not writable: Permission denied" in one_sentence(result)


def test_a_disk_that_takes_nothing_is_told_before_anything_is_measured(folder: Path) -> None:
    result = kedge_here("compare", "counting.py", "--report", "/proc/a.html", cwd=folder)
    assert result.returncode == 2
    assert one_sentence(result).startswith("--report '/proc/a.html' is not writable: ")


@pytest.mark.parametrize(
    ("module", "options", "said"),
    [
        ("psutil", (), "kedge compare measures processes with psutil, which is not installed"),
        ("matplotlib", ("--png", "a.png"), "--report and --png draw with matplotlib, which is not installed"),
    ],
)
def test_without_its_extra_it_says_how_to_install_it(
    folder: Path, module: str, options: tuple[str, ...], said: str
) -> None:
    (folder / "hidden").mkdir()
    missing = f"raise ModuleNotFoundError(\"No module named '{module}'\", name='{module}')\n"
    (folder / "hidden" / f"{module}.py").write_text(missing)
    result = kedge("compare", "counting.py", *options, cwd=folder, env={"PYTHONPATH": str(folder / "hidden")})
    assert result.returncode == 2
    assert one_sentence(result) == said
    assert re.fullmatch(
        rf"{re.escape(str(Path(sys.executable).parent))}/python[\d.]* -m pip install 'kedge-streams\[compare\]'",
        told(result.stderr).next,
    )


def test_a_library_that_is_broken_is_told_as_such(folder: Path) -> None:
    (folder / "hidden").mkdir()
    (folder / "hidden/matplotlib.py").write_text("raise OSError('libfoo.so: cannot open shared object file')\n")
    hidden = {"PYTHONPATH": str(folder / "hidden")}
    result = kedge("compare", "counting.py", "--report", "a.html", cwd=folder, env=hidden)
    why = "OSError: libfoo.so: cannot open shared object file"
    assert one_sentence(result) == f"--report and --png draw with matplotlib, whose import fails: {why}"


@pytest.mark.parametrize(
    ("target", "said", "code"),
    [
        ("nowhere.py", "there is no file nowhere.py", "K112"),
        ("round.py", "there is no file round.py", "K112"),
        ("counting.py:nothing", "counting.py has no 'nothing'", "K120"),
    ],
)
def test_a_topology_that_is_not_there_is_told_as_by_run(folder: Path, target: str, said: str, code: str) -> None:
    (folder / "round.py").symlink_to("round.py")
    result = kedge("compare", target, cwd=folder)
    assert (result.returncode, told(result.stderr).code) == (2, code)
    assert said in one_sentence(result)


def test_a_topology_with_mistakes_is_told_with_all_of_them(folder: Path) -> None:
    (folder / "wrong.py").write_text("from topology import Topology\n\ntopology = Topology('wrong')\n")
    result = kedge("compare", "wrong.py", cwd=folder)
    assert result.returncode == 2
    assert told(result.stderr).code == "K200"


OWN = """
from spouts import FileTail, Line
from topology import Bolt, Topology


class Pass(Bolt):
    def process(self, line: Line) -> list[Line]:
        return [line]


def topology() -> Topology:
    topology = Topology("own")
    lines = topology.spout("lines", FileTail("lines.txt"))
    mine = topology.bolt("again", Pass(), lines.shuffle(), mine.shuffle())
    return topology
"""


@pytest.mark.parametrize("in_a_function", [True, False])
def test_a_bolt_that_is_given_its_own_stream_is_told_as_that_and_what_to_do(folder: Path, in_a_function: bool) -> None:
    at_the_top = OWN.replace("def topology() -> Topology:", "if True:").replace("    return topology\n", "")
    (folder / "own.py").write_text(OWN.replace("mine =", "mine: object =") if in_a_function else at_the_top)
    result = kedge("compare", "own.py", cwd=folder)
    assert result.returncode == 2
    assert one_sentence(result).endswith("own.py:14: the bolt 'again' is given its own stream as an input")
    assert told(result.stderr).code == "K211"
    assert told(result.stderr).next == "remove one of the inputs, or read the returning records with a separate spout"


def test_a_stream_that_is_not_there_and_is_no_input_is_told_as_python_does(folder: Path) -> None:
    (folder / "own.py").write_text(
        OWN.replace("Pass(), lines.shuffle(), mine.shuffle()", "Pass(mine), lines.shuffle()")
    )
    result = kedge("compare", "own.py", cwd=folder)
    assert "own.py:topology raised" in result.stderr
    assert told(result.stderr).code == "K123"


def test_a_name_that_is_not_there_for_another_reason_is_told_as_it_is(folder: Path) -> None:
    (folder / "own.py").write_text(OWN.replace("mine.shuffle()", "mien.shuffle()"))
    result = kedge("compare", "own.py", cwd=folder)
    assert "own.py:topology raised NameError: name 'mien' is not defined" in result.stderr
    assert told(result.stderr).code == "K123"


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        ("1e9", "that is 25,000,000,001 messages per round; the maximum is 3,000,000"),
        ("1e300", "that is more messages than can be counted per round"),
    ],
)
def test_a_rate_of_more_messages_than_can_be_kept_is_told_before_any_is_read(
    folder: Path, rate: str, said: str
) -> None:
    result = kedge("compare", "counting.py", "--rate", rate, "--report", "a.html", cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in one_sentence(result)
    assert told(result.stderr).code == "K707"
    assert not (folder / "a.html").exists()


def test_the_line_to_repeat_it_has_all_that_counts_wherever_it_came_from() -> None:
    job = ComparisonJob(
        "jobs/alerts.py:nightly",
        ("path=my file.log",),
        ("max_pending=5",),
        None,
        2.5,
        0.0,
        3,
        ("record", "spark:1s"),
        "local[2]",
        ("a.b=c d",),
        True,
    )
    assert shlex.split(again(job)) == [
        *("kedge", "compare", "jobs/alerts.py:nightly", "--set", "path=my file.log", "--config", "max_pending=5"),
        *("--spark-conf", "a.b=c d", "--rate", "max", "--for", "2.5", "--warm-up", "0", "--rounds", "3"),
        *("--modes", "record,spark:1s", "--spark", "local[2]", "--kill"),
    ]
    assert again(ComparisonJob("a.py", p99_ms=12.5)).endswith(" --rounds 2 --p99 12.5ms")
    assert again(ComparisonJob("alerts.py")) == "kedge compare alerts.py --rate 1000 --for 20 --warm-up 5 --rounds 2"
