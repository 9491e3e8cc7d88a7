"""The benchmark of what is kept, run short: its rows, and what belongs to each. Speed is not judged here."""

import os

import pytest
from test_benchmarks import results_of, short


def test_state_gives_rows_and_commits_a_second_of_each_store() -> None:
    results = results_of(short("state", "--json", "sqlite-sink", "jsonlines-sink", "store-commit"))
    assert list(results) == ["sqlite-sink", "jsonlines-sink", "store-commit"]
    for name in ("sqlite-sink", "jsonlines-sink"):
        one = results[name]
        assert one["unit"] == "rows/s"
        assert 1 <= one["batch"] <= 600
        assert one["value"] == pytest.approx(one["batch"] * one["commits"], rel=0.01)
    assert results["store-commit"]["unit"] == "commits/s"


@pytest.mark.service("postgres")
def test_state_measures_the_server_that_tests_use() -> None:
    psycopg = pytest.importorskip("psycopg")
    dsn = os.environ.get("KEDGE_TEST_POSTGRES") or "postgresql://postgres@127.0.0.1:5432/test"
    try:
        psycopg.connect(dsn, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL to test with: {error}")
    results = results_of(short("state", "--json", "postgres-sink"))
    assert results["postgres-sink"]["batch"] > 1
