"""A worker process, for real: it starts, obeys, tells, and ends in each of the ways that there are.

The supervisor is the test's (`process_kit`); what the workers run is in `process_topologies`.
"""

import logging
import os
import signal
import time
from pathlib import Path

import pytest
from process_kit import KEY, Spawn

from topology.runtime.control.messages import (
    Broke,
    CannotStart,
    Close,
    Closed,
    Done,
    Drain,
    Failing,
    Flush,
    Generation,
    HomeNote,
    Join,
    KeepNote,
    Linked,
    Log,
    Noted,
    Probe,
    SourcesEnded,
    Start,
    StopWork,
    TakeNote,
    WorkStopped,
)
from topology.runtime.links.zeromq import new_keys
from topology.runtime.telemetry.metrics import unpacked

# -- a whole life


def test_one_worker_runs_a_bounded_topology_to_its_end(spawn: Spawn, directory: Path) -> None:
    worker = spawn()
    worker.run("sums", count=1_000)
    worker.settled()
    worker.tell(Flush(1, "bolt0"), Flush(2, ""))
    assert [worker.heard(Done).number for _ in range(2)] == [1, 2]
    closed = worker.closed()
    snapshot = unpacked(closed.snapshot)
    assert snapshot.total("acked") == 1_000
    assert closed.aborted == 0
    assert closed.summaries == {"bolt1": ["1000 numbers, 499500 in all \\udcff"]}
    assert worker.links() == []
    assert directory.exists()  # it is the supervisor's


@pytest.mark.parametrize("links", ["ipc", "tcp"])
def test_two_workers_share_a_topology_over_their_links(spawn: Spawn, links: str) -> None:
    workers = [spawn(number, 2) for number in (0, 1)]
    keys = new_keys([0, 1]) if links == "tcp" else None
    for one in workers:
        one.begin("sums", keys=keys, count=5_000, tasks=2)
    first, second = (one.ready() for one in workers)
    workers[0].tell(Join((second,)))
    workers[1].tell(Join((first,)))
    assert [one.heard(Linked).peers for one in workers] == [1, 1]
    for one in workers:
        one.tell(Start())
    workers[1].heard(SourcesEnded)  # at once: it has none
    workers[0].settled()
    closed = [one.closed() for one in workers]
    counts = [int(one.summaries["bolt1"][0].split()[0]) for one in closed]
    assert sum(counts) == 5_000
    assert min(counts) > 0
    assert workers[0].links() == []


def test_a_worker_that_is_told_to_close_while_it_opens_closes(spawn: Spawn) -> None:
    worker = spawn()
    worker.begin("opening")
    worker.heard(Log, lambda log: log.text == "opening")
    worker.tell(Close())
    assert worker.heard(Closed).summaries == {}
    assert worker.ended() == 0


def test_what_was_held_at_the_end_is_told_as_aborted(spawn: Spawn) -> None:
    worker = spawn()
    worker.run("holding", count=3)
    worker.heard(SourcesEnded)
    while worker.status(1).pending < 3:
        time.sleep(0.01)
    assert worker.closed().aborted == 3


def test_a_drain_stops_a_source_that_has_no_end(spawn: Spawn) -> None:
    worker = spawn()
    worker.run("sums", count=None)
    worker.tell(Drain())
    worker.settled()
    assert worker.closed().aborted == 0


# -- what can't start


@pytest.mark.parametrize(
    ("loader", "arguments", "kind", "text"),
    [
        ("process_topologies:no_topology", {}, "StartError", "No module named 'a_module_that_is_not_there'"),
        ("a_module_that_is_not_there:topology", {}, "StartError", "No module named"),
        ("process_topologies:not_there", {}, "StartError", "not_there"),
        ("no_declaration", {}, "DeclarationError", "unread"),
        ("open_raises", {"kind": "configuration"}, "ConfigurationError", "no such file"),
        ("open_raises", {"kind": "exit"}, "StartError", "'bolt0' could not be opened: SystemExit: no such file"),
        ("open_raises", {"kind": "other"}, "StartError", "'bolt0' could not be opened: ValueError: no such file"),
    ],
)
def test_what_keeps_a_worker_from_starting_is_told_with_its_kind(
    spawn: Spawn, loader: str, arguments: dict[str, str], kind: str, text: str
) -> None:
    worker = spawn()
    worker.begin(loader, **arguments)
    word = worker.heard(CannotStart)
    assert word.kind == kind
    assert text in word.text
    assert worker.ended() == 3
    assert worker.links() == []


def test_a_loader_that_raises_is_told_with_the_users_traceback(spawn: Spawn) -> None:
    worker = spawn()
    worker.begin("no_topology")
    word = worker.heard(CannotStart)
    assert (word.kind, word.code) == ("StartError", "K404")
    assert "process_topologies.py" in word.trace
    assert "in no_topology" in word.trace
    assert "topology/runtime/process/main.py" not in word.trace


def test_an_address_that_can_not_be_bound_is_told(spawn: Spawn, directory: Path) -> None:
    directory.rmdir()
    worker = spawn()
    worker.begin("idle")
    assert worker.heard(CannotStart).kind == "StartError"
    assert worker.ended() == 3


# -- what breaks


@pytest.mark.parametrize("part", ["task", "callback", "order"])
def test_a_part_of_the_runtime_that_dies_is_a_dead_worker_a14_f7(spawn: Spawn, directory: Path, part: str) -> None:
    worker = spawn()
    worker.run("breaking", part=part)
    if part == "order":
        worker.heard(SourcesEnded)
        worker.tell(Probe(1))
    word = worker.heard(Log, lambda log: "a part of the runtime has died" in log.text)
    assert word.level == logging.ERROR
    assert "RuntimeError: a bug" in word.text
    assert "process_topologies.py" in word.trace
    assert worker.ended(5.0) == 70
    assert worker.links() == []
    assert directory.exists()  # for the replacement


def test_a_source_that_raises_is_told_and_the_worker_goes_on(spawn: Spawn) -> None:
    worker = spawn()
    worker.run("raising_source")
    assert worker.heard(Broke).text == "OSError: the source is on fire"
    worker.status(1)
    worker.closed()


def test_a_dead_message_that_stops_the_run_is_told_without_a_text(spawn: Spawn) -> None:
    worker = spawn()
    worker.run("dead_message")
    assert worker.heard(Broke).text == ""
    worker.closed()


def test_a_peer_that_is_gone_fails_what_is_open_and_its_recovery_is_told_a14(spawn: Spawn) -> None:
    worker = spawn()
    worker.run("holding", count=3)
    worker.heard(SourcesEnded)
    while worker.status(1).pending < 3:
        time.sleep(0.01)
    worker.tell(Generation(2, 1 << 12, "worker 1 was killed by SIGKILL"))
    assert worker.heard(Failing) == Failing(1 << 12, 3)
    worker.closed()


def test_a_worker_that_has_stopped_answers_until_it_is_told_to_close_e10(spawn: Spawn) -> None:
    worker = spawn()
    worker.run("sums", count=1_000)
    worker.settled()
    worker.tell(StopWork())
    assert worker.heard(WorkStopped)
    worker.tell(TakeNote(1))
    assert worker.heard(HomeNote).checkpoint == 1
    assert worker.status(1).pending == 0
    worker.tell(Close(kept=True))
    word = worker.heard(Closed)
    assert word.kept
    assert word.summaries
    assert worker.ended() == 0


# -- what surrounds it


def test_signals_are_left_to_the_supervisor(spawn: Spawn) -> None:
    worker = spawn()
    for number in (signal.SIGINT, signal.SIGTERM):
        worker.process.send_signal(number)  # while the interpreter starts
    worker.begin("idle")
    worker.ready()
    for number in (signal.SIGINT, signal.SIGTERM):
        worker.process.send_signal(number)
    worker.tell(Join(()), Start())
    assert worker.status(1).pending == 0
    worker.closed()


def test_children_of_bolts_have_default_signals_and_nothing_of_the_control_socket_s15(spawn: Spawn) -> None:
    worker = spawn()
    worker.begin("asking")
    worker.ready()
    inherited = sorted(os.listdir(f"/proc/{worker.process.pid}/fd")) if os.path.exists("/proc") else []
    found = worker.closed().summaries["bolt0"][0]
    assert "default_int_handler" in found
    assert " 0 set() " in found  # SIG_DFL, and none blocked
    if inherited:
        assert "['0', '1', '2', '3']" in found  # 3 is the listing's own
        assert len(inherited) > 4


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="there is no /proc")
def test_keys_are_neither_on_the_command_line_nor_in_the_environment_s15(spawn: Spawn) -> None:
    worker = spawn()
    worker.run("asking")
    for name in ("cmdline", "environ"):
        content = Path(f"/proc/{worker.process.pid}/{name}").read_bytes()
        assert content
        assert KEY not in content
        assert KEY.hex().encode() not in content
    assert KEY.decode() not in worker.closed().summaries["bolt0"][0]


def test_what_a_bolt_prints_is_there_at_once_though_stdout_is_a_pipe(spawn: Spawn) -> None:
    worker = spawn()
    worker.run("printing")
    worker.heard(Log, lambda log: log.text == "printed")
    assert worker.kill()[0] == "printed 0\n"


def test_what_is_logged_reaches_the_supervisor_with_its_traceback(spawn: Spawn) -> None:
    worker = spawn()
    worker.begin("logging_")
    for level, text in ((logging.INFO, "everybody's"), (logging.WARNING, "lone \\udcff")):
        log = worker.heard(Log)
        assert (log.level, log.text, log.logger) == (level, text, "somebody")
        assert (log.component, log.task, log.at > 0) == ("bolt0", 0, True)
    log = worker.heard(Log)
    assert (log.level, log.text, log.logger) == (logging.ERROR, "it failed", "kedge.deeper")
    assert log.trace.startswith("Traceback")
    assert log.trace.endswith("ValueError: why")


def test_logging_that_the_users_code_sets_up_is_left_to_it(spawn: Spawn) -> None:
    worker = spawn()
    worker.begin("logging_", configured=True)
    assert worker.heard(Log).text.startswith("it failed")
    worker.ready()
    worker.closed()
    assert "WARNING:somebody:lone" in worker.kill()[0]


def test_a_note_is_kept_by_the_supervisor_before_it_is_set(spawn: Spawn) -> None:
    worker = spawn()
    worker.begin("noting", notes={"old": "known"})
    note = worker.heard(KeepNote)
    assert (note.name, note.text) == ("new", "told")
    worker.tell(Noted(note.number))
    worker.ready()
    assert worker.closed().summaries["bolt0"] == ["known told"]


def test_a_note_that_can_not_be_kept_is_a_start_error(spawn: Spawn) -> None:
    worker = spawn()
    worker.begin("noting")
    worker.tell(Noted(worker.heard(KeepNote).number, "the disk is full"))
    word = worker.heard(CannotStart)
    assert (word.kind, word.text, word.code, word.trace) == ("StartError", "the disk is full", "K428", "")
    assert worker.ended() == 3
