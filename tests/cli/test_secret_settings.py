"""Settings of another program's that are secrets, Spark's for one: never repeated by what we print, and given by a
reference to where they are (S27, S12)."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bridge.compare.command import again
from bridge.compare.job import ComparisonJob
from topology import Topology
from topology.cli import redact
from topology.cli.companion_options import configure
from topology.cli.redact import blind
from topology.companions import Companion, Launch
from topology.errors import ConfigurationError

KEY, OTHER = "spark.hadoop.fs.s3a.secret.key", "spark.executor.memory"
CANARY = "canary-8d1f"


class Configured(Companion):
    name = "spark"

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def configure(self, name: str, value: str | Mapping[str, str], called: str) -> None:
        assert isinstance(value, Mapping)
        self.settings |= value

    def launch(self, folder: Path) -> Launch:
        raise AssertionError("nothing is started here")


@pytest.fixture
def companion(monkeypatch: pytest.MonkeyPatch) -> Configured:
    monkeypatch.setattr(redact, "_keys", set())
    return Configured()


def configured(companion: Configured, *settings: str) -> None:
    topology = Topology("hidden")
    topology.companion(companion)
    configure(topology, {"spark_conf": [*settings]})


def test_a_secret_setting_is_told_once_and_not_in_the_command_to_try_next(
    companion: Configured, capsys: pytest.CaptureFixture[str]
) -> None:
    configured(companion, f"{KEY}={CANARY}", f"{OTHER}=1g")
    assert companion.settings == {KEY: CANARY, OTHER: "1g"}
    said = capsys.readouterr().err
    assert f"--spark-conf {KEY}=… is a secret that all users of this machine can read" in said
    assert CANARY not in said
    words = ["--spark-conf", f"{KEY}={CANARY}", f"--spark-conf={KEY}={CANARY}", "--spark-conf", f"{OTHER}=1g"]
    hidden = ["--spark-conf", f"{KEY}=…", f"--spark-conf={KEY}=…", "--spark-conf", f"{OTHER}=1g"]
    assert blind(words) == hidden


def test_a_secret_setting_may_be_where_a_reference_says_and_others_are_as_they_are(
    companion: Configured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text(f"{CANARY}\n")
    monkeypatch.setenv("THE_TOKEN", CANARY)
    given = (f"{KEY}=file:{tmp_path / 'key'}", "spark.my.token=env:THE_TOKEN", "spark.jars=file:/a.jar")
    configured(companion, *given)
    assert companion.settings == {KEY: CANARY, "spark.my.token": CANARY, "spark.jars": "file:/a.jar"}
    assert blind([*given]) == [*given], "what says only where it is can be pasted"
    assert not capsys.readouterr().err
    with pytest.raises(ConfigurationError, match="there is no variable NOT_THERE") as caught:
        configured(companion, f"{KEY}=env:NOT_THERE")
    assert f"--spark-conf {KEY}=…" in str(caught.value)


def test_a_comparison_gives_secret_settings_to_its_runs_by_files_of_the_user_alone(
    companion: Configured, tmp_path: Path
) -> None:
    from bridge.compare.rounds.kedge import settings_of

    given = [*settings_of((f"{KEY}={CANARY}", f"{OTHER}=1g"), tmp_path)]
    assert given == [f"{KEY}=file:{tmp_path / 'setting-0'}", f"{OTHER}=1g"]
    assert (tmp_path / "setting-0").stat().st_mode & 0o777 == 0o600
    configured(companion, *given)
    assert companion.settings == {KEY: CANARY, OTHER: "1g"}


def test_a_comparison_does_not_repeat_a_secret_setting(companion: Configured) -> None:
    configured(companion, f"{KEY}={CANARY}")
    assert CANARY not in again(ComparisonJob("a.py", spark_conf=(f"{KEY}={CANARY}",)))
