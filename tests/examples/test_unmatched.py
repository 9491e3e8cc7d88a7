"""A log of another form than an example reads is said in the log of the run, and one that it knows is not."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from examples import apache_errors, silent_hosts
from topology import Topology

CASES = [
    pytest.param(
        apache_errors.topology, "no errors", "[Sun Dec 04 05:15:09 2005] [error] a module failed", id="apache"
    ),
    pytest.param(
        silent_hosts.topology, "no lines of syslog", f"{datetime.now(UTC).isoformat()} web1 cron: x", id="hosts"
    ),
]


@pytest.mark.parametrize(("made", "said", "known"), CASES)
def test_a_log_of_another_form_is_told_of_once_and_one_that_has_a_line_that_matches_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, made: Callable[[str, str], Topology], said: str, known: str
) -> None:
    log, store = tmp_path / "a.log", str(tmp_path / "a.db")
    for first, times in (("1763632800 of another form", 1), (known, 0)):
        caplog.clear()
        log.write_text("\n".join([first, *["1763632800 of another form"] * 1_499, ""]))
        with caplog.at_level(logging.WARNING, "kedge"):
            assert made(str(log), store).run().exit_status == 0
        assert sum(said in one.getMessage() for one in caplog.records) == times
