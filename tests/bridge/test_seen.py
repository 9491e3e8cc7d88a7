"""Whether Spark's machines see the run's folder: what a task of theirs finds. How a run ends where they don't is in
`test_spark_elsewhere`, as that takes a cluster.
"""

import os
import socket
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge[spark]'")

import pyarrow as pa
from spark_kit import needs_spark

from bridge.seen import PROBE, Look, unseen
from topology import ConfigurationError

HOST = socket.gethostname()


def looks(folder: Path, text: str = "drawn") -> list[dict[str, str]]:
    row = pa.RecordBatch.from_pydict({"id": [0]})
    return [one for told in Look(str(folder / PROBE), text)([row]) for one in told.to_pylist()]


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
    from bridge.segments import damaged
    from bridge.source import Files, SegmentReader

    options = {"folder": str(tmp_path / "hourly"), "input": "failures", "begin": "{}", "life": "1", "parts": "1"}
    gone = tmp_path / "hourly" / "stream" / "failures" / "0" / "seg-000000000000.arrow"
    for error in (unseen(tmp_path / "hourly"), damaged(gone, "is missing")):
        with pytest.raises(ConfigurationError) as caught:
            next(SegmentReader(options, ["at"]).read(Files([str(gone)])))
        assert (str(caught.value), caught.value.code) == (str(error), error.code)
        gone.parents[2].mkdir(parents=True, exist_ok=True)
    assert str(unseen(tmp_path)) == f"{tmp_path} is not there on {HOST}, where Spark works"
