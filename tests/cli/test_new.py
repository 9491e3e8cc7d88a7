"""`kedge new`: what it makes, what it refuses, and that it leaves nothing half made. What strangers do with it is tried
in `tests/install`."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_kit import KEDGE, PATIENCE_S, environment, kedge, wait_for

from topology.cli.cleanup import held, interruptible
from topology.cli.commands.new import FILES, _write
from topology.cli.main import status_of
from topology.user_frames import PACKAGES

UNWRITABLE = Path("/proc" if Path("/proc/self").exists() else "/dev/null")  # for root, too


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What the command says to a use that is wrong: one sentence, and one line of advice with a code."""
    assert status_of([*map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    sentence, advice = said.err.splitlines()
    assert sentence.startswith("kedge: ")
    assert advice.startswith("  next: ")
    assert "kedge explain K1" in advice
    return f"{sentence}\n{advice}"


WRONG = {
    "no folder": ([], "kedge new needs DIR"),
    "two folders": (["one", "two"], "kedge new takes one argument and no more, not 'two' too"),
    "an option that there is not": (["one", "--nmae", "x"], "there is no option --nmae; did you mean '--name'?"),
    "a name that is none": (["one", "--name", "two words"], "--name 'two words' is invalid"),
    "a name too long": (["one", "--name", "x" * 65], "is invalid"),
    "an empty name": (["one", "--name", ""], "--name '' is invalid"),
    "an empty folder name": ([""], "a folder without a name can't be made"),
    "a folder that makes no name": (["日本"], "no name can be made of the folder '日本'"),
    "a file": (["file"], "file exists, and is not a folder"),
    "a folder in a file": (["file/one"], "file/one can't be made: Not a directory"),
    "a folder with something in it": (["full"], "full is not empty: it has a, b, c and 1 more"),
    "a link to nowhere": (["link"], "link exists, and is not a folder"),
    "a name too long for the system": (["x/" + "y" * 300], "can't be made: File name too long"),
    "where nobody may write": ([str(UNWRITABLE / "one")], f"{UNWRITABLE}/one can't be made: No"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_use_is_told_in_a_sentence_and_makes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (here / "file").write_text("")
    (here / "full").mkdir()
    for name in "abcd":
        (here / "full" / name).write_text("")
    (here / "link").symlink_to("nowhere")
    before = sorted(here.rglob("*"))
    assert said in refused(capsys, "new", *arguments)
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("name", PACKAGES)
def test_a_project_takes_no_name_of_our_packages_S21(here: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    for arguments in ([name], [f"sub/{name}"], ["fine", "--name", name], [name, "--name", "fine"]):
        assert f"{name!r} is one of Kedge's own packages" in refused(capsys, "new", *arguments)
    assert f"choose another name, for example my-{name}" in refused(capsys, "new", name)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "arguments", "name"),
    [
        ("my-alerts", [], "my-alerts"),
        ("My Alerts (new)", [], "My-Alerts-new"),
        ("class", [], "class"),
        ("queue", [], "queue"),
        ("a/b/c.d", [], "c-d"),
        ("x" * 100, [], "x" * 64),
        ("日本", ["--name", "japan"], "japan"),
        ("-dash", [], "dash"),
    ],
)
def test_the_topology_is_called_as_the_folder_or_as_it_is_told(
    here: Path, folder: str, arguments: list[str], name: str
) -> None:
    assert status_of(["new", *arguments, "--", folder]) == 0
    assert sorted(path.name for path in (here / folder).iterdir()) == sorted(FILES)
    assert f'Topology("{name}")' in (here / folder / "alerts.py").read_text()
    assert f'name = "{name}"' in (here / folder / "pyproject.toml").read_text()
    assert (here / folder / "README.md").read_text().startswith(f"# {name}\n")


def test_it_tells_what_was_made_and_three_commands_to_type(here: Path) -> None:
    path = f"{Path(KEDGE).parent}{os.pathsep}{os.environ['PATH']}"
    told = kedge("new", "my alerts", cwd=here, env={"PATH": path})
    assert (told.returncode, told.stderr) == (0, "")
    first, *lines = told.stdout.splitlines()
    assert first == "my-alerts: a topology to start from, in my alerts"
    assert [line.split()[0] for line in lines[: len(FILES)]] == list(FILES)
    assert lines[len(FILES) :] == ["try next:", "  cd 'my alerts'", "  kedge run alerts.py", "  pytest"]


def test_where_the_shell_finds_no_kedge_the_commands_name_the_python_that_has_it(here: Path) -> None:
    told = kedge("new", "alerts", cwd=here, env={"PATH": "/usr/bin:/bin"}, command=(sys.executable, "-m", "kedge"))
    assert f"  {sys.executable} -m kedge run alerts.py" in told.stdout.splitlines()


def test_the_current_folder_may_have_a_repository_and_an_environment_and_they_stay(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (".git/config", "venv/pyvenv.cfg", ".env"):
        (here / file).parent.mkdir(exist_ok=True)
        (here / file).write_text("mine")
    assert status_of(["new", ".", "--name", "mine"]) == 0
    assert {path.name for path in here.iterdir()} == {*FILES, ".git", "venv", ".env"}
    assert (here / ".env").read_text() == "mine"
    assert "  cd " not in capsys.readouterr().out


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_that_name_is_never_overwritten(here: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (here / name).write_text("mine")
    assert f". is not empty: it has {name}\n" in refused(capsys, "new", ".", "--name", "mine")
    assert [path.name for path in here.iterdir()] == [name]
    assert (here / name).read_text() == "mine"


def test_a_file_that_appears_in_the_meantime_is_not_overwritten_and_what_was_written_is_taken_away(here: Path) -> None:
    (here / "second").write_text("mine")
    with pytest.raises(FileExistsError):
        _write(here, {"first": "text", "second": "text"})
    assert [path.name for path in here.iterdir()] == ["second"]
    assert (here / "second").read_text() == "mine"


def test_a_disk_that_is_full_is_a_sentence_and_nothing_is_left_half_made(here: Path) -> None:
    """A limit of a file's size stands for the disk: the first file fits it in part."""
    told = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -f 1; exec '{KEDGE}' new a/b"],
        cwd=here,
        env=environment({"PYTHONDONTWRITEBYTECODE": "1"}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 2, told.stderr
    assert told.stderr.startswith("kedge: a/b can't be made: File too large\n  next: ")
    assert list(here.iterdir()) == []


HELD = """
import time
from pathlib import Path
from topology.cli.commands.new import _write
from topology.cli.cleanup import interruptible


class Held(dict):
    def items(self):
        yield "alerts.py", "text"
        Path("reached").touch()
        time.sleep(600)


with interruptible():
    _write(Path("a/b"), Held())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_between_two_files_leaves_neither(here: Path, number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", HELD], cwd=here, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: (here / "reached").exists() or process.poll() is not None, "the first file")
        assert (here / "a/b/alerts.py").exists()
        process.send_signal(number)
        assert process.wait(PATIENCE_S) != 0
    finally:
        process.kill()
        process.wait()
    assert not (here / "a").exists()


def test_a_signal_waits_until_what_is_made_is_known_to_who_undoes_it() -> None:
    made = []

    def make() -> None:
        with held():
            signal.raise_signal(signal.SIGTERM)
            made.append("a folder")
        pytest.fail("the signal was lost")

    with pytest.raises(KeyboardInterrupt), interruptible():
        make()
    assert made == ["a folder"]
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("name", [b"-dash", b"two words", b"it's", b"line\nend", b"\xff\xfebad", b"a\\n\tb'"])
def test_the_way_into_the_folder_can_be_typed_whatever_it_is_called(here: Path, name: bytes) -> None:
    told = subprocess.run(
        [KEDGE, "new", "--", name], cwd=here, env=environment(), capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    (cd,) = (line.strip() for line in told.stdout.splitlines() if line.startswith("  cd "))
    entered = subprocess.run(["bash", "-c", f"{cd} && test -f alerts.py"], cwd=here, check=False)
    assert entered.returncode == 0, cd


def test_a_current_folder_that_is_gone_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "gone").mkdir()
    os.chdir(here / "gone")
    (here / "gone").rmdir()
    said = refused(capsys, "new", "one")
    assert "one can't be made: the current folder is gone" in said
    assert "(K143" in said


def test_who_makes_the_same_folder_at_the_same_time_is_told_and_loses_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "same").mkdir()
    (here / "same/alerts.py").write_text("theirs")
    monkeypatch.setattr("topology.cli.commands.new.refuse_what_is_there", lambda *_, **__: None)
    said = refused(capsys, "new", "same")
    assert "same or same/alerts.py was made in the meantime" in said
    assert "(K142" in said
    assert [path.read_text() for path in (here / "same").iterdir()] == ["theirs"]
