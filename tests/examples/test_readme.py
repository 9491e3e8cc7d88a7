"""Snippets of the README and of docs/ run as they stand there, their figures are right, and links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ACKING = (ROOT / "docs/acking.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def kedge(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kedge", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    (tmp_path / "words.py").write_text(PYTHON[0])
    return tmp_path


def test_the_first_topology_has_no_mistakes(words: Path) -> None:
    checked = kedge("check", "words.py", cwd=words)
    assert checked.returncode == 0, checked.stderr


def test_the_first_topology_tells_which_word_was_seen_three_times(words: Path) -> None:
    ran = kedge("run", "words.py", cwd=words)
    assert ran.returncode == 0, ran.stderr
    assert "Seen(word='be', times=3)" in ran.stdout


def test_the_first_unit_test_passes(words: Path) -> None:
    command = [sys.executable, "-c", PYTHON[1]]
    tested = subprocess.run(command, cwd=words, capture_output=True, text=True, timeout=60, check=False)
    assert tested.returncode == 0, tested.stderr


def test_the_page_on_acking_computes_as_the_ledger_does() -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", ACKING, re.DOTALL)
    exec(snippet, {})  # noqa: S102 - our own page's


def test_every_figure_of_the_page_on_acking_is_the_xor_that_it_is_said_to_be() -> None:
    sums = re.findall(r"`([0-9A-F]{2}(?: \^ [0-9A-F]{2})+)`[^`|]*(?:=|is) `([0-9A-F]{2})`", ACKING)
    sums += [(right, left) for left, right in re.findall(r"`([0-9A-F]{2})`, which is `([^`]+)`", ACKING)]
    assert len(sums) == 5
    for terms, total in sums:
        value = 0
        for term in terms.split(" ^ "):
            value ^= int(term, 16)
        assert f"{value:02X}" == total, f"{terms} = {total}"


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/acking.md"])
def test_every_link_to_a_file_leads_to_one(page: str) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", (ROOT / page).read_text())
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []
