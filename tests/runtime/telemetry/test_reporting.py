"""What is said of failures: each kind once, then counts, and a bounded number of kinds."""

import logging

import pytest

from topology.runtime.failures import Failure, Reason
from topology.runtime.telemetry.failure_log import KINDS_MAX, Reporter


def failure(component: str) -> Failure:
    return Failure(Reason.FAILED, component, "as it was told to")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said since this was asked last."""
    messages = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return messages


def test_a_kind_of_failure_is_told_once_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    reporter = Reporter()
    for _ in range(3):
        reporter.failed(failure("parse"))
    assert len(told(caplog)) == 1
    reporter.remind()
    assert told(caplog) == ["again, 2 times: failed by the bolt in 'parse'"]
    reporter.remind()
    assert told(caplog) == [], "nothing has happened since"


def test_kinds_beyond_a_thousand_are_counted_together_and_nothing_grows(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kedge")
    reporter = Reporter()
    for number in range(KINDS_MAX + 500):
        reporter.failed(failure(f"bolt{number}"))
    assert len(told(caplog)) == KINDS_MAX
    reporter.failed(failure("bolt7"))
    reporter.remind()
    assert told(caplog) == [
        "again, 500 times: failures of other kinds than the first 1,000",
        "again, once: failed by the bolt in 'bolt7'",
    ]
