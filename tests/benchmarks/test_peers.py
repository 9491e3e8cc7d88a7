"""`make peers`: its scripts can be read and run, say what they promise, and a wrong output is found.

Bytewax is in an environment of its own: its scripts are run where `make peers` has made that. Speed is not judged here.
"""

import ast
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it has no stubs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.peers import __main__ as command
from benchmarks.peers import inputs, work
from benchmarks.peers.catalogue import BASELINE, LEFT_OUT, PEERS, Call, Peer
from benchmarks.peers.inputs import WORKLOADS, Workload
from benchmarks.peers.outputs import difference, rows
from benchmarks.peers.rounds import OURS, Cell, Comparison, compared
from benchmarks.peers.running import RunError, ran
from bolts.burst_window import EMPTY, counted

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks/peers"
SCRIPTS = sorted(FOLDER.glob("*/*.py"))
BY_NAME = {peer.name: peer for peer in PEERS}
OTHERS = [peer for peer in PEERS if peer.name != OURS]
WITHOUT_KEDGE = {"asyncio_queues", "with_bytewax", "with_pyzmq"}
LINES = 2_000
LIMIT_S = 60.0


def imported(tree: ast.Module) -> set[str]:
    found = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return found | {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}


# -- the scripts


def test_each_peer_has_a_script_for_each_workload() -> None:
    wanted = {f"{peer.folder}/{workload.name}.py" for peer in PEERS for workload in WORKLOADS}
    there = {path.relative_to(FOLDER).as_posix() for path in SCRIPTS if path.name != "__init__.py"}
    assert there == wanted


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_script_parses_is_short_and_needs_no_kedge(path: Path) -> None:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    assert text.count("\n") <= 70
    if path.parent.name in WITHOUT_KEDGE:
        ours = {name for name in imported(tree) if name.split(".")[0] in ("benchmarks", "bolts", "spouts", "topology")}
        assert ours <= {"benchmarks.peers.work"}, "a peer's environment has no Kedge"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("with_pyzmq/[!_]*.py")), ids=lambda path: path.stem)
def test_a_stage_that_has_not_bound_yet_is_asked_again_at_once(path: Path) -> None:
    """libzmq's own wait, 0.1 to 0.2 s and at random, would be in some start-ups, and in the work of other runs."""
    lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    connects = [place for place, line in enumerate(lines) if ".connect(" in line]
    assert connects
    assert all(lines[place - 1] == "push.setsockopt(zmq.RECONNECT_IVL, AGAIN_MS)" for place in connects)


def test_the_scripts_are_clean_for_ruff() -> None:
    for options in (["check"], ["format", "--check"]):
        done = subprocess.run([sys.executable, "-m", "ruff", *options, str(FOLDER)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_peers_share_needs_no_kedge_either() -> None:
    assert {name.split(".")[0] for name in imported(ast.parse((FOLDER / "work.py").read_text("utf-8")))} <= {
        *sys.stdlib_module_names,
        "msgspec",
    }


# -- what each promises


def test_each_peer_says_what_it_promises_in_a_few_words_and_in_a_sentence() -> None:
    assert all(peer.guarantee and len(peer.means.split()) > 8 for peer in PEERS)
    assert {peer.name for peer in PEERS if peer.guarantee == "none"} == {"asyncio", "pyzmq", "bytewax"}
    assert "at least once" in BY_NAME["bytewax-recovery"].guarantee
    assert {peer.guarantee for peer in PEERS if peer.name.startswith(OURS)} == {"each once, through any kill"}


def test_guarantees_stand_in_the_table_and_in_the_object_and_reasons_for_who_is_left_out() -> None:
    cells = [Cell(WORKLOADS[0], peer, LINES, [0.5], [0.1], [0.4], [50.0]) for peer in PEERS]
    comparison = Comparison(cells, 1)
    found: dict[str, Any] = {
        "workloads": {WORKLOADS[0].name: WORKLOADS[0].about},
        "settings": {"lines": {WORKLOADS[0].name: LINES}},
        "results": comparison.results(),
    }
    table = command._table(comparison, found)
    for peer, one in zip(PEERS, found["results"], strict=True):
        assert (one["guarantee"], one["means"]) == (peer.guarantee, peer.means)
        assert any(peer.title in line and peer.guarantee in line for line in table.splitlines())
        assert peer.means in table
    assert {"Quix Streams", "faust-streaming"} <= set(LEFT_OUT)


def test_ratios_are_to_bare_asyncio_in_the_same_rounds() -> None:
    base = Cell(WORKLOADS[0], BY_NAME[BASELINE], 1_000, [1.0, 2.0, 4.0])
    other = Cell(WORKLOADS[0], BY_NAME[OURS], 1_000, [4.0, 4.0, 5.0])
    assert other.as_json(base)["ratio"] == 0.5
    assert base.as_json(base)["ratio"] == 1
    assert other.as_json(None)["ratio"] is None


def test_a_start_that_took_longer_by_chance_makes_no_round_faster() -> None:
    """What is taken off is the least start-up of the script's rounds."""
    cell = Cell(WORKLOADS[0], BY_NAME[BASELINE], 1_000, [1.25, 1.25, 1.5], [0.25, 0.5, 0.375])
    assert cell.rates == [1_000, 1_000, 800]
    found = cell.as_json(None)
    assert (found["start_s"], found["starts"]) == (0.25, [0.25, 0.5, 0.38])


def test_a_round_that_was_too_short_gives_no_rate() -> None:
    short = Cell(WORKLOADS[0], BY_NAME[OURS], 1_000, [0.0, 0.05])
    assert short.as_json(short)["value"] is None
    assert Cell(WORKLOADS[0], BY_NAME[OURS], 1_000, [0.05, 0.5]).as_json(None)["value"] == 2_000


# -- the comparison of outputs


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([b'{"word":"a","times":2}', b'{"times":1,"word":"b"}'], ""),
        ([b'{"word":"a","times":2}'], "1 row missing: {'times': 1, 'word': 'b'}"),
        ([b'{"word":"a","times":2}', b'{"word":"b","times":1}'] * 2, "2 rows too many"),
        ([b'{"word":"a","times":2}', b'{"word":"b","times":2}'], "1 row too many: {'times': 2, 'word': 'b'}"),
        ([], "2 rows missing"),
    ],
)
def test_an_output_differs_where_a_row_is_missing_doubled_or_changed(lines: Sequence[bytes], said: str) -> None:
    ours = rows([b'{"key":"01","record":"Count","word":"b","times":1}', b'{"key":"02","word":"a","times":2}'])
    told = difference(rows(lines), ours)
    assert said in told
    assert bool(told) == bool(said)


def test_times_are_compared_as_times() -> None:
    one, same, other = (rows([f'{{"at":"2025-12-10T07:13:{end}"}}'.encode()]) for end in ("43.000000Z", "43Z", "44Z"))
    assert not difference(one, same)
    assert difference(one, other)


def planted(name: str, code: str) -> Peer:
    """A peer that does this to the lines, in its own process."""
    made = (
        f"import json, sys\nlines = open(sys.argv[1]).read().splitlines()\n{code}\nopen(sys.argv[2], 'w').writelines("
    )
    made += "json.dumps({'text': line}) + '\\n' for line in lines)"

    def run(call: Call) -> list[str]:
        return [sys.executable, "-c", made, str(call.lines), str(call.out)]

    return replace(BY_NAME[BASELINE], name=name, title=name, command=run)


def compared_cells(peers: Sequence[Peer], workload: Workload, folder: Path, **more: Any) -> dict[str, Cell]:
    """One round of these, on few lines; each in this environment."""
    comparison = Comparison([Cell(workload, peer, LINES) for peer in peers])
    pythons = {peer.name: sys.executable for peer in peers} | more.pop("pythons", {})
    compared(comparison, pythons, folder, rounds=1, limit_s=LIMIT_S, until=more.pop("until", float("inf")), **more)
    return {cell.peer.name: cell for cell in comparison.cells}


def test_a_script_whose_output_is_not_kedges_is_a_problem_and_others_are_not(tmp_path: Path) -> None:
    peers = [
        BY_NAME[BASELINE],
        planted("loses", "lines = lines[:-1]"),
        planted("doubles", "lines += lines[-1:]"),
        planted("right", ""),
        planted("raises", "lines[10_000]"),
        BY_NAME[OURS],
    ]
    cells = compared_cells(peers, WORKLOADS[0], tmp_path)
    assert "the output differs from Kedge's: 1 row missing: {'text': '1999 " in cells["loses"].problem
    assert "1 row too many" in cells["doubles"].problem
    assert "ended with status 1: " in cells["raises"].problem
    assert "IndexError" in cells["raises"].problem
    assert not cells["raises"].seconds
    assert not cells["loses"].seconds, "what has done other work has no figures"
    assert [cells[name].problem for name in (BASELINE, "right", OURS)] == [""] * 3
    assert all(len(cells[name].seconds) == 1 for name in (BASELINE, "right", OURS))
    assert list(tmp_path.glob("*.jsonl")) == []


def test_without_an_output_of_kedges_nothing_passes_for_the_same(tmp_path: Path) -> None:
    silent = replace(planted("silent", "lines = []"), name=OURS)
    cells = compared_cells([BY_NAME[BASELINE], silent], WORKLOADS[0], tmp_path)
    assert "no row" in cells[OURS].problem
    assert "Kedge's output is missing" in cells[BASELINE].problem
    assert not cells[BASELINE].seconds, "what could not be compared has no figures"
    assert cells[BASELINE].as_json(None)["value"] is None


def test_a_kedge_that_fails_leaves_no_figures_that_were_not_compared(tmp_path: Path) -> None:
    cells = compared_cells(
        [BY_NAME[BASELINE], replace(planted("raises", "lines[10_000]"), name=OURS)], WORKLOADS[0], tmp_path
    )
    assert "IndexError" in cells[OURS].problem
    assert not cells[BASELINE].seconds


BYTEWAX = command.PLACE / "with_bytewax/bin/python"  # which `make peers` makes


@pytest.fixture(scope="module")
def round_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Workload], dict[str, Cell]]:
    """One round of a workload by all peers that can run here; Kedge's own output is made once for all of them."""
    peers = [peer for peer in PEERS if peer.folder != "with_bytewax" or BYTEWAX.exists()]
    pythons = {peer.name: str(BYTEWAX) for peer in peers if peer.folder == "with_bytewax"}
    made: dict[str, dict[str, Cell]] = {}

    def one(workload: Workload) -> dict[str, Cell]:
        if workload.name not in made:
            folder = tmp_path_factory.mktemp(workload.name)
            made[workload.name] = compared_cells(peers, workload, folder, pythons=pythons)
        return made[workload.name]

    return one


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
@pytest.mark.parametrize("peer", OTHERS, ids=lambda peer: peer.name)
def test_each_script_writes_what_kedge_writes(
    peer: Peer, workload: Workload, round_of: Callable[[Workload], dict[str, Cell]]
) -> None:
    if peer.folder == "with_bytewax" and not BYTEWAX.exists():
        pytest.skip("Bytewax is installed by make peers")
    cells = round_of(workload)
    for cell in (cells[peer.name], cells[OURS]):
        assert cell.problem == ""
        assert cell.seconds
        assert cell.starts[0] > 0


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 7)), max_size=40))
def test_the_peers_attempts_are_those_of_the_examples_window(steps: list[tuple[int, int]]) -> None:
    """Failures in order, each some seconds after the one before."""
    attempts, window, seconds = work.Attempts(), EMPTY, 0
    begin = datetime(2025, 12, 10, tzinfo=UTC)
    for step, count in steps:
        seconds += step
        alert = attempts.add(work.Failure("192.0.2.1", begin + timedelta(seconds=seconds), count))
        window, raised = counted(window, seconds * 10**6, count, work.LIMIT, 60 * 10**6)
        ours = (raised.total, raised.first, raised.last) if raised else None
        theirs = alert and (
            alert.failures,
            *((at - begin) // timedelta(microseconds=1) for at in (alert.first_at, alert.last_at)),
        )
        assert theirs == ours


# -- what they read


@pytest.mark.parametrize("made", [inputs.numbered, inputs.text, inputs.sshd])
def test_lines_are_the_same_in_every_run_and_begin_alike_however_many(made: Callable[[int], Any]) -> None:
    first = list(made(3_000))
    assert len(first) == 3_000
    assert list(made(3_000)) == first
    assert list(made(100)) == first[:100]


def test_numbered_lines_all_differ_and_words_do_not_come_equally_often() -> None:
    assert len(set(inputs.numbered(5_000))) == 5_000
    often = Counter(word for line in inputs.text(5_000) for word in work.words(line)).most_common()
    assert often[0][1] > 50 * often[-1][1]
    assert len(often) > 1_000


def test_the_real_log_comes_again_with_other_addresses() -> None:
    if not inputs.REAL_LOG.exists():
        pytest.skip("the real logs, ../shared/data, are not here")
    lines = list(islice(inputs.sshd(4_000), 4_000))
    first, second = (
        {found.source_ip for one in part if (found := work.failure(one))} for part in (lines[:2_000], lines[2_000:])
    )
    assert len(first) == len(second) > 10
    assert not first & second


# -- runs


def test_a_run_past_its_limit_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"import os, time; os.fork(); open({str(pids)!r}, 'a').write(f'{{os.getpid()}} ');"
    code += " print('here', flush=True); time.sleep(60)"
    begun = time.monotonic()
    with pytest.raises(RunError, match=r"was ended after 3 s: here / here"):
        ran([sys.executable, "-c", code], tmp_path / "log", 3)
    assert time.monotonic() - begun < 30
    left = [int(pid) for pid in pids.read_text().split()]
    assert len(left) == 2
    wait_for(lambda: not any(is_running(pid) for pid in left), "the end of all processes")


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Waits until the condition holds."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {LIMIT_S:g} s for {what}"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_run_tells_time_cpu_and_memory_and_knows_no_settings_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEDGE_WORKERS", "7")
    code = "import os; assert 'KEDGE_WORKERS' not in os.environ; sum(range(10**7)); bytes(50_000_000)"
    done = ran([sys.executable, "-c", code], tmp_path / "log", LIMIT_S)
    assert 0 < done.cpu_s <= done.seconds * (os.cpu_count() or 1)
    assert done.memory_mb > 50


def test_past_its_time_nothing_is_begun_and_what_there_is_is_kept(tmp_path: Path) -> None:
    times = iter([0.0, 1.0, 2.0])
    peers = [planted("first", ""), planted("second", "")]
    comparison = Comparison([Cell(WORKLOADS[0], peer, LINES) for peer in peers])
    pythons = dict.fromkeys(("first", "second"), sys.executable)
    compared(comparison, pythons, tmp_path, 1, LIMIT_S, until=1.0, clock=lambda: next(times))
    assert [len(cell.seconds) for cell in comparison.cells] == [1, 0]
    assert comparison.interrupted == "its time was over"


# -- the command


def run(*options: str) -> "subprocess.CompletedProcess[str]":
    done = [sys.executable, "-m", "benchmarks.peers", *options]
    return subprocess.run(done, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["bytewaks"], f"there is no 'bytewaks'; the names are {', '.join(BY_NAME)}"),
        (["--rounds", "0"], "at least one round"),
        (["--scale", "nan"], "above 0"),
        (["--out", "not/there/x.json"], "there is no folder not/there"),
    ],
)
def test_a_wrong_option_of_peers_ends_with_status_2_and_a_sentence(options: Sequence[str], said: str) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert said in done.stderr
    assert not done.stdout


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured_and_leaves_no_process_behind() -> None:
    options = [OURS, "--json", "--rounds", "50", "--scale", "0.05", "--workloads", "identity"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-m", "benchmarks.peers", *options], cwd=ROOT, **pipes) as process:
        assert process.stderr is not None
        while "plus start-up" not in process.stderr.readline():  # the first round is done
            assert process.poll() is None
        own = psutil.Process(process.pid)
        wait_for(lambda: bool(own.children(recursive=True)), "a process of a round")
        started = own.children(recursive=True)
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, told
    found = json.loads(out)
    assert found["interrupted"] == "it was interrupted"
    assert found["results"][0]["start_s"] > 0
    psutil.wait_procs(started, timeout=30)
    assert [one for one in started if one.is_running()] == []


def test_a_file_that_can_not_be_written_costs_no_figures(tmp_path: Path) -> None:
    (tmp_path / "peers.json").mkdir()
    options = ("--rounds", "1", "--scale", "0.001", "--workloads", "identity", "--out", str(tmp_path / "peers.json"))
    done = run(OURS, "--json", *options)
    assert done.returncode == 1
    assert json.loads(done.stdout)["results"][0]["start_s"] > 0
    assert done.stderr.splitlines()[-1] == f"peers: {tmp_path}/peers.json is not writable: Is a directory"


def test_the_command_gives_one_object_with_kedge_in_it_and_writes_it(tmp_path: Path) -> None:
    out = tmp_path / "peers.json"
    done = run(OURS, "--json", "--out", str(out), "--rounds", "1", "--scale", "0.001", "--workloads", "identity")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads(out.read_text())
    assert found["benchmark"] == "peers"
    assert [one["peer"] for one in found["results"]] == [OURS]
    assert found["settings"]["lines"] == {"identity": LINES}
    assert "round 1/1: identity, 2,000 lines" in done.stderr
