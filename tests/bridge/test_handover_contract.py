"""The hand-over is an idempotent sink like the others: the suite of all of them, run on it."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from handover_kit import HandOverSubject

from topology.testing.sinks import SINK_CHECKS, check_sink

LEFT_OUT = {"two_tasks_that_race_store_each_output_once"}  # identities choose the task: no two have the same


@pytest.mark.parametrize("check", SINK_CHECKS)
def test_the_hand_over_keeps_the_contract_of_sinks(check: str, tmp_path: Path) -> None:
    left_out = check_sink(check, HandOverSubject(str(tmp_path)))
    assert not left_out or check in LEFT_OUT or "mode" in left_out, left_out
