"""Folders of Parquet files, read as any reader reads them; and a server of S3's protocol, for tests."""

import contextlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "services"))

from tcp_proxy import TcpProxy

from bolts.sinks.parquet.sink import ParquetSink
from topology.core.tuples import Tuple
from topology.testing.sinks import SinkSubject
from topology.testing.sinks.driver import RecordedAnswers, feed, opened

STARTED_S = 30.0  # for a server, on a busy machine


def files_of(folder: Path) -> list[Path]:
    """The files of rows, in the order in which they were written."""
    return sorted(folder.rglob("[!.]*.parquet"), key=lambda path: path.name)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """All rows, in their order."""
    return [row for path in files_of(folder) for row in pq.ParquetFile(path).read().to_pylist()]


async def stored(sink: ParquetSink, tuples: Iterable[Tuple[Any]]) -> RecordedAnswers:
    """What becomes of tuples that are given to a sink, which is then closed."""
    async with opened(sink) as one:
        return await feed(one, tuples)


class LocalSubject(SinkSubject):
    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def make(self) -> ParquetSink:
        return ParquetSink(self.folder, rows_per_file=50, seconds_per_file=0.005)

    def rows(self) -> list[tuple[int, int]]:
        return [(row["number"], row["revision"]) for row in rows_of(self.folder)]

    @contextmanager
    def away(self) -> Iterator[None]:
        """The folder is somewhere else, as when a disk is not mounted."""
        elsewhere = self.folder.with_name("elsewhere")
        self.folder.rename(elsewhere)
        yield
        elsewhere.rename(self.folder)

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "parquet_kit:LocalSubject", [str(self.folder)]


class PartitionedSubject(LocalSubject):
    ordered = False

    def make(self) -> ParquetSink:
        by = lambda item: f"tens={item.number // 10 % 10}"  # noqa: E731
        return ParquetSink(self.folder, rows_per_file=50, seconds_per_file=0.005, partition_by=by)

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "parquet_kit:PartitionedSubject", [str(self.folder)]


class ObjectServer:
    """A server of S3's protocol on a free port: moto, which keeps objects in memory."""

    def __init__(self, program: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(self.port)], stdout=quiet, stderr=quiet)
        until = time.monotonic() + STARTED_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < until, "the server has not started"
                assert self.process.poll() is None, "the server has ended"
                time.sleep(0.05)

    @classmethod
    @contextmanager
    def there(cls) -> Iterator["ObjectServer"]:
        program = shutil.which("moto_server")
        if program is None:
            pytest.skip("no server of S3's protocol to test with: pip install 'moto[server]', in any environment")
        one = cls(program)
        try:
            yield one
        finally:
            one.process.kill()
            one.process.wait()

    def make_bucket(self, name: str) -> None:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()


class LineToObjects(TcpProxy):
    """A proxy to `ObjectServer`, which corrects the one answer of moto's that is not as S3 documents it: pyarrow takes
    an upload in parts for failed otherwise."""

    WRONG, RIGHT = b"CompleteMultipartUploadResponse", b"CompleteMultipartUploadResult  "

    def _pass(self, here: socket.socket, there: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(1 << 20):
                while self.swallows and not self._closing.wait(0.01):
                    pass
                there.sendall(data.replace(self.WRONG, self.RIGHT))
        for one in (here, there):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def url_of(bucket: str, port: int, password: str = "secret-canary") -> str:
    return (
        f"s3://someone:{password}@{bucket}/lake/items?scheme=http&endpoint_override=127.0.0.1%3A{port}&region=us-east-1"
    )


class ObjectSubject(SinkSubject):
    def __init__(self, bucket: str, port: int) -> None:
        self.bucket, self.port = bucket, port
        self.proxy: Any = None

    def make(self) -> ParquetSink:
        port = self.proxy.port if self.proxy is not None else self.port
        return ParquetSink(url_of(self.bucket, port), rows_per_file=50, seconds_per_file=0.005)

    def rows(self) -> list[tuple[int, int]]:
        return [(row["number"], row["revision"]) for row in self.all_rows()]

    def all_rows(self) -> list[dict[str, Any]]:
        files, root = fs.FileSystem.from_uri(url_of(self.bucket, self.port))
        found = files.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        paths = sorted(info.path for info in found if info.is_file)
        return [row for path in paths for row in pq.ParquetFile(files.open_input_file(path)).read().to_pylist()]

    @contextmanager
    def away(self) -> Iterator[None]:
        with self.proxy.away():
            yield

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "parquet_kit:ObjectSubject", [self.bucket, self.port]


def dataset(folder: Path, **settings: Any) -> pa.Table:
    """All rows as a reader of partitioned folders sees them."""
    return ds.dataset(folder, format="parquet", **settings).to_table()
