"""Places of files: a folder of this machine, or a store of objects. Each file appears whole, or not at all.

Knows the operating system and pyarrow's file systems; must not know rows or columns. Every call blocks.
"""

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from bolts.sinks.contract import SinkStoreBroken, StoreAway
from bolts.sinks.files import PASSING, LockFile, identity_of
from bolts.sinks.values import BadValue
from topology.clients.addresses import LOOSE_AT, has_loose_at, without_secrets
from topology.clients.errors import invalid, refused
from topology.errors import ConfigurationError
from topology.filesystem.safe_files import followed, rename_over
from topology.filesystem.sync import sync_file, sync_folder
from topology.secrets import Secret
from topology.text import printable

TEMPORARY: Final = ".kedge-unfinished-"  # begins the name of a file that is being written; readers skip such names
CONNECT_S: Final = 3.0  # seconds that connecting to a store of objects may take
REQUEST_S: Final = 3.0  # seconds without a byte after which a request has failed
TRIES: Final = 1  # of one request, as the sink repeats a write without end; one whose server is silent takes 10 seconds
TOO_LONG: Final = "its file in {} would have too long a path"
NO_URL: Final = "{} is no URL of a store of objects, such as s3://BUCKET/PATH"
_FILE: Final = "file://"
_LOCK: Final = ".kedge"  # of the sink that writes a folder: `.kedge-lock`
# Words of pyarrow's errors: a person has to fix these. Anything else may pass.
_TO_FIX: Final = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "HTTP status 403")
# Words of pyarrow's errors about the content of a file.
_DAMAGE: Final = ("CRC checksum", "Unexpected end of stream", "Couldn't deserialize")
_SAID_MAX: Final = 300  # characters of an error that a sentence repeats
_BUCKETS: Final = ("s3", "gs", "gcs")  # schemes whose URLs name a bucket, which has no port


class FilePlace(Protocol):
    """A place. `where` names it for people; `scratch` is a folder of this machine for files without a name. `faults`
    are the classes of the errors that reading may raise.

    `open` and `names` raise StoreAway and ConfigurationError.
    """

    where: str
    faults: tuple[type[Exception], ...]

    @property
    def scratch(self) -> Path: ...

    def open(self) -> None:
        """Take it for one sink, if it can be locked. May be called again after StoreAway."""

    def names(self) -> list[str]:
        """Return the files in it, as paths below it with slashes."""
        ...

    def read(self, name: str) -> Any:
        """Return an open file, for reading. Raises one of `faults`."""
        ...

    def is_damage(self, error: Exception) -> bool:
        """Return True if reading has failed for the file's content, and not for the place."""
        ...

    def put(self, name: str, data: Any) -> None:
        """Make a file of these bytes, durably; replace one of that name.

        Raises StoreAway and SinkStoreBroken, and BadValue for a name that is too long."""

    def close(self) -> None:
        """Release it. Does not raise."""


class LocalPlace:
    """A folder of this machine. `open` makes it in an existing one, and removes what a killed process has left."""

    def __init__(self, path: str) -> None:
        self.where = path
        self.faults: tuple[type[Exception], ...] = (OSError,)
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

    def is_damage(self, error: Exception) -> bool:
        return getattr(error, "errno", None) is None  # pyarrow's, not the system's

    def put(self, name: str, data: Any) -> None:
        path = self._folder / name
        temporary = path.with_name(TEMPORARY + path.stem)  # with no suffix that a reader looks for
        try:
            if identity_of(self._folder) != self._identity:
                raise StoreAway(f"{self.where} was removed or replaced while the sink was writing")
            self._make(path.parent)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        except OSError as error:
            if _is_too_long(error):
                raise BadValue(TOO_LONG.format(self.where)) from error
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

    `make` returns the pyarrow.fs.FileSystem and a path in it. `is_users`: the user has made it. Then it may raise
    anything, as those of fsspec do, and each error counts as an outage; else the path begins with a bucket.
    """

    def __init__(self, where: str, make: Callable[[], tuple[Any, str]], arrow: Any, is_users: bool) -> None:
        self.where = where
        self.faults: tuple[type[Exception], ...] = (Exception,) if is_users else (OSError, arrow.ArrowInvalid)
        self._make, self._arrow, self._has_bucket = make, arrow, not is_users
        self._files: Any = None
        self._root = ""

    @property
    def scratch(self) -> Path:
        return Path(tempfile.gettempdir())

    def open(self) -> None:
        if self._files is None:
            faults: tuple[type[Exception], ...] = (*self.faults, NotImplementedError)  # a pyarrow built without it
            try:
                self._files, root = self._make()
            except faults as error:
                raise self._fault(error) from None  # its frames have the URL
            self._root = root.strip("/") if self._has_bucket else root.rstrip("/")
        if self._has_bucket:
            self._check_bucket(self._root.partition("/")[0])

    def _check_bucket(self, name: str) -> None:
        try:
            is_there = self._files.get_file_info(name).type != self._arrow.fs.FileType.NotFound
        except self.faults as error:
            raise self._fault(error) from None
        if not is_there:
            raise refused(f"ParquetSink: there is no bucket {name!r} for {self.where}")

    def names(self) -> list[str]:
        selector = self._arrow.fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        try:
            found = self._files.get_file_info(selector)
        except self.faults as error:
            raise self._fault(error) from error
        return [info.path[len(self._root) + 1 :] for info in found if info.is_file]

    def read(self, name: str) -> Any:
        return self._files.open_input_file(f"{self._root}/{name}")

    def is_damage(self, error: Exception) -> bool:
        return any(words in str(error) for words in _DAMAGE)

    def put(self, name: str, data: Any) -> None:
        try:
            # one write: a stream that is closed early would show a part of the file
            with self._files.open_output_stream(f"{self._root}/{name}") as stream:
                stream.write(data)
        except self.faults as error:
            if _is_too_long(error):
                raise BadValue(TOO_LONG.format(self.where)) from error
            raise StoreAway(f"{self.where} can't be written: {line_of(error)}") from error

    def close(self) -> None:
        self._files = None

    def _fault(self, error: Exception) -> StoreAway | ConfigurationError:
        if isinstance(error, ConfigurationError):
            return error
        if self._has_bucket and isinstance(error, self._arrow.ArrowInvalid | NotImplementedError):  # it has the URL
            return invalid(f"ParquetSink: {NO_URL.format(self.where)}")
        text = f"{self.where} can't be used: {line_of(error)}"
        if isinstance(error, ImportError) or any(words in str(error) for words in _TO_FIX):
            return refused(f"ParquetSink: {text}")
        return StoreAway(text)


def place_of(path: Secret, filesystem: Callable[[], Any] | None, arrow: Any) -> FilePlace:
    """Return the place of a path or URL. `filesystem` makes a pyarrow.fs.FileSystem in which it is a path."""
    text = path.reveal()
    if filesystem is not None:
        return ObjectPlace(without_secrets(path), lambda: (filesystem(), text), arrow, True)
    if text.startswith(_FILE):
        return LocalPlace(unquote(text.removeprefix(_FILE), errors="surrogateescape"))
    if "://" not in text:
        return LocalPlace(text)
    return ObjectPlace(without_secrets(path), lambda: _from_url(text, arrow), arrow, False)


def check_url(path: Secret) -> None:
    """Raise ConfigurationError for a URL in which no bucket can be found. Other paths are right."""
    text = path.reveal()
    if "://" not in text or text.startswith(_FILE):
        return
    try:
        parts = urlsplit(text)
        bucket = parts.netloc.rpartition("@")[2]
        has_port = parts.port is not None
        good = bool(parts.scheme and bucket) and not (has_port and (parts.scheme in _BUCKETS or has_loose_at(text)))
    except ValueError:  # a port that is no number: most likely the begin of a password
        good = False
    if not good:
        hint = f"; it {LOOSE_AT}" if has_loose_at(text) else ""
        raise invalid(f"ParquetSink: {NO_URL.format(without_secrets(path))}{hint}")


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


def _is_too_long(error: Exception) -> bool:
    """Return True if a file could not be made for the length of its path."""
    return getattr(error, "errno", None) == errno.ENAMETOOLONG or "KeyTooLong" in str(error)


def line_of(error: Exception) -> str:
    """Return an error for people, in one line; with its class if it is not the system's."""
    said = " ".join(str(error).split())[:_SAID_MAX]
    name = "" if isinstance(error, OSError) and said else type(error).__name__
    return printable(": ".join(part for part in (name, said) if part))
