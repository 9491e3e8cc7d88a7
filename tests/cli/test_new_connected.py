"""`kedge new --from SOURCE --to SINK`: each starter is well-formed, and runs as its README says."""

import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from cli_kit import PATIENCE_S, environment, kedge

from topology.cli.starter.parts import SINKS, SOURCES

HERE = Path(__file__).parents[2]
# each source and each sink is in one of them
PAIRS = [*((source, "sqlite") for source in SOURCES), *(("stdin", sink) for sink in SINKS if sink != "sqlite")]


@pytest.fixture(scope="module")
def starters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a starter for each pair; the folder's name is SOURCE_SINK."""
    folder = tmp_path_factory.mktemp("starters")
    for source, sink in [*PAIRS, ("syslog", "slack"), ("postgres", "postgres"), ("amqp", "amqp")]:
        made = kedge("new", f"{source}_{sink}", "--from", source, "--to", sink, cwd=folder)
        assert made.returncode == 0, made.stderr
    return folder


def checked(*command: str, cwd: Path) -> str:
    ran = subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_all_files_are_formatted_and_have_no_mistake_that_ruff_finds(starters: Path) -> None:
    ruff = (sys.executable, "-m", "ruff")
    checked(*ruff, "format", "--isolated", "--line-length", "120", "--diff", ".", cwd=starters)
    checked(*ruff, "check", "--isolated", "--line-length", "120", "--select", "E,F", ".", cwd=starters)


def test_all_topologies_are_typed(starters: Path, tmp_path: Path) -> None:
    for alerts in starters.glob("*/alerts.py"):
        (tmp_path / f"{alerts.parent.name}.py").write_text(alerts.read_text())
    files = sorted(str(path) for path in tmp_path.glob("*.py"))
    checked(sys.executable, "-m", "mypy", "--strict", *files, cwd=HERE)  # which finds kedge


@pytest.mark.parametrize(("source", "sink"), PAIRS)
def test_a_topology_has_no_mistakes(starters: Path, source: str, sink: str) -> None:
    told = kedge("check", "alerts.py", cwd=starters / f"{source}_{sink}")
    assert told.returncode == 0, told.stderr
    assert "no mistakes" in told.stdout


@pytest.mark.parametrize(("source", "sink"), [("kafka", "sqlite"), ("syslog", "slack"), ("postgres", "postgres")])
def test_the_tests_of_a_starter_pass(starters: Path, source: str, sink: str) -> None:
    checked(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=starters / f"{source}_{sink}")


def test_a_starter_without_servers_has_no_compose_file(starters: Path) -> None:
    with_servers = {path.parent.name for path in starters.glob("*/compose.yaml")}
    parts = chain(
        (f"{name}_sqlite" for name, part in SOURCES.items() if part.service),
        (f"stdin_{name}" for name, part in SINKS.items() if part.service),
    )
    assert with_servers == {*parts, "postgres_postgres", "amqp_amqp"}


def test_the_readme_names_the_commands_in_their_order(starters: Path) -> None:
    text = (starters / "syslog_slack" / "README.md").read_text()
    commands = ["python feed.py receive", "kedge run alerts.py", "python feed.py`", "pytest"]
    places = [text.index(command) for command in commands]
    assert places == sorted(places)


def test_an_unknown_name_is_one_sentence_with_those_that_there_are(tmp_path: Path) -> None:
    told = kedge("new", "x", "--from", "nots", cwd=tmp_path)
    assert told.returncode == 2
    assert "--from 'nots' is unknown; did you mean 'nats'?" in told.stderr
    assert "Traceback" not in told.stderr
    told = kedge("new", "x", "--to", "stdin", cwd=tmp_path)
    assert "it is one of sqlite, jsonlines" in told.stderr
    assert not (tmp_path / "x").exists()
