"""What holds for all examples: short, told of in their README, tested, and right as their own first lines run them."""

import ast
import itertools
import re
import shlex
from pathlib import Path

import pytest
from example_kit import EXAMPLES, ROOT, kedge

TOOLS = {"__init__.py", "auth_log.py", "cards.py", "demo.py", "samples.py"}  # beside the examples, for them
ON_SERVERS = {"http_to_slack.py", "kafka_fraud.py", "mqtt_temperature.py"}  # whose sources are no files
ENVIRONMENT = {"SLACK_URL": "https://hooks.slack.com/services/T0/B0/x", "REPORT_TOKEN": "x"}
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in TOOLS)


def docstring(name: str) -> str:
    return ast.get_docstring(ast.parse((EXAMPLES / name).read_text())) or ""


def commands(name: str) -> list[list[str]]:
    """Those that its docstring names, without `kedge run`."""
    return [shlex.split(line)[2:] for line in re.findall(r"^ {4}(kedge run .*)$", docstring(name), re.MULTILINE)]


def test_the_examples_are_these() -> None:
    known = {"apache_errors.py", "host_watch.py", "machine_temperature.py", "silent_hosts.py", "ssh_alerts.py"}
    assert set(NAMES) == {*known, *ON_SERVERS, "fraud.py", "ssh_spark.py", "word_count.py"}


LONGER = {
    "fraud.py",  # three rules, and both ways through Spark: what a page of the docs is about
    "ssh_alerts.py",  # three forms of a line, and whose lines count: what anybody's log of today has
}


@pytest.mark.parametrize("name", sorted({*NAMES} - LONGER))
def test_an_example_has_fewer_than_100_lines(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) < 100


MORE = {"ssh_spark.py": {"ssh_alerts"}}  # an example and what it adds to: found beside it, as it is run by its path


@pytest.mark.parametrize("name", NAMES)
def test_an_example_imports_no_other_one(name: str) -> None:
    """Each is run by its path, and is installed under another name than `examples`."""
    tree = ast.parse((EXAMPLES / name).read_text())
    froms = [node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    plain = [one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names]
    siblings = {"examples", "kedge_examples", ".", *(Path(one).stem for one in [*NAMES, *TOOLS])}
    assert {module.split(".")[0] for module in [*froms, *plain]} & siblings == MORE.get(name, set())


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_tests_and_a_line_in_the_readme(name: str) -> None:
    assert f"[{name}]({name})" in (EXAMPLES / "README.md").read_text()
    assert (ROOT / "tests/examples" / f"test_{name}").exists()


@pytest.mark.parametrize("name", NAMES)
def test_an_example_checks_without_a_warning_with_the_settings_of_its_first_lines(name: str, tmp_path: Path) -> None:
    named = commands(name)
    assert named
    given = max(named, key=len)
    settings = [f"--set={value}" for option, value in itertools.pairwise(given) if option == "--set"]
    assert {command[0] for command in named} == {f"examples/{name}"}
    checked = kedge("check", str(EXAMPLES / name), *settings, cwd=tmp_path, env=ENVIRONMENT)
    assert checked.returncode == 0, checked.stderr
    assert "no mistakes" in checked.stdout
    assert "arning" not in checked.stderr + checked.stdout
    assert list(tmp_path.iterdir()) == [], "it has run nothing"


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in {"word_count.py", "host_watch.py", *ON_SERVERS}]
)
def test_an_example_whose_file_is_missing_says_which(name: str, tmp_path: Path) -> None:
    ran = kedge("run", str(EXAMPLES / name), "--set", "path=nowhere.log", cwd=tmp_path)
    assert ran.returncode == 2
    assert "nowhere.log" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    links = re.findall(r"\]\((?!https://)([^)]+)\)", (EXAMPLES / "README.md").read_text())
    assert links
    assert [link for link in links if not (EXAMPLES / link).exists()] == []


GUARANTEES = {
    "apache_errors.py": "store: exactly once in effect",
    "fraud.py": "store: exactly once in effect",
    "http_to_slack.py": "slack: no guarantee (records may be lost or repeated); the weakest is 'reports'",
    "kafka_fraud.py": "alerts: at least once; the weakest is 'alerts'",
    "mqtt_temperature.py": "alarms: at least once; the weakest is 'alarms'",
    "host_watch.py": "print: no guarantee (records may be lost or repeated); the weakest is 'host'",
    "machine_temperature.py": "store: exactly once in effect",
    "silent_hosts.py": "store: exactly once in effect",
    "ssh_alerts.py": "store: exactly once in effect",
    "ssh_spark.py": "store: exactly once in effect",
    "word_count.py": "print: at least once; the weakest is 'print'",
}


@pytest.mark.parametrize("name", NAMES)
def test_what_an_example_promises_is_told_and_no_less_than_this(name: str, tmp_path: Path) -> None:
    told = kedge("check", str(EXAMPLES / name), "--guarantees", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert GUARANTEES[name] in told.stdout.splitlines()
