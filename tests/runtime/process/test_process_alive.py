"""A worker process whose supervisor is gone, and one whose loop does not turn: the first ends, the second says where.

The supervisor is the test's (`process_kit`); what the workers run is in `process_topologies`.
"""

import signal
import time
from pathlib import Path

import pytest
from process_kit import Spawn

from topology.runtime.control.messages import Beat, Flush, Join, Linked, Log, Look, Looked, Metrics, Start
from topology.runtime.telemetry.metrics import unpacked

# -- the supervisor is gone (F3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loader", ["idle", "sleeping", "spinning", "opening", "opening_blocked", "importing", "closing"]
)
def test_a_worker_whose_supervisor_is_gone_ends_in_three_seconds_and_leaves_nothing_f3(
    spawn: Spawn, directory: Path, loader: str
) -> None:
    worker = spawn()
    worker.begin(loader)
    if loader in ("opening", "opening_blocked", "importing"):
        worker.heard(Log, lambda log: log.text in ("opening", "importing"))
    else:
        worker.ready()
        worker.tell(Join(()), Start())
        if loader in ("sleeping", "spinning"):
            worker.heard(Beat, lambda beat: beat.blocked_s > 0)
        else:
            worker.heard(Linked)
    assert worker.links() or loader == "importing"
    worker.leave()
    assert worker.ended(3.0) == 1
    assert not directory.exists()


def test_a_worker_ends_that_is_told_nothing_before_its_supervisor_is_gone_f3(spawn: Spawn) -> None:
    worker = spawn()
    worker.leave()
    assert worker.ended(10.0) == 1  # an interpreter has to start first


def test_a_worker_ends_that_can_not_say_any_more_what_it_wants_to_f3(spawn: Spawn, directory: Path) -> None:
    """The writer is stuck in a socket that nobody reads."""
    worker = spawn()
    worker.run("chattering")
    worker.stuck()
    worker.leave()
    assert worker.ended(3.0) == 1
    assert not directory.exists()


def test_the_last_of_two_workers_takes_the_directory_with_it_f3(spawn: Spawn, directory: Path) -> None:
    workers = [spawn(number, 2) for number in (0, 1)]
    for one in workers:
        one.begin("sums", count=None, tasks=2)
        one.ready()
    assert len(workers[0].links()) == 2
    for one in workers:
        one.leave()
    assert [one.ended(3.0) for one in workers] == [1, 1]
    assert not directory.exists()


# -- loops that do not turn (F8)


@pytest.mark.slow
@pytest.mark.parametrize(("loader", "line"), [("sleeping", "time.sleep(600)"), ("spinning", "n += 1")])
def test_beats_and_snapshots_go_on_while_the_loop_is_blocked_and_name_component_and_line_f8(
    spawn: Spawn, loader: str, line: str
) -> None:
    worker = spawn()
    worker.run(loader)
    beat = worker.heard(Beat, lambda beat: beat.blocked_s > 1.0)
    lines = (Path(__file__).parents[1] / "kits" / "process_topologies.py").read_text().splitlines()
    places = [index for index, text in enumerate(lines, 1) if text.strip() in (line, "while True:")]
    assert beat.where.startswith("component 'bolt0', ")
    assert any(f"process_topologies.py:{place} in process" in beat.where for place in places), beat.where
    begun = time.monotonic()
    beats = [worker.heard(Beat) for _ in range(4)]
    assert time.monotonic() - begun < 4.0  # 1 s, were both cores free
    assert beats[-1].blocked_s > beats[0].blocked_s > 1.0
    assert unpacked(worker.heard(Metrics).snapshot).spouts["numbers"].pending == 1


def test_a_snapshot_comes_each_second_while_the_loop_is_busy(spawn: Spawn) -> None:
    worker = spawn()
    worker.run("sums", count=None)
    worker.heard(Metrics)
    snapshots = [unpacked(worker.heard(Metrics).snapshot) for _ in range(2)]
    assert 0.9 < snapshots[1].seconds - snapshots[0].seconds < 5.0, "by the worker's clock: words may wait to be read"
    acked = [one.total("acked") for one in snapshots]
    assert acked[0] < acked[1]


def test_a_flush_that_takes_its_time_keeps_no_probe_waiting(spawn: Spawn) -> None:
    worker = spawn()
    worker.run("flushing")
    worker.settled()
    worker.tell(Flush(1, "bolt0"))
    worker.heard(Log, lambda log: log.text == "flushing")
    assert worker.status(99).worker == 0
    worker.tell(Look(7))
    assert worker.heard(Looked).number == 7


def test_an_import_that_takes_its_time_is_named_by_its_line_f8(spawn: Spawn) -> None:
    worker = spawn()
    worker.begin("importing")
    assert "process_topologies.py" in worker.heard(Beat, lambda beat: beat.blocked_s > 0).where


def test_a_worker_that_was_stopped_and_goes_on_does_not_call_its_loop_blocked_a10(spawn: Spawn) -> None:
    """F5."""
    worker = spawn()
    worker.run("idle")
    worker.heard(Metrics)
    worker.process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)  # longer than a loop may be silent
    worker.process.send_signal(signal.SIGCONT)
    for _ in range(8):
        assert worker.heard(Beat).blocked_s == 0.0
    assert worker.status(1).worker == 0
