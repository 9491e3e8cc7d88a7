"""What `kedge run` says of its checkpoints: in JSON, in the summary, and on a terminal. Nothing if nothing is kept."""

import json
import re
from pathlib import Path

import pytest
from cli_kit import COUNTING, ENDLESS, kedge
from terminal_kit import terminal

SUMMARY = re.compile(r"^  decided  [\d,]+ checkpoints?, of up to [\d.]+ k?B and [\d.]+ [mµ]?s$", re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "counting.py").write_text(COUNTING)
    (tmp_path / "endless.py").write_text(ENDLESS)
    return tmp_path


@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["one process", "workers"])
def test_a_run_that_keeps_something_has_its_last_checkpoint_in_json_and_in_its_summary(
    folder: Path, workers: tuple[str, ...]
) -> None:
    result = kedge("run", "counting.py", "--json", *workers, cwd=folder)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)["checkpoint"]
    assert list(found) == ["number", "age_s", "bytes", "seconds", "taken", "bytes_max", "seconds_max"]
    assert found["number"] == found["taken"] >= 1
    assert 0.0 <= found["age_s"] < 5.0
    assert found["bytes_max"] > 0
    assert SUMMARY.search(result.stderr)
    again = json.loads(kedge("run", "counting.py", "--json", *workers, cwd=folder).stdout)["checkpoint"]
    assert again["number"] >= found["number"] + again["taken"], "numbers go on from run to run"


@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["one process", "workers"])
def test_a_run_that_keeps_nothing_says_nothing_of_checkpoints(folder: Path, workers: tuple[str, ...]) -> None:
    result = kedge("run", "counting.py", "--json", "--no-state", *workers, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["checkpoint"] is None
    assert "checkpoint" not in result.stderr


def test_the_live_view_has_a_line_on_the_last_checkpoint(folder: Path) -> None:
    with terminal(folder, "run", "endless.py", "--for", "60", columns=80, rows=20) as run:
        line = re.compile(r"^checkpoint \d+\.\d s ago  [\d.]+ k?B in [\d.]+ [mµ]?s$")
        run.until(lambda: any(line.match(shown) for shown in run.lines()), "the line on the checkpoint")
