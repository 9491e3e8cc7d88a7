"""One suite for what every idempotent sink promises, run on each of ours; `topology.testing.sinks` has it for yours."""

from pathlib import Path

import pytest
from sink_subjects import JsonLinesSubject, SqliteSubject

from topology.testing.sinks import SINK_CHECKS, SinkSubject, check_sink

SUBJECTS = {
    "sqlite": lambda path: SqliteSubject(path),
    "sqlite-upsert": lambda path: SqliteSubject(path, "upsert"),
    "jsonlines": lambda path: JsonLinesSubject(path),
}
ONE_TASK = {"two_tasks_that_race_store_each_output_once"}  # of files there is one writer


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> SinkSubject:
    return SUBJECTS[request.param](str(tmp_path / "store"))


@pytest.mark.parametrize("check", SINK_CHECKS)
def test_a_sink_keeps_the_contract(check: str, subject: SinkSubject) -> None:
    left_out = check_sink(check, subject)
    assert not left_out or check in ONE_TASK or "mode" in left_out, left_out
