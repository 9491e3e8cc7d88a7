"""Spark as others run it, out of the pip package: a standalone cluster, and a Spark Connect server. On loopback, on
ports that the system chooses, with little memory; whatever was started goes with the test.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bridge.java import java_home

WAIT_S = 120.0  # for a JVM to say that it is there: 5 s on a quiet machine
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
ROOT = Path(__file__).parents[2]


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def environment(folder: Path) -> dict[str, str]:
    """Of Spark's own processes. They find Kedge, as they do where it is installed beside Spark."""
    home = java_home(folder)
    given = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    given |= {} if home is None else {"JAVA_HOME": home}
    return given | {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(Path(__file__).parent))),
    }


@contextmanager
def spoken(command: list[str], log: Path, environment: Mapping[str, str], word: str) -> Iterator[str]:
    """What a process that is running has said by this pattern; its whole process group is killed at the end."""
    with open(log, "wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=dict(environment), start_new_session=True)
    try:
        pause, ends = threading.Event(), time.monotonic() + WAIT_S
        while (found := re.search(word, log.read_text(errors="replace"))) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < ends, f"waited in vain for {word!r}\n{log.read_text()}"
            pause.wait(0.05)
        yield found[1]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


BLIND = 'mount -t tmpfs -o mode=700 tmpfs "$1" && shift && exec "$@"'


@contextmanager
def standalone(folder: Path, blind: Path | None = None) -> Iterator[str]:
    """A Master and two Workers with a core each; the cluster's URL. `blind`: a folder that both Workers, and executors
    of theirs, have another one in place of, as on another machine."""
    given, spark_class = environment(folder), str(spark_home() / "bin" / "spark-class")
    with ExitStack() as running:
        command = [spark_class, MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        url = running.enter_context(
            spoken(command, folder / "master.log", given, r"Starting Spark master at (spark://\S+)")
        )
        for number in range(2):
            command = [spark_class, WORKER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            command += ["--cores", "1", "--memory", "600m", "--work-dir", str(folder / f"work-{number}"), url]
            if blind is not None:
                command = ["unshare", "-rm", "sh", "-c", BLIND, "sh", str(blind), *command]
            running.enter_context(
                spoken(command, folder / f"worker-{number}.log", given, r"(Successfully registered) with master")
            )
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
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    port = r"Spark Connect server started at: \S+:(\d+)"
    given = environment(folder) | {"SPARK_DAEMON_MEMORY": "768m"}
    with spoken([*command, "spark-internal"], folder / "connect.log", given, port) as found:
        yield f"sc://127.0.0.1:{found}"
