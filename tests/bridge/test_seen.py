"""Whether Spark's machines see the run's folder: what a task of theirs finds. How a run ends where they don't is in
`test_spark_elsewhere`, as that takes a cluster.
"""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

import pyarrow as pa
from spark_kit import needs_spark

from bridge.spark.shared_folder import PROBE, FolderProbe, check, unseen
from topology import ConfigurationError

HOST = socket.gethostname()


def looks(folder: Path, text: str = "drawn") -> list[dict[str, str]]:
    row = pa.RecordBatch.from_pydict({"id": [0]})
    return [one for told in FolderProbe(str(folder / PROBE), text)([row]) for one in told.to_pylist()]


def test_who_sees_the_same_folder_says_nothing(tmp_path: Path) -> None:
    (tmp_path / PROBE).write_text("drawn")
    assert looks(tmp_path) == []


def test_who_has_none_another_or_one_that_is_not_to_be_used_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert looks(tmp_path / "none") == [{"host": HOST, "why": "is not there"}]
    assert looks(tmp_path) == [{"host": HOST, "why": "is another folder"}]
    (tmp_path / PROBE).write_text("of another run")
    assert looks(tmp_path) == [{"host": HOST, "why": "is another folder"}]
    (tmp_path / PROBE).write_text("drawn")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write all
    assert looks(tmp_path) == [{"host": HOST, "why": "can't be written"}]
    (tmp_path / PROBE).unlink()
    (tmp_path / PROBE).mkdir()
    assert looks(tmp_path) == [{"host": HOST, "why": "can't be read (Is a directory)"}]


@needs_spark
def test_who_reads_and_does_not_see_the_folder_says_that_and_not_that_a_segment_is_missing(tmp_path: Path) -> None:
    """An executor that comes later than the first look."""
    from bridge.driver.source import SegmentPartition, SegmentReader
    from bridge.files.segments import damaged

    options = {"folder": str(tmp_path / "hourly"), "input": "failures", "begin": "{}", "life": "1", "parts": "1"}
    gone = tmp_path / "hourly" / "stream" / "failures" / "0" / "seg-000000000000.arrow"
    for error in (unseen(tmp_path / "hourly"), damaged(gone, "is missing")):
        with pytest.raises(ConfigurationError) as caught:
            next(SegmentReader(options, ["at"]).read(SegmentPartition([str(gone)])))
        assert (str(caught.value), caught.value.code) == (str(error), error.code)
        gone.parents[2].mkdir(parents=True, exist_ok=True)
    assert str(unseen(tmp_path)) == f"{tmp_path} is not there on {HOST}, where Spark works"


class Failing:
    """A session whose first job fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def range(self, *_: int) -> "Failing":
        return self

    def mapInArrow(self, *_: object) -> "Failing":
        return self

    def collect(self) -> list[Any]:
        raise self.error


def java_says(text: str) -> Exception:
    """As an error of Java's that is told without a JVM."""
    from py4j.protocol import Py4JJavaError

    class Said(Py4JJavaError):
        def __init__(self) -> None:
            Exception.__init__(self, text)

        def __str__(self) -> str:
            return text

    return Said()


NO_PYTHON = "(10.0.0.2 executor 0): java.io.IOException: Cannot run program"
JAVAS = ("error=2, No such file or directory", "Exec failed, error: 2 (No such file or directory) ")


@needs_spark
@pytest.mark.parametrize("why", JAVAS)
def test_who_finds_no_python_where_ours_is_in_the_folder_does_not_see_the_folder(tmp_path: Path, why: str) -> None:
    said = f'{NO_PYTHON} "{tmp_path}/python/python": {why}\n\tat java.base/x\nCaused by: java.io.IOException: {why}'
    with pytest.raises(ConfigurationError) as caught:
        check(Failing(java_says(said)), tmp_path, 2)
    assert str(caught.value) == f"{tmp_path} is not there or is another folder on {HOST}, where Spark works"


@needs_spark
@pytest.mark.parametrize("program", ["/usr/bin/python9", "{folder}-other/python/python"])
def test_a_python_elsewhere_that_is_not_found_is_told_in_javas_words(tmp_path: Path, program: str) -> None:
    error = java_says(f'{NO_PYTHON} "{program.format(folder=tmp_path)}": {JAVAS[0]}')
    with pytest.raises(type(error)) as caught:
        check(Failing(error), tmp_path, 2)
    assert caught.value is error
