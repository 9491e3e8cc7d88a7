"""What a command says can be done next holds where it is typed, and what could not be done is told as it was."""

from pathlib import Path

import pytest
from cli_kit import kedge, kedge_here, one_sentence, started, told
from dead_kit import BAD
from terminal_kit import terminal

from topology.cli import next_steps, run_client
from topology.cli.output import terminal as output
from topology.cli.state_dirs import HOME
from topology.storage.dead_questions import DeadAnswer
from topology.storage.offline import dead_letters
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreFull


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder in which a run has left the dead letter 0-1, in the state directory `else where`."""
    (tmp_path / "bad.py").write_text(BAD)
    result = kedge("run", "bad.py", "--set", "bad=50", "--set", "count=50", "--state-dir", "else where", cwd=tmp_path)
    assert result.returncode == 1, result.stderr
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("  dead "))
    assert line.endswith("kedge dead list --state-dir 'else where'"), line
    return tmp_path


WHERE = ("--state-dir", "else where")


def test_where_letters_are_kept_is_in_the_command_that_lists_them(elsewhere: Path) -> None:
    assert kedge_here("dead", "list", *WHERE, cwd=elsewhere).stdout.count("\n0-1 ") == 1


@pytest.mark.parametrize("act", ["replay", "drop"])
def test_where_there_are_no_letters_that_is_said_and_nothing_of_what_was_done(elsewhere: Path, act: str) -> None:
    result = kedge_here("dead", act, "0-7", *WHERE, cwd=elsewhere)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", "kedge: there is no dead letter '0-7'\n")
    kedge_here("dead", "drop", "--all", *WHERE, cwd=elsewhere)
    result = kedge_here("dead", act, "--all", *WHERE, cwd=elsewhere)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "there are no dead letters\n")


@pytest.mark.parametrize("act", ["replay", "drop"])
def test_a_letter_that_a_full_disk_does_not_let_change_is_not_said_to_be_missing(
    elsewhere: Path, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F17."""

    def full(*_: object, **__: object) -> None:
        raise StoreFull("no space left")

    monkeypatch.setattr(SqliteStore, "commit", full)
    result = kedge_here("dead", act, "0-1", "0-7", *WHERE, cwd=elsewhere)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == ["kedge: no space left", "kedge: there is no dead letter '0-7'"]


def test_each_problem_has_a_line_of_its_own(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        dead_letters, "answer", lambda state, ask: DeadAnswer(ask.number, problem="0-1: this\n0-2: that")
    )
    result = kedge_here("dead", "drop", "--all", *WHERE, cwd=elsewhere)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", "kedge: 0-1: this\nkedge: 0-2: that\n")


def test_how_to_stop_a_run_has_its_state_directory(folder: Path) -> None:
    patient = ("--set", "seconds=0.5", "--config", "drain_timeout_s=0.1", "--config", "max_pending=4")
    with started("run", "endless.py", *patient, *WHERE, cwd=folder) as run:
        run.until_said("records/s")
        result = kedge_here("stop", *WHERE, cwd=folder)
        assert "(kedge stop --state-dir 'else where' --drain waits for them)" in result.stdout, result.stdout
        run.ended()


def test_a_topology_is_named_where_the_folder_has_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (HOME / "a").mkdir(parents=True)
    assert next_steps.dead_list(HOME / "a") == "kedge dead list"
    assert next_steps.stop(HOME / "a", "--now") == "kedge stop --now"
    (HOME / "b").mkdir()
    assert next_steps.dead_list(HOME / "a") == "kedge dead list --topology a"
    assert next_steps.stop(HOME / "a", "--now") == "kedge stop a --now"


def test_a_topology_besides_a_state_directory_is_refused_and_not_ignored(folder: Path) -> None:
    for words in (("stop", "endless"), ("dead", "list", "--topology", "endless")):
        result = kedge_here(*words, cwd=folder, env={"KEDGE_STATE_DIR": "."})
        assert result.returncode == 2
        assert one_sentence(result) == "KEDGE_STATE_DIR names one run, and 'endless' may name another"
        assert told(result.stderr).code == "K176"


@pytest.mark.parametrize(
    ("typed", "meant"), [("--wrong", ""), ("--quiet", ""), ("--log", "--log-format"), ("--wrkers", "--workers")]
)
def test_an_option_is_offered_where_it_is_like_the_one_that_was_typed(folder: Path, typed: str, meant: str) -> None:
    result = kedge_here("run", "endless.py", typed, cwd=folder)
    assert one_sentence(result) == f"there is no option {typed}" + (f"; did you mean '{meant}'?" if meant else "")


def test_a_file_in_place_of_a_state_directory_is_said_to_be_there(folder: Path) -> None:
    result = kedge_here("dead", "list", "--state-dir", "endless.py", cwd=folder)
    assert result.returncode == 2
    assert one_sentence(result) == "'endless.py' is not a directory"
    assert told(result.stderr).code == "K160"


def test_a_question_that_nobody_answers_keeps_no_run_from_beginning(elsewhere: Path) -> None:
    """A service would give up; and what comes meanwhile is not what was asked about."""
    with terminal(elsewhere, "dead", "drop", "--all", *WHERE) as shown:
        shown.until_shown("drop 1 dead letter for good? [y/N]")
        run = kedge("run", "bad.py", "--set", "bad=50", "--set", "count=100", *WHERE, cwd=elsewhere)
        assert "kept as dead letter 0-2" in run.stderr, run.stderr
        shown.type(b"y\n")
        assert shown.end() == 0
        assert any("1 dead letter is dropped: 0-1" in line for line in shown.everything())
    assert kedge_here("dead", "list", *WHERE, cwd=elsewhere).stdout.count("\n0-2 ") == 1


def test_letters_that_are_read_slowly_keep_no_run_from_beginning(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: list[bool] = []
    monkeypatch.setattr(output, "put", lambda text: locked.append(run_client.locked(Path(WHERE[1]))))
    assert kedge_here("dead", "show", "0-1", *WHERE, cwd=elsewhere).returncode == 0
    assert locked == [False]
