"""Places of files: a folder of this machine, or a store of objects. Each file appears whole, or not at all.

Knows the operating system and pyarrow's file systems; must not know rows or columns. Every call blocks.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from bolts.sinks.contract import SinkStoreBroken, StoreAway
from bolts.sinks.files import PASSING, LockFile, identity_of
from topology.clients.addresses import without_secrets
from topology.clients.errors import invalid, refused
from topology.errors import ConfigurationError
from topology.filesystem.safe_files import followed, rename_over
from topology.filesystem.sync import sync_file, sync_folder
from topology.secrets import Secret

TEMPORARY: Final = ".kedge-unfinished-"  # begins the name of a file that is being written; readers skip such names
CONNECT_S: Final = 3.0  # seconds that connecting to a store of objects may take
REQUEST_S: Final = 3.0  # seconds without a byte after which a request has failed
TRIES: Final = 1  # of one request, as the sink repeats a write without end; one whose server is silent takes 10 seconds
_LOCK: Final = ".kedge"  # of the sink that writes a folder: `.kedge-lock`
# Words of pyarrow's errors: a person has to fix these. Anything else may pass.
_TO_FIX: Final = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "HTTP status 403")
# Words of pyarrow's errors about the content of a file.
_DAMAGE: Final = ("CRC checksum", "Unexpected end of stream", "Couldn't deserialize")


class FilePlace(Protocol):
    """A place. `where` names it for people; `scratch` is a folder of this machine for files without a name.

    `open` and `names` raise StoreAway and ConfigurationError.
    """

    where: str

    @property
    def scratch(self) -> Path: ...

    def open(self) -> None:
        """Take it for one sink, if it can be locked. May be called again after StoreAway."""

    def names(self) -> list[str]:
        """Return the files in it, as paths below it with slashes."""
        ...

    def read(self, name: str) -> Any:
        """Return an open file, for reading. Raises OSError."""
        ...

    def is_damage(self, error: OSError) -> bool:
        """Return True if reading has failed for the file's content, and not for the place."""
        ...

    def put(self, name: str, data: Any) -> None:
        """Make a file of these bytes, durably; replace one of that name. Raises StoreAway and SinkStoreBroken."""

    def close(self) -> None:
        """Release it. Does not raise."""


class LocalPlace:
    """A folder of this machine. `open` makes it in an existing one, and removes what a killed process has left."""

    def __init__(self, path: str) -> None:
        self.where = path
        self._given = path
        self._folder = Path(path)
        self._lock: LockFile | None = None
        self._identity: tuple[int, int] | None = None

    def open(self) -> None:
        try:
            self._folder = followed(self._given)
            if not self._folder.is_dir():
                self._folder.mkdir()
                sync_folder(self._folder.parent)
            self._lock = self._locked()
            self._identity = identity_of(self._folder)
            self._tidy()
        except (OSError, ValueError) as error:
            self.close()
            text = f"{self.where} can't be used: {getattr(error, 'strerror', None) or error}"
            if isinstance(error, OSError) and error.errno in PASSING:
                raise StoreAway(text) from error
            raise refused(f"ParquetSink: {text}") from error
        except BaseException:
            self.close()
            raise

    def _locked(self) -> LockFile:
        try:
            return LockFile(self._folder / _LOCK)
        except ConfigurationError:
            text = f"ParquetSink: {self.where} is being written by another sink or process"
            raise refused(text) from None

    @property
    def scratch(self) -> Path:
        return self._folder

    def _tidy(self) -> None:
        """Remove unfinished files, and make all names durable: a process may have died before it had synced them."""
        for folder, _, files in os.walk(self._folder):
            for file in files:
                if file.startswith(TEMPORARY):
                    (Path(folder) / file).unlink(missing_ok=True)
            sync_folder(Path(folder))

    def names(self) -> list[str]:
        found = []
        for folder, _, files in os.walk(self._folder):
            below = Path(folder).relative_to(self._folder)
            found += [(below / file).as_posix() for file in files]
        return found

    def read(self, name: str) -> Any:
        return (self._folder / name).open("rb")

    def is_damage(self, error: OSError) -> bool:
        return error.errno is None  # pyarrow's, not the system's

    def put(self, name: str, data: Any) -> None:
        path = self._folder / name
        temporary = path.with_name(TEMPORARY + path.stem)  # with no suffix that a reader looks for
        try:
            if identity_of(self._folder) != self._identity:
                raise StoreAway(f"{self.where} was removed or replaced while the sink was writing")
            self._make(path.parent)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreAway(f"{self.where} can't be written: {error.strerror}") from error
        try:
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                self._synced(lambda: sync_file(descriptor))
            finally:
                os.close(descriptor)
            rename_over(temporary, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise StoreAway(f"{self.where} can't be written: {error.strerror}") from error
        self._synced(lambda: sync_folder(path.parent))

    def _make(self, folder: Path) -> None:
        """Make a folder below ours, durably. Raises OSError."""
        missing = []
        while folder != self._folder and not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            sync_folder(each.parent)

    def _synced(self, sync: Callable[[], None]) -> None:
        try:
            sync()
        except OSError as error:  # a second sync would prove nothing (F18)
            raise SinkStoreBroken(f"a file in {self.where} could not be synced: {error.strerror}") from error

    def close(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            with contextlib.suppress(OSError):
                lock.release()


class ObjectPlace:
    """A file system of pyarrow's that shows a file only when its stream is closed, such as S3. Nothing locks it.

    `make` returns the pyarrow.fs.FileSystem and a path in it. `has_bucket`: the path begins with a bucket.
    """

    def __init__(self, where: str, make: Callable[[], tuple[Any, str]], arrow: Any, has_bucket: bool) -> None:
        self.where = where
        self._make, self._arrow, self._has_bucket = make, arrow, has_bucket
        self._files: Any = None
        self._root = ""

    @property
    def scratch(self) -> Path:
        return Path(tempfile.gettempdir())

    def open(self) -> None:
        if self._files is None:
            try:
                self._files, root = self._make()
            except self._arrow.ArrowInvalid:  # its text has the URL
                raise invalid(
                    f"ParquetSink: {self.where or 'its path'} is no URL of a store of objects, such as s3://BUCKET/PATH"
                ) from None
            except OSError as error:
                raise self._fault(error) from error
            self._root = root.strip("/") if self._has_bucket else root.rstrip("/")
        if self._has_bucket:
            self._check_bucket(self._root.partition("/")[0])

    def _check_bucket(self, name: str) -> None:
        try:
            is_there = self._files.get_file_info(name).type != self._arrow.fs.FileType.NotFound
        except OSError as error:
            raise self._fault(error) from error
        if not is_there:
            raise refused(f"ParquetSink: there is no bucket {name!r} for {self.where}")

    def names(self) -> list[str]:
        selector = self._arrow.fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        try:
            found = self._files.get_file_info(selector)
        except OSError as error:
            raise self._fault(error) from error
        return [info.path[len(self._root) + 1 :] for info in found if info.is_file]

    def read(self, name: str) -> Any:
        return self._files.open_input_file(f"{self._root}/{name}")

    def is_damage(self, error: OSError) -> bool:
        return any(words in str(error) for words in _DAMAGE)

    def put(self, name: str, data: Any) -> None:
        try:
            # one write: a stream that is closed early would show a part of the file
            with self._files.open_output_stream(f"{self._root}/{name}") as stream:
                stream.write(data)
        except OSError as error:
            raise StoreAway(f"{self.where} can't be written: {_line(error)}") from error

    def close(self) -> None:
        self._files = None

    def _fault(self, error: OSError) -> StoreAway | ConfigurationError:
        text = f"{self.where} can't be used: {_line(error)}"
        if any(words in str(error) for words in _TO_FIX):
            return refused(f"ParquetSink: {text}")
        return StoreAway(text)


def place_of(path: Secret, filesystem: Callable[[], Any] | None, arrow: Any) -> FilePlace:
    """Return the place of a path or URL. `filesystem` makes a pyarrow.fs.FileSystem in which it is a path."""
    text = path.reveal()
    if filesystem is not None:
        return ObjectPlace(without_secrets(path), lambda: (filesystem(), text), arrow, False)
    if text.startswith("file://"):
        return LocalPlace(text.removeprefix("file://"))
    if "://" not in text:
        return LocalPlace(text)
    return ObjectPlace(without_secrets(path), lambda: _from_url(text, arrow), arrow, True)


def _from_url(url: str, arrow: Any) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it. Raises pyarrow.ArrowException and OSError."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    bucket = parts.netloc.rpartition("@")[2]
    if not bucket:
        raise arrow.ArrowInvalid("it names no bucket")
    if parts.scheme != "s3" or not query.keys() <= {"region", "scheme", "endpoint_override"}:
        made: tuple[Any, str] = arrow.fs.FileSystem.from_uri(url)
        return made
    # pyarrow's own reading of the URL would repeat a call for six seconds, and upload any file in parts
    region, endpoint = query.get("region"), query.get("endpoint_override")
    files = arrow.fs.S3FileSystem(
        access_key=None if parts.username is None else unquote(parts.username),
        secret_key=None if parts.password is None else unquote(parts.password),
        region=region or (None if endpoint else arrow.fs.resolve_s3_region(bucket)),
        scheme=query.get("scheme", "https"),
        endpoint_override=endpoint,
        connect_timeout=CONNECT_S,
        request_timeout=REQUEST_S,
        retry_strategy=arrow.fs.AwsStandardS3RetryStrategy(max_attempts=TRIES),
        allow_delayed_open=True,  # a small file is one request
    )
    return files, bucket + parts.path


def _line(error: OSError) -> str:
    return " ".join(str(error).split())[:300]
