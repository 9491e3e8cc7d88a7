"""`ParquetSink` on a file system of the user's own, which raises errors of any class, as those of fsspec do."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.fs as fs
import pytest
from parquet_kit import rows_of, stored

from bolts.sinks.parquet.sink import ParquetSink
from topology.errors import ConfigurationError, NotYet
from topology.testing.sinks.driver import delivery, feed, item, opened, within

WITHIN_S = 30.0  # on a busy machine


class BusyServer(Exception):
    """As a client library raises it: no OSError."""


class FaultyFiles(fs.FileSystemHandler):  # type: ignore[misc]
    """The local file system, whose methods with these names raise an error while there is one."""

    def __init__(self, *fails: str) -> None:
        self.fails, self.error = fails, None
        self._files = fs.LocalFileSystem()

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        error: Exception | None = self.error
        if error is not None and name in self.fails:
            raise error
        return getattr(self._files, name)(*args, **kwargs)

    def get_type_name(self) -> str:
        return "faulty"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        return self._call("get_file_info", paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        return self._call("get_file_info", selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._call("create_dir", path, recursive=recursive)

    def open_input_file(self, path: str) -> Any:
        return self._call("open_input_file", path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return self._call("open_output_stream", path)

    def _never(self, *_: Any) -> Any:
        raise NotImplementedError

    delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = move = copy_file = _never
    open_input_stream = open_append_stream = _never


def sink_on(handler: FaultyFiles, folder: Path) -> ParquetSink:
    folder.mkdir(exist_ok=True)
    return ParquetSink(folder, seconds_per_file=0.01, filesystem=lambda: fs.PyFileSystem(handler))


def items(*numbers: int) -> list[Any]:
    return [delivery(item(number)) for number in numbers]


@pytest.mark.parametrize("error", [BusyServer("503 busy"), TypeError("'NoneType' is no stream"), ConnectionError("no")])
async def test_an_outage_of_a_users_file_system_holds_the_rows_and_names_the_error(
    tmp_path: Path, error: Exception
) -> None:
    handler = FaultyFiles("open_output_stream")
    async with opened(sink_on(handler, tmp_path / "lake")) as sink:
        handler.error = error
        feeding = asyncio.ensure_future(feed(sink, items(1, 2, 3)))
        assert await within(WITHIN_S, lambda: "retry 3" in sink.away)
        assert str(error) in sink.away
        assert isinstance(error, OSError) or type(error).__name__ in sink.away
        handler.error = None
        out = await feeding
    assert out.numbers == [1, 2, 3]
    assert [row["number"] for row in rows_of(tmp_path / "lake")] == [1, 2, 3]


@pytest.mark.parametrize("fails", ["get_file_info", "open_input_file"])
async def test_a_users_file_system_that_is_away_at_the_start_is_waited_for(tmp_path: Path, fails: str) -> None:
    handler = FaultyFiles(fails)
    await stored(sink_on(handler, tmp_path / "lake"), items(1))
    handler.error = BusyServer("503 busy")
    with pytest.raises(NotYet, match="BusyServer: 503 busy"):
        async with opened(sink_on(handler, tmp_path / "lake")):
            pass
    handler.error = None
    await stored(sink_on(handler, tmp_path / "lake"), items(1, 2))
    assert [row["number"] for row in rows_of(tmp_path / "lake")] == [1, 2]


def _busy() -> Any:
    raise BusyServer("503 busy")


def _missing() -> Any:
    raise ModuleNotFoundError("No module named 'adlfs'")


def _denied() -> Any:
    raise OSError("AWS Error ACCESS_DENIED during ListObjectsV2 operation")


def _wrong() -> Any:
    return None


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (_busy, NotYet, "BusyServer: 503 busy"),
        (_wrong, NotYet, "AttributeError: 'NoneType' object has no attribute"),
        (_denied, ConfigurationError, "AWS Error ACCESS_DENIED"),
        (_missing, ConfigurationError, "ModuleNotFoundError: No module named 'adlfs'"),
    ],
)
async def test_a_file_system_that_cannot_be_made_is_said_with_the_error(
    tmp_path: Path, make: Callable[[], Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        async with opened(ParquetSink(tmp_path, filesystem=make)):
            pass
