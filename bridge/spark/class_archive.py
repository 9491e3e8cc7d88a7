"""Archives of the classes that Spark loads, which make Spark start faster: where they are stored, and which one is
trusted.

They are stored in the user's cache per Java, PySpark and Spark's jars, under a name that contains a checksum. An
archive only saves time. A damaged archive is removed; if the JVM rejects one, Spark starts without it.
`make_class_archive` makes them.
"""

import hashlib
import json
import logging
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import xxhash

from bridge.spark.errors import not_started
from bridge.spark.java import pips, wrapping
from topology.filesystem.safe_files import rename_over

OPTIONS: Final = "spark.driver.extraJavaOptions"
KEPT_MAX: Final = 3  # archives in the cache, of the Javas and PySparks that were used last; about 200 MB each
LEFT_S: Final = 3_600.0  # age in seconds after which an unfinished file is abandoned
MAKING_S: Final = 600.0  # seconds that making an archive may take
RUNS_S: Final = 30.0  # seconds that Spark's version command may take
AFTER_S: Final = 120.0  # seconds that a run has to last before it makes an archive
MEMORY_MIN: Final = 3 * 1024**3  # bytes of free memory that are needed, because another Spark runs for a minute
WRAPPER_MAX: Final = 4_096  # bytes of a wrapper script that are read
READ_BYTES: Final = 1024 * 1024
SUFFIX: Final = ".jsa"
NEW: Final = "new-"  # prefix of an unfinished archive's file and of its working folder
OFF: Final = "KEDGE_NO_SPARK_CACHE"  # environment variable that turns archives off, with any value

logger = logging.getLogger("kedge")


class Archives:
    """The archives in one folder. No method raises, except `keep`; a failure only costs time."""

    def __init__(self, folder: Path, key: str, suffix: str = SUFFIX) -> None:
        self.folder = folder
        self.key = key
        self.suffix = suffix

    def found(self) -> Path | None:
        """Return the archive for this Java and Spark. Reads the whole file and checks its checksum."""
        for path in self._of(f"{self.key}-*{self.suffix}"):
            try:
                if path.stem == f"{self.key}-{digest(path)}":
                    os.utime(path)  # marks it as used last
                    return path
                path.unlink()
            except OSError:
                continue
        return None

    def keep(self, made: Path) -> Path:
        """Make a file in the folder the archive. Removes the archives that were used longest ago. Raises OSError."""
        path = self.folder / f"{self.key}-{digest(made)}{self.suffix}"
        rename_over(made, path)
        for old in [kept for kept in self._of(f"*{self.suffix}") if kept != path][KEPT_MAX - 1 :]:
            old.unlink(missing_ok=True)
        return path

    def distrust(self) -> None:
        """Remove the archive, because Spark did not start with it, for whatever reason."""
        for path in self._of(f"{self.key}-*{self.suffix}"):
            path.unlink(missing_ok=True)

    def begin(self) -> Path | None:
        """Return the path of a new file in the folder for an archive that is being made, or None if the folder is not
        writable. Removes abandoned files."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in self._of(f"{NEW}*"):
                if time.time() - left.stat().st_mtime <= LEFT_S:
                    continue
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink(missing_ok=True)
            file, path = tempfile.mkstemp(prefix=NEW, dir=self.folder)
            os.close(file)
        except OSError:
            return None
        return Path(path)

    def _of(self, pattern: str) -> list[Path]:
        """Return the matching files, the newest first. Empty if other users may write to the folder, because a JVM maps
        an archive as code."""
        try:
            its = self.folder.stat()
            if its.st_uid != os.geteuid() or its.st_mode & 0o022:
                return []
            return sorted(self.folder.glob(pattern), key=lambda one: one.stat().st_mtime, reverse=True)
        except OSError:
            return []


def archives(java: Path | None = None) -> Archives | None:
    """Return this user's archives for the Java that Spark starts on. Return None without PySpark, or if archives are
    turned off."""
    java = java or _java()
    if os.environ.get(OFF) or java is None:
        return None
    try:
        folder = users_cache()
        spark, where = version("pyspark"), find_spec("pyspark")
        assert where is not None, "it has a version"
        assert where.origin is not None, "it is a package"
        jars = sorted(Path(where.origin).with_name("jars").iterdir())
        files = [(str(file), (its := file.stat()).st_size, its.st_mtime_ns) for file in (java.resolve(), *jars)]
    except (PackageNotFoundError, OSError, RuntimeError):  # RuntimeError: the user has no home
        return None
    key = hashlib.sha256(json.dumps([spark, files]).encode()).hexdigest()[:16]
    return Archives(folder / "spark", key)


def users_cache() -> Path:
    """Return this user's folder for Kedge's caches. Raises RuntimeError if the user has no home."""
    cache = os.environ.get("XDG_CACHE_HOME") or ""
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "kedge"


def digest(path: Path) -> str:
    """Return a checksum of a file. Raises OSError."""
    made = xxhash.xxh3_128()
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            made.update(data)
    return made.hexdigest()


def options(found: Path | None, users: str = "") -> str:
    """Return Java's options: ours first, then the user's."""
    ours = ["-Xshare:auto", f"-XX:SharedArchiveFile={found}"] if found is not None else []
    return " ".join([*map(shlex.quote, ours), *([users] if users else [])])


@contextmanager
def faster(settings: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield Spark's settings, with an archive if there is one. The archive is removed if Java exits inside the context
    and also exits when it runs without the user's settings. A wrong setting therefore costs no archive."""
    its = archives()
    found = its.found() if its is not None else None
    try:
        yield {**settings, OPTIONS: options(found, settings.get(OPTIONS, ""))} if found is not None else {**settings}
    except Exception as error:
        if its is not None and found is not None and not not_started(error) and not runs_with(found):
            its.distrust()
        raise


def runs_with(found: Path) -> bool:
    """Return True if Spark's own command runs with this archive and no other option. Takes a second or two."""
    where = find_spec("pyspark")
    assert where is not None, "Spark was started"
    assert where.origin is not None, "it is a package"
    home = Path(where.origin).parent
    command = [str(home / "bin" / "spark-submit"), "--driver-java-options", options(found), "--version"]
    its = {**os.environ, "SPARK_HOME": str(home)}
    try:
        return not subprocess.run(command, capture_output=True, timeout=RUNS_S, check=False, env=its).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


# -- making an archive in the background


def begin_to_make(after_s: float = AFTER_S) -> None:
    """Make an archive in the background if there is none, once a driver has run for `after_s` seconds. Returns at once.
    A process of the lowest priority makes it; it ends with the driver, because it is in the driver's process group."""
    threading.Thread(target=_make_later, args=(after_s,), daemon=True, name="startup").start()


def _make_later(after_s: float) -> None:
    time.sleep(after_s)
    its, nice = archives(), shutil.which("nice")
    if its is None or its.found() is not None or free() < MEMORY_MIN:
        return
    command = [*([nice, "-n", "19"] if nice else []), sys.executable, "-P", "-m", "bridge.driver.make_class_archive"]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, timeout=2 * MAKING_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.info("no archive of Spark's classes was made: %s", error)


def free() -> int:
    """Return the available memory in bytes; 0 if it is unknown."""
    try:
        lines: Iterable[str] = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return 0


def _java() -> Path | None:
    """Return the Java that `java_home` chooses, even if JAVA_HOME already names a run's wrapper of pip's Java. Return
    None if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    brought = pips()
    if found and (brought is None or _begins(Path(found)) != wrapping(brought).encode()):
        return Path(found)
    return brought


def _begins(path: Path) -> bytes:
    """Return the first bytes of a file; empty if it is not readable."""
    try:
        with path.open("rb") as file:
            return file.read(WRAPPER_MAX)
    except OSError:
        return b""
