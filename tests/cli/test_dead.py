"""`kedge dead`: what it lists and shows, replays and drops, by a run's socket and by files that no run uses."""

import json
import shutil
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from cli_kit import kedge, kedge_here, one_sentence, started, told
from dead_kit import BAD
from terminal_kit import terminal

from topology.cli.dead_letters import as_json, details, table
from topology.storage.values import Letter

LETTER = Letter(
    name="0-1",
    component="lines",
    task=0,
    partition="p",
    epoch="",
    id="a\x1b[2Jb",
    at=None,
    origin=1,
    identity=2,
    record_class="Line",
    record=msgspec.msgpack.encode(["text", 1.5, float("inf"), b"\x00", datetime(2026, 1, 2, tzinfo=UTC), [1, None]]),
    text="Line(text='\x1b]0;pwn\x07')",
    failed_in="parse",
    reason="raised",
    code="K501",
    problem="ValueError: \x1b[31mred",
    traceback="Traceback:\n  \x1b[2J\n",
    attempts=6,
    deaths=0,
    died_at=datetime(2026, 11, 21, 22, 39, 14, tzinfo=UTC),
)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `bad` is a copy of."""
    folder = tmp_path_factory.mktemp("left")
    (folder / "bad.py").write_text(BAD)
    for count in (50, 100):  # one after the other, since which of two is dead first is drawn
        result = kedge("run", "bad.py", "--set", "bad=50", "--set", f"count={count}", cwd=folder)
        assert result.returncode == 1, result.stderr
    return folder


@pytest.fixture
def bad(left: Path, tmp_path: Path) -> Path:
    """A folder in which runs have left the dead letters 0-1 and 0-2, and nothing runs."""
    return shutil.copytree(left, tmp_path / "bad")


def names(folder: Path, *options: str) -> list[str]:
    result = kedge_here("dead", "list", "--json", *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    return [json.loads(line)["name"] for line in result.stdout.splitlines()]


def test_the_list_is_a_table_with_the_newest_last_and_nothing_in_it_is_obeyed(bad: Path) -> None:
    """S11."""
    result = kedge_here("dead", "list", cwd=bad)
    assert result.returncode == 0
    titles, first, second = result.stdout.splitlines()
    assert titles.split() == ["name", "died", "spout", "failed", "in", "reason", "attempts", "record"]
    assert first.startswith("0-1 ")
    assert second.startswith("0-2 ")
    assert "numbers  check      raised         2  Number(value=7, text='n7 \\x1b[31m é')" in first
    assert result.stdout.isprintable() or set(result.stdout) - {"\n"} == {c for c in result.stdout if c.isprintable()}


def test_json_is_an_object_a_line_and_limit_takes_the_newest(bad: Path) -> None:
    result = kedge_here("dead", "list", "--json", "--limit", "1", cwd=bad)
    (line,) = result.stdout.splitlines()
    letter = json.loads(line)
    assert (letter["name"], letter["spout"], letter["id"], letter["attempts"]) == ("0-2", "numbers", 57, 2)
    assert result.stderr == "the newest 1 of 2; --limit 2 lists all\n"


def test_show_has_record_traceback_and_what_failed(bad: Path) -> None:
    result = kedge_here("dead", "show", "0-2", cwd=bad)
    assert result.returncode == 0
    assert result.stdout.startswith("0-2: Number(value=57, text='n57 \\x1b[31m é')\n")
    assert 'record       Number [57, "n57 \\u001b[31m \\u00e9"]' in result.stdout
    assert "raise ValueError(f" in result.stdout
    assert "\x1b" not in result.stdout
    whole = json.loads(kedge_here("dead", "show", "--json", "0-2", cwd=bad).stdout)
    assert whole["record"] == [57, "n57 \x1b[31m é"]


def test_what_is_not_there_is_named_and_the_rest_is_done(bad: Path) -> None:
    result = kedge_here("dead", "drop", "0-1", "0-9", "../x", "0-9", cwd=bad)
    assert result.returncode == 1
    assert result.stdout == "1 dead letter is dropped: 0-1\n"
    assert result.stderr.splitlines() == [
        "kedge: there is no dead letter '0-9'",
        "kedge: there is no dead letter '../x'",
    ]
    assert names(bad) == ["0-2"]


def test_without_a_run_the_next_run_replays_and_what_is_done_is_gone(bad: Path) -> None:
    result = kedge_here("dead", "replay", "--all", cwd=bad)
    assert result.stdout == "2 dead letters are replayed by the next run: 0-1, 0-2\n"
    assert kedge("run", "bad.py", cwd=bad).returncode == 0
    assert kedge_here("dead", "list", cwd=bad).stderr == "there are no dead letters\n"
    with sqlite3.connect(bad / "out.db") as database:
        assert database.execute("SELECT count(*), count(DISTINCT value) FROM number").fetchone() == (100, 100)
    database.close()
    assert kedge("run", "bad.py", cwd=bad).returncode == 0, "nothing is new, and no letter is left"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_a_run_is_asked_where_there_is_one(bad: Path, workers: tuple[str, ...]) -> None:
    endless = ("--set", "count=1000000000", "--set", "pause_s=0.1")
    with started("run", "bad.py", *endless, *workers, cwd=bad) as run:
        run.until_said("records/s")
        assert names(bad) == ["0-1", "0-2"]
        assert "record       Number [7," in kedge_here("dead", "show", "0-1", cwd=bad).stdout
        replayed = kedge_here("dead", "replay", "0-1", cwd=bad)
        assert replayed.stdout == "1 dead letter is being replayed: 0-1\n"
        run.until_said("dead letter 0-1 was replayed")
        assert kedge_here("dead", "drop", "--all", cwd=bad).stdout == "1 dead letter is dropped: 0-2\n"
        assert names(bad) == []
        assert kedge_here("stop", "--now", cwd=bad).returncode == 0
        run.ended()


def test_of_several_topologies_one_has_to_be_named_by_its_option(bad: Path) -> None:
    (bad / ".kedge" / "alerts").mkdir()
    result = kedge_here("dead", "list", cwd=bad)
    assert result.returncode == 2
    assert one_sentence(result) == "several topologies have state in .kedge: alerts, bad"
    assert told(result.stderr).next == "name one of them: --topology alerts"
    assert kedge("dead", "list", "--topology", "bad.py", cwd=bad).stdout.count("\n0-") == 2


@pytest.mark.parametrize("act", ["replay", "drop"])
def test_all_is_never_meant_by_mistake(bad: Path, act: str) -> None:
    for words in ((), ("--all", "0-1")):
        result = kedge_here("dead", act, *words, cwd=bad, env={"KEDGE_ALL": "1"})
        assert result.returncode == 2
        assert told(result.stderr).code == "K170"
    assert len(names(bad)) == 2


def test_on_a_terminal_it_asks_before_it_drops(bad: Path) -> None:
    with terminal(bad, "dead", "drop", "--all") as shown:
        shown.until_shown("drop 2 dead letters for good? [y/N]")
        shown.type(b"n\n")
        assert shown.end() == 1
        assert any("dropped nothing" in line for line in shown.everything())
    assert len(names(bad)) == 2
    with terminal(bad, "dead", "drop", "--all", "--yes") as shown:
        assert shown.end() == 0
    assert names(bad) == []


def test_on_a_terminal_the_table_fits_it(bad: Path) -> None:
    with terminal(bad, "dead", "list", columns=80) as shown:
        assert shown.end() == 0
        lines = [line for line in shown.everything() if line]
    assert len(lines) == 3
    assert all(line.endswith("…") for line in lines[1:])


def test_damaged_files_are_named_and_nothing_is_listed(bad: Path) -> None:
    """F22, D12."""
    (bad / ".kedge" / "bad" / "worker-0.db").unlink()
    result = kedge_here("dead", "list", cwd=bad)
    assert result.returncode == 3
    assert "worker-0.db" in one_sentence(result)


def test_a_letter_is_shown_whole_and_safe_whatever_is_in_it() -> None:
    lines = [*details(LETTER), *table([LETTER], 80), *table([LETTER], None)]
    assert all(line.isprintable() for line in lines), lines
    record = 'record       Line ["text", 1.5, "inf", "AA==", "2026-01-02T00:00:00Z", [1, null]]'
    assert any(record in one for one in lines)
    assert json.loads(as_json(LETTER, whole=True))["id"] == "a\x1b[2Jb"


def test_a_record_that_is_none_is_said_to_be_that() -> None:
    letter = msgspec.structs.replace(LETTER, record=b"\xc1")
    assert any("(can't be decoded)" in line for line in details(letter))
    assert json.loads(as_json(letter, whole=True))["record"] == "(can't be decoded)"
