"""`kedge graph`, as a user runs it: what goes where, in which form, and what is said of wrong uses."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli_kit import COUNTING, KEDGE, PATIENCE_S, environment, kedge

from topology.filesystem.safe_files import write_anew

ROOT = Path(__file__).parents[2]


def drawn(folder: Path, *arguments: object, env: Mapping[str, str] | None = None) -> str:
    """What stdout has, of a use that is right: nothing is said besides, and nothing has run."""
    result = kedge("graph", *arguments, cwd=folder, env=env)
    assert (result.returncode, result.stderr) == (0, "")
    assert not (folder / ".kedge").exists()
    return result.stdout


# -- wrong uses


def files(folder: Path) -> list[str]:
    """What is in it, but for Python's own cache."""
    return sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "kedge graph needs FILE-OR-MODULE[:NAME]"),
        (["conting.py"], "there is no file conting.py; did you mean 'counting.py'?"),
        (["counting.py", "--format", "png"], "--format takes 'text', 'mermaid' or 'svg', not 'png'"),
        (["counting.py", "--formt", "svg"], "there is no option --formt; did you mean '--format'?"),
        (["counting.py", "--output", "x.png"], "--output x.png: unknown format; known are .svg, .mmd, .md, .txt"),
        (
            ["counting.py", "--output", "x.svgz"],
            "unknown format; known are .svg, .mmd, .md, .txt; did you mean '.svg'?",
        ),
        (["counting.py", "--output", "picture"], "--output picture: unknown format"),
        (["counting.py", "--output", "nowhere/x.svg"], "nowhere/x.svg can't be written: No such file or directory"),
        (["counting.py", "--output", "folder.svg"], "folder.svg can't be written: Is a directory"),
        (["counting.py", "--output", "counting.py", "--format", "svg"], "a picture must not overwrite code"),
        (["counting.py", "--workers", "0"], "--workers takes a whole number from 1 to 64, not 0"),
        (["counting.py", "--workers", "two"], "--workers takes a whole number, not 'two'"),
        (["counting.py", "--set", "cuont=1"], "counting.py:topology takes no 'cuont'; did you mean 'count'?"),
        (["counting.py", "--config", "max_pendin=1"], "there is no setting 'max_pendin'; did you mean 'max_pending'?"),
        (["counting.py", "endless.py"], "takes one argument and no more, not 'endless.py' too"),
    ],
)
def test_a_wrong_use_is_answered_in_one_sentence_and_status_2(folder: Path, arguments: list[str], said: str) -> None:
    (folder / "folder.svg").mkdir()
    before = files(folder)
    result = kedge("graph", *arguments, cwd=folder)
    errors = [line for line in result.stderr.splitlines() if line.startswith("kedge: ")]
    assert (result.returncode, result.stdout, len(errors)) == (2, "", 1)
    assert said in errors[0]
    assert "Traceback" not in result.stderr
    assert files(folder) == before
    assert (folder / "counting.py").read_text() == COUNTING


def test_all_mistakes_of_the_topology_are_told_and_no_file_is_written(folder: Path) -> None:
    (folder / "mistaken.py").write_text(
        "from counting import Forget, Numbers\nfrom topology import Topology\n"
        "topology = Topology('mistaken')\n"
        "topology.spout('numbers', Numbers(1))\n"
        "topology.bolt('forget', Forget())\n"
    )
    result = kedge("graph", "mistaken.py", "--output", "x.svg", cwd=folder)
    assert result.returncode == 2
    assert "topology 'mistaken' has 2 mistakes" in result.stderr
    assert all(f"{folder / 'mistaken.py'}:{line}: " in result.stderr for line in (4, 5))
    assert not (folder / "x.svg").exists()


def test_a_full_disk_is_one_sentence_and_status_2(folder: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    result = kedge("graph", "counting.py", "--output", "/dev/full", "--format", "svg", cwd=folder)
    assert result.returncode == 2
    assert "kedge: /dev/full can't be written: No space left on device" in result.stderr


def test_a_reader_that_goes_away_ends_it_quietly(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run(
            [KEDGE, "graph", "counting.py", "--format", "svg"],
            cwd=folder, env=environment(), stdout=writing, stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert (result.returncode, result.stderr) == (0, b"")


# -- where it goes


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.svg", "<svg "),
        ("x.mmd", "---\ntitle: "),
        ("x.md", "```mermaid\n---\ntitle: "),
        ("x.TXT", "counting: 1 spout, 1 bolt, 1 sink\n\n╭─"),
    ],
)
def test_the_files_name_tells_the_format(folder: Path, name: str, start: str) -> None:
    assert drawn(folder, "counting.py", "--output", name) == ""
    written = (folder / name).read_text(encoding="utf-8")
    assert written.startswith(start)
    assert written.endswith("\n")
    assert written.count("```") == 2 * (name == "x.md")
    assert files(folder) == sorted(["counting.py", "endless.py", name])


def test_a_format_that_is_named_wins_over_the_files_name(folder: Path) -> None:
    drawn(folder, "counting.py", "-o", "x.txt", "--format", "svg")
    assert ElementTree.parse(folder / "x.txt").getroot().tag.endswith("svg")


def test_what_stdout_gets_is_what_a_file_gets(folder: Path) -> None:
    for form in ("text", "mermaid", "svg"):
        drawn(folder, "counting.py", "--output", "x", "--format", form)
        there = (folder / "x").read_text(encoding="utf-8")
        assert drawn(folder, "counting.py", "--format", form) == there
        assert drawn(folder, "counting.py", "--format", form, "--output", "-") == there
    assert ElementTree.fromstring(there).tag.endswith("svg")


def test_a_file_that_is_there_is_replaced_and_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    (tmp_path / "real.svg").write_text("old" * 1000)
    (tmp_path / "real.svg").chmod(0o640)
    (tmp_path / "link.svg").symlink_to("real.svg")
    write_anew(tmp_path / "link.svg", [b"new\n"])
    assert (tmp_path / "link.svg").is_symlink()
    assert (tmp_path / "real.svg").read_text() == "new\n"
    assert (tmp_path / "real.svg").stat().st_mode & 0o777 == 0o640


def test_a_file_that_can_not_be_renamed_into_its_place_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "x.svg").write_text("old")
    monkeypatch.setattr("topology.filesystem.safe_files.os.replace", refused)
    with pytest.raises(PermissionError):
        write_anew(tmp_path / "x.svg", [b"new"])
    assert [path.name for path in tmp_path.iterdir()] == ["x.svg"]
    assert (tmp_path / "x.svg").read_text() == "old"


def test_a_name_as_long_as_the_system_allows_is_no_trouble(tmp_path: Path) -> None:
    for name in ("é" * 125 + ".svg", "日" * 83 + ".svg", "a" * 251 + ".svg"):
        write_anew(tmp_path / name, [b"drawn\n"])
        assert (tmp_path / name).read_text() == "drawn\n"


def test_what_is_no_regular_file_is_written_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_anew(tmp_path / "pipe", [b"drawn\n"])
        assert os.read(reader, 100) == b"drawn\n"
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_a_closed_stdout_is_nobodys_trouble(folder: Path) -> None:
    result = kedge(f"exec {KEDGE} graph counting.py >&-", cwd=folder, command=("sh", "-c"))
    assert (result.returncode, result.stderr) == (0, "")


# -- what it says


def test_text_is_boxes_with_the_grouping_and_the_tasks_of_each_edge(folder: Path) -> None:
    assert drawn(folder, ROOT / "examples" / "ssh_alerts.py").splitlines()[2:16] == [
        "            ╭─────────────╮",
        "            │    lines    │",
        "            │ FileTail ×1 │",
        "            ╰──────┬──────╯",
        "                   │",
        "       Line, shuffle, 1 → 1 task",
        "                   ▼",
        "         ┌───────────────────┐",
        "         │     failures      │",
        "         │ ParseFailures ×1  │",
        "         └─────────┬─────────┘",
        "                   │",
        "Failure, fields source_ip, 1 → 2 tasks",
        "                   ▼",
    ]


def test_workers_show_where_the_tasks_would_run_and_none_is_started(folder: Path) -> None:
    said = drawn(folder, ROOT / "examples" / "ssh_alerts.py", "--workers", 2)
    assert said.startswith("ssh-alerts: 1 spout, 2 bolts, 1 sink, on 2 workers\n")
    assert "alerts    worker 0: task 0; worker 1: task 1\n" in said


def test_a_value_of_set_reaches_the_topology_and_is_in_no_picture_S12(folder: Path) -> None:
    for form in ("text", "mermaid", "svg"):
        said = drawn(folder, "counting.py", "--set", "count=987654", "--config", "max_pending=54321", "--format", form)
        assert "987654" not in said
        assert "54321" not in said


def test_a_stdout_without_box_drawing_gets_ascii(folder: Path) -> None:
    for form in ("text", "mermaid", "svg"):
        said = drawn(folder, "counting.py", "--format", form, env={"PYTHONIOENCODING": "ascii"})
        assert said.isascii()
        assert "\\u" not in said
    assert "o---" in drawn(folder, "counting.py", env={"PYTHONIOENCODING": "ascii"})


@pytest.mark.parametrize(("columns", "arrow"), [(200, "▶"), (80, "▼"), (22, "──shuffle──▶")])
def test_text_fits_the_terminal(folder: Path, columns: int, arrow: str) -> None:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
    with subprocess.Popen(
        [KEDGE, "graph", str(ROOT / "examples" / "ssh_alerts.py")], cwd=folder, env=environment({"TERM": "xterm"}),
        stdin=follower, stdout=follower, stderr=follower,
    ) as process:  # fmt: skip
        os.close(follower)
        said = b""
        try:
            while piece := os.read(leader, 65_536):
                said += piece
        except OSError:  # Linux tells so of a terminal that nobody has open any more
            pass
        finally:
            os.close(leader)
        assert process.wait(PATIENCE_S) == 0
    lines = said.decode().replace("\r", "").splitlines()
    assert max(map(len, lines)) <= columns
    assert any(arrow in line for line in lines)
    assert not re.search("\x1b", said.decode())


# -- in the docs


@pytest.mark.parametrize("name", ["fraud.svg", "ssh_alerts.svg"])
def test_the_pictures_in_the_docs_are_what_the_command_draws(folder: Path, name: str) -> None:
    example = ROOT / "examples" / f"{Path(name).stem}.py"
    kept = (ROOT / "docs" / "images" / name).read_text()
    assert drawn(folder, example, "--format", "svg") == kept, (
        f"make it anew: kedge graph examples/{example.name} --output docs/images/{name}"
    )
