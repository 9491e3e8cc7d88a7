"""The SSH alerts with Spark beside them: what is declared, and that the table fits the log that is made. The run itself
is `make run-spark`, with the bridge's tests."""

import csv
import re

import pytest
from example_kit import EXAMPLES

from examples.auth_log import auth_log


def hosts() -> list[dict[str, str]]:
    with (EXAMPLES / "known_hosts.csv").open(newline="") as file:
        return [*csv.DictReader(file)]


def test_each_known_host_fails_in_the_log_that_is_made() -> None:
    """Else the join of `make run-spark` has less to show."""
    lines = auth_log().lines
    assert len(hosts()) >= 5
    for host in hosts():
        failed = re.compile(rf" sshd\[\d+\]: (message repeated|Failed).* from {re.escape(host['source_ip'])} port ")
        assert any(failed.search(line) for line in lines), host


def test_the_table_has_the_columns_that_the_join_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow", reason="needs kedge-streams[spark]")
    monkeypatch.syspath_prepend(str(EXAMPLES))  # as `kedge run` does: it imports what is beside it
    from examples.ssh_spark import KnownFailure, topology

    assert {"host", "owner"} <= set(hosts()[0]) & set(KnownFailure.__annotations__)
    declared = topology(hosts=str(EXAMPLES / "known_hosts.csv"))
    assert [one.name for one in declared.components if one.kind == "spout"] == ["lines", "hours", "known"]
