"""One Spark session for all tests of the bridge that need one in this process: each costs 10 seconds and half a GB.

It goes with the last of these tests, its JVM too: tests of other folders look for processes that were left behind.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "chaos"))  # for disks_kit
_made: list[Any] = []


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """With the source of segments; on this machine alone, and silent. `start` also sets PYSPARK_PYTHON and
    others in the environment: runs of later tests must not inherit them."""
    from bridge.driver.source import SegmentSource
    from bridge.spark.session import start

    with mock.patch.dict(os.environ):
        made = start("tests", "local[2]", tmp_path_factory.mktemp("spark"), {})
    made.sparkContext.setLogLevel("OFF")
    made.dataSource.register(SegmentSource)
    _made.append(made)
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    yield  # what the test has made of the session goes first
    if _made and (nextitem is None or HERE not in nextitem.path.parents):
        _end(_made.pop())


def _end(session: Any) -> None:
    from pyspark import SparkContext

    session.stop()
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.kill()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None
