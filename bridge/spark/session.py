"""The Spark session of a driver: its settings, and what has to be on the machine for it. Knows no query."""

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
SHELL: Final = "pyspark-shell"  # what pyspark itself starts


@contextmanager
def hidden(settings: Mapping[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """The settings that may be seen; a JVM that pyspark starts meanwhile has the others too, without blanks around."""
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
    """As a file of Java's properties has it."""
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
ZIPS: Final = {"pyspark": "*/pyspark.zip", "py4j": "*/py4j-*-src.zip"}  # by what is in them, as Spark calls them
RUNS_S: Final = 30.0  # a Python that does nothing may take this long


def python(folder: Path) -> str:
    """What PYSPARK_PYTHON has to be: a command in `folder`, or this Python itself, where that would not do."""
    zips = [pattern for name, pattern in ZIPS.items() if _is_on_disk(name)]
    wrapper = folder / "python" / "python"
    quoted = shlex.quote(str(wrapper)) != str(wrapper)  # Spark asks a shell for it, as it is
    if not zips or not sys.executable or quoted:
        return sys.executable
    try:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        wrapper.write_text(WRAPPER.format(zips=" | ".join(zips), python=shlex.quote(sys.executable)))
        wrapper.chmod(0o700)
        ran = subprocess.run([str(wrapper), "-I", "-S", "-c", ""], capture_output=True, timeout=RUNS_S, check=False)
    except (OSError, subprocess.TimeoutExpired):  # a disk that nothing is run from, say
        return sys.executable
    return str(wrapper) if not ran.returncode else sys.executable


def _is_on_disk(name: str) -> bool:
    """Whether this Python has the package elsewhere than in a zip."""
    found = find_spec(name)
    return found is not None and found.origin is not None and os.path.isfile(found.origin)


# The C1 compiler alone: the first job comes sooner, and a run of minutes is none the slower for it.
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1"
STARTS_MAX: Final = 6  # of a query, where Spark's Python does not come up in time
AUTHENTICATE: Final = {"spark.authenticate": "true"}  # on this machine, where Spark draws the secret itself
LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def is_remote(session: object) -> bool:
    """Whether it is one of Spark Connect, whose class is another."""
    return not isinstance(session, SparkSession)


def parallelism(session: Any) -> int:
    """How many tasks Spark has room for at once; over Spark Connect, which does not tell, as many as shuffles have."""
    if is_remote(session):
        return int(session.conf.get("spark.sql.shuffle.partitions") or 2)
    most: int = session.sparkContext.defaultParallelism
    return most


def started(writer: DataStreamWriter) -> StreamingQuery:
    """Starts a query. A Spark Connect server gives a new Python process 10 s to come up, which a busy machine does not
    always make: that is tried again, some times."""
    for _ in range(STARTS_MAX - 1):
        try:
            return writer.start()
        except PySparkException as error:
            if "failed to connect back" not in str(error):
                raise
    return writer.start()


def in_folder(local: Path, users: str) -> str:
    """Java's options, those of the user last: what libraries unpack goes into this folder too. A JVM that is killed
    leaves 15 MB of them, which would be in /tmp for good."""
    return f"{shlex.quote(f'-Djava.io.tmpdir={local}')} {users}".rstrip()


def start(name: str, master: str, folder: Path, settings: Mapping[str, str]) -> SparkSession:
    """Starts Spark; takes seconds. Raises NeedsMending where there is no Java that it runs on, or no server. On this
    machine alone it listens on loopback only, and answers to nobody but its own. Spark Connect is for `connect`."""
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
    local = folder / "local"  # what a JVM that is killed leaves; nothing of it is read again
    shutil.rmtree(local, ignore_errors=True)
    local.mkdir(parents=True, exist_ok=True)
    beside = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(local)}
    if elsewhere and (path := os.environ.get("PYTHONPATH")):
        beside["spark.executorEnv.PYTHONPATH"] = path  # executors import what we do, where they see the same folders
    ours = {**(LOOPBACK if here else {}), **({} if elsewhere else AUTHENTICATE)}
    with (
        faster({**settings, OPTIONS: in_folder(local, settings.get(OPTIONS, ""))}) as given,
        hidden(given, folder) as seen,
    ):
        for key, value in {**SETTINGS, **beside, **ours, **seen}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    guard(session.sparkContext._gateway)
    return session
