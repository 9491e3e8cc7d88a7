"""Ten wrong uses and more of the commands besides `run`, which `test_wrong_use` tries: each is one sentence of ours, in
which no value reaches the terminal as it is (S11)."""

from pathlib import Path

import pytest
from cli_kit import kedge, one_sentence

WRONG_CHECKS = [
    ([], "kedge check needs FILE-OR-MODULE[:NAME]"),
    (["conting.py"], "there is no file conting.py; did you mean 'counting.py'?"),
    (["counting.py", "endless.py"], "kedge check takes one argument and no more, not 'endless.py' too"),
    (["counting.py", "--workers", "2"], "there is no option --workers"),
    (["counting.py", "--dbug"], "there is no option --dbug; did you mean '--debug'?"),
    (["counting.py", "--debug=yes"], "--debug takes no value"),
    (["counting.py", "--set"], "--set needs a value: KEY=VALUE"),
    (["counting.py", "--set", "=1"], "--set takes key=value, not '=1'"),
    (["counting.py:nothing"], "counting.py has no 'nothing'"),
    (["counting.py:Odd"], "name a Topology, or a function that returns one"),
    (["counting.py", "--config", "max_pending=few"], "--config max_pending=few: 'few' is not a whole number"),
]
WRONG_EXPLAINS = [
    (["103"], "there is no code '103'; did you mean 'K103'?"),
    (["K999"], "there is no code 'K999'"),
    ([""], "there is no code ''"),
    (["K1O3"], "there is no code 'K1O3'; did you mean 'K103'?"),
    (["k 103"], "there is no code 'k 103'; did you mean 'K103'?"),
    (["K" * 100_000], "there is no code 'KKKK"),
    (["K\x1b[2J"], "there is no code 'K\\x1b[2J'"),
    (["K103", "K104"], "kedge explain takes one argument and no more, not 'K104' too"),
    (["--code", "K103"], "there is no option --code"),
    (["K103", "--dbug"], "there is no option --dbug; did you mean '--debug'?"),
    (["run"], "there is no code 'run'"),
]
WRONG_COMPLETIONS = [
    ([], "kedge completion needs bash|zsh|fish"),
    (["tcsh"], "kedge completion takes 'bash', 'zsh' or 'fish', not 'tcsh'"),
    (["bsh"], "kedge completion takes 'bash', 'zsh' or 'fish', not 'bsh'; did you mean 'bash'?"),
    (["BASH"], "not 'BASH'; did you mean 'bash'?"),
    ([""], "kedge completion takes 'bash', 'zsh' or 'fish', not ''"),
    (["/bin/bash"], "not '/bin/bash'"),
    (["powershell"], "not 'powershell'"),
    (["bash", "zsh"], "kedge completion takes one argument and no more, not 'zsh' too"),
    (["bash\x1b[2J"], "not 'bash\\x1b[2J'"),
    (["--shell", "bash"], "there is no option --shell"),
    (["bash", "--install"], "there is no option --install"),
]
WRONG_HELPS = [
    (["rnu"], "there is no command 'rnu'; did you mean 'run'?"),
    (["RUN"], "there is no command 'RUN'; did you mean 'run'?"),
    ([""], "there is no command ''"),
    (["run check"], "there is no command 'run check'"),
    (["run", "check"], "kedge help takes one command and no more, not 'run check'"),
    (["run", "--workers"], "kedge help takes one command and no more, not 'run --workers'"),
    (["--workers"], "there is no option --workers"),
    (["-x"], "there is no option -x"),
    (["counting.py"], "there is no command 'counting.py'; did you mean kedge run counting.py?"),
    (["K103"], "there is no command 'K103'"),
    (["run\x1b[2J"], "there is no command 'run\\x1b[2J'"),
]
WRONG_COMMANDS = [
    (["counting.py"], "there is no command 'counting.py'; did you mean kedge run counting.py?"),
    (["--frsh"], "there is no option --frsh"),
    (["--versoin"], "there is no option --versoin; did you mean '--version'?"),
    (["--version=3"], "--version takes no value"),
    (["-v"], "there is no option -v"),
    (["run\x1b[2J"], "there is no command 'run\\x1b[2J'"),
    (["x" * 100_000], "there is no command 'xxxx"),
]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        *((["check", *words], said) for words, said in WRONG_CHECKS),
        *((["explain", *words], said) for words, said in WRONG_EXPLAINS),
        *((["completion", *words], said) for words, said in WRONG_COMPLETIONS),
        *((["help", *words], said) for words, said in WRONG_HELPS),
        *WRONG_COMMANDS,
    ],
)
def test_wrong_use_is_one_sentence_and_exit_status_2(folder: Path, arguments: list[str], said: str) -> None:
    result = kedge(*arguments, cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    found = one_sentence(result)
    assert said in found
    assert len(found) < 200
