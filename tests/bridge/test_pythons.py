"""The Python that Spark starts its processes with: no pyspark out of a zip, which each of them would compile anew."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from spark_kit import needs_spark

pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")

import pyspark

from bridge.spark.session import python

ZIPS = Path(pyspark.__file__).parent / "python" / "lib"


def ran(command: str, code: str, path: str) -> str:
    done = subprocess.run(
        [command, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    return done.stdout.strip()


def test_pyspark_is_not_imported_from_a_zip_and_all_else_of_the_path_stays_as_it_was(tmp_path: Path) -> None:
    zips = [str(next(ZIPS.glob(name))) for name in ("pyspark.zip", "py4j-*-src.zip")]
    others = [str(tmp_path / name) for name in ("a b", "*", "my-pyspark.zip.d")]
    path = os.pathsep.join([*zips, *others])
    code = "import os, sys, pyspark, py4j; print(pyspark.__file__, py4j.__file__, os.environ['PYTHONPATH'], sep='\\n')"
    assert ".zip" in ran(sys.executable, code, path).splitlines()[0], "it would come from there"
    command = python(tmp_path)
    assert command != sys.executable
    own, py4j, left = ran(command, code, path).splitlines()
    assert own == pyspark.__file__
    assert ".zip" not in py4j
    assert left == os.pathsep.join(others)
    assert ran(command, "import sys; print(sys.executable)", "") == sys.executable


def test_where_no_command_can_be_made_or_run_it_is_this_python_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").write_text("a file")
    assert python(tmp_path) == sys.executable
    assert python(tmp_path / "a blank in it") == sys.executable
    monkeypatch.setattr("bridge.spark.session.WRAPPER", "#!/nowhere\n")
    assert python(tmp_path / "other") == sys.executable
    monkeypatch.setattr("bridge.spark.session.find_spec", lambda name: None)
    assert python(tmp_path / "third") == sys.executable
    assert not (tmp_path / "third").exists()


@needs_spark
@pytest.mark.timeout(300)
def test_a_session_has_its_python_from_there_and_what_java_unpacks_in_a_folder_that_goes(session: Any) -> None:
    """A JVM that is killed would leave 15 MB in /tmp each time."""
    from pyspark.sql import functions as f

    where = f.udf(lambda _: __import__("pyspark").__file__)
    assert session.range(1).select(where("id")).first()[0] == pyspark.__file__
    temporary = Path(session.sparkContext._jvm.java.lang.System.getProperty("java.io.tmpdir"))
    assert temporary == Path(session.conf.get("spark.local.dir"))
