"""Config: one frozen value whose fields are checked when it is made."""

import dataclasses
import math
from typing import Any

import pytest

from topology import Config, ConfigurationError

COUNTS = {
    "max_pending": 1,
    "max_replays": 0,
    "max_restarts": 0,
    "max_dead": 1,
    "max_lag": 1,
    "max_remembered_bytes": 1,
    "keep_checkpoints": 1,
}
SECONDS = (
    "retry_for_s",
    "tree_timeout_s",
    "process_timeout_s",
    "start_timeout_s",
    "drain_timeout_s",
    "blocked_timeout_s",
)
BETWEEN = {"checkpoint_s": (0.01, 3_600.0)}
CHOICES = ("guarantee", "on_dead", "durability")
SWITCHES = ("check_types",)


def config(**fields: Any) -> Config:
    return Config(**fields)


def test_every_field_is_a_count_a_time_a_choice_or_a_switch_and_has_a_line_in_the_docstring() -> None:
    names = [field.name for field in dataclasses.fields(Config)]
    assert sorted(names) == sorted([*COUNTS, *SECONDS, *BETWEEN, *CHOICES, *SWITCHES])
    assert all(f"\n    {name} " in (Config.__doc__ or "") for name in names)


def test_the_defaults_promise_at_least_once_on_disk() -> None:
    assert (Config().guarantee, Config().on_dead, Config().durability) == ("at-least-once", "continue", "disk")


def test_a_config_can_not_be_changed_but_a_changed_copy_is_checked() -> None:
    one: Any = Config()
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.max_pending = 5
    assert dataclasses.replace(Config(), max_pending=5).max_pending == 5
    with pytest.raises(ConfigurationError):
        dataclasses.replace(Config(), max_pending=0)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [-1, 1.0, True, "5", None, math.nan])
def test_a_count_is_a_whole_number_from_its_least_on(name: str, value: Any) -> None:
    least = COUNTS[name]
    assert getattr(config(**{name: least}), name) == least
    for wrong in (value, least - 1):
        if wrong is None and name == "max_replays":
            assert config(max_replays=None).max_replays is None  # by time
            continue
        with pytest.raises(ConfigurationError, match=f"{name} is a whole number of at least {least}"):
            config(**{name: wrong})


@pytest.mark.parametrize("name", SECONDS)
@pytest.mark.parametrize("value", [0, -1, 0.0, math.nan, math.inf, -math.inf, True, "5", None])
def test_a_time_is_a_number_of_seconds_above_nought(name: str, value: Any) -> None:
    assert getattr(config(**{name: 0.5}), name) == 0.5
    assert getattr(config(**{name: 3}), name) == 3
    with pytest.raises(ConfigurationError, match=f"{name} is a number of seconds above 0"):
        config(**{name: value})


@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.parametrize("value", [0, -1, 0.009, 3_600.1, 0.0, math.nan, math.inf, -math.inf, True, "5", None])
def test_a_time_between_two_bounds_is_told_with_both(name: str, value: Any) -> None:
    for bound in BETWEEN[name]:
        assert getattr(config(**{name: bound}), name) == bound
    with pytest.raises(ConfigurationError, match=f"^{name} is a number of seconds from 0.01 to 3,600, not "):
        config(**{name: value})


@pytest.mark.parametrize("durability", ["disk", "process", "checkpoint"])
def test_each_of_the_three_durabilities_is_one(durability: Any) -> None:
    assert config(durability=durability).durability == durability
    with pytest.raises(ConfigurationError, match="durability is one of disk, process, checkpoint, not 'checkpoints'"):
        config(durability="checkpoints")


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_a_switch_is_true_or_false(name: str, value: Any) -> None:
    assert getattr(config(**{name: True}), name) is True
    with pytest.raises(ConfigurationError, match=f"{name} is True or False"):
        config(**{name: value})


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("value", ["exactly-once", "", None, True, ["disk"]])
def test_a_choice_is_one_of_the_words_that_its_error_names(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is one of {getattr(Config(), name)}, .* not "):
        config(**{name: value})


def test_a_field_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="max_pendign"):
        config(max_pendign=5)
