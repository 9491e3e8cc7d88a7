"""Archives of the classes that Spark loads, which make its starts faster: where they are kept, and which is trusted.

They are in the user's cache, by Java, PySpark and Spark's jars, under a name that has a checksum. An archive is worth
time alone: where it is damaged it is removed, and where the JVM refuses it, that starts without. `startup` makes them.
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

OPTIONS: Final = "spark.driver.extraJavaOptions"
KEPT_MAX: Final = 3  # archives in the cache: of the Javas and PySparks that were used last; about 200 MB each
LEFT_S: Final = 3_600.0  # after this long, what is half made is nobody's any more
MAKING_S: Final = 600.0  # making one may take this long
RUNS_S: Final = 30.0  # Spark's command that tells its version may take this long
AFTER_S: Final = 120.0  # a run has to last this long before it makes one
MEMORY_MIN: Final = 3 * 1024**3  # bytes that are free: another Spark for a minute
WRAPPER_MAX: Final = 4_096  # bytes of a wrapper
READ_BYTES: Final = 1024 * 1024
SUFFIX: Final = ".jsa"
NEW: Final = "new-"  # what is being made is called so: a file, and a folder of what is worked with
OFF: Final = "KEDGE_NO_SPARK_CACHE"  # this variable, set to anything, has Spark start without, and none made

logger = logging.getLogger("kedge")


class Archives:
    """Those in a folder. Everything here costs time where it fails, and raises nothing."""

    def __init__(self, folder: Path, key: str, suffix: str = SUFFIX) -> None:
        self.folder = folder
        self.key = key
        self.suffix = suffix

    def found(self) -> Path | None:
        """The archive for this Java and Spark, read as a whole and found to be what was written."""
        for path in self._of(f"{self.key}-*{self.suffix}"):
            try:
                if path.stem == f"{self.key}-{digest(path)}":
                    os.utime(path)  # used last
                    return path
                path.unlink()
            except OSError:
                continue
        return None

    def keep(self, made: Path) -> Path:
        """Takes a file that is in the folder for the archive; those that were used longest ago go. Raises OSError."""
        path = self.folder / f"{self.key}-{digest(made)}{self.suffix}"
        os.replace(made, path)
        for old in [one for one in self._of(f"*{self.suffix}") if one != path][KEPT_MAX - 1 :]:
            old.unlink(missing_ok=True)
        return path

    def distrust(self) -> None:
        """Spark has not started with it: it is removed, whyever that was."""
        for path in self._of(f"{self.key}-*{self.suffix}"):
            path.unlink(missing_ok=True)

    def begin(self) -> Path | None:
        """A new file's path in the folder, for what is being made; None where this can't be written. What is left of
        others goes."""
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
        """The newest first. None where others may write: what a JVM maps is code."""
        try:
            its = self.folder.stat()
            if its.st_uid != os.geteuid() or its.st_mode & 0o022:
                return []
            return sorted(self.folder.glob(pattern), key=lambda one: one.stat().st_mtime, reverse=True)
        except OSError:
            return []


def archives(java: Path | None = None) -> Archives | None:
    """Those of this user, for the Java that Spark starts on; None without PySpark, or where they are not wanted."""
    java = java or _java()
    if os.environ.get(OFF) or java is None:
        return None
    try:
        folder = users_cache()
        spark, where = version("pyspark"), find_spec("pyspark")
        assert where is not None, "it has a version"
        assert where.origin is not None, "it is a package"
        jars = sorted(Path(where.origin).with_name("jars").iterdir())
        files = [(str(one), (its := one.stat()).st_size, its.st_mtime_ns) for one in (java.resolve(), *jars)]
    except (PackageNotFoundError, OSError, RuntimeError):  # the last of who has no home
        return None
    key = hashlib.sha256(json.dumps([spark, files]).encode()).hexdigest()[:16]
    return Archives(folder / "spark", key)


def users_cache() -> Path:
    """The folder of this user's for what Kedge keeps to be faster. Raises RuntimeError of who has no home."""
    cache = os.environ.get("XDG_CACHE_HOME") or ""
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "kedge"


def digest(path: Path) -> str:
    """A checksum of a file. Raises OSError."""
    made = xxhash.xxh3_128()
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            made.update(data)
    return made.hexdigest()


def options(found: Path | None, users: str = "") -> str:
    """Java's options: those of the user, after ours."""
    ours = ["-Xshare:auto", f"-XX:SharedArchiveFile={found}"] if found is not None else []
    return " ".join([*map(shlex.quote, ours), *([users] if users else [])])


@contextmanager
def faster(settings: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Spark's settings, with an archive where there is one. It is removed where Java ends by itself inside, and with
    none of the user's settings, too; so a setting that is wrong costs nobody an archive."""
    its = archives()
    found = its.found() if its is not None else None
    try:
        yield {**settings, OPTIONS: options(found, settings.get(OPTIONS, ""))} if found is not None else {**settings}
    except Exception as error:
        if its is not None and found is not None and not not_started(error) and not runs_with(found):
            its.distrust()
        raise


def runs_with(found: Path) -> bool:
    """Whether Spark's own command runs with this archive, and nothing else; takes a second or two."""
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


# -- having one made


def begin_to_make(after_s: float = AFTER_S) -> None:
    """Has one made in the background, where there is none, once a driver has lived for so long: by a process of the
    lowest priority, which ends with the driver, as it is in its process group. Returns at once."""
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
    """Bytes of memory that can be had; 0 where that can't be told."""
    try:
        lines: Iterable[str] = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return 0


def _java() -> Path | None:
    """Which one `java_home` chooses, also once JAVA_HOME names a run's wrapper of pip's; None where there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    brought = pips()
    if found and (brought is None or _begins(Path(found)) != wrapping(brought).encode()):
        return Path(found)
    return brought


def _begins(path: Path) -> bytes:
    """What a file begins with; nothing where it can't be read."""
    try:
        with path.open("rb") as file:
            return file.read(WRAPPER_MAX)
    except OSError:
        return b""
