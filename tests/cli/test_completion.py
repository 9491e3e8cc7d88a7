"""`kedge completion`: what a shell is told, asked of a real bash as its completion asks; scripts for the others."""

import shutil
import subprocess
from pathlib import Path

import pytest
from cli_kit import KEDGE, PATIENCE_S, environment, kedge

ASK = """
eval "$(kedge completion bash)"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
function=$(complete -p kedge | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function" kedge "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
complete -p kedge >&2
"""


def completed(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    path = f"{Path(KEDGE).parent}:/usr/bin:/bin"
    result = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", "kedge", *words],
        cwd=folder,
        env=environment({"PATH": path}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert "-o default" in result.stderr, "where nothing is offered, bash completes files"
    return result.stdout.split()


bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


@bash
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ru"], ["run"]),
        (["run", "--log-f"], ["--log-format"]),
        (["run", "--log-format", "j"], ["json"]),
        (["run", "--log-level", ""], ["debug", "info", "warning", "error"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["run", "count"], []),
        (["nothing", "x"], []),
    ],
)
def test_bash_completes_commands_options_values_and_leaves_files_to_itself(
    folder: Path, words: list[str], offered: list[str]
) -> None:
    assert completed(folder, *words) == offered


@bash
@pytest.mark.parametrize("words", [["stop", "al"], ["dead", "list", "--topology", "al"]])
def test_topologies_that_have_state_here_are_offered_and_nothing_else_that_lies_there(
    folder: Path, words: list[str]
) -> None:
    for name in ("alerts", "alarms", "counts", "al;reboot", "al\x1b[2J"):
        (folder / ".kedge" / name).mkdir(parents=True)
    (folder / ".kedge" / "almost").write_text("a file")
    assert completed(folder, *words) == ["alarms", "alerts"]


@bash
def test_where_nothing_has_run_no_topology_is_offered(folder: Path) -> None:
    assert completed(folder, "stop", "al") == []


@bash
def test_all_commands_are_offered(folder: Path) -> None:
    assert {"run", "check", "completion"} <= {*completed(folder, "")}


@pytest.mark.parametrize(("shell", "has"), [("zsh", "#compdef kedge"), ("fish", "complete --command kedge")])
def test_there_is_a_script_for_each_shell(folder: Path, shell: str, has: str) -> None:
    result = kedge("completion", shell, cwd=folder)
    assert result.returncode == 0
    assert has in result.stdout
    if installed := shutil.which(shell):
        checked = subprocess.run([installed, "-n", "/dev/stdin"], input=result.stdout, text=True, check=False)
        assert checked.returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_help_has_a_line_for_each_shell(folder: Path, shell: str) -> None:
    assert f"kedge completion {shell}" in kedge("completion", "--help", cwd=folder).stdout
