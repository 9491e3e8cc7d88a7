"""The Spark session of a driver: its settings, and what has to be on the machine for it. Knows no query."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bridge.archives import OPTIONS, faster
from bridge.callbacks import guard
from bridge.hidden import hidden
from bridge.java import NoJava, java_home
from bridge.masters import SETTINGS, on_loopback, wait_for
from bridge.mistakes import NeedsMending
from bridge.pythons import python

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
    """Starts Spark, or a session of Spark Connect; takes seconds. Raises NeedsMending where there is no Java that it
    runs on, or no server. On this machine alone it listens on loopback only, and answers to nobody but its own."""
    if master.startswith("sc://"):
        from bridge.connect import start_remote

        return start_remote(name, master, settings)
    if master.startswith("spark://"):
        wait_for(master)
    try:
        home = java_home(folder)
    except NoJava as error:
        raise NeedsMending(str(error)) from error
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
