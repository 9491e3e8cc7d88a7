"""The Spark session of a driver: its settings, and what it needs on the machine. Must not know a query."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bridge.errors import UserError
from bridge.spark.callback_auth import guard
from bridge.spark.class_archive import OPTIONS, faster
from bridge.spark.java import NoJava, java_home
from bridge.spark.master import SETTINGS, on_loopback, wait_for
from topology.secrets import names_secret

NAME: Final = ".hidden.conf"
ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
SHELL: Final = "pyspark-shell"  # the program that pyspark itself starts


@contextmanager
def hidden(settings: Mapping[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """Yield the settings that others may see. A JVM that pyspark starts within this context also gets the secret ones,
    with surrounding blanks removed."""
    secrets = {key: value for key, value in settings.items() if names_secret(key)}
    if not secrets:
        yield dict(settings)
        return
    path, before = folder / NAME, os.environ.get(ARGUMENTS)
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(file, "w", encoding="utf-8") as lines:
            lines.writelines(f"{escaped(key)}={escaped(value)}\n" for key, value in secrets.items())
        ours = f"--load-spark-defaults --properties-file {shlex.quote(str(path))}"
        os.environ[ARGUMENTS] = f"{ours} {SHELL if before is None else before}"
        yield {key: value for key, value in settings.items() if key not in secrets}
    finally:
        path.unlink(missing_ok=True)
        os.environ.pop(ARGUMENTS, None)
        if before is not None:
            os.environ[ARGUMENTS] = before


def escaped(text: str) -> str:
    """Return the text in the form of a Java properties file."""
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return re.sub(r"[ =:#!]", r"\\\g<0>", plain)


WRAPPER: Final = """\
#!/bin/sh
set -f
path= IFS=:
for one in $PYTHONPATH; do
    case $one in {zips}) ;; *) path=$path${{path:+:}}$one ;; esac
done
unset IFS
PYTHONPATH=$path exec {python} "$@"
"""
ZIPS: Final = {"pyspark": "*/pyspark.zip", "py4j": "*/py4j-*-src.zip"}  # package → Spark's name for its zip
RUNS_S: Final = 30.0  # seconds that a Python which does nothing may take


def python(folder: Path) -> str:
    """Return the value for PYSPARK_PYTHON: a command in `folder`, or this Python if that command does not work."""
    zips = [pattern for name, pattern in ZIPS.items() if _is_on_disk(name)]
    wrapper = folder / "python" / "python"
    quoted = shlex.quote(str(wrapper)) != str(wrapper)  # Spark passes the path unquoted to a shell
    if not zips or not sys.executable or quoted:
        return sys.executable
    try:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        wrapper.write_text(WRAPPER.format(zips=" | ".join(zips), python=shlex.quote(sys.executable)))
        wrapper.chmod(0o700)
        ran = subprocess.run([str(wrapper), "-I", "-S", "-c", ""], capture_output=True, timeout=RUNS_S, check=False)
    except (OSError, subprocess.TimeoutExpired):  # for example a disk mounted noexec
        return sys.executable
    return str(wrapper) if not ran.returncode else sys.executable


def _is_on_disk(name: str) -> bool:
    """Return True if this Python has the package outside of a zip."""
    found = find_spec(name)
    return found is not None and found.origin is not None and os.path.isfile(found.origin)


# Only the C1 compiler: the first job is faster, and a run of some minutes is not slower.
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1"
STARTS_MAX: Final = 6  # tries to start a query if Spark's Python does not start in time
# With local[…], Spark draws the secret itself. A local-cluster[…] has a Master with a web page, which may end nothing.
AUTHENTICATE: Final = {"spark.authenticate": "true", "spark.ui.killEnabled": "false"}
SECRET: Final = "spark.authenticate.secret"
LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def is_remote(session: object) -> bool:
    """Return True for a session of Spark Connect, which has another class."""
    return not isinstance(session, SparkSession)


def parallelism(session: Any) -> int:
    """Return how many tasks Spark can run at once. Spark Connect does not report that, so the number of shuffle
    partitions is returned there."""
    if is_remote(session):
        return int(session.conf.get("spark.sql.shuffle.partitions") or 2)
    most: int = session.sparkContext.defaultParallelism
    return most


def started(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query. A Spark Connect server gives a new Python process 10 s to start, which is too short on a busy
    machine. Such a failure is tried again, up to STARTS_MAX times in all."""
    for _ in range(STARTS_MAX - 1):
        try:
            return writer.start()
        except PySparkException as error:
            if "failed to connect back" not in str(error):
                raise
    return writer.start()


def in_folder(local: Path, users: str) -> str:
    """Return Java's options, the user's last, so that libraries unpack their files into this folder too. A killed JVM
    leaves 15 MB of them, which would stay in /tmp."""
    return f"{shlex.quote(f'-Djava.io.tmpdir={local}')} {users}".rstrip()


def drawn(master: str) -> dict[str, str]:
    """Return a new secret for a local-cluster[…], which authenticates but draws no secret itself. Empty for others."""
    return {SECRET: token_hex(32)} if master.startswith("local-cluster") else {}


def start(name: str, master: str, folder: Path, settings: Mapping[str, str]) -> SparkSession:
    """Start Spark, which takes seconds. Raises UserError if there is no suitable Java, or no server answers. On this
    machine alone, Spark listens only on loopback and answers only to its own processes, but for the web pages that the
    Master and Workers of a local-cluster[…] have. Spark Connect is in
    `bridge.driver.connect`."""
    if master.startswith("spark://"):
        wait_for(master)
    try:
        home = java_home(folder)
    except NoJava as error:
        raise UserError(str(error)) from error
    if home is not None:
        os.environ["JAVA_HOME"] = home
    here, elsewhere = on_loopback(master), not master.startswith("local")
    os.environ.setdefault("PYSPARK_PYTHON", python(folder) if here else sys.executable)
    os.environ.setdefault("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
    if here:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name).master(master)
    local = folder / "local"  # holds leftovers of a killed JVM, which are not read again
    shutil.rmtree(local, ignore_errors=True)
    local.mkdir(parents=True, exist_ok=True)
    beside = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(local)}
    if elsewhere and (path := os.environ.get("PYTHONPATH")):
        beside["spark.executorEnv.PYTHONPATH"] = path  # executors that see the same folders import the same modules
    ours = {**(LOOPBACK if here else {}), **({} if elsewhere else AUTHENTICATE)}
    with (
        faster({**drawn(master), **settings, OPTIONS: in_folder(local, settings.get(OPTIONS, ""))}) as given,
        hidden(given, folder) as seen,
    ):
        for key, value in {**SETTINGS, **beside, **ours, **seen}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    guard(session.sparkContext._gateway)
    return session
