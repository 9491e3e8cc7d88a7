"""`kedge state checkpoint` and `kedge run --from`: what they say, and what a wrong use of them says; of a topology that
does not run. `tests/chaos/test_saved.py` has those of runs."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from cli_kit import kedge_here, one_sentence

from topology.cli import next_steps
from topology.cli.savepoints import offered

APP = """
from collections.abc import Iterator
from spouts import FileTail, Line
from topology import Bolt, Record, State, Topology


class Visit(Record):
    user: str


class Parse(Bolt):
    def process(self, line: Line) -> Iterator[Visit]:
        yield Visit(line.text)


class Count(Bolt):
    def process(self, visit: Visit, state: State[int]) -> None:
        state.set(state.get(0) + 1)


def topology(name: str = "visits", tasks: int = 1, users: str = "users") -> Topology:
    topology = Topology(name)
    visits = topology.bolt("parse", Parse(), topology.spout("lines", FileTail("visits.txt")).shuffle())
    topology.bolt(users, Count(), visits.fields("user"), tasks=tasks)
    return topology
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which a topology has run to its end, on 20 visits of 5 users."""
    (tmp_path / "app.py").write_text(APP)
    more(tmp_path)
    assert ran(tmp_path) == 20
    return tmp_path


def more(folder: Path) -> None:
    """20 visits more."""
    with (folder / "visits.txt").open("a") as file:
        file.writelines(f"u{n % 5}\n" for n in range(20))


def ran(folder: Path, *options: str) -> int:
    """Runs it to its end; returns how many visits were read."""
    result = kedge_here("run", "app.py", "--json", *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    return int(json.loads(result.stdout.splitlines()[-1])["spouts"]["lines"]["emitted"])


def kept(folder: Path, *words: str) -> str:
    result = kedge_here("state", "checkpoint", *words, cwd=folder)
    assert result.returncode == 0, result.stderr
    return result.stdout


def visits(folder: Path, *where: str) -> int:
    result = kedge_here("state", "show", "users", "u0", "--json", *where, cwd=folder)
    assert result.returncode == 0, result.stderr
    return int(json.loads(result.stdout)["value"])


def names(folder: Path) -> list[str]:
    return [json.loads(line)["name"] for line in kept(folder, "--list", "--json").splitlines()]


def test_one_is_kept_listed_begun_from_and_deleted(folder: Path) -> None:
    told = kedge_here("state", "checkpoint", "friday", cwd=folder)
    assert told.stdout.startswith("visits: kept checkpoint friday, ")
    assert told.stdout.endswith(" bytes, in .kedge/visits/checkpoints/friday\n")
    assert told.stderr == "try next: kedge run FILE --from friday   # begins there, any number of times\n"
    more(folder)
    assert ran(folder) == 20
    assert visits(folder) == 8
    assert ran(folder, "--from", "friday", "--set", "tasks=3") == 20, "what came since then is read again"
    assert visits(folder) == 8, "and is counted once: the state went back too"
    friday, before = names(folder)
    assert friday == "friday"
    assert before.startswith("before-")
    assert ran(folder, "--from", before) == 0, "what there was before is there again"
    assert visits(folder) == 8
    assert kept(folder, "--delete", "friday") == "visits: deleted checkpoint friday\n"
    assert "friday" not in names(folder)
    title, *rows = kept(folder, "--list").splitlines()
    assert title.split() == ["name", "kept", "topology", "files", "bytes", "in", "flight"]
    assert [row.split()[0] for row in rows] == names(folder)
    assert all(row.endswith("  nothing") for row in rows)


def test_one_without_a_name_is_named_by_its_time(folder: Path) -> None:
    first, second = (json.loads(kept(folder, "--json")) for _ in range(2))
    assert first["name"] != second["name"]
    assert first["name"][:8] == first["kept_at"][:10].replace("-", "")
    assert (first["topology"], first["stores"], first["drained"]) == ("visits", 1, True)
    assert (folder / first["path"] / "state.json").is_file()


def test_another_directory_begins_from_it_and_leaves_it_as_it_is(folder: Path) -> None:
    source = json.loads(kept(folder, "friday", "--json"))["path"]
    more(folder)
    for where in ("one", "two"):
        assert ran(folder, "--state-dir", where, "--from", source, "--workers", "2", "--set", "tasks=2") == 20
        assert visits(folder, "--state-dir", where) == 8
    assert visits(folder) == 4
    assert names(folder) == ["friday"]


def test_a_topology_that_does_not_fit_is_refused_before_anything_is_replaced(folder: Path) -> None:
    kept(folder, "friday")
    more(folder)
    ran(folder)
    result = kedge_here("run", "app.py", "--from", "friday", "--set", "users=people", cwd=folder)
    assert result.returncode == 3
    assert names(folder) == ["friday"]
    assert visits(folder) == 8
    other = kedge_here("run", "app.py", "--from", ".kedge/visits/checkpoints/friday", "--set", "name=other", cwd=folder)
    assert other.returncode == 3
    assert "K807" in other.stderr


@pytest.mark.parametrize(
    ("words", "status", "code", "text"),
    [
        (["a/b"], 2, "K801", "named by 1 to 64"),
        (["auto-1"], 2, "K801", "Kedge's own"),
        (["--delete", "../visits"], 2, "K801", "named by 1 to 64"),
        (["--delete", "frday"], 3, "K803", "did you mean 'friday'?"),
        (["friday"], 3, "K802", "there is a checkpoint 'friday' already"),
        (["friday", "--list"], 2, "K101", "a name, --list and --delete NAME exclude each other"),
        (["--list", "--delete", "friday"], 2, "K101", "a name, --list and --delete NAME exclude each other"),
        (["x", "--state-dir", "nowhere"], 2, "K", "there is no state directory 'nowhere'"),
    ],
)
def test_a_wrong_use_is_told_in_a_sentence(
    folder: Path, words: Sequence[str], status: int, code: str, text: str
) -> None:
    kept(folder, "friday")
    result = kedge_here("state", "checkpoint", *words, cwd=folder)
    assert result.returncode == status, result.stderr
    assert text in result.stderr
    assert code in result.stderr
    assert "Traceback" not in result.stderr
    assert names(folder) == ["friday"]


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["--from", "saturday"], 3, "K803"),
        (["--from", "a b"], 2, "K801"),
        (["--from", "./nowhere"], 3, "K803"),
        (["--from", "friday", "--fresh"], 2, "K808"),
        (["--from", "friday", "--run-id", "new"], 2, "K808"),
        (["--from", "friday", "--engine", "spark"], 2, "K808"),
        (["--from", "friday", "--no-state"], 2, "K192"),
        (["--state-dir", ".kedge/visits/checkpoints/friday"], 3, "K809"),
    ],
)
def test_a_wrong_beginning_is_told_in_a_sentence_and_changes_nothing(
    folder: Path, words: Sequence[str], status: int, code: str
) -> None:
    kept(folder, "friday")
    result = kedge_here("run", "app.py", *words, cwd=folder)
    assert result.returncode == status, result.stderr
    assert one_sentence(result) if status == 3 else code in result.stderr
    assert code in result.stderr
    assert names(folder) == ["friday"]
    assert visits(folder) == 4


def test_a_folder_where_nothing_is_kept_says_so(folder: Path) -> None:
    result = kedge_here("state", "checkpoint", "--list", cwd=folder)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "no checkpoint is kept under a name\n")


def test_names_are_offered_to_a_shell(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(folder, "friday")
    kept(folder, "monday")
    monkeypatch.chdir(folder)
    assert offered("") == ["friday", "monday"]
    assert offered("f") == ["friday"]


@pytest.mark.parametrize("words", [["--from", "friday"], ["--from=friday"]])
def test_the_next_run_does_not_go_back_again(words: list[str]) -> None:
    told = next_steps.again(["kedge", "run", "app.py", *words, "--set", "tasks=3"])
    assert told == "kedge run app.py --set tasks=3"


def test_the_command_that_deletes_a_damaged_one_names_its_directory(folder: Path) -> None:
    kept(folder, "friday")
    (folder / ".kedge/visits/checkpoints/friday/state.json").write_text("{")
    (folder / ".kedge/visits").rename(folder / "elsewhere")
    result = kedge_here("state", "checkpoint", "--list", "--state-dir", "elsewhere", cwd=folder)
    assert "checkpoint friday is damaged" in result.stderr
    assert "state checkpoint --delete friday --state-dir elsewhere" in result.stderr
