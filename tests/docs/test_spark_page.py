"""The page about Spark is true: its worked example of late data is computed, and the names in its picture and its table
of files are those that the bridge writes.
"""

import re
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from snippets import ROOT

from bridge.files.query import Epoch, QueryFolder
from bridge.files.segments import Segments

PAGE = (ROOT / "docs/how-to/spark.md").read_text("utf-8")
SVG = "{http://www.w3.org/2000/svg}"
PICTURE = ElementTree.parse(ROOT / "docs/images/spark-path.svg").getroot()
DELAY, WINDOW = 5, 60  # minutes


def clock(text: str) -> int:
    """Minutes since midnight."""
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def shown(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def example() -> list[tuple[int, int, str]]:
    """The rows of the example of late data: event time, watermark after it, and the text."""
    rows = re.findall(r"^\| (\d\d:\d\d) \| (\d\d:\d\d) \| (.+) \|$", PAGE, re.MULTILINE)
    return [(clock(event), clock(watermark), text) for event, watermark, text in rows]


def test_the_watermark_of_the_example_is_the_latest_event_time_less_the_delay() -> None:
    assert f'watermark="{DELAY} minutes"' in PAGE
    assert f'every="{WINDOW // 60} hour"' in PAGE
    latest = 0
    for event, watermark, _ in example():
        latest = max(latest, event)
        assert watermark == latest - DELAY


def test_the_example_closes_a_window_counts_it_and_calls_a_record_late_as_spark_does() -> None:
    counts: dict[int, int] = {}
    before = 0
    for event, watermark, text in example():
        start = event - event % WINDOW
        late = start + WINDOW <= before
        assert late == ("is late" in text), text
        if not late:
            counts[start] = counts.get(start, 0) + 1
        closed = [one for one in counts if before < one + WINDOW <= watermark]
        assert all(f"{shown(one)}–{shown(one + WINDOW)} comes: {counts[one]}." in text for one in closed), text
        assert bool(closed) == (" comes: " in text), text
        before = watermark
    assert counts == {clock("12:00"): 2, clock("13:00"): 3}


def texts(kind: str) -> list[str]:
    return ["".join(one.itertext()) for one in PICTURE.iter(f"{SVG}text") if one.get("class") == kind]


def test_each_step_of_the_picture_is_explained_below_it() -> None:
    explained = [found[1] for text in texts("small") if (found := re.match(r"(\d) ", text.strip()))]
    assert sorted(texts("number")) == explained == [str(step) for step in range(1, 9)]


def test_the_picture_follows_a_dark_theme() -> None:
    assert "prefers-color-scheme: dark" in (PICTURE.findtext(f"{SVG}style") or "")


@pytest.fixture
def written(tmp_path: Path) -> list[str]:
    """The files of a query with a segment, an epoch and a batch of results, relative to its folder."""
    folder = QueryFolder(tmp_path)
    segments = Segments(folder.input("INPUT") / "0")
    segments.open()
    segments.write(0, pa.RecordBatch.from_pydict({"a": [1]}))
    segments.close()
    folder.write(0, pa.table({"a": [1]}))
    folder.checkpoint(Epoch()).mkdir(parents=True)
    folder.history("INPUT").mkdir(parents=True)
    return [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")]


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("NAME/stream/INPUT/TASK/seg-….arrow", r"stream/INPUT/0/seg-\d+\.arrow"),
        ("NAME/results/batch-….arrow", r"results/batch-\d+\.arrow"),
        ("NAME/checkpoint/N", r"checkpoint/0"),
        ("NAME/history/INPUT", r"history/INPUT"),
    ],
)
def test_the_table_of_files_has_the_paths_that_the_bridge_writes(listed: str, found: str, written: list[str]) -> None:
    assert f"| `{listed}` |" in PAGE
    assert any(re.fullmatch(found, path) for path in written), written


def test_the_files_of_the_picture_are_in_the_table() -> None:
    arrows = [text for text in texts("file") if text.endswith(".arrow")]
    assert len(arrows) == 2
    assert all(f"/{one}` |" in PAGE for one in arrows)
