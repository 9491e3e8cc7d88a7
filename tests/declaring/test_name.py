"""The distribution is `kedge-streams`. `kedge` on the package index is a stranger's: nothing here may have a user
install that, no page, message, starter or comment."""

import os
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PRUNED = {"build", "dist", "runs", "__pycache__", ".git"}
SUFFIXES = {"", ".py", ".md", ".toml", ".tmpl", ".txt", ".cfg", ".yml", ".yaml", ".json", ".sh", ".svg", ".java"}
TOKEN = r"[-\w.'\"\[\]<>=~/$*{}!]+"  # a word of a command; neither a comma nor what ends a command is in it
STRANGERS = re.compile(
    rf"\b(?:(?i:pip3?|pipx|uv|tool|poetry|pdm|conda|mamba)\)?\s+(?:install|add|inject|download|wheel|run)|uvx)(?:\s+{TOKEN})*?\s+['\"]?kedge(?:[\[=<>~!'\"]|(?![-\w./]))"
    rf"|(?<![-\w])kedge\\*\[(?:\\*)(?:{'|'.join(PROJECT['optional-dependencies'])})\b"  # an extra of it
    r"|(?<![-\w])kedge\s*(?:==|>=|~=|!=|<=)\s*[\d$]"  # a requirement
    r"|['\"]kedge @ |pypi\.org/(?:project|simple)/kedge(?![-\w])"
)


def texts() -> Iterator[Path]:
    for folder, folders, names in os.walk(ROOT):
        here = Path(folder)
        folders[:] = [
            one
            for one in folders
            if one not in PRUNED
            and not one.endswith(("_cache", ".egg-info"))
            and not (here / one / "pyvenv.cfg").exists()
        ]
        yield from (here / name for name in names if Path(name).suffix in SUFFIXES)


def strangers(text: str) -> list[str]:
    return [line.strip()[:150] for line in text.splitlines() if STRANGERS.search(line)]


def test_no_file_of_the_repository_has_a_user_install_a_strangers_package() -> None:
    found, read = [], 0
    for path in texts():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        read += 1
        found += [f"{path.relative_to(ROOT)}: {line}" for line in strangers(text)]
    assert found == []
    assert read > 500  # else nothing was looked at


@pytest.mark.parametrize(
    "line",
    [
        "pip install {}",
        "`pip install '{}[spark]'`",
        "needs {}[spark-jre], and no Java",
        "python -m pip install --upgrade pytest {}",
        "uv tool install {}",
        "uv add '{}>=0.1'",
        "pipx run {} demo",
        "uvx {} demo",
        "poetry add {}",
        'dependencies = ["{}>=0.1.0"]',
        "see https://pypi.org/project/{}/",
        r"-m pip install '{}\[compare\]'",
    ],
)
def test_each_way_to_name_a_strangers_package_is_found_and_ours_is_not(line: str) -> None:
    assert strangers(line.format("ked" + "ge"))
    assert not strangers(line.format(PROJECT["name"]))


@pytest.mark.parametrize(
    "line",
    [
        "pip install . && kedge demo",
        "pip install pytest, into the environment that kedge runs in",
        "pip install kedge_streams-*.whl",
        "useradd kedge && install -d -o kedge -g kedge /state",
    ],
)
def test_what_installs_nothing_of_that_name_is_left_alone(line: str) -> None:
    assert not strangers(line)


def test_the_version_is_that_of_our_distribution() -> None:
    from topology.version import version as told

    assert PROJECT["name"] == "kedge-streams"
    try:
        assert told() == version("kedge-streams")
    except PackageNotFoundError:
        pytest.skip("Kedge runs here without being installed")
