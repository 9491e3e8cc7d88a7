"""Spark as others run it, out of the pip package: a standalone cluster, and a Spark Connect server. On loopback, on
ports that the system chooses, with little memory; whatever was started goes with the test.
"""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from bridge.spark.class_archive import archives, options
from bridge.spark.java import java_home
from bridge.spark.session import python

WAIT_S = 120.0  # for a JVM to say that it is there: 5 s on a quiet machine
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
ROOT = Path(__file__).parents[2]


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


@cache
def faster() -> str:
    """Java's options by which each of Spark's processes starts from the archive of classes that a run's driver has;
    nothing where there is none."""
    its = archives()
    return options(its.found() if its is not None else None)


def for_executors() -> list[str]:
    """Settings of a run on such a cluster."""
    return ["--spark-conf spark.executor.memory=512m", f"--spark-conf spark.executor.extraJavaOptions={faster()}"]


def environment(folder: Path) -> dict[str, str]:
    """Of Spark's own processes. They find Kedge, as they do where it is installed beside Spark."""
    home = java_home(folder)
    given = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    given |= {} if home is None else {"JAVA_HOME": home}
    return given | {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{faster()} -Dspark.master.rest.enabled=false",
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
        "PYSPARK_PYTHON": python(folder),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(Path(__file__).parent))),
    }


@contextmanager
def running(command: list[str], log: Path, environment: Mapping[str, str], word: str) -> Iterator[Callable[[], str]]:
    """Waits for what a process that is running says by this pattern; its whole process group is killed at the end."""
    with open(log, "wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=dict(environment), start_new_session=True)

    def said() -> str:
        pause, ends = threading.Event(), time.monotonic() + WAIT_S
        while (found := re.search(word, log.read_text(errors="replace"))) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < ends, f"waited in vain for {word!r}\n{log.read_text()}"
            pause.wait(0.05)
        return found[1]

    try:
        yield said
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


BLIND = 'mount -t tmpfs -o mode=700 tmpfs "$1" && shift && exec "$@"'


@contextmanager
def standalone(folder: Path, blind: Path | None = None) -> Iterator[str]:
    """A Master and two Workers with a core each; the cluster's URL. `blind`: a folder that both Workers, and executors
    of theirs, have another one in place of, as on another machine."""
    given, spark_class = environment(folder), str(spark_home() / "bin" / "spark-class")
    with ExitStack() as there:
        command = [spark_class, MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        word = r"Starting Spark master at (spark://\S+)"
        url = there.enter_context(running(command, folder / "master.log", given, word))()
        registered = []
        for number in range(2):
            command = [spark_class, WORKER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            command += ["--cores", "1", "--memory", "600m", "--work-dir", str(folder / f"work-{number}"), url]
            if blind is not None:
                command = ["unshare", "-rm", "sh", "-c", BLIND, "sh", str(blind), *command]
            log, word = folder / f"worker-{number}.log", r"(Successfully registered) with master"
            registered.append(there.enter_context(running(command, log, given, word)))
        for said in registered:
            said()
        yield url


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server with two cores; its URL."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    command = [str(spark_home() / "bin" / "spark-submit"), "--class", CONNECT, "--master", "local[2]"]
    command += ["--driver-java-options", faster()]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    port = r"Spark Connect server started at: \S+:(\d+)"
    given = environment(folder) | {"SPARK_DAEMON_MEMORY": "768m"}
    with running([*command, "spark-internal"], folder / "connect.log", given, port) as said:
        yield f"sc://127.0.0.1:{said()}"
