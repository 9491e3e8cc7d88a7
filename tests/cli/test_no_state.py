"""`kedge run --no-state`: nothing is kept on the disk, and what that means is said before, in and after a run."""

from pathlib import Path

import pytest
from cli_kit import COUNTING, Result, kedge, one_sentence


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "counting.py").write_text(COUNTING)
    return tmp_path


def ran(folder: Path, *arguments: object, status: int = 0) -> Result:
    result = kedge("run", "counting.py", "--no-state", "--set", "count=20", *arguments, cwd=folder)
    assert result.returncode == status, result.stderr
    return result


def left(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()} - {"counting.py", "__pycache__"}


@pytest.mark.parametrize("several", [(), ("--workers", 2)])
def test_a_run_that_keeps_nothing_leaves_nothing_and_reads_everything_again(
    folder: Path, several: tuple[object, ...]
) -> None:
    for _ in range(2):
        result = ran(folder, *several)
        assert "state in memory, for this run only" in result.stderr
        assert "numbers  20" in result.stdout
        assert "--no-state" in (last := result.stdout.splitlines()[-1])
        assert "# reads everything again" in last
    assert not left(folder)


def test_dead_letters_are_not_kept_and_no_command_for_them_is_offered(folder: Path) -> None:
    result = ran(folder, "--set", "fail_at=3", status=1)
    assert "exit status 1: 1 dead, each logged above" in result.stdout
    assert "kedge dead" not in result.stdout
    assert not left(folder)


@pytest.mark.parametrize(
    "option",
    [
        ("--state-dir", "x"),
        ("--fresh",),
        ("--run-id", "new"),
        ("--accept-duplicates",),
        ("--accept-loss",),
        ("--engine", "spark"),
    ],
)
def test_an_option_that_needs_a_state_directory_is_refused_beside_it(folder: Path, option: tuple[str, ...]) -> None:
    result = kedge("run", "counting.py", "--no-state", *option, cwd=folder)
    assert result.returncode == 2
    assert f"{option[0]} needs a state directory, and --no-state makes the run keep none" in one_sentence(result)


def test_variables_that_ask_for_both_are_named_as_the_user_has_called_them(folder: Path) -> None:
    variables = {"KEDGE_STATE_DIR": "x", "KEDGE_NO_STATE": "1"}
    said = one_sentence(kedge("run", "counting.py", cwd=folder, env=variables))
    assert "KEDGE_STATE_DIR needs a state directory, and KEDGE_NO_STATE makes the run keep none" in said


def test_check_tells_what_holds_without_a_state_directory(folder: Path) -> None:
    kept = kedge("check", "counting.py", "--guarantees", cwd=folder).stdout
    told = kedge("check", "counting.py", "--no-state", cwd=folder).stdout
    sentence = "'numbers' is read from its start again after its worker's death, and in each run"
    assert sentence in told
    assert sentence not in kept
