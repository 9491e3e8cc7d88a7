"""`kedge state`: what it shows, writes out and puts back, of a topology that does not run."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from cli_kit import KEDGE, kedge, kedge_here, one_sentence, started, wait_for

from topology.storage.directory.state_dir import StateDir

APP = """
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from spouts import Items, Ticker
from topology import Bolt, Record, State, Topology


class Visit(Record):
    user: str
    page: int


class Seen(Record):
    count: int
    last: datetime


class Count(Bolt):
    fires_at_end = False

    def process(self, visit: Visit, state: State[Seen]) -> None:
        seen = state.get(Seen(0, datetime(2026, 1, 1, tzinfo=UTC)))
        state.set(Seen(seen.count + 1, seen.last + timedelta(seconds=1)))
        if visit.page == 1:
            state.timer(datetime(2036, 1, 1, tzinfo=UTC), "idle")

    def on_timer(self, key: tuple[str], name: str, state: State[Seen]) -> None:
        state.clear()


def topology(count: int = 20, name: str = "users") -> Topology:
    topology = Topology("visits")
    visits = topology.spout("visits", Items([Visit(f"10.0.0.{n % 5}", n % 2) for n in range(count)]))
    topology.bolt("pages", Count(), visits.fields("user", "page"), tasks=2)
    topology.bolt(name, Count(), visits.fields("user"), tasks=2, renamed_from="users" if name != "users" else None)
    return topology
"""


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `folder` is a copy of."""
    folder = tmp_path_factory.mktemp("left")
    (folder / "app.py").write_text(APP)
    result = kedge("run", "app.py", "--workers", "2", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture
def folder(left: Path, tmp_path: Path) -> Path:
    """A folder in which a topology has run to its end on two workers."""
    return shutil.copytree(left, tmp_path / "folder", ignore=lambda _, names: [one for one in names if "sock" in one])


def exported(folder: Path, *options: str) -> list[str]:
    result = kedge_here("state", "export", *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def undrained(folder: Path) -> None:
    """As a kill in the middle leaves it."""
    with closing(StateDir(folder / ".kedge" / "visits", "visits")) as state:
        state.set_begun(state.shape or "")


# -- show


def test_show_tells_slot_task_value_and_timers_of_a_key(folder: Path) -> None:
    result = kedge_here("state", "show", "users", "10.0.0.1", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "users 10.0.0.1",
        "  slot   827, which is task 1's",
        "  type   Seen(count: int, last: datetime)",
        '  value  [4, {"datetime": "2026-01-01T00:00:04+00:00"}]',
        "  timer  2036-01-01T00:00:00+00:00 'idle'",
    ]


def test_with_the_topology_at_hand_the_value_has_its_class(folder: Path) -> None:
    result = kedge("state", "show", "pages", '["10.0.0.1", 1]', "--topology", "app.py", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "  value  Seen(count=2, last=datetime.datetime(2026, 1, 1, 0, 0, 2, tzinfo=" in result.stdout


def test_a_key_that_was_never_seen_is_told_with_status_1(folder: Path) -> None:
    result = kedge_here("state", "show", "users", "10.9.9.9\x1b[2J", cwd=folder)
    assert (result.returncode, result.stdout) == (1, "")
    assert "'users' has no state for the key '10.9.9.9" in result.stderr
    assert "\x1b" not in result.stderr


def test_show_as_json_is_a_line_of_export_with_its_task(folder: Path) -> None:
    result = kedge_here("state", "show", "users", "10.0.0.1", "--json", cwd=folder)
    told = json.loads(result.stdout)
    assert (told.pop("component"), told.pop("task")) == ("users", 1)
    assert told in [json.loads(line) for line in exported(folder, "users")]


@pytest.mark.parametrize("act", [("show", "visits", "k"), ("show", "usrs", "k"), ("export", "pages", "usrs")])
def test_a_component_without_state_is_one_sentence(folder: Path, act: tuple[str, ...]) -> None:
    result = kedge_here("state", *act, cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert "there is state of pages, users" in one_sentence(result)
    assert "K240" in result.stderr


def test_state_of_a_renamed_component_goes_by_its_present_name(folder: Path) -> None:
    assert kedge("run", "app.py", "--set", "name=people", cwd=folder).returncode == 0
    assert kedge_here("state", "show", "people", "10.0.0.1", cwd=folder).returncode == 0
    header, *_ = exported(folder, "people")
    assert json.loads(header)["component"] == "users"
    (folder / "state.jsonl").write_text("\n".join(exported(folder)) + "\n")
    assert kedge_here("state", "import", "state.jsonl", cwd=folder).returncode == 0


# -- export


def test_export_is_a_header_and_a_line_a_key_for_each_component(folder: Path) -> None:
    lines = [json.loads(line) for line in exported(folder)]
    headers = [line for line in lines if "kedge" in line]
    assert [(one["component"], one["keys"], one["topology"], one["format"]) for one in headers] == [
        ("pages", 10, "visits", 1),
        ("users", 5, "visits", 1),
    ]
    assert headers[1]["schema"]["state"] == "Seen(count: int, last: datetime)"
    assert len(lines) == 17
    assert {tuple(one) for one in lines if "kedge" not in one} == {("slot", "key", "value", "timers")}


def test_export_of_one_that_is_not_drained_is_refused_and_show_is_not(folder: Path) -> None:
    undrained(folder)
    result = kedge_here("state", "export", "-o", "out", cwd=folder)
    assert (result.returncode, result.stdout) == (3, "")
    assert "the last run of 'visits' was interrupted, so its state can't be written out" in one_sentence(result)
    assert "K448" in result.stderr
    assert [path.name for path in folder.iterdir() if path.name.startswith("out")] == []
    assert kedge_here("state", "show", "users", "10.0.0.1", cwd=folder).returncode == 0


@pytest.mark.parametrize("act", [["export"], ["import", "all.jsonl"]])
def test_a_damaged_row_of_state_is_told_by_its_file_with_what_to_do_F22(folder: Path, act: list[str]) -> None:
    exported(folder, "-o", "all.jsonl")
    with closing(sqlite3.connect(folder / ".kedge" / "visits" / "worker-1.db")) as database, database:
        database.execute("UPDATE state SET body = x'0102030405060708090a'")
    result = kedge_here("state", *act, cwd=folder)
    assert result.returncode == 3
    assert "the state file .kedge/visits/worker-1.db is damaged: rows of state are missing" in one_sentence(result)
    assert "move worker-1.db away" in result.stderr


def test_what_is_kept_of_a_bolt_that_is_gone_can_be_written_out_and_put_back(folder: Path) -> None:
    pages = exported(folder, "pages", "-o", "pages.jsonl") or exported(folder, "pages")
    (folder / "app.py").write_text(APP.replace('    topology.bolt("pages"', '    #topology.bolt("pages"'))
    assert kedge("run", "app.py", cwd=folder).returncode == 0
    assert exported(folder, "pages") == pages
    assert kedge_here("state", "import", "pages.jsonl", cwd=folder).returncode == 0
    assert exported(folder, "pages") == pages
    (folder / "app.py").write_text(APP.replace("count: int\n", "count: float\n"))
    refused = kedge("run", "app.py", cwd=folder)
    assert (refused.returncode, "K447" in refused.stderr) == (3, True)
    (folder / "app.py").write_text(APP)
    again = kedge("run", "app.py", cwd=folder)
    assert "'pages' resumes with the state that an earlier run has left" in again.stderr
    assert sorted(exported(folder, "pages")) == sorted(pages)


def test_a_file_is_written_whole_or_not_at_all(folder: Path) -> None:
    assert exported(folder, "--output", "out.jsonl") == []
    assert (folder / "out.jsonl").read_text().splitlines() == exported(folder)
    result = kedge_here("state", "export", "-o", "none/out.jsonl", cwd=folder)
    assert result.returncode == 2
    assert "'none/out.jsonl' can't be used: No such file or directory" in one_sentence(result)


def test_a_dash_as_the_file_is_stdout_and_has_the_state_alone(folder: Path) -> None:
    before = sorted(folder.iterdir())
    assert exported(folder, "-o", "-") == exported(folder)
    assert sorted(folder.iterdir()) == before


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    result = subprocess.run(
        ["/bin/sh", "-c", f"'{KEDGE}' state export | head -1"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert json.loads(result.stdout)["kedge"] == "state"
    assert result.stderr == ""


@contextmanager
def written_by(fifo: Path, reader: "subprocess.Popen[str]") -> Iterator[None]:
    """Open the FIFO for writing once the reader has opened it, and close it at the end."""
    opened: list[int] = []

    def has_reader() -> bool:
        assert reader.poll() is None, "it ended before it read"
        with suppress(OSError):  # ENXIO: there is no reader yet
            opened.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        return bool(opened)

    wait_for(has_reader, "a reader of the FIFO")
    try:
        yield
    finally:
        os.close(opened[0])


def test_ctrl_c_ends_it_with_one_sentence_and_gives_the_directory_back(folder: Path) -> None:
    os.mkfifo(folder / "never")
    with (
        subprocess.Popen(
            [KEDGE, "state", "import", "never", "--yes"], cwd=folder, stderr=subprocess.PIPE, text=True
        ) as process,
        written_by(folder / "never", process),  # it reads now, and gets nothing
    ):
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "interrupted" in said
    assert "Traceback" not in said
    assert len(exported(folder)) == 17


@pytest.mark.slow
def test_while_the_topology_runs_it_is_refused(folder: Path) -> None:
    endless = APP.replace("Items([", "Paced(Items([").replace("range(count)])", "range(10**6)]), 50.0)")
    (folder / "endless.py").write_text(endless.replace("import Items, Ticker", "import Items, Paced"))
    with started("run", "endless.py", "--state-dir", ".kedge/visits", cwd=folder) as run:
        wait_for((folder / ".kedge" / "visits" / "socket").exists, "the run's socket")
        result = kedge_here("state", "show", "users", "10.0.0.1", cwd=folder)
        assert result.returncode == 3
        assert "is in use by another run" in one_sentence(result)
        run.process.send_signal(signal.SIGINT)


# -- import


def test_what_was_exported_comes_back_exactly_here_and_in_a_new_directory(folder: Path) -> None:
    before = exported(folder, "-o", "all.jsonl") or exported(folder)
    result = kedge_here("state", "import", "all.jsonl", cwd=folder)
    assert result.stdout.splitlines() == [
        "replaced the state of 'pages': 10 keys",
        "replaced the state of 'users': 5 keys",
    ]
    assert exported(folder) == before
    assert kedge_here("state", "import", "all.jsonl", "--state-dir", "new", cwd=folder).returncode == 0
    assert exported(folder, "--state-dir", "new") == before
    run = kedge("run", "app.py", "--state-dir", "new", "--workers", "2", cwd=folder)
    assert run.returncode == 0, run.stderr
    shown = kedge_here("state", "show", "users", "10.0.0.1", "--state-dir", "new", cwd=folder)
    assert "value  [8, " in shown.stdout, "it has counted on"


def test_import_replaces_what_was_there_and_leaves_other_components_alone(folder: Path) -> None:
    header, *rows = exported(folder, "users")
    one = json.loads(rows[0])
    changed = {**one, "value": [99, {"datetime": "2030-01-01T00:00:00+00:00"}]}
    lines = [header.replace('"keys": 5', '"keys": 1'), json.dumps(changed)]
    pages = exported(folder, "pages")
    command = [KEDGE, "state", "import", "-"]
    done = subprocess.run(command, cwd=folder, input="\n".join(lines), capture_output=True, text=True, check=True)
    assert done.stdout == "replaced the state of 'users': 1 key\n"
    assert [json.loads(line) for line in exported(folder, "users")[1:]] == [changed]
    assert exported(folder, "pages") == pages


@pytest.mark.parametrize(
    ("spoil", "code", "why"),
    [
        (lambda lines: [*lines[:3], "{", *lines[4:]], "K241", "state.jsonl:4: no JSON"),
        (lambda lines: [*lines[:3], lines[2], *lines[4:]], "K243", "state.jsonl:4: this key was in a line before"),
        (lambda lines: lines[:-1], "K244", "ends after 4 of 5 keys of 'users'"),
        (lambda lines: [lines[0].replace("last: datetime", "last: int"), *lines[1:]], "K242", "has state of type"),
        (
            lambda lines: [lines[0].replace('"users"', '"usrs"', 1), *lines[1:]],
            "K240",
            "no state is kept of a component",
        ),
        (lambda lines: [lines[0].replace('"format": 1', '"format": 9'), *lines[1:]], "K246", "this Kedge reads format"),
        (lambda lines: [], "K241", "the file is empty"),
    ],
)
def test_one_wrong_line_changes_nothing_and_is_told(folder: Path, spoil: object, code: str, why: str) -> None:
    before = exported(folder)
    lines = spoil(exported(folder, "users"))  # type: ignore[operator]
    (folder / "state.jsonl").write_text("".join(f"{line}\n" for line in [*lines]))
    result = kedge_here("state", "import", "state.jsonl", cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert why in one_sentence(result)
    assert code in result.stderr
    assert exported(folder) == before


def test_a_value_that_is_none_of_the_states_type_is_named_where_the_type_is_at_hand(folder: Path) -> None:
    """As a script of the user's leaves one out: each later input of that key would fail."""
    before = exported(folder)
    header, *rows = exported(folder, "users")
    wrong = {**json.loads(rows[1]), "value": [4]}
    (folder / "state.jsonl").write_text("".join(f"{one}\n" for one in (header, rows[0], json.dumps(wrong), *rows[2:])))
    result = kedge_here("state", "import", "state.jsonl", "--topology", "app.py", cwd=folder)
    assert result.returncode == 2
    assert "state.jsonl:3: what is kept of a key in 'users' is no Seen" in one_sentence(result)
    assert "K241" in result.stderr
    assert exported(folder) == before


def test_the_file_of_another_topology_says_nothing_of_what_is_in_a_directory(folder: Path) -> None:
    exported(folder, "users", "-o", "users.jsonl")
    (folder / "other.py").write_text(APP.replace('Topology("visits")', 'Topology("others")'))
    where = ("--topology", "other.py", "--state-dir", ".kedge/visits")
    result = kedge_here("state", "import", "users.jsonl", *where, cwd=folder)
    assert result.returncode == 3
    assert "belongs to topology 'visits', not to 'others'" in one_sentence(result)


def test_import_into_one_that_is_not_drained_is_refused(folder: Path) -> None:
    exported(folder, "-o", "all.jsonl")
    undrained(folder)
    result = kedge_here("state", "import", "all.jsonl", cwd=folder)
    assert result.returncode == 3
    assert "so its state can't be replaced" in one_sentence(result)


def test_the_type_of_a_state_is_changed_by_export_and_import(folder: Path) -> None:
    """The way that K447 names: the new type is what the file of the topology says."""
    exported(folder, "users", "-o", "users.jsonl")
    other = APP.replace("    last: datetime\n", "    last: datetime\n    weight: float\n")
    other = other.replace("tzinfo=UTC)))\n", "tzinfo=UTC), 0.5))\n").replace(
        "timedelta(seconds=1))", "timedelta(seconds=1), seen.weight)"
    )
    other = other.replace('topology.bolt("pages", Count(), visits.fields("user", "page"), tasks=2)', "")
    (folder / "app.py").write_text(other)
    refused = kedge("run", "app.py", cwd=folder)
    assert refused.returncode == 3
    assert "K447" in refused.stderr
    old = kedge("state", "import", "users.jsonl", "--topology", "app.py", cwd=folder)
    assert "K242" in old.stderr
    lines = [json.loads(line) for line in (folder / "users.jsonl").read_text().splitlines()]
    lines[0]["schema"]["state"] = "Seen(count: int, last: datetime, weight: float)"
    for row in lines[1:]:
        row["value"].append(1.5)
    (folder / "users.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert "K242" in kedge_here("state", "import", "users.jsonl", cwd=folder).stderr, "the directory knows the old one"
    done = kedge("state", "import", "users.jsonl", "--topology", "app.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    run = kedge("run", "app.py", "--set", "count=25", cwd=folder)
    assert run.returncode == 0, run.stderr
    shown = kedge_here("state", "show", "users", "10.0.0.1", cwd=folder)
    assert 'value  [9, {"datetime": "2026-01-01T00:00:09+00:00"}, 1.5]' in shown.stdout, "5 more, as all is new to it"


def test_a_file_that_is_not_there_is_one_sentence_and_makes_nothing(folder: Path) -> None:
    result = kedge_here("state", "import", "none.jsonl", "--state-dir", "new", cwd=folder)
    assert result.returncode == 2
    assert "'none.jsonl' can't be used: No such file or directory" in one_sentence(result)
    assert not (folder / "new").exists()
