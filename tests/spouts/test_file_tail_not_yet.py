"""A file to follow that is not there yet is waited for; a missing one that is read once is a mistake. F73."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from source_kit import make_task

from spouts import FileTail, SyslogTimes, first_mtime
from topology import ConfigurationError, NotYet, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured


def named(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / "a.log"
    if kind == "dangling link":
        path.symlink_to(tmp_path / "nowhere")
    return tmp_path / "later" / "a.log" if kind == "missing folder" else path


@pytest.mark.parametrize("kind", ["missing", "dangling link", "missing folder"])
async def test_a_missing_file_is_not_there_yet_where_it_is_followed_and_a_mistake_where_it_is_not_F73(
    tmp_path: Path, kind: str
) -> None:
    path = named(tmp_path, kind)
    said = f"the file {str(path)!r} can't be read: No such file or directory"
    for follow, error in ((True, NotYet), (False, ConfigurationError)):
        spout = FileTail(path, follow=follow)
        with pytest.raises(error) as caught:
            spout.open(make_task(), {})
        assert str(caught.value) == said
        spout.close()


async def test_times_of_a_followed_log_that_is_not_there_yet_are_waited_for_too_F73(tmp_path: Path) -> None:
    path, task = tmp_path / "a.log", make_task()
    with pytest.raises(NotYet, match="No such file"):
        SyslogTimes(path, follow=True).open(task)
    with pytest.raises(ConfigurationError, match="No such file"):
        first_mtime(path, task.notes)
    path.touch()
    times = SyslogTimes(path, follow=True)
    times.open(task)
    assert times.reference is not None
    assert times.reference > datetime.now(UTC)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["", "later"])
async def test_a_run_waits_for_the_file_that_it_follows_and_reads_it_from_its_start_F73(
    tmp_path: Path, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / folder / "a.log"
    captured = Captured()
    topology = Topology("late")
    topology.bolt("seen", captured, topology.spout("lines", FileTail(path, follow=True)).shuffle())
    run = EmbeddedRun(topology)
    running = asyncio.create_task(run.finish())
    await asyncio.sleep(3)  # the file is late by this
    assert not running.done()
    path.parent.mkdir(exist_ok=True)
    path.write_text("one\ntwo\n")
    async with asyncio.timeout(20):
        while len(captured.records) < 2:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    run.drain()
    report = await running
    assert [line.text for line in captured.records] == ["one", "two"]
    assert report.exit_status == 0
    waits = [one.getMessage() for one in caplog.records if "is not there yet" in one.getMessage()]
    assert len(waits) == 1
    assert waits[0].startswith("'lines' waits")
    assert "for 60 s more at most" in waits[0]
    assert "No such file or directory" in waits[0]
