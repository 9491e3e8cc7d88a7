"""What the text of a `--set` or `--config` becomes, type by type."""

import enum
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from topology.config import Config
from topology.errors import ConfigurationError
from topology.loading.settings import arguments, configured, pairs


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


def converted(kind: Any, text: str, default: Any = None) -> Any:
    def factory(key: Any = default) -> None: ...

    factory.__annotations__["key"] = kind
    return arguments(factory, {"key": text}, "factory")["key"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (str, "5", "5"),
        (str, "", ""),
        (str, "a=b c", "a=b c"),
        (int, "-5", -5),
        (float, "0.5", 0.5),
        (float, "2", 2.0),
        (bool, "true", True),
        (bool, "False", False),
        (bool, "1", True),
        (Path, "a/b", Path("a/b")),
        (int | None, "7", 7),
        (int | None, "null", None),
        (str | None, "x", "x"),
        (Path | None, "x", Path("x")),
        (Literal["a", "b"], "b", "b"),
        (Literal[1, 2], "2", 2),
        (Level, "high", Level.HIGH),
        (Annotated[int, msgspec.Meta(ge=1)], "3", 3),
    ],
)
def test_a_value_has_the_type_of_its_annotation(kind: Any, text: str, value: Any) -> None:
    found = converted(kind, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        (int, "5.5", "a whole number"),
        (int, "", "a whole number"),
        (float, "fast", "a number"),
        (bool, "yes", "true or false"),
        (int | None, "x", "a whole number or null"),
        (Literal["a", "b"], "c", "'a' or 'b'"),
        (Level, "LOW", "'low' or 'high'"),
        (list[str], "a,b", "a list[str]"),
        (Annotated[int, msgspec.Meta(ge=1)], "0", "a whole number within its limits"),
    ],
)
def test_a_wrong_value_names_key_value_and_type(kind: Any, text: str, wanted: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        converted(kind, text)
    assert str(error.value).startswith(f"--set key={text}: {text!r} is not {wanted}")


def test_without_an_annotation_the_default_tells_the_type() -> None:
    def factory(count=1, share=0.5, on=False, name="x", anything=None): ...  # type: ignore[no-untyped-def]

    given = {"count": "2", "share": "1", "on": "true", "name": "3", "anything": "4"}
    assert arguments(factory, given, "factory") == {"count": 2, "share": 1.0, "on": True, "name": "3", "anything": "4"}


def test_a_factory_that_takes_any_key_gets_any_key_with_its_type() -> None:
    def factory(first: int = 1, **others: float) -> None: ...

    assert arguments(factory, {"first": "2", "second": "3"}, "factory") == {"first": 2, "second": 3.0}


def test_a_value_may_hold_equals_signs_and_be_empty() -> None:
    assert pairs(["a=b=c", "d="], "--set") == {"a": "b=c", "d": ""}


def test_every_field_of_the_configuration_can_be_set_by_option_and_environment_and_the_option_is_stronger() -> None:
    for field in fields(Config):
        default = getattr(Config(), field.name)
        other = {"guarantee": "at-most-once", "on_dead": "stop", "durability": "checkpoint", "check_types": "true"}
        text = other.get(field.name, "7")
        by_option = configured(Config(), {field.name: text}, {})
        by_environment = configured(Config(), {}, {f"KEDGE_{field.name.upper()}": text})
        assert by_option == by_environment != Config()
        said = str(default).lower() if isinstance(default, bool) else "null" if default is None else str(default)
        stronger = configured(Config(), {field.name: said}, {f"KEDGE_{field.name.upper()}": text})
        assert stronger == Config()


def test_what_the_topology_says_stays_where_nothing_else_is_said() -> None:
    assert configured(Config(max_pending=3), {"max_replays": "1"}, {"KEDGE_OTHER": "x"}) == Config(
        max_pending=3, max_replays=1
    )
