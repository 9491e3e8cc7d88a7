"""Settings that are secrets don't stand on the command line of Spark's JVM, and arrive all the same (S12)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from spark_kit import needs_spark

from bridge.spark.session import ARGUMENTS, NAME, SECRET, drawn, escaped, hidden

KEY = "spark.hadoop.fs.s3a.secret.key"
CANARY = "can=ary:#! \\ with\ttabs ü"
START_S = 120.0  # for a session to start and say its settings: 10 s on a quiet machine
STARTED = """
import contextlib, json, sys
from pathlib import Path
import psutil
from bridge.spark.session import start
settings = json.loads(sys.argv[2])
session = start("hidden", "local[1]", Path(sys.argv[1]), settings)
told = {key: session.sparkContext.getConf().get(key) for key in settings}
told["seen by hadoop"] = session.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key")
lines = []
for one in psutil.Process().children(recursive=True):
    with contextlib.suppress(psutil.ZombieProcess, psutil.NoSuchProcess):  # a shell of spark-class is never reaped
        lines.append(" ".join(one.cmdline()))
print(json.dumps([told, lines]))
"""


def test_secrets_are_in_a_file_of_the_users_alone_for_as_long_as_the_jvm_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ARGUMENTS, "--name mine pyspark-shell")
    path = tmp_path / NAME
    path.write_text("left by one that was killed")
    with hidden({KEY: "a b", "spark.ui.enabled": "false", "spark.my.PASSWORD": "x"}, tmp_path) as seen:
        assert seen == {"spark.ui.enabled": "false"}
        assert path.read_text() == "spark.hadoop.fs.s3a.secret.key=a\\ b\nspark.my.PASSWORD=x\n"
        assert path.stat().st_mode & 0o777 == 0o600
        assert os.environ[ARGUMENTS] == f"--load-spark-defaults --properties-file {path} --name mine pyspark-shell"
    assert not path.exists()
    assert os.environ[ARGUMENTS] == "--name mine pyspark-shell"


def test_nothing_is_written_where_nothing_is_secret_and_nothing_stays_where_spark_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ARGUMENTS, raising=False)
    with hidden({"spark.ui.enabled": "false"}, tmp_path) as seen:
        assert seen == {"spark.ui.enabled": "false"}
        assert [*tmp_path.iterdir()] == []
    with pytest.raises(OSError, match="no Java"), hidden({KEY: "x"}, tmp_path):
        raise OSError("no Java")
    assert [*tmp_path.iterdir()] == []
    assert ARGUMENTS not in os.environ
    assert escaped("a=b\\c\nd") == "a\\=b\\\\c\\nd"


def test_a_local_cluster_has_a_new_secret_each_time_which_is_hidden(tmp_path: Path) -> None:
    one, other = (drawn("local-cluster[1,1,512]") for _ in range(2))
    assert [*one] == [*other] == [SECRET]
    assert one != other
    with hidden(one, tmp_path) as seen:
        assert seen == {}
    assert drawn("local[2]") == drawn("spark://127.0.0.1:7077") == {}


@needs_spark
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_spark_has_them_and_who_lists_processes_has_not(tmp_path: Path) -> None:
    settings = {KEY: CANARY, "spark.executor.heartbeatInterval": "11s"}
    command = [sys.executable, "-c", STARTED, str(tmp_path), json.dumps(settings)]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"waited {START_S:.0f} s in vain for a session of Spark\n{error.stderr}")
    assert ran.returncode == 0, ran.stderr
    told, lines = json.loads(ran.stdout.splitlines()[-1])
    assert told == {**settings, "seen by hadoop": CANARY}
    assert any("heartbeatInterval=11s" in line for line in lines), "the others stand there"
    assert not [line for line in lines if "ary:" in line]
    assert not (tmp_path / NAME).exists()
