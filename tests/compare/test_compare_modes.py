"""Modes by their names: which rows each has, with which settings, and what is said of one that there is none of."""

import inspect

import pytest

from bridge.compare import modes
from bridge.compare.modes import default_modes, rows_of, ways_of, why_not
from bridge.compare.processes import RUN_OPTIONS
from topology.cli.commands.run import start
from topology.cli.companion_options import options
from topology.errors import ConfigurationError


def test_a_mode_of_sparks_has_a_row_with_our_settings_and_one_with_its_own() -> None:
    tuned, plain = rows_of(["spark:100ms"])
    assert tuned.mode == plain.mode == "spark:100ms"
    assert tuned.title != plain.title
    assert tuned.settings["--trigger"] == plain.settings["--trigger"] == "100ms"
    manager = "spark.sql.streaming.checkpointFileManagerClass"
    assert "FileSystemBased" in tuned.settings[manager]
    assert "FileContextBased" in plain.settings[manager]
    assert ways_of(["spark:100ms"], "")[0].interval_s == 0.1


def test_any_interval_is_a_mode_and_each_row_is_there_once() -> None:
    assert len(rows_of(["spark:250ms", "spark:1s", "spark:250ms"])) == 4
    titles = [row.title for row in rows_of(modes.NAMED)]
    assert len(titles) == len({*titles})


def test_kedge_runs_on_as_many_workers_as_its_mode_says() -> None:
    ways = ways_of(["record", "record:1", "record:2", "record:8"], "exactly once")
    assert [way.row.title for way in ways] == ["Kedge, 2 workers", "Kedge, 1 worker", "Kedge, 8 workers"]
    assert [way.options for way in ways] == [("--workers", number) for number in ("2", "1", "8")]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("recrod", "did you mean 'record'"),
        ("record:0", "there is no mode 'record:0'"),
        ("record:65", "there is no mode 'record:65'"),
        ("record:two", "there is no mode 'record:two'"),
        ("spark:defualt", "did you mean 'spark:default'"),
        ("spark", "there is no mode 'spark'"),
        ("spark:available-now", "there is no mode"),
        ("", "there is no mode ''"),
    ],
)
def test_a_mode_that_there_is_none_of_is_told_with_what_there_is(wrong: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match="there are record, record:N, embedded") as caught:
        rows_of(["record", wrong])
    assert said in str(caught.value)
    assert str(caught.value.code) == "K704"


def test_without_pyspark_only_kedges_own_are_the_default_and_others_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "_has_spark", lambda: False)
    assert default_modes() == ("record", "embedded")
    for way in ways_of(["spark:default"], ""):
        assert "pip install 'kedge-streams[spark]'" in why_not(way)
    assert why_not(ways_of(["record"], "")[0]) == ""


def test_no_option_of_a_run_is_left_to_the_environment() -> None:
    given = {name.rstrip("_").upper() for name in inspect.signature(start).parameters} - {"TARGET", "BESIDE"}
    given = {{"FOR_S": "FOR", "AS_JSON": "JSON"}.get(name, name) for name in given} - {"TRY_NEXT"}
    given -= {"FROM"}  # it has no variable
    beside = {option.name.lstrip("-").replace("-", "_").upper() for _, option in options().values()}
    assert given | beside == {*RUN_OPTIONS}
