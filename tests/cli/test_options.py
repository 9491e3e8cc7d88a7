"""Options: each one also a KEDGE_ variable, the command line before the environment; help that fits and is whole."""

import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from cli_kit import kedge, one_sentence

from topology import Config
from topology.cli.command import INTERNAL, NO_VARIABLE, PREFIX, Command, unknown_variables
from topology.cli.main import Acts, Commands, app, json_asked_for


def commands() -> Iterator[tuple[str, Command]]:
    """All of them, those of entry points too."""
    import typer

    group: Any = typer.main.get_command(app)
    assert isinstance(group, Commands)
    context = group.make_context("kedge", ["--help"], resilient_parsing=True)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, Acts):
            yield from ((f"{name} {act}", command.get_command(context, act)) for act in command.list_commands(context))
        else:
            yield name, command


ALL = dict(commands())


@pytest.mark.parametrize("name", [*ALL])
def test_every_option_of_every_command_has_its_variable(name: str) -> None:
    missing = [
        one.opts
        for one in ALL[name].params
        if one.param_type_name == "option" and not {*one.opts} & NO_VARIABLE
        if not str(one.envvar or "").startswith(PREFIX)
    ]
    assert not missing


def test_no_option_has_the_variable_of_a_setting_or_of_another_option() -> None:
    settings = {PREFIX + one.name.upper() for one in fields(Config)}
    for name, command in ALL.items():
        options = (one for one in command.params if one.param_type_name == "option")
        named = [one.envvar for one in options if not {*one.opts} & NO_VARIABLE]
        assert len(named) == len({*named}), name
        assert not settings & {*named}, name
        assert not INTERNAL & {*named}, name


@pytest.mark.parametrize("name", [*ALL])
def test_help_names_each_variable_and_fits_80_columns(folder: Path, name: str) -> None:
    result = kedge(*name.split(), "--help", cwd=folder, env={"COLUMNS": "80"})
    assert result.returncode == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    words = result.stdout.replace("\n", " ").split()
    for variable in ALL[name].variables():
        assert any(word.strip("[];") == variable for word in words), variable


def test_the_list_of_commands_has_whole_sentences(folder: Path) -> None:
    shown = kedge("--help", cwd=folder, env={"COLUMNS": "80"}).stdout
    listed = shown[shown.index("Commands:") :].split("\n\n")[0].splitlines()[1:]
    assert [line.split()[0] for line in listed] == [*dict.fromkeys(name.split()[0] for name in ALL)]
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("arguments", [[], ["help"], ["-h"]])
def test_kedge_alone_and_kedge_help_print_the_help(folder: Path, arguments: list[str]) -> None:
    assert kedge(*arguments, cwd=folder).stdout == kedge("--help", cwd=folder).stdout


def test_kedge_help_of_a_command_is_its_help(folder: Path) -> None:
    assert kedge("help", "run", cwd=folder).stdout == kedge("run", "--help", cwd=folder).stdout
    assert one_sentence(kedge("help", "rnu", cwd=folder)).startswith("there is no command 'rnu'; did you mean 'run'?")


def test_options_come_from_the_environment_and_the_command_line_is_stronger(folder: Path) -> None:
    env = {
        "KEDGE_SET": shlex.join(["count=6", "fail_at=1"]),
        "KEDGE_CONFIG": "max_replays=0",
        "KEDGE_JSON": "1",
        "KEDGE_WORKERS": "2",
        "KEDGE_STATE_DIR": "the state",
        "KEDGE_FRESH": "true",
        "KEDGE_FOR": "50",
    }
    figures = json.loads(kedge("run", "counting.py", cwd=folder, env=env).stdout)
    assert (figures["spouts"]["numbers"]["emitted"], figures["spouts"]["numbers"]["dead"]) == (6, 1)
    assert (folder / "the state").is_dir()
    stronger = kedge("run", "counting.py", "--set", "count=4", cwd=folder, env=env)
    assert json.loads(stronger.stdout)["spouts"]["numbers"]["emitted"] == 4
    assert json.loads(stronger.stdout)["spouts"]["numbers"]["dead"] == 0, "all of KEDGE_SET gives way, as of one option"


def test_values_in_a_variable_are_quoted_as_in_a_shell(folder: Path) -> None:
    (folder / "named.py").write_text(
        "from counting import topology as made\nfrom topology import Topology\n"
        "def topology(name: str, count: int) -> Topology:\n    print([name])\n    return made(count)\n"
    )
    result = kedge("check", "named.py", cwd=folder, env={"KEDGE_SET": "'name=a \"b\" c' count=3"})
    assert result.stdout.splitlines()[0] == "['a \"b\" c']"


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("KEDGE_WORKERS", "many", "KEDGE_WORKERS takes a whole number, not 'many'"),
        ("KEDGE_WORKERS", "0", "KEDGE_WORKERS takes a whole number from 1 to 64, not 0"),
        ("KEDGE_LINKS", "ipc", "KEDGE_LINKS is for runs on several processes"),
        ("KEDGE_FOR", "1 d", "KEDGE_FOR takes a time, 8s, 2m, 1h, 500ms or a number of seconds, not '1 d'"),
        ("KEDGE_FOR", "-1", "KEDGE_FOR takes a number of seconds above 0, not -1"),
        ("KEDGE_STATE_DIR", ".", "KEDGE_STATE_DIR takes a directory of its own"),
        ("KEDGE_FRESH", "perhaps", "KEDGE_FRESH takes true or false, not 'perhaps'"),
        ("KEDGE_LOG_FORMAT", "xml", "KEDGE_LOG_FORMAT takes 'auto', 'console' or 'json', not 'xml'"),
        ("KEDGE_LOG_LEVEL", "loud", "KEDGE_LOG_LEVEL takes 'debug', 'info', 'warning' or 'error', not 'loud'"),
        ("KEDGE_SET", "count", "KEDGE_SET takes key=value, not 'count'"),
        ("KEDGE_SET", "count=many", "KEDGE_SET count=many: 'many' is not a whole number"),
        ("KEDGE_SET", "'count=1", 'KEDGE_SET: "\'count=1" is not quoted as in a shell: no closing quotation'),
        ("KEDGE_CONFIG", "max_pendng=1", "KEDGE_CONFIG max_pendng=1: there is no setting 'max_pendng'"),
        ("KEDGE_MAX_PENDING", "0", "max_pending is a whole number of at least 1, not 0"),
    ],
)
def test_a_bad_value_from_the_environment_names_its_variable(
    folder: Path, variable: str, value: str, said: str
) -> None:
    result = kedge("run", "counting.py", cwd=folder, env={variable: value})
    assert result.returncode == 2
    assert said in one_sentence(result)


def test_a_bad_value_that_was_typed_names_the_option_alone(folder: Path) -> None:
    said = one_sentence(kedge("run", "counting.py", "--workers", "x", cwd=folder, env={"KEDGE_WORKERS": "2"}))
    assert said == "--workers takes a whole number, not 'x'"


@pytest.mark.parametrize("command", [["check", "counting.py"], ["run", "counting.py", "--set", "count=1"]])
def test_a_variable_that_nothing_is_called_is_warned_of_once(folder: Path, command: list[str]) -> None:
    env = {"KEDGE_WORKRES": "2", "KEDGE_HINT": "1", "KEDGE_MAX_REPLAYS": "3", "KEDGE_LOG_LEVEL": "error"}
    result = kedge(*command, cwd=folder, env=env)
    assert result.returncode == 0
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert warnings == [
        "warning: KEDGE_WORKRES is in the environment, but no option or setting has this name; "
        "did you mean 'KEDGE_WORKERS'?"
    ]


def test_other_commands_are_asked_for_their_variables_only_where_one_is_strange() -> None:
    def others() -> list[str]:
        asked.append(True)
        return ["KEDGE_OF_ANOTHER"]

    asked: list[bool] = []
    assert unknown_variables(["PATH", "KEDGE_HINT", "KEDGE_MAX_PENDING", "KEDGE_A"], {"KEDGE_A"}, others) == []
    assert not asked
    assert unknown_variables(["KEDGE_OF_ANOTHER"], set(), others) == []
    assert len(unknown_variables(["KEDGE_\x1b[2J"], set(), others)) == 1
    assert "\x1b" not in unknown_variables(["KEDGE_\x1b[2J"], set(), others)[0]


@pytest.mark.parametrize(
    ("arguments", "variable", "asked"),
    [
        ([], "", False),
        (["run"], "json", True),
        (["run", "--log-format", "json"], "", True),
        (["run", "--log-format=json"], "console", True),
        (["run", "--log-format=console"], "json", False),
        (["run", "--log-format"], "", False),
        (["run", "json"], "auto", False),
    ],
)
def test_whether_all_is_to_be_json_is_known_before_options_are_read(
    arguments: list[str], variable: str, asked: bool
) -> None:
    assert json_asked_for(arguments, {"KEDGE_LOG_FORMAT": variable} if variable else {}) is asked


def test_a_command_of_another_package_that_can_not_be_loaded_hides_no_other(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    site = tmp_path_factory.mktemp("site")
    (site / "broken-1.0.dist-info").mkdir()
    (site / "broken-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (site / "broken-1.0.dist-info" / "entry_points.txt").write_text("[kedge.commands]\nbroken = no_such_module:x\n")
    env = {"PYTHONPATH": os.fspath(site)}
    shown = kedge("--help", cwd=folder, env=env)
    assert shown.returncode == 0
    assert "can't be loaded" in shown.stdout
    result = kedge("broken", cwd=folder, env=env)
    assert result.returncode == 2
    assert "the command 'broken', no_such_module:x, can't be loaded: ModuleNotFoundError" in one_sentence(result)
