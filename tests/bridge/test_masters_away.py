"""A cluster, or a Spark Connect server, that does not answer is named before Spark is started; no Spark is needed."""

import socket
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")

from bridge.errors import UserError
from bridge.spark.master import on_loopback, wait_for


@pytest.fixture
def nobody() -> Iterator[str]:
    """A place where nobody listens, and nobody else begins to."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def somebody() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("master", "what"),
    [
        ("spark://{}", "Spark master"),
        ("spark://{0},{0}", "Spark master"),
        ("sc://{}", "Spark Connect server"),
        ("sc://{}/;user_id=me", "Spark Connect server"),
    ],
)
def test_who_does_not_answer_is_named_with_what_to_do(nobody: str, master: str, what: str) -> None:
    with pytest.raises(UserError) as raised:
        wait_for(master.format(nobody), within_s=0.0)
    said = str(raised.value)
    assert said.startswith(f"no {what} has answered at {nobody}")
    assert said.endswith("(Connection refused): start one there, or name another with --spark")


def test_a_port_that_is_none_is_told() -> None:
    with pytest.raises(UserError, match=r"no Spark master has answered at 127.0.0.1:x .*Port could not be cast"):
        wait_for("spark://127.0.0.1:x", within_s=0.0)


def test_one_of_several_masters_is_enough(nobody: str, somebody: str) -> None:
    wait_for(f"spark://{nobody},{somebody}")
    wait_for(f"sc://{somebody}/;token=x")


@pytest.mark.parametrize(
    ("master", "here"),
    [
        ("local[2]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077,[::1]:7078", True),
        ("spark://127.0.0.1:7077,10.0.0.5:7077", False),
        ("yarn", False),
        ("k8s://https://127.0.0.1:6443", False),
    ],
)
def test_spark_keeps_to_loopback_where_all_of_it_is_on_this_machine(master: str, here: bool) -> None:
    assert on_loopback(master) is here
