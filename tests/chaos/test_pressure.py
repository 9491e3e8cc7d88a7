"""A sink that is a hundred times slower than its source, in the other worker than the spout (F39)."""

import time
from pathlib import Path

import pytest
from chaos_kit import exactly, running
from proc_kit import resident

TIMEOUT_S = 1.0
ROW_S = 0.002  # so that the sink takes at most 500 rows/s; the source could have 50,000 and more
RECORDS = 1_500  # 3,000 rows: for more than six seconds
PENDING = 1_000  # records: twice as many rows wait for up to four seconds, four timeouts, before they are stored
GROWTH = 8 * 2**20  # bytes that a process may grow by, once everything that may wait does


@pytest.mark.slow
def test_a_slow_sink_holds_its_spout_up_and_nothing_else_happens_f39(folder: Path) -> None:
    """For five timeouts: memory is bounded, no tuple that waits times out, nothing is lost. 1,500 records."""
    config = {"tree_timeout_s": TIMEOUT_S, "max_pending": PENDING}
    with running(folder, config=config, layout="apart", count=RECORDS, slow_s=ROW_S) as run:
        run.until(lambda: run.pending() > PENDING // 2, "a source that is ahead of the sink")
        pids = [run.process.pid, *run.workers()]
        before = {pid: resident(pid) for pid in pids}
        since = time.monotonic()
        most = dict(before)
        while time.monotonic() - since < 5 * TIMEOUT_S:
            assert run.process.poll() is None, "the sink was not slow enough"
            most = {pid: max(most[pid], resident(pid)) for pid in pids}
            time.sleep(0.05)
        assert run.pending() > 0, "the sink was not slow enough"
        outcome = run.ended().well()
    grown = {pid: most[pid] - before[pid] for pid in pids}
    print(f"grown by {grown} bytes, from {before}")
    exactly(folder, RECORDS)
    assert (outcome.figures["restarts"], outcome.total("failed"), outcome.total("replayed")) == (0, 0, 0)
    assert outcome.figures["latency_ms"]["max"] > 2_000 * TIMEOUT_S, "no tuple has waited for longer than a timeout"
    assert all(growth < GROWTH for growth in grown.values()), grown
