"""Whether Spark's machines see the run's folder: what a task of theirs finds, and what a run says where they don't."""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge[spark]'")

import pyarrow as pa
from cluster_kit import standalone
from runs_kit import Run, runs_of
from spark_kit import needs_spark

from bridge.seen import PROBE, Look, unseen
from topology import ConfigurationError
from topology.codes.starting import K457

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


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    yield from runs_of(Path(__file__).with_name("spark_topology.py"), tmp_path)


@needs_spark
@pytest.mark.cluster
@pytest.mark.timeout(420)
def test_a_run_whose_executors_have_another_folder_in_its_place_ends_with_a_sentence(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    """In time: state that is kept on a machine's own disk would be missing at the next start."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("a process can't have folders of its own here")
    with standalone(tmp_path, blind=state) as master:
        one = run("count=2000", f"--spark {master}", "--spark-conf spark.executor.memory=512m")
        assert one.end() == 1, one.text()
    said = f"{state / 'kept' / 'spark'} is not there on {HOST}, where Spark works; {K457.next.rstrip('.')} (K457)"
    assert said in one.text().replace(". (K457)", " (K457)")
    assert len(one.starts()) == 1, "it is not tried again"
    assert one.batches("windows") == -1
